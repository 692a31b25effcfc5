#!/usr/bin/env bash
# usage: PYTHON=python bench/infer_autocast.sh [ROUNDS [BATCH...]]
# Inference of the recipe's Vision Transformer in f16, bf16 and f32 beside torch.autocast on this CPU, in turns: in each of
# ROUNDS (3) both run every dtype and BATCH (1 32 128) once, RUNS (20) times after a warm-up; medians over the rounds, and how
# many times as fast ours is.  PYTHON names a Python with torch (bench/peers/setup.sh DIR torch).  THREADS=N for both, LAYERS=N.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-3}
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- 1 32 128
python=${PYTHON:-python3}
millrace=${MILLRACE:-$root/build/release/millrace}
runs=${RUNS:-20} layers=${LAYERS:-6} threads=${THREADS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -n "$1" | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

torch=$("$python" -c 'import torch; print(torch.__version__)')
echo "# $(date -u +%F) commit $(git -C "$root" rev-parse --short HEAD), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)," \
  "$threads threads, PyTorch $torch, $rounds rounds of $runs runs, $layers layers; load $(cut -d' ' -f1 /proc/loadavg) at the start"
echo "# of avx512_bf16 avx512_fp16 amx_bf16 the processor has: $(grep -owE 'avx512_bf16|avx512_fp16|amx_bf16' /proc/cpuinfo | sort -u | tr '\n' ' ')"
"$millrace" doctor | sed -n 's/^  kernels  */# kernels: /p'
for ((i = 0; i < rounds; i++)); do
  for batch in "$@"; do
    for dtype in f32 bf16 f16; do
      "$millrace" bench infer --json --steps "$runs" --warm-up 3 --batch "$batch" --dtype "$dtype" --layers "$layers" \
        --threads "$threads" | sed -nE 's/.*"step_s":([0-9.e-]+),"images_per_s".*/\1/p' >>"$work/ours-$dtype-$batch"
      [ ! -e "$work/refused-$dtype" ] || continue
      timeout 600 "$python" "$root/bench/peers/vit_autocast.py" "$dtype" "$batch" --runs "$runs" --layers "$layers" --threads "$threads" \
        >>"$work/torch-$dtype-$batch" 2>"$work/err" || tail -n 1 "$work/err" >"$work/refused-$dtype"
    done
  done
done
printf '%-6s %6s %12s %12s %7s\n' dtype batch 'millrace s' 'autocast s' ratio
for dtype in f32 bf16 f16; do
  for batch in "$@"; do
    a=$(median "$work/ours-$dtype-$batch")
    if [ -e "$work/refused-$dtype" ]; then
      printf '%-6s %6d %12.4f %s\n' "$dtype" "$batch" "$a" "  refused: $(cat "$work/refused-$dtype")"
      continue
    fi
    b=$(median "$work/torch-$dtype-$batch")
    printf '%-6s %6d %12.4f %12.4f %7.2f\n' "$dtype" "$batch" "$a" "$b" "$(awk "BEGIN {print $b / $a}")"
  done
done
