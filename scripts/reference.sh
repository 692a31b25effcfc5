#!/bin/sh
# usage: scripts/reference.sh [FOLDER]
# Writes the reference of the C calls to FOLDER (build/reference), from the installed headers by Doxygen (docs/Doxyfile).  Fails
# on each of its warnings, but for types, members and constants whose names say all.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=${1:-build/reference}
command -v doxygen >/dev/null || { echo "reference: doxygen is not installed: apt-get install doxygen"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/examples"
out=$(cd "$out" && pwd)

cmake -Dsource="$root" -DCMAKE_INSTALL_PREFIX="$work/installed" -P cmake/install_headers.cmake >/dev/null
scripts/reference-comments.py "$work/installed/include/millrace" "$work/headers"
# The examples that docs/reference.md names become pages, to which its links lead, as those of each call lead to its uses.
grep -oE '\]\(\.\./examples/[^)]*' docs/reference.md | sed 's,^](../examples/,,' | sort -u >"$work/names"
while read -r name; do
  cp "examples/$name" "$work/examples/"
  printf '/** @example %s */\n' "$(basename "$name")"
done <"$work/names" >"$work/examples.dox"
sed -E 's,\]\(\.\./examples/([^)]*/)?([^)/]*)\),](@ref \2),g' docs/reference.md >"$work/reference.md"

cd "$work"
{
  cat "$root/docs/Doxyfile"
  echo "OUTPUT_DIRECTORY = $out"
  echo "PROJECT_NUMBER = $(sed -nE 's/^project\(millrace VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")"
} >Doxyfile
doxygen Doxyfile
grep -vE '(Compound|Member MR_.* \(macro definition\)|Member .* \((variable|enumvalue|enumeration|typedef)\)) .*is not documented\.$' warnings | sed "s,$work/,," >wrong || true
if [ -s wrong ]; then
  cat wrong
  echo "reference: $(wc -l <wrong) faults in the comments of the headers; lines are those of the marked copies"
  exit 1
fi
echo "reference: $(find headers -name '*.h' | wc -l) headers, $(wc -l <names) examples: $out/html/index.html"
