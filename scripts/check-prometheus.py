"""Compares what a real Prometheus has scraped from a run with the run, and runs every query of the
dashboard against it.  usage: check-prometheus.py PROMETHEUS_URL DASHBOARD METRICS_JSONL"""

import json
import sys
import time
import urllib.parse
import urllib.request

url, dashboard, metrics = sys.argv[1:]


def query(text):
    where = f"{url}/api/v1/query?query={urllib.parse.quote(text)}"
    with urllib.request.urlopen(where, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


for _ in range(240):
    try:
        if query("count_over_time(millrace_step[30s]) >= 4"):
            break
    except OSError:
        pass
    time.sleep(0.5)
else:
    sys.exit("Prometheus has not scraped the run four times within 30 s, for two minutes")


def told():
    """The losses of metrics.jsonl, whose last line may be on its way."""
    for line in open(metrics):
        if line.endswith("\n"):
            record = json.loads(line)
            if record["kind"] == "step":
                yield record["loss"]


samples = query("millrace_step")
loss = float(query('millrace_loss{split="train"}')[0]["value"][1])
for _ in range(240):  # a face may be ahead of the file for a moment
    if any(abs(v - loss) <= 1e-6 * abs(v) for v in told()):
        break
    time.sleep(0.5)
else:
    sys.exit(f"the scraped loss {loss} is that of no step")

# A GPU; a link (scripts/check-faces.py has a run with some).
ONLY_SOME_HAVE = {"millrace_gpu_": "millrace_gpu_busy_ratio", "millrace_link_": "millrace_link_released_buffers"}
count = 0
for panel in json.load(open(dashboard))["panels"]:
    for target in panel.get("targets", []):
        text = target["expr"].replace("$__rate_interval", "30s")
        data = query(text)  # one that Prometheus cannot read is an error of its own
        if not data and not any(name in text and not query(there) for name, there in ONLY_SOME_HAVE.items()):
            sys.exit(f"panel {panel['title']}: no data for {text}")
        count += 1
print(f"prometheus: step {samples[0]['value'][1]}, loss {loss}, {count} queries of the dashboard")
