#!/bin/sh
# Checks that the pipeline, the commands and what loads plug-ins look for stages by role and never by name, and that of
# the commands only apps/cli/texts.c holds graph text.
# shellcheck disable=SC2086 # lists of files are several words
set -eu
cd "$(dirname "$0")/.."

# The files of the tree that match.
listed() {
  found=$(git ls-files "$@")
  [ -n "$found" ] || { echo "roles: git lists no $*" >&2; exit 1; }
  echo "$found"
}
# The lines of the files $2... where the pattern $1 matches, maybe none.
matches() { grep -nE "$@" /dev/null || [ $? -eq 1 ]; }
# The lines of the files $2... that have a stage's name in quotes other than the words $1.
named() {
  words=$1
  shift
  found=$(matches "$name" "$@")
  echo "$found" | sed -E "s/\"($words)\"//g" | { grep -E "$name" || [ $? -eq 1 ]; }
}

searched=$(listed 'pipeline/*.[ch]' 'base/*.[ch]' 'apps/*.[ch]' 'plugins/*.[ch]')
pipeline=$(listed 'pipeline/*.c')
pack=$(listed 'apps/data/pack_*.c')
others=$(listed 'base/*.[ch]' 'apps/*.[ch]' 'plugins/*.[ch]' ':!apps/cli/texts.c' ':!apps/data/pack_*.c')
lists=$(listed '*/list.def' ':!model' ':!apps')
names=$(sed -n 's/^MR_STAGE(\([a-z0-9_]*\)).*/\1/p' $lists | tr '_\n' '-|' | sed 's/|$//')
[ -n "$names" ] || { echo "roles: no MR_STAGE in" $lists >&2; exit 1; }
name="\"($names)\""
text="\"([^\"]*! *)?($names)( [^\"]*)?( !|[ =][^\"]*=)[^\"]*\"|\"[^\"]*! *($names)[ \"\\]"

bad=$(matches 'def->name, *"|mr_(registry_find|graph_stage_of|graph_add|graph_swap)\([^;]*"' $searched)
# The pipeline's own stage, "batch", and words that its files have as names of members.
bad="$bad
$(named 'batch|source|seed' $pipeline)"
# Words of commands, metrics and files that stages are called by too; and the formats of `data pack`, which are read by
# the stages of their names.
common='batch|predict|source|seed|ledger|checkpoint|count|null|folder|limit'
bad="$bad
$(named "$common" $others)"
bad="$bad
$(named "$common|mds|npy|tar|tfrecord" $pack)"
bad="$bad
$(matches "$text" $others $pack)"
bad=$(echo "$bad" | sed '/^$/d')
[ -z "$bad" ] || { echo "$bad"; echo "roles: the lines above name a stage; ask by role (pipeline/stage.h)"; exit 1; }
echo "roles: no stage is looked for by its name"
