#!/bin/bash
# The model's step beside its peers, in turn, on this machine: bench/step.sh [ROUNDS] [CASE...]
# CASE: train-bf16, train-f32, infer-bf16, infer-f32; all four without any.
# PYTHON names a Python with torch==2.15.0 (and jax, optax, flax for jax); PEERS the peers, by default
# "torch-eager"; also torch-compile and jax.  Five steps of 128 records a round; medians over all.  A
# peer that does not run is said and left out.
# RECORD=FILE also appends a line of JSON a case (bench/plot.sh draws results/history.jsonl).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- train-bf16 train-f32 infer-bf16 infer-f32
python=${PYTHON:-python3}
peers=${PEERS:-torch-eager}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

ours() { # MODE DTYPE
  local command=step
  [ "$1" = train ] || command=infer
  "$root/build/release/millrace" bench "$command" --json --steps 5 --dtype "$2" |
    sed -nE 's/.*"[a-z]+_s":([0-9.]+),"images_per_s".*/\1/p'
}

peer() { # NAME MODE DTYPE: its figure, or the reason why it has none
  [ ! -e "$work/$1.refused" ] || return 0
  if "$python" "$root/bench/peers/vit_step.py" "$1-$3" "$2" --steps 5 >"$work/out" 2>"$work/err"; then
    awk '{print $3}' "$work/out" >>"$work/$1"
  else
    tail -n 1 "$work/err" >"$work/$1.refused"
  fi
}

for case in "$@"; do
  mode=${case%-*} dtype=${case#*-}
  for ((i = 0; i < rounds; i++)); do
    ours "$mode" "$dtype" >>"$work/millrace"
    for p in $peers; do peer "$p" "$mode" "$dtype"; done
  done
  a=$(median "$work/millrace")
  line="$case: millrace $a s"
  json=""
  for p in $peers; do
    if [ ! -s "$work/$p" ]; then
      line="$line; $p left out: $(cat "$work/$p.refused" 2>/dev/null || echo 'no figure')"
      continue
    fi
    b=$(median "$work/$p")
    ratio=$(awk "BEGIN {printf \"%.2f\", $b / $a}")
    line="$line; $p $b s, $ratio times ours"
    json="$json${json:+, }\"$p\": $b"
  done
  echo "$line"
  if [ -n "${RECORD:-}" ]; then
    echo "{\"bench\": \"$case\", \"step_s\": $a, \"batch\": 128, \"peers\": {\"step_s\": {$json}}}" |
      "$root/bench/record.sh"
  fi
  rm -f "$work"/*
done
