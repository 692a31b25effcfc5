#!/bin/sh
# Weights to and from timm, Hugging Face and torchvision, judged by the forward passes of the real libraries in Debian's torch.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! /usr/bin/python3 -c 'import torch, torchvision'; then
  echo "install python3-torch and python3-torchvision first" >&2
  exit 1
fi
# Debian's torch is 1.13, and these are the newest transformers and timm that import it; the rest are versions that pass.
/usr/bin/python3 -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check transformers==4.40.2 'numpy<2' PyYAML==6.0.1 safetensors==0.8.0 \
  huggingface_hub==0.36.2 tokenizers==0.19.1 filelock==4.3.1 fsspec==2026.9.0 regex==2026.11.19 tqdm==4.70.1
"$work/venv/bin/pip" -q install --disable-pip-version-check --no-deps timm==0.9.16
mkdir "$work/data"
"$work/venv/bin/python" "$root/scripts/check-weights.py" "$root/build/release/millrace" "$root/tests/golden/vit" "$work/data"
