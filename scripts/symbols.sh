#!/bin/sh
# usage: scripts/symbols.sh [--renew]
# Compares the symbols of build/shared/libmillrace.so.0, built with all optional libraries but CUDA's, with the list
# cmake/millrace.symbols: what programs and plug-ins may have linked.  --renew writes the list.
set -eu
cd "$(dirname "$0")/.."
list=cmake/millrace.symbols
library=build/shared/libmillrace.so.0
[ -e "$library" ] || {
  echo "symbols: there is no $library: cmake -S . -B build/shared -G Ninja -DBUILD_SHARED_LIBS=ON -DMILLRACE_TESTS=OFF && cmake --build build/shared"
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line each: its name, and "call" or "data".
nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3, $2 ~ /[TtWi]/ ? "call" : "data"}' |
  LC_ALL=C sort >"$work/symbols"
if [ "${1:-}" = --renew ]; then
  cp "$work/symbols" "$list"
elif ! cmp -s "$list" "$work/symbols"; then
  echo "symbols: libmillrace.so.0 has others than $list (- only listed, + only in the library):"
  diff "$list" "$work/symbols" | sed -n 's/^< /  - /p; s/^> /  + /p'
  echo "symbols: a new symbol is fine; one that is gone stops programs that were built with it.  If it is meant, run scripts/symbols.sh --renew"
  exit 1
fi
echo "symbols: libmillrace.so.0 has the $(wc -l <"$work/symbols") symbols of $list"
