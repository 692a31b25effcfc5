#!/bin/sh
# Builds the tests of base/, pipeline/, links/, orders and pixels for arm64 with another machine's compiler,
# warnings as errors, and runs them through qemu-user.  An arm64 machine builds and runs them like any other.
set -eu
cd "$(dirname "$0")/.."
[ "$(uname -m)" != aarch64 ] || { echo "arm64: this machine is one: ./millrace test is the check"; exit 0; }

# Libraries of the other architecture stand beside this one's.  libdnnl-dev cannot; see arm64.cmake.
wanted="gcc-aarch64-linux-gnu qemu-user libc6-dev:arm64 libdnnl2:arm64"
# shellcheck disable=SC2013 # a word a package
for p in $(sed 's/#.*//' scripts/packages.txt); do
  case $p in
    libdnnl-dev | libjs-* | libc6-dev) ;;
    lib*-dev | zlib1g-dev) wanted="$wanted $p:arm64" ;;
  esac
done
missing=
for p in $wanted; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { echo "arm64: install these first (dpkg --add-architecture arm64):$missing"; exit 1; }
  dpkg --add-architecture arm64
  apt-get update -qq
  # shellcheck disable=SC2086 # words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

build=build/arm64
# Bits do not depend on the optimisation, and here the build takes longer than the tests.  Types, signs and shadows are
# warned of as everywhere; what gcc concludes from the flow of values it concludes less well with -O1, and those warnings
# are the release build's.
guesses="format-truncation format-overflow maybe-uninitialized stringop-overflow stringop-truncation stringop-overread array-bounds restrict"
# shellcheck disable=SC2086 # words
flags="-O1 $(printf -- '-Wno-error=%s ' $guesses)"
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS_RELEASE=$flags" -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake >/dev/null
targets=
for test in tests/base/test_*.c tests/pipeline/test_*.c tests/links/test_*.c tests/loaders/test_[gops]*.c \
  tests/stages/test_flip.c tests/stages/test_normalize.c tests/stages/test_resized_crop.c; do
  room=$(basename "$(dirname "$test")")
  targets="$targets tests/test_${room}_$(basename "$test" .c | sed 's/^test_//')"
done
# shellcheck disable=SC2086
ninja -C $build --quiet $targets
# Left out: 10,000 random graphs on one thread, which take minutes here and see nothing of the processor.
# base.pages asks the kernel for huge pages, which qemu does not pass on.  base.share starts a copy of itself, and
# loaders.scan_remote forks with threads, which qemu cannot.
ctest --test-dir $build --output-on-failure -j "$(nproc)" -L '^(base|pipeline|links|loaders|stages)$' \
  -R '^(base|pipeline|links)|^loaders.(g|o|p|s)|^stages.(flip|normalize|resized_crop)$' -E 'standstill|^base.(pages|share)$|^loaders.scan_remote$'
