#!/usr/bin/env bash
# usage: bench/f16_losses.sh DATA WORK [NAME=VALUE...]
# The recipe in bf16, and in f16 with a dynamic loss scale, from one start: the same initial parameters, records, draws and
# dropout masks.  Prints the losses of both at steps 100 and 340, and f16's over bf16's: of the step itself and, as the README
# counts it, the mean of the last 20.  DATA: CIFAR-10's folder.  WORK keeps both runs: the same command continues them where
# they stopped.  STEPS="100 340": other steps.  NAME=VALUE: settings of both (layers=2), named in the first line.
# Both run beside each other, on one thread each (THREADS=1): about 40 minutes on two cores that do nothing else.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: bench/f16_losses.sh DATA WORK [NAME=VALUE...]"
data=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
work=$(cd "$2" && pwd)
shift 2
steps=${STEPS:-100 340}
threads=${THREADS:-1}
millrace=${MILLRACE:-$root/build/release/millrace}
export OMP_NUM_THREADS=$threads

# The training half of examples/cifar10-vit.mr: evaluations would change nothing here.
cat >"$work/graph.mr" <<'MR'
let data  = data/cifar-10-batches-bin
let run   = runs/default
let seed  = 12
let batch = 128
cifar10 name=data path=$data split=train split-seed=$seed
  ! shuffle seed=$seed epochs=1
  ! flip p=0.5
  ! resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1
  ! normalize preset=cifar10
  ! batch $batch drop-remainder name=batches
  ! train-step name=train seed=$seed checkpoint-every=20
train.metrics ! jsonl path=$run/metrics.jsonl
train.state   ! checkpoint dir=$run/checkpoints
MR

run() { # DTYPE [NAME=VALUE...]
  local dtype=$1
  shift
  [ ! -e "$work/$dtype.done" ] || return 0
  if ls "$work/$dtype"/checkpoints/*.safetensors >/dev/null 2>&1; then
    set -- --run-dir "$work/$dtype" --resume # with the settings it has
  else
    set -- --run-dir "$work/$dtype" --graph "$work/graph.mr" --data "$data" --steps "${steps##* }" train.dtype="$dtype" "$@"
  fi
  "$millrace" train "$@" --threads "$threads" >"$work/$dtype.log" 2>&1 || { tail -n 5 "$work/$dtype.log" >&2; return 1; }
  touch "$work/$dtype.done"
}

echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)," \
  "$threads thread a run; the recipe${*:+ with $*}"
"$millrace" doctor | sed -n 's/^  kernels  */# kernels: /p'
run bf16 "$@" & bf16=$!
run f16 loss-scale=dynamic "$@" & f16=$!
trap 'kill -INT $bf16 $f16 2>/dev/null || true' INT TERM
wait $bf16
wait $f16

python3 - "$work" "$steps" <<'PY'
import json, os, sys
work, steps = sys.argv[1], [int(s) for s in sys.argv[2].split()]
def rows_of(dtype):
    with open(os.path.join(work, dtype, 'metrics.jsonl')) as f:
        rows = [json.loads(line) for line in f]
    return {r['step']: r for r in rows if r['kind'] == 'step'}
bf16, f16 = rows_of('bf16'), rows_of('f16')
def mean(rows, step):
    last = range(max(1, step - 19), step + 1)
    return sum(rows[s]['loss'] for s in last) / len(last)
print(f"{'step':>5} {'loss':>14} {'bf16':>8} {'f16':>8} {'f16 / bf16':>11}")
for s in steps:
    for what, a, b in (('of the step', bf16[s]['loss'], f16[s]['loss']), ('mean of 20', mean(bf16, s), mean(f16, s))):
        print(f'{s:5d} {what:>14} {a:8.4f} {b:8.4f} {b / a:11.4f}')
last = f16[max(f16)]
print(f"f16: {last['skipped_steps']} of {max(f16)} steps skipped, loss scale {last['loss_scale']:g} at the end")
PY
