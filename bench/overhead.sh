#!/bin/bash
# What reading, augmenting and metrics cost the training step: bench/overhead.sh [ROUNDS] [DATA]
# In turn, the step alone (bench step) and whole steps of `train` with the same model and batch (the
# recipe's record stages, telemetry to a file, no evaluation).  The first six steps of both are left
# out: they touch memory for the first time, and the processors' clock settles.  Prints a line a round
# and the median of the ratios.  DATA: CIFAR-10's folder; else synthetic.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-5}
data=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source="synthetic name=data"
[ -z "$data" ] || source="cifar10 name=data path='$data' split=train split-seed=12"
cat >"$work/graph.mr" <<EOF
$source ! shuffle seed=12 epochs=1 ! flip p=0.5 ! resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1
  ! normalize preset=cifar10 ! batch 128 drop-remainder ! vit-step name=train seed=12
train.metrics ! jsonl path=\$run/metrics.jsonl
EOF
sed -i '1i let run = .' "$work/graph.mr"

median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

alone() { "$root/build/release/millrace" bench step --json --warm-up 6 --steps 6 | sed -nE 's/.*"step_s":([0-9.]+).*/\1/p'; }

whole() { # ROUND
  "$root/build/release/millrace" train --graph "$work/graph.mr" --run-dir "$work/run$1" --steps 12 >/dev/null 2>&1
  sed -nE '/"kind":"step"/s/.*"step_s":([0-9.eE+-]+).*/\1/p' "$work/run$1/metrics.jsonl" | tail -n +7 | median
}

for ((i = 1; i <= rounds; i++)); do
  a=$(alone)
  b=$(whole "$i")
  awk "BEGIN {printf \"step alone %.4f s, in training %.4f s: %+.2f %%\n\", $a, $b, 100 * ($b / $a - 1)}"
  awk "BEGIN {print 100 * ($b / $a - 1)}" >>"$work/ratios"
done
echo "median of $rounds rounds: $(median <"$work/ratios") %"
