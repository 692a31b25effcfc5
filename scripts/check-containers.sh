#!/bin/sh
# Reads data sets that other people's libraries wrote, and compares records with what those libraries read.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check numpy webdataset tfrecord safetensors pandas array-record
# MDS and litdata: their own writers, MDS's reader, and what these import; their data loaders, which need PyTorch, are not used.
"$work/venv/bin/pip" -q install --disable-pip-version-check --no-deps mosaicml-streaming litdata
"$work/venv/bin/pip" -q install --disable-pip-version-check boto3 brotli filelock lightning-utilities obstore pillow python-snappy requests tqdm typing_extensions tifffile xxhash zstd
# FFCV is a source package, whose set-up asks for its reader's libraries of C before pip hands the files over; its writer is Python.
"$work/venv/bin/pip" -q install --disable-pip-version-check opencv-python-headless
mkdir "$work/data"
index=${PIP_INDEX_URL:-$("$work/venv/bin/pip" config get global.index-url 2>/dev/null || echo https://pypi.org/simple)}
python3 - "$index" "$work/ffcv-1.0.2.tar.gz" <<'P'
import hashlib, re, sys, urllib.parse, urllib.request
page, out = sys.argv[1].rstrip('/') + '/ffcv/', sys.argv[2]
links = re.findall(r'href="([^"]*/ffcv-1\.0\.2\.tar\.gz)(?:#sha256=([0-9a-f]+))?"', urllib.request.urlopen(page).read().decode())
if not links: sys.exit(f'{page} has no ffcv-1.0.2.tar.gz')
data = urllib.request.urlopen(urllib.parse.urljoin(page, links[0][0])).read()
if links[0][1] and hashlib.sha256(data).hexdigest() != links[0][1]: sys.exit('ffcv-1.0.2.tar.gz has another digest than its page says')
open(out, 'wb').write(data)
P
tar -xzf "$work/ffcv-1.0.2.tar.gz" -C "$work"
"$work/venv/bin/python" "$root/scripts/check-containers.py" "$root/build/release/millrace" "$work/data" "$work/ffcv-1.0.2/ffcv"
# litdata's reader and Megatron's library import PyTorch.  Debian's is a tenth of PyPI's, which also needs CUDA's libraries; it is 1.13, and
# these are the newest versions that import it.
if ! /usr/bin/python3 -c 'import torch'; then
  echo "install python3-torch first" >&2
  exit 1
fi
/usr/bin/python3 -m venv --system-site-packages "$work/torch"
"$work/torch/bin/pip" -q install --disable-pip-version-check --no-deps litdata==0.2.46 megatron-core==0.8.0
"$work/torch/bin/pip" -q install --disable-pip-version-check boto3 filelock lightning-utilities 'numpy<2' packaging requests tifffile zstd
"$work/torch/bin/python" "$root/scripts/check-containers.py" "$root/build/release/millrace" "$work/data" torch
