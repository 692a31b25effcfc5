#!/usr/bin/env bash
# usage: bench/loader.sh DATA [ROUNDS] [PEER...]
# The recipe's train transform beside other loaders, in turn in one run: flip, resized crop,
# normalize over 50,000 CIFAR records into f32 batches of 128 on this machine.  DATA is CIFAR-10's
# folder (FFCV's copy of it is written to a temporary one).  What it prints is kept in
# bench/results/DATE-loader.txt (OUT names another file).  Three rounds take about seven minutes.
# PEERS: the folder that peers/setup.sh has filled; without it each peer runs in python3.  PEER:
# names of peers/loaders.py.  A peer that does not run is said and left out.  WINDOW: seconds of a
# measurement (default 2).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
data=$(cd "${1:?usage: bench/loader.sh DATA [ROUNDS] [PEER...]}" && pwd)
rounds=${2:-3}
shift
shift || true
[ $# -gt 0 ] || set -- ffcv_w2 tfdata_vec dali_t2 torch_v2_w2 grain_np_w2 np_copy
export WINDOW=${WINDOW:-2}
out=${OUT:-$root/bench/results/$(date -u +%F)-loader.txt}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/data"
ln -s "$data"/*.bin "$data"/*.txt "$work/data/"

python_of() { # PEER
  case $1 in
    ffcv*) echo "${PEERS:+$PEERS/ffcv/bin/}python3" ;;
    tfdata* | dali*) echo "${PEERS:+$PEERS/tf/bin/}python3" ;;
    *) echo "${PEERS:+$PEERS/torch/bin/}python3" ;;
  esac
}
figure() { sed -n "s/.*\"$1\":\\([0-9.]*\\).*/\\1/p"; }
ours() { # NAME WORKERS
  "$root/build/release/millrace" bench loader --json --data "$data" --workers "$2" \
    --seconds $((WINDOW * 2)) >"$work/json"
  figure images_per_s <"$work/json" >>"$work/$1"
  figure first_batch_ms <"$work/json" >>"$work/first"
}
theirs() { # PEER
  [ ! -e "$work/$1.refused" ] || return 0
  if ! timeout 120 "$(python_of "$1")" "$root/bench/peers/loaders.py" "$1" "$work/data" \
    >"$work/out" 2>"$work/err"; then
    tail -n 1 "$work/err" >"$work/$1.refused"
    return 0
  fi
  awk -v peer="$1" '$1 == peer {print $2}' "$work/out" >>"$work/$1"
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {printf "%.10g\n", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

for _ in $(seq "$rounds"); do
  ours millrace "$(nproc)"
  ours millrace-1-worker 1
  for p in "$@"; do theirs "$p"; done
done
{
  echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
  echo "# bench/loader.sh DATA $rounds $*: medians of $rounds rounds in turn"
  best=$(median "$work/millrace")
  printf '%-20s %10.0f images/s\n' millrace "$best" millrace-1-worker "$(median "$work/millrace-1-worker")"
  printf '%-20s %10.1f ms from the start of a process to its end after one batch, warm\n' \
    millrace "$(median "$work/first")"
  for p in "$@"; do
    if [ -s "$work/$p" ]; then
      m=$(median "$work/$p")
      note="millrace is $(awk "BEGIN {printf \"%.1f\", $best / $m}") times as fast"
      [ "$p" != np_copy ] || note="records copied at random by numpy, no transform"
      printf '%-20s %10.0f images/s; %s\n' "$p" "$m" "$note"
    else
      echo "$p: left out: $(cat "$work/$p.refused" 2>/dev/null || echo 'no figure')"
    fi
  done
} | tee "$out"
