#!/bin/sh
# The train step beside PyTorch's, in turn, on this machine: bench/step.sh [ROUNDS]
# Needs a Python with torch==2.15.0 (PYTHON=...); prints one line a run and the ratio of the medians.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
python=${PYTHON:-python3}
ours=$(mktemp)
theirs=$(mktemp)
trap 'rm -f "$ours" "$theirs"' EXIT
i=0
while [ "$i" -lt "$rounds" ]; do
  i=$((i + 1))
  "$root/build/release/millrace" bench step --json --steps 5 | sed -n 's/.*"step_s":\([0-9.]*\).*/\1/p' | tee -a "$ours"
  "$python" "$root/bench/peers/vit_step.py" torch-eager-bf16 train --steps 5 | awk '{print $3}' | tee -a "$theirs"
done
median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
a=$(median "$ours")
b=$(median "$theirs")
echo "millrace $a s, PyTorch eager bf16 $b s a step of 128: $(awk "BEGIN {printf \"%.2f\", $b / $a}") times as fast"
