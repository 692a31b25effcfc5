#!/bin/sh
# The code that asks a GPU, against NVIDIA's own header and library as Debian ships them (non-free):
# they are unpacked beside the tree, for this check alone.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
millrace=$root/build/release/millrace
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "nvml: $*"
  exit 1
}

get() { # the packages of a section that this machine's own sources need not name, from their mirror
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs:|deb) +(\[[^]]*\] +)?([a-z]+:[^ ]*\/debian)\/?( .*)?$/\3/p' | head -n 1)
  mkdir -p lists/partial cache/archives/partial
  echo "deb ${mirror:-http://deb.debian.org/debian} bookworm non-free" >sources
  set -- "-oDir::Etc::sourcelist=$work/sources" -oDir::Etc::sourceparts=/dev/null \
    "-oDir::State::lists=$work/lists" "-oDir::Cache=$work/cache" -oAPT::Sandbox::User=root
  apt-get "$@" -qq update && apt-get "$@" -qq download libnvidia-ml1 libnvidia-ml-dev || return 1
  for package in *.deb; do dpkg -x "$package" unpacked; done
}

if ! get; then # a mirror need not carry what is not free
  echo "nvml: left out, NVIDIA's packages are not to be had here"
  exit 0
fi
header=$work/unpacked/usr/include
real=$(dirname "$(find "$work/unpacked" -name libnvidia-ml.so.1)")

cc="${CC:-cc} -std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -isystem $header -I $root"
# One word a flag is meant here.
# shellcheck disable=SC2086
$cc "$root/tests/nvml/layout.c" -L"$real" -l:libnvidia-ml.so.1 -ldl -o layout
mkdir stand-in
# shellcheck disable=SC2086
$cc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 "$root/tests/nvml/stand_in.c" -o stand-in/libnvidia-ml.so.1

metrics() { # FOLDER_OF_A_LIBRARY: what a short run writes with it
  rm -rf run
  LD_LIBRARY_PATH=$1 "$millrace" train --steps 2 --run-dir run batch=16 train.layers=1 train.embed=32 \
    train.heads=2 train.mlp=32 telemetry.every=0 >train.log 2>&1 || fail "$(cat train.log)"
  cat run/metrics.jsonl
}

said=$(LD_LIBRARY_PATH=$real ./layout) || fail "the library itself ends the program"
case $said in
  none*) metrics "$real" | grep -q gpu_ && fail "numbers of a GPU that is not there" ;;
  gpu*) metrics "$real" | grep -q gpu_busy || fail "this machine's GPU is not told: $said" ;;
  *) fail "$said" ;;
esac

want='gpu 0.87 2.1e+10 8e+10 312.5 61'
got=$(LD_LIBRARY_PATH=$work/stand-in ./layout)
[ "$got" = "$want" ] || fail "of a known device: $got, want $want"
metrics "$work/stand-in" | grep -q \
  '"gpu_busy":0.87,"gpu_memory_bytes":21000000000,"gpu_watts":312.5,"gpu_celsius":61' ||
  fail "a known device in metrics.jsonl: $(head -n 1 run/metrics.jsonl)"

# The page of a run with that device has what the dashboard asks for.
mkdir page
LD_LIBRARY_PATH=$work/stand-in "$millrace" train --prometheus --run-dir page/run batch=16 epochs=1000 train.layers=1 \
  train.embed=32 train.heads=2 train.mlp=32 telemetry.every=0 prometheus.port=0 >page/log 2>&1 &
run=$!
trap 'kill -9 $run 2>/dev/null || true; wait $run 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 600); do
  curl -sSf "$(sed -n 's/^prometheus: //p' page/log | head -n 1)" >page/text 2>/dev/null && grep -q '^millrace_gpu' page/text && break
  sleep 0.1
done
kill "$run"
grep -o 'millrace_gpu_[a-z_]*' "$root/docs/grafana-dashboard.json" | sort -u >page/asked
while read -r series; do
  grep -q "^$series " page/text || fail "the dashboard asks for $series, /metrics has: $(grep ^millrace_gpu page/text)"
done <page/asked

echo "nvml: header $(sed -n 's/^#define NVML_API_VERSION_STR *//p' "$header/nvml.h"), library $(basename \
  "$(find "$real" -name 'libnvidia-ml.so.*.*')"): $said"
