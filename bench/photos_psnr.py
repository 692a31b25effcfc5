#!/usr/bin/env python3
"""How far decode mode=fast is from the exact pictures.

usage: photos_psnr.py MILLRACE PHOTOS [STEPS]
PHOTOS holds train/CLASS/*.jpg and val/CLASS/*.jpg.  Compares STEPS batches of 64 (default 16), spread over an epoch, of the train and of the
validation transform, and prints the PSNR in dB of all bytes together, the median and the least of single pictures, and the largest difference.
Needs numpy."""
import os, subprocess, sys, tempfile
import numpy as np

program, photos = sys.argv[1:3]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 16
JOBS = {"train": 'folder "%s/train" ! shuffle seed=12 ! decode mode=%s ! resized-crop 224 ! batch 64 ! null',
        "val": 'folder "%s/val" ! decode mode=%s ! resize 256 ! center-crop 224 ! batch 64 ! null'}


def batch(graph, step, out):
    subprocess.run([program, "batch", graph, "--step", str(step), "--out", out], check=True, stdout=subprocess.DEVNULL)
    return np.load(out)["image"].astype(np.int32)


def psnr(square):
    return 10 * np.log10(255 ** 2 / np.maximum(square, 1e-9))


with tempfile.TemporaryDirectory() as work:
    out = os.path.join(work, "b.npz")
    for job, graph in JOBS.items():
        files = sum(len(f) for _, _, f in os.walk(os.path.join(photos, job)))
        each, most = [], 0
        for k in range(min(steps, files // 64)):
            step = 1 + k * (files // 64) // min(steps, files // 64)
            d = batch(graph % (photos, "exact"), step, out) - batch(graph % (photos, "fast"), step, out)
            each += list((d.astype(np.float64) ** 2).mean(axis=(1, 2, 3)))
            most = max(most, int(abs(d).max()))
        one = psnr(np.array(each))
        print(f"{job}: {len(each)} pictures, PSNR {psnr(np.mean(each)):.1f} dB; of single ones median {np.median(one):.1f}, "
              f"least {one.min():.1f}; largest difference {most}")
