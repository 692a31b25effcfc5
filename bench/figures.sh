#!/usr/bin/env bash
# usage: bench/figures.sh DATA [NAME=VALUE...]
# The README's figures of the recipe (losses, accuracies, ledger), taken from `millrace train --data DATA` at the
# commit that is checked out, and printed as the README has them.  DATA: CIFAR-10's folder; settings after it are
# for trying this script.  Ten minutes on two cores.  README.md gets its figures from here, not by hand.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
data=$(cd "${1:?usage: bench/figures.sh DATA [NAME=VALUE...]}" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --build "$root/build/release" --target millrace >/dev/null
commit=$(git -C "$root" rev-parse --short HEAD)
[ -z "$(git -C "$root" status --porcelain)" ] || commit="$commit with changes beside it"
echo "# $(date -u +%F) commit $commit, $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
"$root/build/release/millrace" doctor | sed -n 's/^  kernels  */# kernels: /p'
"$root/build/release/millrace" train --data "$data" --run-dir "$work/run" "$@" >"$work/log" || {
  tail -n 5 "$work/log"
  exit 1
}

python3 - "$work/run/metrics.jsonl" "$root/README.md" <<'PY'
import json, re, sys
records = [json.loads(line) for line in open(sys.argv[1])]
loss = {r['step']: r['loss'] for r in records if r['kind'] == 'step'}
last = {r['kind']: r for r in records}
readme = open(sys.argv[2]).read()
steps = [int(s) for s in re.search(r'^\| step \|(.*)\|$', readme, re.M).group(1).split('|')]
def mean(step, n=20):
    rows = [loss[s] for s in range(step - n + 1, step + 1)]
    return f'{sum(rows) / n:.3f}'
print(f'\nJPEG CIFAR-10 (the pixels went through JPEG once), the recipe as it stands, {max(loss)} steps')
print('| step |', ' | '.join(str(s) for s in steps), '|')
print('| --- |', ' | '.join('---' for _ in steps), '|')
print('| millrace |', ' | '.join(mean(s) for s in steps), '|')
print(re.search(r'^\| PyTorch \|.*$', readme, re.M).group(0), ' <- as README.md has it: not taken here')
valid, test, ledger = last['valid']['accuracy'], last['test']['accuracy'], last['final']['ledger']
print(f'\nAfter this one epoch the validation accuracy is {100 * valid:.1f} % and the test accuracy {100 * test:.1f} %, '
      f'ledger `{ledger}`.')
PY
