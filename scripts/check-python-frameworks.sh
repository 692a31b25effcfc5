#!/usr/bin/env bash
# usage: scripts/check-python-frameworks.sh LIBRARY
# The adapters of the Python package in the real torch, Lightning, JAX, grain and TensorFlow from PyPI, one process each;
# check-python.sh has Debian's torch.  Not part of .ci/run: it downloads gigabytes and takes ten minutes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
MILLRACE_LIBRARY=$(realpath "${1:?usage: scripts/check-python-frameworks.sh LIBRARY}")
export MILLRACE_LIBRARY PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1
cd "$work"

# PYTHON MODULE: an adapter whose framework is missing would leave its tests out.
tests() {
  "$1" -c "import $2"
  "$1" -m pytest -q -p no:cacheprovider --rootdir "$root/python" "$root/python/tests/test_$2.py"
}
quiet=(-q --disable-pip-version-check)

/usr/bin/python3 -m venv lightning
lightning/bin/pip install "${quiet[@]}" lightning numpy pytest
tests lightning/bin/python torch
tests lightning/bin/python lightning

/usr/bin/python3 -m venv jax
jax/bin/pip install "${quiet[@]}" jax grain pytest
tests jax/bin/python jax
tests jax/bin/python grain

/usr/bin/python3 -m venv tensorflow
tensorflow/bin/pip install "${quiet[@]}" tensorflow-cpu pytest
tests tensorflow/bin/python tensorflow
