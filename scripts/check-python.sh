#!/bin/sh
# LIBRARY: the Python package against this libmillrace.so.0: its declarations, its stubs, its tests in the real numpy and
# torch, and what docs/python.md shows.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 "$root/scripts/python-abi.py" --check
MILLRACE_LIBRARY=$(realpath "$1")
MILLRACE_PROGRAM=$root/build/release/millrace
export MILLRACE_LIBRARY MILLRACE_PROGRAM PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 HYPOTHESIS_STORAGE_DIRECTORY="$work"
cd "$work"
/usr/bin/python3 "$root/scripts/python-stubs.py" --check
/usr/bin/python3 -m pytest -q -p no:cacheprovider --rootdir "$root/python" "$root/python/tests"
