#!/usr/bin/env python3
"""Golden vectors of Pillow's crop and resize for 1, 3 and 4 channels.

usage: pil_channels.py FILE     (tests/golden/pil_channels.txt; needs numpy and Pillow 13)

torchvision's F.resized_crop of a PIL picture is Image.crop, then Image.resize with BILINEAR.  Modes: L, RGB,
RGBA; of RGBA Image.resize weighs the colours by alpha (it resizes RGBa) unless nothing is to be resized.
"""
import random
import sys
import zlib

import numpy as np
import PIL
from PIL import Image

OUT = (1, 7, 16, 24, 32, 33, 64, 224, 300)
SIDES = ((32, 32), (28, 28), (64, 40), (96, 200), (300, 280), (512, 384), (1200, 90), (60, 1500))


def source(h, w, c):
    y, x, k = np.mgrid[0:h, 0:w, 0:c].astype(np.int64)
    return ((y * 37 + x * 61 + k * 101 + (y * x) % 251) & 255).astype(np.uint8)


def result(array, box, out):
    i, j, h, w = box
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    made = picture.crop((j, i, j + w, i + h)).resize((out, out), Image.BILINEAR)
    return np.asarray(made).reshape(out, out, -1)


def main():
    rng = random.Random(16)
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(f"# Pillow {PIL.__version__}: crop, then resize((out, out), BILINEAR) of "
                "src[y][x][c] = (y*37 + x*61 + c*101 + (y*x) % 251) & 255, HWC; modes L, RGB, RGBA.\n"
                "# channels H W i j h w out crc32(of the result, HWC)\n")
        for c, H, W, out in ((1, 20, 24, 1100), (4, 1030, 16, 1025)):
            box = (0, 0, H, W)
            f.write(f"{c} {H} {W} 0 0 {H} {W} {out} {zlib.crc32(result(source(H, W, c), box, out).tobytes()):08x}\n")
        for H, W in SIDES:
            for c in (1, 3, 4):
                for out in rng.sample(OUT, 4):
                    h, w = rng.randint(1, H), rng.randint(1, W)
                    boxes = [(0, 0, H, W), (rng.randint(0, H - h), rng.randint(0, W - w), h, w)]
                    if out <= H and out <= W:
                        boxes.append((H - out, W - out, out, out))
                    for box in boxes:
                        crc = zlib.crc32(result(source(H, W, c), box, out).tobytes())
                        f.write(f"{c} {H} {W} {' '.join(map(str, box))} {out} {crc:08x}\n")


main()
