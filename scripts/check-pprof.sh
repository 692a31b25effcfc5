#!/bin/sh
# Writes memory profiles of a training step, and of the arrays of a program in C, and reads them with
# Go's pprof: it must accept them, their bytes must be those that are alive, and the program's functions
# must have their names, static ones too.  usage: check-pprof.sh [PPROF]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pprof=${1:-"$(go env GOTOOLDIR)/pprof"}
for dtype in f32 bf16; do
  "$root/build/release/millrace" mem step --batch 8 --layers 2 --dtype "$dtype" --no-run --timeline \
    --pprof "$work/peak.pb" >"$work/plan"
  alive=$(awk '$1 ~ /^[0-9]+$/ && $2 > most { most = $2 } $1 == "planned" { exit } END { print most }' "$work/plan")
  "$pprof" -raw "$work/peak.pb" >"$work/raw" 2>"$work/errors" || { cat "$work/errors"; exit 1; }
  told=$(awk '/^Locations/ { exit } $2 ~ /^[0-9]+:$/ { sum += $2 } END { print sum }' "$work/raw")
  [ "$told" = "$alive" ] || { echo "pprof: $told bytes in the profile, $alive alive at the peak"; exit 1; }
  "$pprof" -top "$work/peak.pb" 2>/dev/null | grep -q 'dot_general f32\[1536,384\]' ||
    { echo "pprof: the largest tensor is not among its rows"; exit 1; }
done
libraries=$(sed -n '/^build millrace: /,/^$/s/^  LINK_LIBRARIES = //p' "$root/build/release/build.ninja")
# shellcheck disable=SC2086 # words
(cd "$root/build/release" && cc -std=gnu17 -O1 -fno-inline -I"$root" -I"$root/cmake" -Igenerated \
  "$root/examples/live-arrays/live-arrays.c" -o "$work/live-arrays" -Wl,--start-group libmr_*.a -Wl,--end-group $libraries)
(cd "$work" && ./live-arrays)
"$pprof" -top -cum "$work/live-arrays.pb" >"$work/live" 2>/dev/null
expect() { # BYTES-OF-ALL-BELOW FUNCTION
  grep -Eq " +$1 +[0-9.]+% +$2\$" "$work/live" || { echo "pprof: want $2 with $1 of live arrays:"; cat "$work/live"; exit 1; }
}
expect 512kB main
expect 256kB make_weights
expect 256kB apply_twice
expect 256kB 'jit product'
expect 512kB 'f32\[256,256\]'
echo "pprof: it reads the profiles; their bytes are those alive, and functions have their names"
