"""Reads what a short training run wrote with the readers other people use:
the safetensors package and Python's json.  usage: check-readers.py RUN_DIR"""

import glob
import json
import math
import os
import sys

import numpy
from safetensors import safe_open

run = sys.argv[1]
latest = os.path.join(run, "checkpoints", "latest")
with safe_open(latest, framework="np") as f:
    names = list(f.keys())
    meta = f.metadata()
    values = 0
    for name in names:
        tensor = f.get_tensor(name)
        values += tensor.size
        if tensor.dtype.kind == "f" and not numpy.isfinite(tensor).all():
            sys.exit(f"{latest}: {name} is not finite")
if not names or "millrace.xxh3" not in meta:
    sys.exit(f"{latest}: no tensors or no digest")

steps = 0
with open(os.path.join(run, "metrics.jsonl")) as f:
    for line in f:
        record = json.loads(line)
        if len(record["ledger"]) != 16 or int(record["ledger"], 16) < 0:
            sys.exit(f"bad ledger: {line}")
        if record["data"] not in ("synthetic", "cifar10"):
            sys.exit(f"data not said: {line}")
        if record["kind"] == "step":
            steps += 1
            if record["step"] != steps or not math.isfinite(record["loss"]):
                sys.exit(f"bad step: {line}")
if not steps:
    sys.exit("no step in metrics.jsonl")
print(f"readers: {len(names)} tensors with {values} values, {steps} steps of metrics")
