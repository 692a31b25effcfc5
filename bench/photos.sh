#!/usr/bin/env bash
# usage: bench/photos.sh PHOTOS [ROUNDS] [PEER...]
# JPEG photographs into training batches beside other loaders, in turn in one run: the train transform
# (decode, resized-crop 224, flip, normalize, f32 batches of 64) and the validation transform (resize
# 256, center-crop 224, normalize), two workers each.  PHOTOS holds train/CLASS/*.jpg and
# val/CLASS/*.jpg.  Peers write their containers into PHOTOS/peers first.  Prints medians and ratios; kept
# in bench/results/DATE-photos.txt (OUT names another file).
# PEERS: the folder that peers/setup.sh has filled with photos, tf and ffcv; without it each peer runs in
# python3.  PEER: names of peers/photos.py.  A peer that does not run is said and left out.  WINDOW:
# seconds of a measurement (default 3).  JOBS: "train val".  A round of a job with all peers takes about three
# minutes with WINDOW=3.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
photos=$(cd "${1:?usage: bench/photos.sh PHOTOS [ROUNDS] [PEER...]}" && pwd)
rounds=${2:-3}
shift
shift || true
[ $# -gt 0 ] || set -- dali_crop dali_full torch_tensor torch_pil litdata webdataset mds grain tfdata tfdata_noaa ffcv_same
export WINDOW=${WINDOW:-3} WORKERS=2
out=${OUT:-$root/bench/results/$(date -u +%F)-photos.txt}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

graph() { # JOB MODE
  case $1 in
    train) echo "folder \"$photos/train\" ! shuffle seed=12 epochs=0 ! decode mode=$2 ! resized-crop 224 ! flip ! normalize preset=imagenet ! batch 64 drop-remainder workers=$WORKERS name=b ! null" ;;
    val) echo "folder \"$photos/val\" ! sequential epochs=0 ! decode mode=$2 ! resize 256 ! center-crop 224 ! normalize preset=imagenet ! batch 64 drop-remainder workers=$WORKERS name=b ! null" ;;
  esac
}
python_of() { # PEER
  case $1 in
    ffcv*) echo "${PEERS:+$PEERS/ffcv/bin/}python3" ;;
    tfdata* | dali*) echo "${PEERS:+$PEERS/tf/bin/}python3" ;;
    *) echo "${PEERS:+$PEERS/photos/bin/}python3" ;;
  esac
}
ours() { # JOB MODE: as long as a peer's three windows
  "$root/build/release/millrace" bench loader --json --seconds $((WINDOW * 3)) --graph "$(graph "$1" "$2")" |
    sed -n 's/.*"images_per_s":\([0-9.]*\).*/\1/p' >>"$work/millrace-$2.$1"
}
theirs() { # JOB PEER
  [ ! -e "$work/$2.$1.refused" ] || return 0
  if ! timeout 300 "$(python_of "$2")" "$root/bench/peers/photos.py" "$2" "$photos" "$1" \
    >"$work/out" 2>"$work/err"; then
    { tail -n 1 "$work/err" | grep . || echo "it has no such job"; } >"$work/$2.$1.refused"
    return 0
  fi
  awk -v peer="$2.$1" '$1 == peer {print $2}' "$work/out" >>"$work/$2.$1"
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {printf "%.10g\n", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

for job in ${JOBS:-train val}; do
  for _ in $(seq "$rounds"); do
    ours "$job" exact
    ours "$job" fast
    for p in "$@"; do theirs "$job" "$p"; done
  done
done
{
  echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
  echo "# bench/photos.sh PHOTOS $rounds $*: medians of $rounds rounds in turn, windows of $WINDOW s"
  for job in ${JOBS:-train val}; do
    echo
    echo "## $job"
    exact=$(median "$work/millrace-exact.$job") fast=$(median "$work/millrace-fast.$job")
    printf '%-20s %8.0f images/s\n' "millrace" "$exact" "millrace mode=fast" "$fast"
    for p in "$@"; do
      if [ -s "$work/$p.$job" ]; then
        m=$(median "$work/$p.$job")
        printf '%-20s %8.0f images/s; millrace is %.2f times as fast, mode=fast %.2f times\n' "$p" "$m" \
          "$(awk "BEGIN {print $exact / $m}")" "$(awk "BEGIN {print $fast / $m}")"
      else
        echo "$p: left out: $(cat "$work/$p.$job.refused")"
      fi
    done
  done
} | tee "$out"
