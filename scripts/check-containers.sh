#!/bin/sh
# Reads data sets that other people's libraries wrote, and compares records with what those libraries read.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy webdataset tfrecord safetensors pandas array-record
# MDS and litdata: their own writers and readers, and what these import; their data loaders, which need PyTorch, are not used.
"$work/venv/bin/pip" -q install --disable-pip-version-check --no-deps mosaicml-streaming litdata
"$work/venv/bin/pip" -q install --disable-pip-version-check boto3 brotli filelock lightning-utilities obstore pillow python-snappy requests tqdm typing_extensions tifffile xxhash zstd
mkdir "$work/data"
"$work/venv/bin/python" "$root/scripts/check-containers.py" "$root/build/release/millrace" "$work/data"
