#!/usr/bin/env bash
# Trains a few steps of a small model, in two parts, and reads the results with other people's
# readers: Python's own, safetensors, TensorBoard; at last a run with every face at once.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy safetensors tensorboard pyzmq 'setuptools<81'

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

# A trainer in Python: the batches of `millrace serve`, and what stage publish says of a run.
exec 9< <(python3 "$root/scripts/ports.py" 3)
read -r served several published <&9
graph='synthetic n=320 ! shuffle seed=1 epochs=1 ! flip ! normalize ! batch 16'
"$root/build/release/millrace" serve "$graph" --bind "tcp://127.0.0.1:$served" >"$work/serve.log" 2>&1 &
server=$!
"$work/venv/bin/python" "$root/scripts/check-link.py" --make "$work"
fields="npy fields=pixels:$work/pixels.npy,weight:$work/weight.npy,box:$work/box.npy,id:$work/id.npy
  ragged=tokens:$work/tokens.npy:$work/at.npy ! shuffle seed=3 epochs=1 ! batch 16 workers=2"
"$root/build/release/millrace" serve "$fields" --bind "tcp://127.0.0.1:$several" >"$work/several.log" 2>&1 &
served_fields=$!
"$root/build/release/millrace" run 'process a { synthetic n=32000 ! shuffle epochs=0 ! normalize ! batch 16 name=b }
  process t { vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8
              train.metrics ! publish tcp://127.0.0.1:'"$published"' }
  b. ! train.' >"$work/publish.log" 2>&1 &
publisher=$!
trap 'kill $server $served_fields $publisher 2>/dev/null || true; wait $server $served_fields $publisher 2>/dev/null || true; rm -rf "$work"' EXIT
for step in 1 20; do
  "$root/build/release/millrace" batch "$graph" --step "$step" --out "$work/$step.npy" --labels "$work/$step-labels.npy" >/dev/null
  "$root/build/release/millrace" batch "$fields" --step "$step" --out "$work/$step.npz" >/dev/null
done
"$work/venv/bin/python" "$root/scripts/check-link.py" "$root/examples/link" "tcp://127.0.0.1:$served" "tcp://127.0.0.1:$several" "tcp://127.0.0.1:$published" "$work"
"$work/venv/bin/python" "$root/scripts/check-faces.py" "$root/build/release/millrace"
