#!/bin/sh
# Draws bench/results/history.jsonl into bench/results/history.svg: a panel a bench and machine,
# millrace and its peers run by run.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$root/bench/history.py" plot "$root/bench/results/history.jsonl" "$root/bench/results/history.svg"
