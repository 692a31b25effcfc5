#!/bin/sh
# Appends measured results to bench/results/history.jsonl (or RECORD=FILE), one line each, with date,
# commit and machine:
#   millrace bench step loader --json | bench/record.sh [PEERS.json]
# PEERS.json: {"step": {"step_s": {"PyTorch eager bf16": 2.97}}}: peers' figures for a bench's
# figure, measured in the same run; their ratio is computed here (how many times millrace is as
# fast).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$root" rev-parse --short HEAD)
[ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] || commit="$commit+"
exec python3 "$root/bench/history.py" add "${RECORD:-$root/bench/results/history.jsonl}" "$commit" ${1+"$1"}
