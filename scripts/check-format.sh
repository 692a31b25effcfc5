#!/bin/sh
# Checks that clang-format would change nothing.
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files '*.c' '*.h')
[ -n "$files" ] || { echo "format: git lists no file" >&2; exit 1; }
printf '%s\n' "$files" | xargs clang-format --dry-run --Werror
echo "format: $(printf '%s\n' "$files" | wc -l) files as clang-format wants them"
