#!/bin/sh
# Reads data sets that other people's libraries wrote, and compares records with what those libraries read.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy webdataset tfrecord safetensors pandas
# MDS: its own writer and reader, and what these import; its data loader, which needs PyTorch, is not used.
"$work/venv/bin/pip" -q install --disable-pip-version-check --no-deps mosaicml-streaming
"$work/venv/bin/pip" -q install --disable-pip-version-check brotli filelock pillow python-snappy requests tqdm typing_extensions xxhash zstd
mkdir "$work/data"
"$work/venv/bin/python" "$root/scripts/check-containers.py" "$root/build/release/millrace" "$work/data"
