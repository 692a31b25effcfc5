#!/bin/sh
# Installs the Release build to a folder of its own, runs the program from there, and builds the
# examples against the library: by pkg-config, and by CMake.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --build "$root/build/release" --target millrace millrace_archive >/dev/null
cmake --install "$root/build/release" --prefix "$prefix" >/dev/null
cd /
"$prefix/bin/millrace" --version
"$prefix/bin/millrace" inspect >/dev/null
examples=$prefix/share/millrace/examples
test -f "$examples/cifar10-vit.mr"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
cd "$prefix"
# shellcheck disable=SC2046
cc -O2 -Wall "$examples/spirals/spirals.c" $(pkg-config --cflags --libs millrace) -o spirals
./spirals
test -s spirals.svg
# shellcheck disable=SC2046
cc -O2 -Wall "$examples/tour/tour.c" $(pkg-config --cflags --libs millrace) -o tour
./tour | diff - "$examples/tour/tour.txt"
cmake -S "$examples/own-op" -B own-op -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build own-op >/dev/null
own-op/squareplus >/dev/null
echo "install: the installed program runs; programs build against the library by pkg-config and CMake"
