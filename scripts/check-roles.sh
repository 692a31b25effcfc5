#!/bin/sh
# Checks that the pipeline and the commands look for stages by role and never by name.
set -eu
cd "$(dirname "$0")/.."
bad=$(git ls-files 'pipeline/*.[ch]' 'base/*.[ch]' 'apps/*.[ch]' 'plugins/*.[ch]' |
  xargs grep -nE 'def->name, *"|mr_(registry_find|graph_stage_of|graph_add|graph_swap)\([^;]*"' || true)
names=$(sed -n 's/^MR_STAGE(\([a-z0-9_]*\)).*/\1/p' loaders/list.def stages/list.def links/list.def sinks/list.def |
  tr '_\n' '-|' | sed 's/|$//')
# Names of stages as texts in the pipeline, but for its own, "batch", and the words "source" and "seed" of its files.
bad="$bad$(git ls-files 'pipeline/*.c' | xargs grep -nE "\"($names)\"" | grep -vE '"(batch|source|seed)"' || true)"
[ -z "$bad" ] || { echo "$bad"; echo "roles: the lines above name a stage; ask by role (pipeline/stage.h)"; exit 1; }
echo "roles: no stage is looked for by its name"
