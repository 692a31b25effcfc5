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

# Folders are env-...: one called jax would be taken for the module.
/usr/bin/python3 -m venv env-lightning
env-lightning/bin/pip install "${quiet[@]}" lightning numpy pytest
tests env-lightning/bin/python torch
tests env-lightning/bin/python lightning

/usr/bin/python3 -m venv env-jax
env-jax/bin/pip install "${quiet[@]}" jax grain pytest
tests env-jax/bin/python jax
tests env-jax/bin/python grain

/usr/bin/python3 -m venv env-tensorflow
env-tensorflow/bin/pip install "${quiet[@]}" tensorflow-cpu pytest
tests env-tensorflow/bin/python tensorflow
