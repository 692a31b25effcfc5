#!/bin/sh
# Reads shards from a real S3 server (moto) and a real web server (nginx), through a proxy that misbehaves: the
# records are those of the local files, or there is one clear error.  MILLRACE_SEED=S draws other troubles.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
command -v nginx >/dev/null || { echo "stores: install nginx-light"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --disable-pip-version-check 'moto[server]' boto3
mkdir "$work/data"
"$work/venv/bin/python" "$root/scripts/check-stores.py" "$root/build/release/millrace" "$work/data"
