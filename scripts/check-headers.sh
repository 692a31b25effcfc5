#!/bin/sh
# Checks that every header compiles alone, and that no room, and no part of a room, includes a header
# that it may not see.  Who sees what is read from CMakeLists.txt (mr_room and mr_program).
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=0
failed=0

# A line a room: its name, what it sees besides itself, its parts: "stages base,pipeline,model ir ops:ir".
sed 's/#.*//' CMakeLists.txt | tr '\n"' '  ' | sed 's/mr_\(room\|program\)(/\n&/g; s/)/\n/g' |
  awk '/^mr_(room|program)\(/ {
    sub(/^mr_[a-z]*\(/, "")
    room = $1; parts = ""; deps = ""; mode = ""
    for (i = 2; i <= NF; i++)
      if ($i ~ /^(DEPENDS|LIBS|PARTS)$/) mode = $i
      else if (mode == "DEPENDS") deps = deps ";" $i
      else if (mode == "PARTS") parts = parts " " $i
    n = split(deps, d, ";"); sees[room] = ""
    for (i = 1; i <= n; i++)
      if (d[i] != "") sees[room] = sees[room] "," d[i] sees[d[i]]
    print room, substr(sees[room] ",", 2), parts
  }' >"$work/rooms"

# FOLDER DEPTH ALLOWED...: the headers in FOLDER, as deep as find's DEPTH says, see the ALLOWED paths alone:
# folders, or "room/." for the headers in a room's own folder.
check() {
  folder=$1 depth=$2
  shift 2
  dir=$work/include
  rm -rf "$dir"
  pattern=
  for path; do
    mkdir -p "$dir/$(dirname "$path")"
    case $path in
      */.)
        ln -s "$PWD/${path%/.}"/*.h "$dir/${path%/.}/"
        pattern="$pattern|${path%/.}/[^/]*\""
        ;;
      *)
        ln -s "$PWD/$path" "$dir/$path"
        pattern="$pattern|$path/"
        ;;
    esac
  done
  # shellcheck disable=SC2086 # depth is two words or none
  find "$folder" $depth -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.def' \) >"$work/files"
  while read -r file; do
    [ ! -e "$work/done/$file" ] || continue
    mkdir -p "$work/done/$file"
    wrong=$(grep -nE '#include "[a-z]+/' "$file" | grep -vE "#include \"(${pattern#|})" || true)
    if [ -n "$wrong" ]; then
      echo "$file includes what $folder may not see: $wrong"
      failed=$((failed + 1))
    fi
    case $file in *.h) ;; *) continue ;; esac
    checked=$((checked + 1))
    printf '#include "%s"\n#include "%s"\ntypedef int mr_used;\n' "$file" "$file" >"$work/alone.c"
    # Vector headers are for one instruction set, hence -march.
    if ! gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -Wno-unused-function \
      -Wno-psabi -Werror -march=native -fsyntax-only -I "$dir" "$work/alone.c"; then
      echo "$file does not compile alone"
      failed=$((failed + 1))
    fi
  done <"$work/files"
}

while read -r room sees parts; do
  sees=$(printf '%s' "$sees" | tr ',' '\n' | sort -u | tr '\n' ' ')
  rm -rf "$work/parts"
  for spec in $parts; do # "ops:ir,..." sees its own headers, and what those it names see
    part=${spec%%:*}
    below=$part
    case $spec in
      *:*) for b in $(printf '%s' "${spec#*:}" | tr ',' ' '); do below="$below $(cat "$work/parts/$b/sees")"; done ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    below=$(printf '%s\n' $below | sort -u | tr '\n' ' ')
    mkdir -p "$work/parts/$part"
    echo "$below" >"$work/parts/$part/sees"
    allowed=$sees
    for b in $below; do allowed="$allowed $room/$b"; done
    # shellcheck disable=SC2086 # a list of paths
    if [ "$part" = . ]; then check "$room" "-maxdepth 1" $allowed; else check "$room/$part" "" $allowed; fi
  done
  # shellcheck disable=SC2086 # a list of paths
  check "$room" "" "$room" $sees # what lies in no part
done <"$work/rooms"
echo "headers: $checked compiled alone, $failed faults"
[ "$failed" = 0 ]
