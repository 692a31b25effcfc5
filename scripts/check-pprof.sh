#!/bin/sh
# Writes memory profiles of a training step and reads them with Go's pprof: it must accept them, and
# their bytes must be those alive at the peak.  usage: check-pprof.sh [PPROF]
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
echo "pprof: it reads both profiles; their bytes are those alive at the peak"
