#!/usr/bin/env python3
"""Microseconds of processor time a picture for each augmentation, on one thread: millrace's stage, torchvision v2 on PIL pictures and on
u8 tensors, in turns, each on the same 224 x 224 pictures; medians.  A stage's time is that of a stream with it minus that
of the stream without it.

usage: augment.py MILLRACE [ROUNDS]     (a Python with torchvision and Pillow; about a minute)
"""
import os, resource, statistics, subprocess, sys, tempfile, time

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

millrace, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
SIDE, N, EPOCHS = 224, 128, 6
STAGES = (
    ("color-jitter brightness=0.4 contrast=0.4 saturation=0.4", v2.ColorJitter(0.4, 0.4, 0.4)),
    ("color-jitter hue=0.1", v2.ColorJitter(hue=0.1)),
    ("grayscale", v2.Grayscale(3)),
    ("pad-crop 224 padding=16", v2.RandomCrop(224, padding=16)),
    ("gaussian-blur 9 sigma=0.1:2", v2.GaussianBlur(9, (0.1, 2.0))),
    ("random-erasing 1", v2.RandomErasing(1)),
    ("rand-augment", v2.RandAugment()),
    ("rand-augment filter=bilinear", v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR)),
    ("auto-augment", v2.AutoAugment()),
    ("trivial-augment", v2.TrivialAugmentWide()),
)

torch.set_num_threads(1)
rng = np.random.default_rng(3)
y, x = np.mgrid[0:SIDE, 0:SIDE]
waves = np.stack([np.sin(x / (9 + k)) * 60 + np.cos(y / (11 - k)) * 50 + 128 for k in range(3)], -1)
pictures = np.clip(waves + rng.normal(0, 20, (N, SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
pil = [Image.fromarray(p) for p in pictures]
tensors = [torch.from_numpy(p).permute(2, 0, 1).contiguous() for p in pictures]


def stream(work, stage):
    """microseconds of processor time a picture of the stream with the stage"""
    graph = "npy %s/x.npy labels=%s/y.npy ! shuffle seed=1 epochs=%d ! %s batch 32 workers=1 ! null" % (work, work, EPOCHS, stage)
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([millrace, "run", graph], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) / (N * EPOCHS) * 1e6


def peer(transform, inputs):
    if isinstance(transform, v2.RandomErasing) and inputs is pil:
        return float("nan")  # it takes tensors alone
    for im in inputs[:4]:
        transform(im)
    began = time.process_time()
    for im in inputs:
        transform(im)
    return (time.process_time() - began) / len(inputs) * 1e6


with tempfile.TemporaryDirectory() as work:
    np.save(os.path.join(work, "x.npy"), pictures)
    np.save(os.path.join(work, "y.npy"), np.zeros(N, np.int32))
    print("us a picture: torchvision %s, Pillow %s, medians of %d rounds" % (__import__("torchvision").__version__, Image.__version__, rounds))
    print("%-58s %8s %8s %8s %6s %6s" % ("stage", "millrace", "PIL", "tensor", "/PIL", "/tensor"))
    for stage, transform in STAGES:
        took = [(stream(work, stage + " !") - stream(work, ""), peer(transform, pil), peer(transform, tensors)) for _ in range(rounds)]
        own, of_pil, of_tensor = (statistics.median(c) for c in zip(*took))
        print("%-58s %8.1f %8.1f %8.1f %6.2f %6.2f" % (stage, own, of_pil, of_tensor, of_pil / own, of_tensor / own), flush=True)
