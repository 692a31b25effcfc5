"""Reads the event files of a resumed run with the tensorboard package and compares them with
metrics.jsonl.  usage: check-tensorboard.py RUN_DIR"""

import json
import math
import os
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

run = sys.argv[1]
events = event_accumulator.EventAccumulator(
    os.path.join(run, "tensorboard"),
    size_guidance={k: 0 for k in ("scalars", "histograms", "images", "tensors")},
)
events.Reload()
tags = events.Tags()
records = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]

for name in ("loss", "accuracy", "lr", "grad_norm", "param_norm", "loss_scale"):
    series = events.Scalars("train/" + name)
    told = {r["step"]: r[name] for r in records if r["kind"] == "step"}
    steps = [p.step for p in series]
    if steps != sorted(set(steps)) or set(steps) != set(told):
        sys.exit(f"train/{name}: steps {steps}, metrics.jsonl has {sorted(told)}")
    for p in series:
        if not math.isclose(p.value, told[p.step], rel_tol=1e-6, abs_tol=1e-30):
            sys.exit(f"train/{name} at {p.step}: {p.value}, metrics.jsonl says {told[p.step]}")

for tag, about in (("train/step_s", "Time of the newest step. Unit: s."), ("test/loss", "Mean loss")):
    if not events.SummaryMetadata(tag).summary_description.startswith(about):
        sys.exit(f"{tag} is described as {events.SummaryMetadata(tag).summary_description!r}")
histograms = tags["histograms"]
weights = [t for t in histograms if t.startswith("weights/")]
gradients = [t for t in histograms if t.startswith("gradients/")]
if not weights or len(weights) != len(gradients):
    sys.exit(f"{len(weights)} histograms of weights, {len(gradients)} of gradients")
for tag in histograms:
    h = events.Histograms(tag)[0].histogram_value
    if sum(h.bucket) != h.num or not h.min <= h.max:
        sys.exit(f"{tag}: {h}")
# The global norm of the gradients says whether their histograms are of the right thing.
first = min(p.step for p in events.Histograms(gradients[0]))
squares = sum(
    next(p for p in events.Histograms(t) if p.step == first).histogram_value.sum_squares
    for t in gradients
)
norm = next(r["grad_norm"] for r in records if r["kind"] == "step" and r["step"] == first)
if not math.isclose(math.sqrt(squares), norm, rel_tol=1e-3):
    sys.exit(f"gradients at step {first}: norm {math.sqrt(squares)}, metrics say {norm}")

images = tags["images"]
if {t for t in images if t.startswith("wrong/")} != {"wrong/test"}:
    sys.exit(f"not one tag for the mistakes of each evaluation: {images}")
for picture in events.Images("wrong/test"):  # 10 x 10 cells of two pictures, with gaps
    if (picture.width, picture.height) != (10 * 66, 10 * 34):
        sys.exit(f"wrong/test: {picture.width} x {picture.height}")
about = events.SummaryMetadata("wrong/test").summary_description
if "disc, ring" not in about:  # of the made-up data
    sys.exit(f"wrong/test: {about!r} does not name the classes")
for start in ("samples/", "wrong/", "confusion/test"):
    found = [t for t in images if t.startswith(start)]
    if not found:
        sys.exit(f"no picture under {start}: {images}")
    picture = events.Images(found[0])[0]
    if picture.encoded_image_string[:8] != b"\x89PNG\r\n\x1a\n" or picture.width < 8:
        sys.exit(f"{found[0]}: not a PNG")

content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
if start.hparams["train.layers"].number_value != 1 or not start.hparams["train.lr"].number_value:
    sys.exit(f"hyper-parameters: {start}")
print(
    f"tensorboard: {len(tags['scalars'])} series, {len(histograms)} histograms, "
    f"{len(images)} pictures, {len(start.hparams)} hyper-parameters"
)
