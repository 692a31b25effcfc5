#!/bin/sh
# Installs the Release build, static and shared, each into a folder of its own; runs the program from
# there; builds the examples against the library by pkg-config and by CMake, and one program as C11,
# C17 and C++17.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-O2 -pedantic -Wall -Wextra -Werror -Wno-unused-parameter"
cd "$work"

# PREFIX: what every installed library must do.
programs_build_and_run() {
  prefix=$1
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  examples=$prefix/share/millrace/examples
  # shellcheck disable=SC2046,SC2086 # words
  {
    cc $strict -std=c11 "$root/tests/install/library.c" $(pkg-config --cflags --libs millrace) -o library11
    cc $strict -std=c17 "$root/tests/install/library.c" $(pkg-config --cflags --libs millrace) -o library17
    g++ $strict -std=c++17 -x c++ "$root/tests/install/library.c" -x none $(pkg-config --cflags --libs millrace) -o library++
    cc -O2 -Wall "$examples/spirals/spirals.c" $(pkg-config --cflags --libs millrace) -o spirals
    cc -O2 -Wall "$examples/tour/tour.c" $(pkg-config --cflags --libs millrace) -o tour
    cc -O2 -Wall "$examples/live-arrays/live-arrays.c" $(pkg-config --cflags --libs millrace) -o live-arrays
    cc -O2 -Wall "$examples/mesh/mesh.c" $(pkg-config --cflags --libs millrace) -pthread -o mesh
    cc $strict -std=c11 "$examples/own-loop/own-loop.c" $(pkg-config --cflags --libs millrace) -o own-loop
    g++ $strict -std=c++17 -x c++ "$examples/own-loop/own-loop.c" -x none $(pkg-config --cflags --libs millrace) -o own-loop++
  }
  for program in ./library11 ./library17 ./library++ ./spirals; do "$program"; done
  test -s spirals.svg
  ./live-arrays
  test -s live-arrays.pb
  ./own-loop >loop
  ./own-loop++ | diff loop -
  grep -q 'step 4: 64 records of image and 2 fields' loop
  ./tour | diff - "$examples/tour/tour.txt"
  ./mesh | diff - "$examples/mesh/mesh.txt"
  rm -rf own-op
  cmake -S "$examples/own-op" -B own-op -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build own-op >/dev/null
  own-op/squareplus >/dev/null
}

# PREFIX FLAGS...: plug-ins are built with the headers alone, and run in the installed program and in a
# program of one's own, which FLAGS link with all of the library.
plugins_build_and_run() {
  prefix=$1
  shift
  examples=$prefix/share/millrace/examples
  millrace=$prefix/bin/millrace
  rm -rf plugins && mkdir -m 755 plugins
  cmake -S "$examples/plugin-stage" -B plugins/build -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build plugins/build >/dev/null
  # shellcheck disable=SC2046,SC2086 # words
  {
    cc $strict -shared -fPIC "$examples/plugin-stage/cutout.c" $(pkg-config --cflags millrace-plugin) -o plugins/cutout.so
    cc $strict -shared -fPIC "$examples/plugin-op/hardswish.c" $(pkg-config --cflags millrace-plugin) -o plugins/hardswish.so
    cc $strict -shared -fPIC "$examples/plugin-model/mixer.c" $(pkg-config --cflags millrace-plugin) -o plugins/mixer.so
    cc $strict -shared -fPIC "$examples/plugin-loss/bce.c" $(pkg-config --cflags millrace-plugin) -o plugins/bce.so
    cc $strict "$root/tests/install/host.c" $(pkg-config --cflags millrace) "$@" -o host
  }
  chmod go-w plugins/*.so plugins/build plugins/build/cutout.so
  graph='synthetic n=256 ! shuffle seed=1 ! cutout 12 p=0.5 ! batch 64 ! ledger'
  "$millrace" run --plugin plugins/cutout.so "$graph" 2>/dev/null >first
  "$millrace" run --plugin plugins/build/cutout.so "$graph" workers=2 2>/dev/null | diff first -
  "$millrace" who --plugin plugins/cutout.so "$graph" --step 1 | grep -q 'cutout: covered around row'
  two='synthetic n=64 ! shuffle seed=1 ! z.a  synthetic n=64 seed=2 ! z.b  zip prefix=a.,b. name=z ! cutout 12'
  "$millrace" run --plugin plugins/cutout.so "$two field=b.image ! batch 16 ! null" 2>/dev/null
  "$millrace" run --plugin plugins/cutout.so "$two ! batch 16 ! null" 2>&1 | grep -q 'a.image and b.image could both be'
  "$millrace" jaxpr --plugin plugins/hardswish.so "$examples/plugin-op/energy.jaxpr" --grad | grep -q 'hardswish a'
  rm -rf mixer
  "$millrace" train --plugin plugins/mixer.so --run-dir mixer --steps 4 \
    model=mixer width=8 layers=1 patch=16 tokens-mlp=8 mlp=8 >/dev/null 2>&1
  "$millrace" train --resume --run-dir mixer --steps 6 | grep -q 'resumed at step 4'
  ./host plugins/hardswish.so plugins/cutout.so
}

# PREFIX: each installed header compiles alone, in each language.
headers_compile_alone() {
  (cd "$1/include/millrace" && find . -name '*.h' | sed 's,^\./,,') >headers
  while read -r header; do
    if grep -q ');$' "$1/include/millrace/$header" && ! grep -q MR_BEGIN_DECLS "$1/include/millrace/$header"; then
      echo "install: $header declares functions without MR_BEGIN_DECLS: C++ could not link them"
      exit 1
    fi
    printf '#include "%s"\ntypedef int mr_used;\n' "$header" >alone.c
    # shellcheck disable=SC2086
    {
      cc $strict -std=c11 -fsyntax-only -I "$1/include/millrace" alone.c
      g++ $strict -std=c++17 -fsyntax-only -x c++ -I "$1/include/millrace" alone.c
    } || { echo "install: $header does not compile alone"; exit 1; }
  done <headers
  echo "install: $(wc -l <headers) headers compile alone as C11 and as C++17"
}

cmake --build "$root/build/release" --target millrace millrace_library >/dev/null
cmake --install "$root/build/release" --prefix "$work/static" >/dev/null
"$work/static/bin/millrace" --version
"$work/static/bin/millrace" inspect >/dev/null
test -f "$work/static/share/millrace/examples/cifar10-vit.mr"
diff -r "$root/share" "$work/static/share/millrace" | grep -v ": examples$" && exit 1
# check-debian.sh is no part of .ci/run, and a folder that no package takes ends its build.
for folder in "$work"/static/share/millrace/*; do
  grep -qx "usr/share/millrace/${folder##*/}" "$root"/debian/*.install || { echo "install: no Debian package has ${folder##*/}"; exit 1; }
done
headers_compile_alone "$work/static"
programs_build_and_run "$work/static"
# shellcheck disable=SC2046
plugins_build_and_run "$work/static" -rdynamic -Wl,--whole-archive $(pkg-config --libs millrace |
  sed 's/-lmillrace/-lmillrace -Wl,--no-whole-archive/')
# Every object of the archive finds what it calls among the libraries that millrace.pc names.
# shellcheck disable=SC2046
cc "$root/tests/install/library.c" -Wl,--whole-archive $(pkg-config --cflags --libs-only-L --libs-only-l millrace |
  sed 's/-lmillrace/-lmillrace -Wl,--no-whole-archive/') -o whole

cmake -S "$root" -B "$root/build/shared" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DMILLRACE_TESTS=OFF >/dev/null
cmake --build "$root/build/shared" >build.log || { tail -n 40 build.log; exit 1; }
cmake --install "$root/build/shared" --prefix "$work/shared" >/dev/null
test ! -e "$work/shared/lib/libmillrace.a"
if nm -D --defined-only "$work/shared/lib/libmillrace.so" | awk '{print $3}' | grep -vE '^(mr_[^_].*@)?@?MILLRACE_0$'; then
  echo "install: the shared library shows what is not its interface"
  exit 1
fi
"$root/scripts/symbols.sh"
LD_LIBRARY_PATH=$work/shared/lib
export LD_LIBRARY_PATH
programs_build_and_run "$work/shared"
# shellcheck disable=SC2046
plugins_build_and_run "$work/shared" $(pkg-config --libs millrace)
ldd library11 | grep -q "$work/shared/lib/libmillrace.so.0"
"$root/scripts/check-python.sh" "$work/shared/lib/libmillrace.so.0"
echo "install: the installed program runs; programs build against the static and the shared library, by pkg-config and CMake; plug-ins build and run"
