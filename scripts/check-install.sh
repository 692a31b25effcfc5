#!/bin/sh
# Installs the Release build to a folder of its own and runs the program from there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$root/build/release" --prefix "$prefix" >/dev/null
cd /
"$prefix/bin/millrace" --version
"$prefix/bin/millrace" inspect >/dev/null
test -f "$prefix/share/millrace/examples/cifar10-vit.mr"
echo "install: the installed program runs"
