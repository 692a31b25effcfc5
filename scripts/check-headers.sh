#!/bin/sh
# Checks that every header compiles alone, and that no room includes one it may not see.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=0
failed=0

# The rooms that a room sees besides itself, as in CMakeLists.txt.
sees() {
  case $1 in
    base) ;;
    pipeline | model) echo base ;;
    loaders | sinks) echo base pipeline ;;
    stages) echo base pipeline model ;;
    apps) echo base pipeline model loaders stages sinks ;;
  esac
}

for room in base pipeline loaders model stages sinks apps; do
  dir=$work/$room
  mkdir "$dir"
  allowed="$room $(sees "$room")"
  for r in $allowed; do ln -s "$PWD/$r" "$dir/$r"; done
  pattern=$(printf '%s' "$allowed" | tr -s ' \n' '|' | sed 's/|*$//')
  find "$room" -name '*.[ch]' -o -name '*.inc' -o -name '*.def' >"$work/files"
  while read -r file; do
    wrong=$(grep -nE '#include "[a-z]+/' "$file" | grep -vE "#include \"($pattern)/" || true)
    if [ -n "$wrong" ]; then
      echo "$file includes what $room may not see: $wrong"
      failed=$((failed + 1))
    fi
  done <"$work/files"
  find "$room" -name '*.h' >"$work/files"
  while read -r header; do
    checked=$((checked + 1))
    printf '#include "%s"\n#include "%s"\ntypedef int mr_used;\n' "$header" "$header" >"$work/alone.c"
    # Vector headers are for one instruction set, hence -march.
    if ! gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -Wno-unused-function \
      -Werror -march=native -fsyntax-only -I "$dir" "$work/alone.c"; then
      echo "$header does not compile alone"
      failed=$((failed + 1))
    fi
  done <"$work/files"
done
echo "headers: $checked compiled alone, $failed faults"
[ "$failed" = 0 ]
