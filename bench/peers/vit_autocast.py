#!/usr/bin/env python3
"""Inference of the recipe's Vision Transformer in PyTorch, under torch.autocast on this CPU.

usage: vit_autocast.py f32|bf16|f16 BATCH [--runs 20] [--warmup 3] [--threads N] [--layers 6]
Prints the median seconds of a run, or on stderr why PyTorch refuses the dtype, with status 1.  The model is
that of vit_step.py."""
import argparse, statistics, sys, time
import torch
from vit_step import torch_model
import vit_step

p = argparse.ArgumentParser()
p.add_argument('dtype', choices=('f32', 'bf16', 'f16'))
p.add_argument('batch', type=int)
for k, d in (('runs', 20), ('warmup', 3), ('threads', 0), ('layers', 6)):
    p.add_argument('--' + k, type=int, default=d)
a = p.parse_args()
if a.threads:
    torch.set_num_threads(a.threads)
torch.manual_seed(0)
vit_step.L = a.layers
model = torch_model().eval()
x = torch.randn(a.batch, 3, vit_step.IMG, vit_step.IMG)
narrow = {'f32': None, 'bf16': torch.bfloat16, 'f16': torch.float16}[a.dtype]
seconds = []
for i in range(a.warmup + a.runs):
    began = time.perf_counter()
    with torch.inference_mode(), torch.autocast('cpu', narrow or torch.bfloat16, enabled=narrow is not None):
        y = model(x)
    took = time.perf_counter() - began
    if i == 0 and narrow and y.dtype != narrow:
        sys.exit(f'autocast gives {y.dtype} where {narrow} was asked')
    if i >= a.warmup:
        seconds.append(took)
print(f'{statistics.median(seconds):.6f}')
