#!/usr/bin/env bash
# usage: scripts/fuzz.sh [SECONDS] [TARGET...]
# Runs the libFuzzer targets (all of tests/fuzz, or those named: cifar for fuzz_cifar) for SECONDS each (default 600), as
# many at a time as there are processors, over tests/fuzz/corpus and what earlier calls have found in build/fuzz-corpus.
# A crash leaves its input in build/fuzz-found and fails.  Needs clang.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
shift || true
if [ $# = 0 ]; then
  for file in tests/fuzz/fuzz_*.c; do
    file=${file##*/fuzz_}
    set -- "$@" "${file%.c}"
  done
fi
cmake --preset fuzz >build/fuzz-cmake.log 2>&1 || { cat build/fuzz-cmake.log; exit 1; }
cmake --build build/fuzz --target "${@/#/fuzz_}" -- --quiet
mkdir -p build/fuzz-found
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)") # the inputs as files
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export UBSAN_OPTIONS=print_stacktrace=1
# Leaks are looked for where a round ends, not per input: the libraries keep some memory on purpose.
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan.supp:print_suppressions=0
run() { # TARGET
  mkdir -p "build/fuzz-corpus/$1"
  log=build/fuzz-found/$1.log
  if build/fuzz/tests/fuzz/fuzz_"$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
    -max_len=4096 -artifact_prefix="build/fuzz-found/$1-" -print_final_stats=1 \
    "build/fuzz-corpus/$1" "tests/fuzz/corpus/$1" >"$log" 2>&1; then
    echo "fuzz_$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    tail -n 40 "$log"
    echo "fuzz_$1: FAILED, see $log and build/fuzz-found/$1-*"
    return 1
  fi
}
export seconds
export -f run
# A target uses one processor; xargs fails if one of them did.
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'run {}'
