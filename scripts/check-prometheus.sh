#!/usr/bin/env bash
# Lets a real Prometheus scrape a run; promtool reads the page, and the dashboard's queries are run.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
pids=
cleanup() {
  for p in $pids; do kill "$p" 2>/dev/null || true; done
  for p in $pids; do wait "$p" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

: >"$work/train.log" # there to be read before the run is
"$root/build/release/millrace" train --run-dir "$work/run" --prometheus train.layers=1 train.embed=64 \
  train.heads=2 train.mlp=64 batch=16 epochs=1000 prometheus.port=0 train.checkpoint-every=0 \
  >"$work/train.log" 2>&1 &
pids=$!
page=
for _ in $(seq 600); do
  page=$(sed -n 's/^prometheus: //p' "$work/train.log")
  [ -n "$page" ] && break
  sleep 0.1
done
[ -n "$page" ] || { cat "$work/train.log"; exit 1; }
for _ in $(seq 600); do # until it tells of steps
  curl -sSf "$page" | grep -q '^millrace_loss' && break
  sleep 0.1
done

curl -sSf "$page" >"$work/classic.txt"
promtool check metrics <"$work/classic.txt"
curl -sSf -H 'Accept: application/openmetrics-text' "$page" | tail -n 1 | grep -qx '# EOF'

host=${page#http://}
cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: millrace
    static_configs: [{targets: ['${host%%/*}']}]
YML
promtool check config "$work/prometheus.yml" >/dev/null
exec 9< <(python3 "$root/scripts/ports.py" 1)
read -r port <&9
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
  --web.listen-address="127.0.0.1:$port" >"$work/prometheus.log" 2>&1 &
pids="$pids $!"
python3 "$root/scripts/check-prometheus.py" "http://127.0.0.1:$port" \
  "$root/docs/grafana-dashboard.json" "$work/run/metrics.jsonl"
