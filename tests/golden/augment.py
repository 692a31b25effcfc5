#!/usr/bin/env python3
"""Writes augment.txt, augment_magnitudes.txt and augment_policies.txt: CRC-32 of what torchvision v2's functions make of PIL pictures that a formula gives.

usage: augment.py OUT     (torchvision 0.29, Pillow 13 and NumPy; the committed file is of 0.29.2 and 13.0.0)

Byte c of pixel (y, x) is ((y * 7919 + x * 104729 + c * 31337 + 12345) * 2654435761 mod 2^32) >> 24, and, in flat
pictures, an eighth of it plus 60.  A row: name, height, width, channels, flat, number, the sampling (0: nearest,
1: bilinear), the fill (three levels) and the CRC.  Numbers are C's %a.
"""
import math, os, random, sys, zlib

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode as Mode, functional as F

r = random.Random(11)


def source(h, w, c, flat):
    y, x, k = np.ogrid[0:h, 0:w, 0:c]
    v = (y.astype(np.uint64) * 7919 + x.astype(np.uint64) * 104729 + k.astype(np.uint64) * 31337 + 12345) * 2654435761
    a = ((v & 0xFFFFFFFF) >> 24).astype(np.uint8)
    a = a // 8 + 60 if flat else a
    return a if c > 1 else a[..., 0]


def single(v):
    return float(np.float32(v))


factor = lambda: single(r.choice((0, 1, r.uniform(0, 1), r.uniform(1, 4))))
slope = lambda: math.degrees(math.atan(single(r.choice((0, r.uniform(-0.99, 0.99))))))
OPS = {
    "brightness": (factor, lambda im, v, m, f: F.adjust_brightness(im, v)),
    "contrast": (factor, lambda im, v, m, f: F.adjust_contrast(im, v)),
    "saturation": (factor, lambda im, v, m, f: F.adjust_saturation(im, v)),
    "sharpness": (factor, lambda im, v, m, f: F.adjust_sharpness(im, v)),
    "hue": (lambda: single(r.choice((0, 0.5, -0.5, r.uniform(-0.5, 0.5)))), lambda im, v, m, f: F.adjust_hue(im, v)),
    "grey": (lambda: 0, lambda im, v, m, f: F.rgb_to_grayscale(im, len(im.getbands()))),
    "posterize": (lambda: r.randint(1, 8), lambda im, v, m, f: F.posterize(im, v)),
    "solarize": (lambda: r.choice((0, 255, 256, r.uniform(0, 255))), lambda im, v, m, f: F.solarize(im, v)),
    "invert": (lambda: 0, lambda im, v, m, f: F.invert(im)),
    "autocontrast": (lambda: 0, lambda im, v, m, f: F.autocontrast(im)),
    "equalize": (lambda: 0, lambda im, v, m, f: F.equalize(im)),
    "rotate": (lambda: r.choice((0, 90, -90, 180, 45, r.uniform(-180, 180), single(r.uniform(-30, 30)))), lambda im, v, m, f: F.rotate(im, v, m, fill=f)),
    "shear-x": (slope, lambda im, v, m, f: F.affine(im, 0.0, [0, 0], 1.0, [v, 0.0], m, f, [0, 0])),
    "shear-y": (slope, lambda im, v, m, f: F.affine(im, 0.0, [0, 0], 1.0, [0.0, v], m, f, [0, 0])),
    "translate-x": (lambda: r.randint(-40, 40), lambda im, v, m, f: F.affine(im, 0.0, [v, 0], 1.0, [0.0, 0.0], m, f)),
    "translate-y": (lambda: r.randint(-40, 40), lambda im, v, m, f: F.affine(im, 0.0, [0, v], 1.0, [0.0, 0.0], m, f)),
}

with open(os.path.join(sys.argv[1], "augment.txt"), "w") as out:
    print("# augment.py, torchvision %s, Pillow %s" % (torchvision.__version__, Image.__version__), file=out)
    print("# op height width channels flat number bilinear fill crc", file=out)
    for n in range(50):
        for name, (draw, op) in OPS.items():
            side = lambda: r.choice((r.randint(1, 8), r.randint(1, 60), 32))
            h, w, c, flat = side(), side(), r.choice((3, 3, 1)), r.randint(0, 1)
            if n % 4 == 0:
                w = h
            v, bilinear = draw(), r.randint(0, 1)
            fill = r.choice(([0, 0, 0], [128] * 3, [r.randint(0, 255) for _ in range(3)]))
            im = op(Image.fromarray(source(h, w, c, flat)), v, (Mode.NEAREST, Mode.BILINEAR)[bilinear], fill if c == 3 else fill[0])
            print(name, h, w, c, flat, float(v).hex(), bilinear, *fill, "%08x" % zlib.crc32(np.asarray(im).tobytes()), file=out)

# The magnitudes: for each kind and operation all bins, for pictures of 224 rows and 321 columns.
from torchvision.transforms import v2
assert torch.backends.cpu.get_cpu_capability() != "DEFAULT", "torch's kernels for machines without AVX2 round otherwise"
with open(os.path.join(sys.argv[1], "augment_magnitudes.txt"), "w") as out:
    print("# augment.py, torch %s: space bins operation signed magnitudes" % torch.__version__, file=out)
    for space, kind in (("usual", v2.RandAugment), ("wide", v2.TrivialAugmentWide)):
        for bins in (2, 7, 10, 31):
            for op, (name, (make, signed)) in enumerate(kind._AUGMENTATION_SPACE.items()):
                table = make(bins, 224, 321)
                print(space, bins, op, int(signed), *(("%s" % float(v).hex()) for v in ([] if table is None else table)), file=out)

# The policies of auto-augment: pair, then operation, probability and bin twice.
with open(os.path.join(sys.argv[1], "augment_policies.txt"), "w") as out:
    names = list(v2.AutoAugment._AUGMENTATION_SPACE)
    print("# augment.py: policy, and twice: operation of %s, probability, bin" % ",".join(names), file=out)
    for policy in ("IMAGENET", "CIFAR10", "SVHN"):
        for pair in v2.AutoAugment(getattr(v2.AutoAugmentPolicy, policy))._policies:
            print(policy.lower(), *("%d %g %d" % (names.index(n), p, b or 0) for n, p, b in pair), file=out)
