#!/usr/bin/env bash
# usage: bench/loader-table.sh DATA [SECONDS]
# The loader's figures on this machine: workers, output types, image sizes, dataset sizes by the
# sampler alone, the four ways of reading warm and cold, reads ahead, the time to the first batch.  DATA is
# CIFAR-10's folder; SECONDS of each measurement (whole ones, default 2).  Writes 2 GB below ${TMPDIR:-/tmp}.
# What it prints is kept in bench/results/DATE-loader-table.txt (OUT names another file).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
millrace=$root/build/release/millrace
data=$(cd "${1:?usage: bench/loader-table.sh DATA [SECONDS]}" && pwd)
seconds=${2:-2}
cores=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec > >(tee "${OUT:-$root/bench/results/$(date -u +%F)-loader-table.txt}")

recipe='flip ! resized-crop scale=0.9:1.0 ratio=0.9:1.1'
rate() { # GRAPH
  "$millrace" bench loader --json --seconds "$seconds" --graph "$1" |
    sed -n 's/.*"images_per_s":\([0-9]*\).*/\1/p'
}
row() { # WHAT FIGURE [UNIT]
  [ -n "$2" ] || { echo "loader-table: no figure for $1" >&2; exit 1; }
  printf '%-44s %12s %s\n' "$1" "$2" "${3:-images/s}"
}
per() { awk "BEGIN {printf \"%.3f\", 1e6 * $2 / $1}"; } # RATE CORES: microseconds of a core

npy() { # FILE DTYPE SHAPE BYTES: an .npy file of random bytes
  local dict pad
  dict="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  pad=$(((64 - (10 + ${#dict} + 1) % 64) % 64))
  { # the length of the header in two bytes: less than 256 here
    printf '\x93NUMPY\x01\x00'
    printf '%b' "$(printf '\\x%02x\\x00' $((${#dict} + pad + 1)))"
    printf '%s%*s\n' "$dict" "$pad" ''
    head -c "$4" /dev/urandom
  } >"$1"
}
labels() { # FILE N: labels of one class
  npy "$1.head" '|u1' "($2,)" 0
  { cat "$1.head"; head -c "$2" /dev/zero; } >"$1"
}
forget() { dd if="$1" iflag=nocache count=0 status=none; } # its pages leave the page cache

echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $cores cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo "# bench/loader-table.sh DATA $seconds"

echo; echo "## Workers (the recipe's transform, f32 NHWC, batch 128)"
for w in 1 2 4 8; do
  r=$(rate "cifar10 path=\"$data\" ! shuffle seed=12 epochs=0 ! $recipe ! normalize preset=cifar10 ! batch 128 drop-remainder workers=$w name=b ! null")
  row "workers=$w" "$r" "images/s, $(per "$r" "$((w < cores ? w : cores))") us of a core an image"
done

echo; echo "## Output ($cores workers)"
for dtype in f32 bf16 u8; do
  for layout in hwc chw; do
    row "$dtype $layout" "$(rate "cifar10 path=\"$data\" ! shuffle seed=12 epochs=0 ! $recipe ! normalize preset=cifar10 dtype=$dtype layout=$layout ! batch 128 drop-remainder workers=$cores name=b ! null")"
  done
done

echo; echo "## Image size (crop and resize to the same size, f32, $cores workers)"
for side in 32 64 96 128 160 192 224; do
  n=$((100000000 / (3 * side * side)))
  npy "$work/images.npy" '|u1' "($n, 3, $side, $side)" $((n * 3 * side * side))
  labels "$work/labels.npy" "$n"
  r=$(rate "npy images=$work/images.npy labels=$work/labels.npy ! shuffle seed=12 epochs=0 ! $recipe size=$side ! normalize preset=cifar10 ! batch 32 drop-remainder workers=$cores name=b ! null")
  row "$side x $side" "$r" "images/s, $(awk "BEGIN {printf \"%.1f\", $r * $side * $side / 1e6}") M pixels/s"
done

echo; echo "## Dataset size (shuffle and batch alone, $cores workers)"
for n in 50000 1281167 10000000 100000000 1200000000; do
  r=$(rate "range $n ! shuffle seed=12 epochs=0 ! batch 128 drop-remainder workers=$cores name=b ! null")
  row "$n records" "$r" "records/s, $(per "$r" "$cores") us of a core a record"
done

echo; echo "## Reading record by record, nothing kept (memory=0, $cores workers)"
n=650000
npy "$work/images.npy" '|u1' "($n, 3, 32, 32)" $((n * 3072))
labels "$work/labels.npy" "$n"
for state in warm cold; do
  for backend in auto uring direct pread mmap; do
    if [ $state = cold ]; then sync; forget "$work/images.npy"; else cat "$work/images.npy" >/dev/null; fi
    row "2 GB $state, $backend" "$(rate "npy images=$work/images.npy labels=$work/labels.npy memory=0 backend=$backend ! shuffle seed=12 epochs=0 ! batch 128 drop-remainder workers=$cores name=b ! null")" records/s
  done
done

echo; echo "## Reads ahead: the recipe's transform over 2 GB cold, nothing kept (memory=0), 1 worker"
for backend in direct uring; do
  for ahead in true false; do
    sync; forget "$work/images.npy"
    row "$backend, read-ahead=$ahead" "$(rate "npy images=$work/images.npy labels=$work/labels.npy memory=0 backend=$backend read-ahead=$ahead ! shuffle seed=12 epochs=0 ! $recipe ! normalize preset=cifar10 ! batch 128 drop-remainder workers=1 name=b ! null")"
  done
done

wall() { # GRAPH: milliseconds from the start of the process to its end, the median of nine
  for _ in 1 2 3 4 5 6 7 8 9; do
    [ -z "${before:-}" ] || eval "$before"
    a=${EPOCHREALTIME/./}
    "$millrace" run "$1" >"$work/said" 2>&1
    b=${EPOCHREALTIME/./}
    echo $(((b - a) / 10))
  done | sort -n | sed -n 5p | awk '{printf "%.1f", $1 / 100}'
}
echo; echo "## Reading once and keeping (2 GB, one epoch of batches of bytes, whole process)"
epoch="npy images=$work/images.npy labels=$work/labels.npy ! shuffle seed=12 ! batch 128 workers=$cores ! null"
row "warm" "$(wall "$epoch")" ms
before="sync; forget $work/images.npy"
for backend in auto uring direct; do
  row "cold, $backend" "$(wall "${epoch/npy/npy backend=$backend}")" ms
done
before=

echo; echo "## From the process's start to the end after its first batch of 128 (warm, whole process)"
row "the recipe, 45,000 records kept" "$(wall "cifar10 path=\"$data\" ! shuffle seed=12 ! slice :128 ! $recipe ! normalize preset=cifar10 ! batch 128 ! null")" ms
row "the recipe, read as they are due" "$(wall "cifar10 path=\"$data\" memory=0 ! shuffle seed=12 ! slice :128 ! $recipe ! normalize preset=cifar10 ! batch 128 ! null")" ms
