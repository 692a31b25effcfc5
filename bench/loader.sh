#!/usr/bin/env bash
# usage: bench/loader.sh DATA [ROUNDS] [PEER...] > bench/results/DATE-loader.txt
# The recipe's train transform beside other loaders, in turn in one run: flip, resized crop,
# normalize over 50,000 CIFAR records into f32 batches of 128 on this machine.  DATA is CIFAR-10's
# folder.  PEERs are names of peers/loaders.py (its head says what to install); PYTHON names the
# Python that has them, PYTHON_FFCV, PYTHON_TFDATA, PYTHON_DALI, PYTHON_GRAIN, PYTHON_TORCH others
# where one is not enough.  A peer that does not run is said and left out.  WINDOW: seconds of a
# measurement (default 2).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
data=$(cd "${1:?usage: bench/loader.sh DATA [ROUNDS] [PEER...]}" && pwd)
rounds=${2:-3}
shift
shift || true
[ $# -gt 0 ] || set -- ffcv_w2 tfdata_vec dali_t2 torch_v2_w2 grain_np_w2 np_copy
export WINDOW=${WINDOW:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python_of() { # PEER
  case $1 in
    ffcv*) echo "${PYTHON_FFCV:-${PYTHON:-python3}}" ;;
    tfdata*) echo "${PYTHON_TFDATA:-${PYTHON:-python3}}" ;;
    dali*) echo "${PYTHON_DALI:-${PYTHON:-python3}}" ;;
    grain*) echo "${PYTHON_GRAIN:-${PYTHON:-python3}}" ;;
    *) echo "${PYTHON_TORCH:-${PYTHON:-python3}}" ;;
  esac
}
ours() { # NAME WORKERS
  "$root/build/release/millrace" bench loader --json --data "$data" --workers "$2" \
    --seconds $((WINDOW * 2)) | sed -n 's/.*"images_per_s":\([0-9]*\).*/\1/p' >>"$work/$1"
}
theirs() { # PEER
  [ ! -e "$work/$1.refused" ] || return 0
  if ! timeout 120 "$(python_of "$1")" "$root/bench/peers/loaders.py" "$1" "$data" \
    >"$work/out" 2>"$work/err"; then
    tail -n 1 "$work/err" >"$work/$1.refused"
    return 0
  fi
  awk -v peer="$1" '$1 == peer {print $2}' "$work/out" >>"$work/$1"
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $rounds rounds in turn"
for _ in $(seq "$rounds"); do
  ours "millrace" "$(nproc)"
  ours "millrace-1-worker" 1
  for p in "$@"; do theirs "$p"; done
done
best=$(median "$work/millrace")
printf '%-20s %10s images/s\n' millrace "$best" millrace-1-worker "$(median "$work/millrace-1-worker")"
for p in "$@"; do
  if [ -s "$work/$p" ]; then
    m=$(median "$work/$p")
    printf '%-20s %10s images/s; millrace is %s times as fast\n' "$p" "$m" "$(awk "BEGIN {printf \"%.1f\", $best / $m}")"
  else
    echo "$p: left out: $(cat "$work/$p.refused" 2>/dev/null || echo 'no figure')"
  fi
done
