#!/bin/sh
# Trains two steps of a small model and reads the results with Python's own readers.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy safetensors
"$root/build/release/millrace" train --steps 2 --run-dir "$work/run" train.layers=1 batch=16 \
  >"$work/train.log" 2>&1 || {
  cat "$work/train.log"
  exit 1
}
"$work/venv/bin/python" "$root/scripts/check-readers.py" "$work/run"
