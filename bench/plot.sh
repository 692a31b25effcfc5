#!/bin/sh
# Draws bench/results/history.jsonl into bench/results/history.svg: a panel a bench, millrace and its
# peers over time, a colour a machine.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$root/bench/history.py" plot "$root/bench/results/history.jsonl" "$root/bench/results/history.svg"
