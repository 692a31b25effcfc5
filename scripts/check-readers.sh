#!/bin/sh
# Trains a few steps of a small model, in two parts, and reads the results with other people's
# readers: Python's own, safetensors, TensorBoard.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy safetensors tensorboard 'setuptools<81'

train() {
  "$root/build/release/millrace" train --run-dir "$work/run" "$@" >"$work/train.log" 2>&1 || {
    cat "$work/train.log"
    exit 1
  }
}
train --steps 3 --tensorboard train.layers=1 train.embed=64 train.heads=2 train.mlp=64 batch=16 \
  train.watch-every=2 seed=12
train --steps 5 --resume
"$work/venv/bin/python" "$root/scripts/check-readers.py" "$work/run"
"$work/venv/bin/python" "$root/scripts/check-tensorboard.py" "$work/run"
