#!/bin/bash
# Two ranks of one thread, processes over MPI, beside one process of two threads, and torch's DDP over gloo, in turn:
# bench/ranks.sh [ROUNDS] [DTYPE...]
# The recipe's model and batch of 128, in ordered=8 parts, on synthetic pictures; DTYPE bf16 and f32 without any.  Five steps
# a round behind two; medians of all.  Also one process without ordered=, whose difference is the price of the same bits.
# PYTHON names a Python with torch==2.15.0; without torch DDP is left out.  Needs mpirun (openmpi-bin or hydra).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- bf16 f32
python=${PYTHON:-python3}
steps=7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
quotient() { awk "BEGIN {printf \"%.2f\", $1 / $2}"; }

graph() { # ORDERED DTYPE THREADS
  cat <<GRAPH
let run = unset
synthetic n=4096 split=train ! shuffle seed=1 epochs=1 ! normalize preset=cifar10 ! batch 128 drop-remainder
  ! train-step name=train model=vit dtype=$2 threads=$3 lr=1e-3 $1
train.metrics ! jsonl path=\$run/metrics.jsonl
GRAPH
}

# The steps behind the first two, in seconds.
train() { # GRAPH COMMAND...: one process, or what starts several
  rm -rf "$work/run"
  "${@:2}" "$root/build/release/millrace" train --graph "$1" --run-dir "$work/run" --steps $steps >"$work/said" 2>&1 ||
    { cat "$work/said" >&2; exit 1; }
  sed -nE 's/.*"kind":"step","step":([0-9]+),.*"step_s":([0-9.]+).*/\1 \2/p' "$work/run/metrics.jsonl" | awk '$1 > 2 {print $2}'
}

mpi=(mpirun -n 2)
! mpirun --version 2>&1 | grep -q 'Open MPI' || mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2)

for dtype in "$@"; do
  graph ordered=8 "$dtype" 2 >"$work/ordered.mr"
  graph ordered=8 "$dtype" 1 >"$work/rank.mr"
  graph "" "$dtype" 2 >"$work/plain.mr"
  for ((i = 0; i < rounds; i++)); do
    train "$work/ordered.mr" env >>"$work/one"
    train "$work/rank.mr" "${mpi[@]}" >>"$work/two"
    train "$work/plain.mr" env >>"$work/plain"
    if "$python" -c 'import torch' 2>/dev/null; then
      "$python" "$root/bench/peers/ddp_step.py" --dtype "$dtype" --steps $((steps - 2)) >>"$work/ddp"
    fi
  done
  one=$(median "$work/one") two=$(median "$work/two") plain=$(median "$work/plain")
  echo "$dtype: two ranks of a thread $two s a step, $(quotient "$one" "$two") times the speed of one process of two threads ($one s)"
  echo "$dtype: ordered=8 takes $(quotient "$one" "$plain") times as long as one part ($plain s)"
  if [ -s "$work/ddp" ]; then
    ddp=$(median "$work/ddp")
    echo "$dtype: torch DDP over gloo $ddp s; two ranks are $(quotient "$ddp" "$two") times as fast"
  fi
  rm -f "$work"/one "$work"/two "$work"/plain "$work"/ddp
done
