"""Positions of a grid as those of another, by torch: usage: pos_embed.py >pos_embed.txt  (torch 1.13)"""
import numpy
import torch

WIDTH = 3
print('# from to, then the to*to*3 values; those of the grid itself are sin(0.7 * i), i from 0')
for side, to in [(3, 5), (5, 3), (8, 7), (14, 16), (14, 4), (2, 9), (7, 1)]:
    grid = torch.from_numpy(numpy.sin(0.7 * numpy.arange(side * side * WIDTH)).astype(numpy.float32)).reshape(1, side, side, WIDTH)
    out = torch.nn.functional.interpolate(grid.permute(0, 3, 1, 2), size=(to, to), mode='bicubic', antialias=True)
    print(side, to)
    for row in out.permute(0, 2, 3, 1).reshape(-1, WIDTH).numpy():
        print(*(f'{v:.8e}' for v in row))
