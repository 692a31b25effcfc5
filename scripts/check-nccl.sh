#!/usr/bin/env bash
# usage: scripts/check-nccl.sh
# Opens the real NCCL, of PyPI's package, for what it does without a GPU: all calls are there, the version is the
# package's, unique ids differ; and a file that is no library is refused with the loader's reason.  Needs
# build/release/tests/test_ranks_nccl_device, or the program that $PROGRAM names, and Python with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/${PROGRAM:-build/release/tests/test_ranks_nccl_device}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "nccl: $*" >&2; exit 1; }

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q nvidia-nccl-cu12
package=$("$dir/venv/bin/python" -c 'import importlib.metadata as m; print(m.version("nvidia-nccl-cu12"))')
folder=$(echo "$dir"/venv/lib/python3*/site-packages/nvidia/nccl/lib)
said=$(MILLRACE_CUDA_LIBRARIES=$folder "$program" library) || fail "the package's library is not taken"
IFS=. read -r major minor patch _ <<<"$package"
[ "${said%% *}" = $((major * 10000 + minor * 100 + patch)) ] || fail "version ${said%% *} of the package $package"
[ "${said#* }" = "$folder/libnccl.so.2" ] || fail "opened ${said#* }, want $folder/libnccl.so.2"

mkdir "$dir/damaged"
echo "no library" >"$dir/damaged/libnccl.so.2"
if said=$(MILLRACE_CUDA_LIBRARIES=$dir/damaged "$program" library 2>&1); then
  [ "${said#* }" != "$dir/damaged/libnccl.so.2" ] || fail "a file of text is taken for a library"
else
  [[ $said == *"NCCL cannot be loaded ($dir/damaged/libnccl.so.2"* ]] || fail "said: $said"
fi
echo "nccl: $package without a GPU"
