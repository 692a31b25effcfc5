#!/bin/bash
# Training and inference over batch sizes and threads, as a table: bench/table.sh >bench/results/cpu-table.md
# BATCHES and THREADS choose; STEPS are measured after two that are not (one from 1024 on): a first
# step faults its memory in as it goes, which takes half as long again.  FIT: what a plan may take,
# 16GiB; a step that would take more goes through its batch in parts.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
batches=${BATCHES:-1 2 4 8 16 32 64 128 256 512 1024 2048 4096}
threads=${THREADS:-1 2}
figure() { sed -nE "s/.*\"$1\":([0-9.]+).*/\1/p" <<<"$2"; }

echo "Images a second (peak memory) of the recipe's model in bf16, by \`bench/table.sh\`, commit $(git -C "$root" rev-parse --short HEAD)."
echo
echo "| batch |$(for t in $threads; do printf ' train, %s threads | infer, %s threads |' "$t" "$t"; done)"
echo "| --- | $(for t in $threads; do printf -- '--- | --- |'; done)"
for b in $batches; do
  steps=${STEPS:-$((b < 256 ? 5 : 1))} warm=$((b < 1024 ? 2 : 1))
  row="| $b |"
  for t in $threads; do
    for what in step infer; do
      fit=()
      [ "$what" = infer ] || fit=(--fit "${FIT:-16GiB}")
      out=$("$root/build/release/millrace" bench "$what" --json --batch "$b" --threads "$t" --steps "$steps" --warm-up "$warm" "${fit[@]}")
      row="$row $(printf '%.1f (%.0f MB)' "$(figure images_per_s "$out")" "$(figure peak_rss_mb "$out")") |"
    done
  done
  echo "$row"
done
