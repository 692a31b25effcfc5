#!/usr/bin/env bash
# usage: scripts/check-wheel-debian.sh [SUITE...]
# The wheel that check-wheel.sh has made, in every Python of Debian's newer suites (default: trixie and sid), each in a bare
# system without this machine's libraries.  Root's; wants mmdebstrap.  Not part of .ci/run: it downloads half a gigabyte.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- trixie sid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/wheel"
cp "$root"/build/wheels/*.whl "$root"/python/tests/{conftest,test_arrays,test_graph}.py "$work/wheel/"

cat >"$work/wheel/use.sh" <<'SH'
set -eu
cd /wheel
apt-get install -y -qq --no-install-recommends python3-numpy python3-pytest python3-pip-whl python3-setuptools-whl >/dev/null
for python in $(apt-cache search --names-only '^python3\.[0-9]+-venv$' | cut -d- -f1); do
  apt-get install -y -qq --no-install-recommends "$python-venv" >/dev/null
  # pytest is Debian's, for every Python; numpy, too, for those that the suite has it for.
  "$python" -m venv --system-site-packages "/use-$python"
  "/use-$python/bin/pip" install -q --no-index --no-deps ./*.whl
  if "/use-$python/bin/python" -c 'import numpy' 2>/dev/null; then
    "/use-$python/bin/python" -m pytest -q -p no:cacheprovider test_arrays.py test_graph.py
  else
    "/use-$python/bin/python" use.py
  fi
  echo "wheel: $("/use-$python/bin/python" -V)"
done
SH
# What a Python can do for which the suite has no numpy.
cat >"$work/wheel/use.py" <<'PYTHON'
import ctypes

import millrace as mr

graph = mr.range(100) | mr.shuffle(seed=1, epochs=2) | mr.batch(16, workers=2)
ids = []
with mr.stream(graph) as stream:
    for batch in stream:
        values = batch["value"]
        assert values.shape == (batch.n,) and values.dtype == "int64", values
        at = ctypes.cast(values.__array_interface__["data"][0], ctypes.POINTER(ctypes.c_int64))
        assert at[: batch.n] == batch.ids
        assert ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(values.__dlpack__(max_version=(1, 0))), b"dltensor_versioned")
        ids += batch.ids
    ledger = stream.ledger
assert sorted(ids) == sorted(2 * list(range(100))), ids
with mr.stream(str(graph)) as again:
    next(iter(again))
    state = again.state()
with mr.stream(graph, state=state) as rest:
    assert sum(batch.n for batch in rest) == 200 - 16
    assert rest.ledger == ledger
print("without numpy: views, DLPack, a state and the ledger", ledger)
PYTHON

for suite; do
  # A mirror of sid that lags behind is good enough for a system that is gone afterwards.
  # shellcheck disable=SC2016 # mmdebstrap's own shell knows $1
  mmdebstrap --quiet --variant=minbase --format=null --aptopt='Acquire::Check-Valid-Until "false"' --customize-hook="copy-in $work/wheel /" \
    --customize-hook='chroot "$1" sh /wheel/use.sh' "$suite" | tee -a "$work/said"
done
echo "wheel: $(grep -c '^wheel: ' "$work/said") Pythons of Debian's suites $* use it"
