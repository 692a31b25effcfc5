"""Compares batches of millrace with what torchvision makes of the same files: check-pictures.sh runs it."""
import json, os, re, subprocess, sys

import numpy as np
from PIL import Image
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.transforms import functional as F

program, golden, work = sys.argv[1:4]
BATCH, ENDS = 32, {"jpeg": ".jpg", "png": ".png", "webp": ".webp"}


def make_folder(top):
    """the committed pictures of each kind, each in three classes"""
    data = open(os.path.join(golden, "pictures.bin"), "rb").read()
    for row in open(os.path.join(golden, "pictures.txt")):
        if row[0] == "#":
            continue
        name, at, n = row.split()[:3]
        for c in "abc":
            os.makedirs(os.path.join(top, c), exist_ok=True)
            with open(os.path.join(top, c, name + ENDS[name.split("-")[0]]), "wb") as f:
                f.write(data[int(at):int(at) + int(n)])


def millrace(*words):
    p = subprocess.run([program, *words], capture_output=True, text=True, cwd=work)
    if p.returncode:
        sys.exit("check-pictures: %s: %s" % (" ".join(words), p.stderr))
    return p.stdout


def batch(graph, step):
    millrace("batch", graph + " ! batch %d ! null" % BATCH, "--step", str(step), "--out", os.path.join(work, "b.npz"))
    b = np.load(os.path.join(work, "b.npz"))
    return b["image"], b["label"]


def same(what, path, got, want):
    want = np.asarray(want)
    if got.shape != want.shape or (got != want).any():
        sys.exit("check-pictures: %s: %s differs in %d bytes" % (what, path, (got != want).sum() if got.shape == want.shape else -1))


top = sys.argv[4] if len(sys.argv) > 4 else os.path.join(work, "pictures")
if len(sys.argv) <= 4:
    make_folder(top)
data = ImageFolder(top)
steps = range(1, min(len(data) // BATCH, 8) + 1)
source = "folder %s" % top
checked = 0
for filters in ("bilinear", "bicubic"):
    how = getattr(T.InterpolationMode, filters.upper())
    for n, m in ((256, 224), (48, 64), (33, 33)):
        val = T.Compose([T.Resize(n, interpolation=how), T.CenterCrop(m)])
        for step in steps:
            got, labels = batch("%s ! decode ! resize %d filter=%s ! center-crop %d" % (source, n, filters, m), step)
            for k, (path, label) in enumerate(data.samples[(step - 1) * BATCH:step * BATCH]):
                same("resize %d, center-crop %d, %s" % (n, m, filters), path, got[k], val(Image.open(path).convert("RGB")))
                assert labels[k] == label, path
                checked += 1

# Random boxes: `who` says which, and torchvision crops and resizes them.
graph = source + " ! shuffle seed=5 epochs=1 ! decode ! resized-crop 96 ! flip"
for step in steps:
    got, labels = batch(graph, step)
    rows = millrace("who", graph + " ! batch %d ! null" % BATCH, "--step", str(step), "--json").splitlines()
    for k, row in enumerate(map(json.loads, rows)):
        i0, i1, j0, j1 = map(int, re.search(r"rows (\d+)-(\d+), columns (\d+)-(\d+)", json.dumps(row)).groups())
        path, label = data.samples[row["id"]]
        want = F.resized_crop(Image.open(path).convert("RGB"), i0, j0, i1 - i0 + 1, j1 - j0 + 1, [96, 96])
        if "not mirrored" not in json.dumps(row):
            want = F.hflip(want)
        same("resized-crop", path, got[k], want)
        assert labels[k] == label, path
        checked += 1
print("check-pictures: %d pictures of %d files as torchvision and Pillow %s make them" % (checked, len(data), Image.__version__))
