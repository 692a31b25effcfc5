#!/bin/sh
# Builds the core alone (preset minimal) as on a machine without the optional libraries: no source reads a
# header of theirs, the program links none, its tests pass, and a user is told what is lacking.
set -eu
cd "$(dirname "$0")/.."
build=build/minimal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "minimal: $*"; exit 1; }

# All that pkg-config knows here is the core.
mkdir "$work/pc"
for module in libcjson libxxhash; do
  cp "$(pkg-config --variable=pcfiledir $module)/$module.pc" "$work/pc"
done
export PKG_CONFIG_LIBDIR="$work/pc"
every="liburing libcurl libarchive ncurses libpng libjpeg-turbo libwebp libzstd libbrotli protobuf-c libmicrohttpd ZeroMQ"

# Left to itself the build takes what is there; a library that is asked for and not there stops it.
cmake -S . -B "$work/auto" -DMILLRACE_TESTS=OFF >"$work/said"
for library in $every; do
  grep -q "millrace without.* $library (" "$work/said" || fail "AUTO does not leave out $library: $(cat "$work/said")"
done
if cmake -S . -B "$work/on" -DMILLRACE_TESTS=OFF -DMILLRACE_WITH_CURL=ON >"$work/said" 2>&1; then
  fail "MILLRACE_WITH_CURL=ON passes where there is no libcurl"
fi
grep -q libcurl4-openssl-dev "$work/said" || fail "MILLRACE_WITH_CURL=ON does not name its package: $(cat "$work/said")"
for option in MILLRACE_WITH MILLRACE_WITH_CURL MILLRACE_CUDA MILLRACE_SANITIZE; do
  if cmake -S . -B "$work/maybe" -DMILLRACE_TESTS=OFF -D$option=maybe >"$work/said" 2>&1; then
    fail "$option=maybe passes"
  fi
  grep -q "$option=maybe: expected one of" "$work/said" || fail "$option=maybe says: $(cat "$work/said")"
  rm -r "$work/maybe"
done

cmake --preset minimal >/dev/null
tests=
for test in tests/base/test_feature.c tests/loaders/test_*.c tests/links/test_*.c tests/sinks/test_*.c \
  tests/apps/test_graphs.c tests/apps/test_mem*.c tests/apps/test_mistakes.c tests/apps/test_runs.c \
  tests/apps/test_top.c tests/apps/test_words.c; do
  tests="$tests tests/test_$(basename "$(dirname "$test")")_$(basename "$test" .c | sed 's/^test_//')"
done
ninja -C $build -t targets all | sed 's/:.*//' >"$work/targets"
known=$(for test in $tests; do grep -x "$test" "$work/targets" || true; done) # the others are left out
# shellcheck disable=SC2086 # words
ninja -C $build --quiet millrace millrace_library $known

theirs='(liburing|curl/|archive|openssl/|curses|ncurses|png|libpng|protobuf-c/|zlib|zconf|zstd|brotli/|microhttpd|zmq)'
ninja -C $build -t deps | grep -E "^ *(/usr/(local/)?include/)([^ ]*/)?$theirs" | sort -u >"$work/leaks" || true
[ ! -s "$work/leaks" ] || fail "headers of optional libraries are read: $(cat "$work/leaks")"
linked=$(readelf -d $build/millrace | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc|libm|libgomp|libdnnl|libcjson|libxxhash|ld-linux.*)\.so' || true)
[ -z "$linked" ] || fail "the program links $linked"
cmake --install $build --prefix "$work/installed" >/dev/null
requires=$(PKG_CONFIG_LIBDIR="$work/installed/lib/pkgconfig:$work/pc" pkg-config --print-requires millrace | tr '\n' ' ')
[ "$requires" = "libcjson libxxhash " ] || fail "millrace.pc requires $requires"

# What a user meets.
millrace=$PWD/$build/millrace
source=$PWD
cd "$work"
lacks() { # LIBRARY COMMAND...
  library=$1
  shift
  if "$@" >said 2>&1 </dev/null; then fail "$* does not fail"; fi
  grep -q "this millrace was built without .*$library.*; install .* -DMILLRACE_WITH_" said ||
    fail "$* says: $(cat said)"
  [ "$(wc -l <said)" = 1 ] || fail "$* says more than one line: $(cat said)"
}
"$millrace" train --data synthetic --steps 2 --run-dir run batch=16 embed=32 mlp=32 heads=2 layers=1 >said 2>&1 ||
  fail "train: $(cat said)"
grep -q '^ledger ' said || fail "train has no ledger: $(cat said)"
"$millrace" top run --once | grep -q '^step 2/2' || fail "top --once does not see step 2"
lacks ncurses script -qec "$millrace top run" /dev/null
lacks libcurl "$millrace" top http://127.0.0.1:1/ --once
lacks libcurl "$millrace" data fetch
lacks libarchive "$millrace" data fetch
lacks libmicrohttpd "$millrace" train --web
lacks libmicrohttpd "$millrace" train --prometheus
lacks protobuf-c "$millrace" train --tensorboard
lacks protobuf-c "$millrace" mem step --pprof peak.pb
lacks ZeroMQ "$millrace" serve synthetic --bind tcp://127.0.0.1:5570
lacks ZeroMQ "$millrace" keys trainer
lacks ZeroMQ "$millrace" bench link
lacks ZeroMQ "$millrace" run "$source/examples/two-processes.mr"
steps="synthetic n=64 ! normalize layout=hwc ! batch 16 ! vit-step name=t embed=64 mlp=128 heads=2 layers=1 steps=1  t.metrics"
lacks libcurl "$millrace" run "$steps ! alert webhook=http://127.0.0.1:1/"
"$millrace" run "$steps ! alert plateau=5" >said 2>&1 || fail "alert without webhook: $(cat said)"
for stage in web prometheus tensorboard publish; do
  lacks . "$millrace" run "$steps ! $stage"
  "$millrace" inspect $stage | grep -q 'Not built in' || fail "inspect $stage does not say that it is not built in"
done
for command in data serve keys; do
  "$millrace" --help | grep -q "^  $command .*Not built in" || fail "--help does not say that $command is not built in"
done
# Words of other programs lead to commands and stages that are not built in, too.
if "$millrace" keygen >said 2>&1; then fail "keygen does not fail"; fi
grep -q 'millrace keys. does that' said || fail "keygen says: $(cat said)"
if "$millrace" run 'synthetic ! SummaryWriter' >said 2>&1; then fail "SummaryWriter does not fail"; fi
grep -q 'stage "tensorboard" does that' said || fail "SummaryWriter says: $(cat said)"
"$millrace" --version >said
for library in $every; do
  grep -q "^without .*$library" said || fail "--version does not say that $library is left out"
  "$millrace" doctor | grep -q "$library .*not built in" || fail "doctor does not say that $library is left out"
done
cd "$source"

ran=$(for test in $known; do echo "${test#tests/test_}"; done | sed 's/_/./' | tr '\n' '|' | sed 's/|$//')
ctest --test-dir $build --output-on-failure -j "$(nproc)" -R "^($(echo "$ran" | sed 's/\./\\./g'))\$"
