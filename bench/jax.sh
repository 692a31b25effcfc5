#!/bin/bash
# Compiled functions beside jax.jit on this CPU, in turn: bench/jax.sh [ROUNDS]
# PYTHON names a Python with jax (and flax and optax for the compile of the training step; without them
# that row is left out).  A row a figure: ours, JAX's, and how many times JAX's ours is faster; medians of ROUNDS (3).
# What each case is: apps/bench/jax.c and bench/peers/jax_micro.py.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for ((i = 0; i < rounds; i++)); do
  "$root/build/release/millrace" bench jax-cases --json >>"$work/ours"
  "$python" "$root/bench/peers/jax_micro.py" >>"$work/jax"
done
# The first call of the training step traces and compiles; two more steps are subtracted as one.
if "$python" -c 'import flax, optax' 2>/dev/null; then
  "$python" "$root/bench/peers/vit_step.py" jax-fp32 train --steps 1 --warmup 1 >"$work/vit" 2>"$work/vit_first"
fi

"$python" - "$work" <<'PY'
import json, os, re, statistics, sys
work = sys.argv[1]
def medians(name):
    rows = [json.loads(line) for line in open(os.path.join(work, name))]
    return {k: statistics.median(r[k] for r in rows) for k in rows[0] if isinstance(rows[0][k], (int, float))}
ours, jax = medians('ours'), medians('jax')
if os.path.exists(os.path.join(work, 'vit')):
    first = float(re.search(r'first call ([\d.]+) s', open(os.path.join(work, 'vit_first')).read()).group(1))
    step = float(open(os.path.join(work, 'vit')).read().split()[2])
    jax['vit_compile_ms'] = 1e3 * (first - step)
print(f"{'':20s} {'millrace':>12s} {'jax.jit':>12s} {'times':>8s}")
for k in ours:
    if k in jax: print(f'{k:20s} {ours[k]:12.4g} {jax[k]:12.4g} {jax[k] / ours[k]:8.2f}')
PY
