#!/usr/bin/env python3
"""Writes resample.txt: CRC-32 of what Pillow's Image.resize makes of pictures that a formula gives.

usage: resample.py OUT     (Pillow 13 and NumPy; the committed file is of Pillow 13.0.0)

Byte c of pixel (y, x) is ((y * 7919 + x * 104729 + c * 31337 + 12345) * 2654435761 mod 2^32) >> 24.
"""
import os, random, sys, zlib

import numpy as np
from PIL import Image

FILTERS = ("bilinear", "bicubic", "lanczos", "hamming", "box", "nearest")
r = random.Random(5)


def source(h, w, c):
    y, x, k = np.ogrid[0:h, 0:w, 0:c]
    v = (y.astype(np.uint64) * 7919 + x.astype(np.uint64) * 104729 + k.astype(np.uint64) * 31337 + 12345) * 2654435761
    a = ((v & 0xFFFFFFFF) >> 24).astype(np.uint8)
    return a if c > 1 else a[..., 0]


with open(os.path.join(sys.argv[1], "resample.txt"), "w") as f:
    print("# filter in_h in_w channels out_h out_w crc    (resample.py, Pillow %s)" % Image.__version__, file=f)
    for n in range(360):
        side = lambda: r.choice((r.randint(1, 40), r.randint(1, 400), r.choice((1, 2, 224, 256, 640))))
        h, w, oh, ow = (side() for _ in range(4))
        if n % 9 == 0: oh = h
        if n % 9 == 1: ow = w
        if n % 9 == 2: h, w, oh, ow = h * 3, max(w // 2, 1), max(h // 2, 1), max(w // 2, 1)   # often down first
        c = r.choice((3, 3, 3, 1))
        name = FILTERS[n % 6]
        im = Image.fromarray(source(h, w, c)).resize((ow, oh), getattr(Image.Resampling, name.upper()))
        print(name, h, w, c, oh, ow, "%08x" % zlib.crc32(np.asarray(im).tobytes()), file=f)
