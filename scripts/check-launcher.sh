#!/usr/bin/env bash
# The launcher on a small project of its own: where the sources cannot be written to, it builds in the
# user's cache; where that cannot be written to either, it says what to do.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "launcher: $*" >&2; cat "$dir/out" >&2; exit 1; }

mkdir -p "$dir/source/scripts" "$dir/home"
cp "$here/millrace" "$dir/source/"
: >"$dir/source/scripts/packages.txt"
cat >"$dir/source/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.20)
project(launched C)
file(WRITE ${CMAKE_BINARY_DIR}/m.c "#include <stdio.h>\nint main(int n, char **a) { return puts(a[1]) < 0; }\n")
add_executable(millrace ${CMAKE_BINARY_DIR}/m.c)
C
run() { env -u XDG_CACHE_HOME HOME="$dir/home" "$@" >"$dir/out" 2>&1; }

touch "$dir/source/build" # no folder can be made there, for root neither
run "$dir/source/millrace" here || fail "a read-only clone does not build"
grep -qx here "$dir/out" || fail "the program did not run"
grep -q "cannot be written to; building in $dir/home/.cache/millrace/" "$dir/out" || fail "says no place"
run "$dir/source/millrace" again || fail "the second start fails"
[ "$(cat "$dir/out")" = again ] || fail "the second start says more than the program"

touch "$dir/full" # no folder either
if run env XDG_CACHE_HOME="$dir/full" "$dir/source/millrace" here; then fail "builds nowhere"; fi
grep -q "name a folder for the build with XDG_CACHE_HOME" "$dir/out" || fail "does not say what to do"

rm "$dir/source/build"
run "$dir/source/millrace" here || fail "a clone that can be written to does not build"
[ -x "$dir/source/build/release/millrace" ] || fail "builds elsewhere without need"
echo "launcher: builds in the clone, in the cache where it cannot, and says so"
