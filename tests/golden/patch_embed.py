"""Kernels of patch embeddings for another size of patches, by timm: usage: patch_embed.py >patch_embed.txt  (timm 1.0.31, torch 2.15)"""
import numpy
import torch
from timm.layers import resample_patch_embed

KERNELS = 6
print('# from to, then the 6*to*to values; those of the kernel itself are sin(0.7 * i), i from 0')
for side, to in [(4, 8), (8, 4), (16, 14), (14, 16), (16, 8), (7, 5), (2, 3), (3, 1), (1, 4)]:
    kernel = torch.from_numpy(numpy.sin(0.7 * numpy.arange(KERNELS * side * side)).astype(numpy.float32))
    out = resample_patch_embed(kernel.reshape(2, 3, side, side), [to, to])
    print(side, to)
    for row in out.reshape(-1, to).numpy():
        print(*(f'{v:.8e}' for v in row))
