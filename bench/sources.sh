#!/usr/bin/env bash
# usage: bench/sources.sh PHOTOS [ROUNDS]
# Sources of records beside other means, in turn in one run, two workers each:
#   windows of tokens in random order into batches, as a share of what two threads copy;
#   records of a tar and of a TFRecord file in random order, beside WebDataset (in sequence) and grain (files);
#   memory of a shuffle of 100 million records.
# PHOTOS holds val/CLASS/*.jpg.  PEERS: the folder that peers/setup.sh has filled with photos; without it the
# peers run in python3.  WINDOW: seconds of a measurement (default 2).  Writes 600 MB below ${TMPDIR:-/tmp}.
# Three rounds take two minutes.  What it prints is kept in bench/results/DATE-sources.txt (OUT names another
# file).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
photos=$(cd "${1:?usage: bench/sources.sh PHOTOS [ROUNDS]}" && pwd)
rounds=${2:-3}
export WINDOW=${WINDOW:-2}
millrace=$root/build/release/millrace
python=${PEERS:+$PEERS/photos/bin/}python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # FIGURE GRAPH
  "$millrace" bench loader --json --seconds "$((WINDOW * 2))" \
    --graph "$2 ! shuffle seed=12 epochs=0 ! batch 64 drop-remainder workers=2 name=b ! null" |
    sed -n "s/.*\"$1\":\\([0-9.]*\\).*/\\1/p"
}
peer() { # NAME ARGUMENT...
  timeout 120 "$python" "$root/bench/peers/containers.py" "$@" 2>/dev/null | awk -v n="$1" '$1 == n {print $2}' >>"$work/$1"
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {if (NR) printf "%.10g\n", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; else print "-"}'; }

head -c 268435456 /dev/urandom >"$work/tokens.bin"
for format in tar tfrecord; do
  "$millrace" pack "folder \"$photos/val\" ! sequential" -o "$work/$format" --format $format >"$work/said.$format"
done
tar=$(sed -n 's/^ *\(tar .*\)/\1/p' "$work/said.tar") tfrecord=$(sed -n 's/^ *\(tfrecord .*\)/\1/p' "$work/said.tfrecord")

for _ in $(seq "$rounds"); do
  # tokens and targets of 1,024 numbers of 4 bytes
  measure images_per_s "tokens $work/tokens.bin length=1024" | awk '{print $1 * 8192 / 1e9}' >>"$work/tokens.rate"
  peer copy
  measure images_per_s "$tar" >>"$work/tar.rate"
  measure images_per_s "$tfrecord" >>"$work/tfrecord.rate"
  peer webdataset "$work"/tar/*.tar
  peer grain "$photos/val"
  measure peak_rss_mb "range 100000000" >>"$work/range.rss"
done
{
  echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
  echo "# bench/sources.sh PHOTOS $rounds: medians of $rounds rounds in turn, windows of $WINDOW s"
  echo "tokens, random windows of 1,024: $(median "$work/tokens.rate") GB/s into batches; two threads copy $(median "$work/copy") GB/s"
  echo "tar, random order: $(median "$work/tar.rate") records/s"
  echo "tfrecord, random order: $(median "$work/tfrecord.rate") records/s"
  echo "webdataset, in sequence with a buffer of 1000: $(median "$work/webdataset") records/s"
  echo "grain, files in random order: $(median "$work/grain") records/s"
  echo "range of 100,000,000 records, shuffled: $(median "$work/range.rss") MB at most"
} | tee "${OUT:-$root/bench/results/$(date -u +%F)-sources.txt}"
