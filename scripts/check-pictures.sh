#!/bin/sh
# Compares `folder`, `decode` and the transforms behind it with torchvision and Pillow, byte for byte, on
# pictures of all kinds that the check makes, or on a folder in the layout of ImageNet.
# usage: check-pictures.sh [FOLDER]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$work/venv"
  python=$work/venv/bin/python
  "$python" -m pip -q install --disable-pip-version-check numpy torchvision 'pillow>=13'
fi
"$python" "$root/scripts/check-pictures.py" "$root/build/release/millrace" "$root/tests/golden" "$work" "$@"
folder=${1:-$work/pictures}
"$python" "$root/scripts/check-augment.py" "$root/build/release/millrace" "$work" "$folder"
