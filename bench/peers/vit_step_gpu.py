#!/usr/bin/env python3
"""The recipe's training step in PyTorch and JAX on a GPU: peers of `millrace bench step --device cuda`.

usage: vit_step_gpu.py [--variants torch-eager,torch-compile,torch-max,jax] [--batches 128,4096] [--cut 1,0]
                       [--steps 200] [--seconds 20] [--peak TFLOPS] [--out FILE] [--device cuda|cpu] [--tiny]

Each case is one line of JSON: name, batch, cut, dropout, attention (whose), steps, clock, step_ms and images_per_s (of
steps whose batch stays on the device), step_with_copy_ms (of steps whose batch is copied before each), mfu,
peak_mem_gb, first_step_s and loss.  A case that fails has an `error` instead.

Time is measured as by `millrace bench step --device cuda`: after a warm-up of at least a second, steps are queued
without waiting for one, and the median of rows of them is taken; torch's rows lie between two events of the device
(clock: events), JAX's, which has none, between two waits of the host (clock: host).  Steps are 200 at batch 128, and
as many pictures at larger ones, 20 at least, or what --seconds allows.

The model is the recipe's: pictures of 32, patches of 4, width 384, MLP 1536, 8 heads, 6 blocks, dropout 0.1 twice in
each MLP; bf16 compute, f32 parameters, AdamW.  The batch is that of bench step, to the bit.  --cut 1: only token 0
goes through the last block's query, projection and MLP, as millrace's own compiler arranges it; the results are the
same.  --tiny: a small model, to try this file on a CPU."""
import argparse
import json
import statistics
import time

import numpy

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument('--variants', default='torch-eager,torch-compile,torch-max,jax')
parser.add_argument('--batches', default='128,4096')
parser.add_argument('--cut', default='1,0')
parser.add_argument('--steps', type=int, default=200)
parser.add_argument('--seconds', type=float, default=20)
parser.add_argument('--peak', type=float, default=989)
parser.add_argument('--out')
parser.add_argument('--device', default='cuda')
parser.add_argument('--tiny', action='store_true')
args = parser.parse_args()

SIDE, CLASSES = 32, 10
WIDTH, MLP, HEADS, LAYERS, PATCH = (48, 96, 4, 2, 8) if args.tiny else (384, 1536, 8, 6, 4)
HEAD = WIDTH // HEADS
TOKENS = (SIDE // PATCH) ** 2 + 1
FLOP = 4.265e9  # of one image: the recipe's products and attention, forward and backward
DROPOUT = 0.1
WARM_UP, LEAST, ROWS = 5, 20, 20


def noise(batch):
    """The pictures (B,H,W,C) f32 and labels (B) i32 of bench step, whose generator is numpy's Philox."""
    draws = numpy.random.Generator(numpy.random.Philox(key=12))
    pictures = draws.uniform(-2, 2, (batch, SIDE, SIDE, 3)).astype(numpy.float32)
    return pictures, numpy.arange(batch, dtype=numpy.int32) % CLASSES


def rows_of(batch, single):
    """The number of rows, and of the steps of a row, for steps that take about `single` seconds."""
    steps = max(min(args.steps, LEAST), args.steps * 128 // max(128, batch))
    steps = max(5, min(steps, int(args.seconds / max(1e-6, single))))
    rows = min(ROWS, steps)
    return rows, steps // rows


def measure(batch, step, wait, rows_seconds):
    """Times step(copy), which only queues work, and wait(), which blocks until it is done.  rows_seconds(step, rows,
    row) returns the seconds of each row.  Returns seconds of a step, of one with its copy, of the first, and steps."""
    begun = time.perf_counter()
    step(False)
    wait()
    first, times = time.perf_counter() - begun, []
    for copy in (False, True):
        begun, n = time.perf_counter(), 0
        while n < WARM_UP or time.perf_counter() - begun < 1:
            step(copy)
            n += 1
        wait()
        at = time.perf_counter()
        step(copy)
        wait()
        rows, row = rows_of(batch, time.perf_counter() - at)
        times.append(statistics.median(rows_seconds(lambda: step(copy), rows, row)) / row)
        wait()
        steps = rows * row if not copy else steps
    return times[0], times[1], first, steps


def rows_by_host(wait):
    def seconds(step, rows, row):
        took = []
        for _ in range(rows):
            at = time.perf_counter()
            for _ in range(row):
                step()
            wait()
            took.append(time.perf_counter() - at)
        return took
    return seconds


def torch_model(cut):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, cuts):
            super().__init__()
            self.cuts = cuts
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.fc1, self.fc2 = nn.Linear(WIDTH, MLP), nn.Linear(MLP, WIDTH)
            self.drop1, self.drop2 = nn.Dropout(DROPOUT), nn.Dropout(DROPOUT)

        def heads(self, h):
            """q, k, v as (batch, head, token, column); q of token 0 alone where the block cuts."""
            batch = h.shape[0]
            if not self.cuts:
                return self.qkv(h).view(batch, TOKENS, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
            w, b = self.qkv.weight, self.qkv.bias
            q = F.linear(h[:, :1], w[:WIDTH], b[:WIDTH]).view(batch, 1, HEADS, HEAD).transpose(1, 2)
            kv = F.linear(h, w[WIDTH:], b[WIDTH:]).view(batch, TOKENS, 2, HEADS, HEAD)
            k, v = kv.permute(2, 0, 3, 1, 4)
            return q, k, v

        def forward(self, x):
            q, k, v = self.heads(self.norm1(x))
            a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = (x[:, :1] if self.cuts else x) + self.out(a)
            h = self.drop1(F.gelu(self.fc1(self.norm2(x)), approximate='tanh'))
            return x + self.drop2(self.fc2(h))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, WIDTH, PATCH, PATCH)
            self.cls = nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.pos = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
            self.blocks = nn.ModuleList(Block(cut and i == LAYERS - 1) for i in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.pos
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x[:, 0]))

    return ViT()


def run_torch(variant, batch, cut):
    import torch
    from torch.nn import functional as F
    device = torch.device(args.device)
    cuda = device.type == 'cuda'
    torch.manual_seed(0)
    model = torch_model(cut).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, **({'fused': True} if cuda else {}))
    pictures, labels = noise(batch)
    here = [torch.from_numpy(pictures), torch.from_numpy(labels.astype(numpy.int64))]
    if cuda:
        here = [t.pin_memory() for t in here]
    there = [t.to(device) for t in here]
    last = {}

    def loss_of(x, y):
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(x.permute(0, 3, 1, 2))
        return F.cross_entropy(logits.float(), y)

    if variant != 'torch-eager':
        torch._dynamo.reset()  # else the second batch size is compiled for any size
        loss_of = torch.compile(loss_of, mode='max-autotune' if variant == 'torch-max' else None, dynamic=False)

    def step(copy):
        if copy:
            for to, source in zip(there, here):
                to.copy_(source, non_blocking=True)
        loss = loss_of(*there)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=variant != 'torch-max')  # graphs of max-autotune keep their gradients
        last['loss'] = loss.detach()

    def rows_by_events(step, rows, row):
        stamps = [torch.cuda.Event(enable_timing=True) for _ in range(rows + 1)]
        stamps[0].record()
        for i in range(rows):
            for _ in range(row):
                step()
            stamps[i + 1].record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(stamps, stamps[1:])]

    wait = torch.cuda.synchronize if cuda else lambda: None
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = measure(batch, step, wait, rows_by_events if cuda else rows_by_host(wait))
    return times, torch.cuda.max_memory_allocated() / 2**30 if cuda else 0, float(last['loss']), {
        'clock': 'events' if cuda else 'host', 'attention': 'torch scaled_dot_product_attention'}


def jax_parameters(jax, jnp):
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 8 * LAYERS + 8))

    def dense(rows, columns):
        return {'w': jax.random.normal(next(keys), (rows, columns)) * rows ** -0.5, 'b': jnp.zeros(columns)}

    def norm():
        return {'g': jnp.ones(WIDTH), 'b': jnp.zeros(WIDTH)}

    blocks = [{'norm1': norm(), 'qkv': dense(WIDTH, 3 * WIDTH), 'out': dense(WIDTH, WIDTH), 'norm2': norm(),
               'fc1': dense(WIDTH, MLP), 'fc2': dense(MLP, WIDTH)} for _ in range(LAYERS)]
    return {'patch': dense(3 * PATCH * PATCH, WIDTH), 'cls': jnp.zeros((1, 1, WIDTH)),
            'pos': 0.02 * jax.random.normal(next(keys), (1, TOKENS, WIDTH)), 'blocks': blocks, 'norm': norm(),
            'head': dense(WIDTH, CLASSES)}


def run_jax(_, batch, cut):
    """With cuDNN's attention, or XLA's where cuDNN refuses it."""
    refused = ''
    for implementation in ('cudnn', 'xla') if args.device == 'cuda' else ('xla',):
        try:
            times, memory, loss = run_jax_with(implementation, batch, cut)
        except Exception as e:
            if implementation == 'xla':
                raise
            refused = f' (cudnn: {type(e).__name__}: {str(e)[:120]})'
            continue
        return times, memory, loss, {'clock': 'host', 'attention': f'jax {implementation}{refused}'.replace('"', "'")}


def run_jax_with(implementation, batch, cut):
    import jax
    import jax.numpy as jnp
    import optax
    bf16 = jnp.bfloat16

    def norm(p, x):
        x = x.astype(jnp.float32)
        x = x - x.mean(-1, keepdims=True)
        return (x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p['g'] + p['b']).astype(bf16)

    def dense(p, x, first=0, last=None):
        return x @ p['w'][:, first:last].astype(bf16) + p['b'][first:last].astype(bf16)

    def dropout(key, x):
        return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0).astype(x.dtype)

    def block(p, x, key, cuts):
        h, (key1, key2) = norm(p['norm1'], x), jax.random.split(key)
        if cuts:
            q = dense(p['qkv'], h[:, :1], 0, WIDTH).reshape(batch, 1, HEADS, HEAD)
            k, v = jnp.moveaxis(dense(p['qkv'], h, WIDTH).reshape(batch, TOKENS, 2, HEADS, HEAD), 2, 0)
            x = x[:, :1]
        else:
            q, k, v = jnp.moveaxis(dense(p['qkv'], h).reshape(batch, TOKENS, 3, HEADS, HEAD), 2, 0)
        x = x + dense(p['out'], jax.nn.dot_product_attention(q, k, v, implementation=implementation).reshape(batch, -1, WIDTH))
        h = dropout(key1, jax.nn.gelu(dense(p['fc1'], norm(p['norm2'], x))))
        return x + dropout(key2, dense(p['fc2'], h))

    def loss_of(p, x, y, key):
        n = SIDE // PATCH
        x = x.reshape(batch, n, PATCH, n, PATCH, 3).transpose(0, 1, 3, 2, 4, 5).reshape(batch, n * n, -1)
        x = dense(p['patch'], x.astype(bf16))
        x = jnp.concatenate((jnp.tile(p['cls'], (batch, 1, 1)), x), 1) + p['pos']
        for i, q in enumerate(p['blocks']):
            x = block(q, x, jax.random.fold_in(key, i), cut and i == LAYERS - 1)
        logits = dense(p['head'], norm(p['norm'], x[:, 0])).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    optimizer = optax.adamw(1e-3, weight_decay=1e-4)

    def train(state, x, y):
        p, slots, key = state
        key, now = jax.random.split(key)
        loss, gradient = jax.value_and_grad(loss_of)(p, x, y, now)
        update, slots = optimizer.update(gradient, slots, p)
        return (optax.apply_updates(p, update), slots, key), loss

    train = jax.jit(train, donate_argnums=0)
    p = jax_parameters(jax, jnp)
    here = noise(batch)
    now = {'state': (p, optimizer.init(p), jax.random.PRNGKey(2)), 'batch': jax.device_put(here)}

    def step(copy):
        if copy:
            now['batch'] = jax.device_put(here)
        now['state'], now['loss'] = train(now['state'], *now['batch'])

    def wait():
        jax.block_until_ready(now['state'])

    times = measure(batch, step, wait, rows_by_host(wait))
    memory = jax.devices()[0].memory_stats() or {}
    return times, memory.get('peak_bytes_in_use', 0) / 2**30, float(now['loss'])


def emit(**case):
    line = json.dumps(case)
    print(line, flush=True)
    if args.out:
        with open(args.out, 'a', encoding='utf-8') as f:
            f.write(line + '\n')


for variant in args.variants.split(','):
    run = run_jax if variant == 'jax' else run_torch
    for cut in map(int, args.cut.split(',')):
        for batch in map(int, args.batches.split(',')):
            try:
                (seconds, copied, first, steps), memory, loss, how = run(variant, batch, cut)
            except Exception as e:  # a peer that fails says why, and the next one runs
                emit(name=variant, batch=batch, cut=cut, error=f'{type(e).__name__}: {str(e)[:200]}')
                continue
            emit(name=variant, batch=batch, cut=cut, dropout=DROPOUT, **how, steps=steps, step_ms=round(seconds * 1e3, 3),
                 step_with_copy_ms=round(copied * 1e3, 3), images_per_s=round(batch / seconds, 1),
                 mfu=round(batch * FLOP / seconds / (args.peak * 1e12), 4), peak_mem_gb=round(memory, 2),
                 first_step_s=round(first, 1), loss=round(loss, 4))
