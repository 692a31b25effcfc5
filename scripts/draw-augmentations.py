#!/usr/bin/env python3
"""Draws docs/augmentations.png: one picture after each augmentation, several draws of it, by millrace's own stages.

usage: draw-augmentations.py MILLRACE OUT.png     (NumPy and Pillow)
"""
import os, subprocess, sys, tempfile

import numpy as np
from PIL import Image, ImageDraw

millrace, out = os.path.abspath(sys.argv[1]), sys.argv[2]
SIDE, DRAWS, LABEL = 80, 6, 190
STAGES = (
    "identity",
    "flip",
    "resized-crop 80 scale=0.2:1",
    "pad-crop 80 padding=16 fill=128",
    "color-jitter brightness=0.5 contrast=0.5",
    "color-jitter saturation=0.9 hue=0.3",
    "grayscale 0.5",
    "gaussian-blur 9 sigma=0.5:4",
    "random-erasing 1 value=128",
    "rand-augment fill=128",
    "auto-augment imagenet fill=128",
    "trivial-augment fill=128",
    "mixup 1",
    "cutmix 1",
)


def scene(turn):
    """a sun over hills, and the same at another hour"""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    sky = np.stack([0.35 + 0.6 * y, 0.6 + 0.25 * y, 0.95 - 0.2 * y], -1) if not turn else np.stack([0.2 + 0.9 * y, 0.15 + 0.3 * y, 0.4 + 0.1 * y], -1)
    sun = np.hypot(x - (0.7, 0.3)[turn], y - (0.25, 0.4)[turn]) < 0.12
    sky[sun] = (1.0, 0.9, 0.4)
    for base, size, shade in ((0.6, 0.08, (0.35, 0.55, 0.35)), (0.75, 0.06, (0.2, 0.45, 0.2))):
        hill = y > base + size * np.sin(x * (7 + 4 * turn) + base * 9)
        sky[hill] = np.array(shade) * (0.8 + 0.4 * np.sin(x * 60 + y * 25)[hill, None] ** 2)
    house = (abs(x - 0.3) < 0.1) & (abs(y - 0.72) < 0.08)
    sky[house] = (0.8, 0.3, 0.25)
    sky[(abs(x - 0.3) < 0.025) & (abs(y - 0.745) < 0.055)] = (0.95, 0.9, 0.8)
    return (np.clip(sky, 0, 1) * 255).astype(np.uint8)


with tempfile.TemporaryDirectory() as work:
    np.save(os.path.join(work, "x.npy"), np.stack([scene(k % 2) for k in range(DRAWS)]))
    np.save(os.path.join(work, "one.npy"), np.stack([scene(0)] * DRAWS))
    np.save(os.path.join(work, "y.npy"), np.zeros(DRAWS, np.int32))
    sheet = Image.new("RGB", (LABEL + DRAWS * (SIDE + 4), len(STAGES) * (SIDE + 4)), "white")
    pen = ImageDraw.Draw(sheet)
    for row, stage in enumerate(STAGES):
        mixes = stage.startswith(("mixup", "cutmix"))
        graph = "npy %s labels=y.npy ! sequential seed=4 ! " % ("x.npy" if mixes else "one.npy")
        if mixes:
            graph += "normalize ! batch %d ! %s seed=%d ! null" % (DRAWS, stage, 4)
        else:
            graph += ("" if stage == "identity" else stage + " ! ") + "batch %d ! null" % DRAWS
        subprocess.run([millrace, "batch", graph, "--step", "1", "--out", "b.npz"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        image = np.load(os.path.join(work, "b.npz"))["image"]
        if mixes:
            image = (image * 255 + 0.5).clip(0, 255).astype(np.uint8)
        words = stage.split(" ")
        pen.text((6, row * (SIDE + 4) + 26), "%s\n%s" % (words[0], " ".join(words[1:])), fill="black", font_size=13)
        for k in range(DRAWS):
            sheet.paste(Image.fromarray(image[k]), (LABEL + k * (SIDE + 4), row * (SIDE + 4)))
    sheet.save(out, optimize=True)
