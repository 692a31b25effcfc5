#!/usr/bin/env python3
"""The recipe's training step in PyTorch and JAX on a GPU: peers of `millrace bench step --device cuda`.

usage: vit_step_gpu.py [--variants torch-eager,torch-compile,torch-max,jax] [--batches 128,1024,4096] [--cut 0,1]
                       [--steps 30] [--seconds 20] [--peak TFLOPS] [--out FILE] [--device cuda|cpu] [--tiny]

Each case is one line of JSON: name, batch, cut, step_ms (median of steps that are waited for), images_per_s (of
steps in a row, as in training), mfu, peak_mem_gb, first_step_s and loss.  A case that fails has an `error` instead.

The model is the recipe's: pictures of 32, patches of 4, width 384, MLP 1536, 8 heads, 6 blocks, dropout 0.1 twice in
each MLP; bf16 compute, f32 parameters, AdamW.  Pictures are noise that stays on the device, so that the step alone
is measured.  --cut 1: only token 0 goes through the last block's query, projection and MLP, as millrace's own
compiler arranges it; the results are the same.  --tiny: a small model, to try this file on a CPU."""
import argparse
import json
import statistics
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument('--variants', default='torch-eager,torch-compile,torch-max,jax')
parser.add_argument('--batches', default='128,1024,4096')
parser.add_argument('--cut', default='0,1')
parser.add_argument('--steps', type=int, default=30)
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
WARM_UP = 5


def measure(step, wait):
    """Times step(), which only queues work, and wait(), which blocks until it is done.
    Returns the median of single steps, the time of one in a row of steps, and that of the first."""
    begun = time.perf_counter()
    step()
    wait()
    first = time.perf_counter() - begun
    for _ in range(WARM_UP):
        step()
    wait()
    single, begun = [], time.perf_counter()
    while len(single) < args.steps and (time.perf_counter() - begun < args.seconds or len(single) < 3):
        at = time.perf_counter()
        step()
        wait()
        single.append(time.perf_counter() - at)
    median = statistics.median(single)
    row = max(1, min(20, int(1 / max(1e-4, median))))
    at = time.perf_counter()
    for _ in range(row):
        step()
    wait()
    return median, (time.perf_counter() - at) / row, first


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
            self.drop1, self.drop2 = nn.Dropout(0.1), nn.Dropout(0.1)

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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    x = torch.randn(batch, 3, SIDE, SIDE, device=device)
    y = torch.randint(0, CLASSES, (batch,), device=device)
    last = {}

    def loss_of(x, y):
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(x)
        return F.cross_entropy(logits.float(), y)

    if variant != 'torch-eager':
        loss_of = torch.compile(loss_of, mode='max-autotune' if variant == 'torch-max' else None)

    def step():
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=variant != 'torch-max')  # graphs of max-autotune keep their gradients
        last['loss'] = loss.detach()

    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = measure(step, torch.cuda.synchronize if cuda else lambda: None)
    return *times, torch.cuda.max_memory_allocated() / 2**30 if cuda else 0, float(last['loss'])


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
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0).astype(x.dtype)

    def block(p, x, key, cuts):
        h, (key1, key2) = norm(p['norm1'], x), jax.random.split(key)
        if cuts:
            q = dense(p['qkv'], h[:, :1], 0, WIDTH).reshape(batch, 1, HEADS, HEAD)
            k, v = jnp.moveaxis(dense(p['qkv'], h, WIDTH).reshape(batch, TOKENS, 2, HEADS, HEAD), 2, 0)
            x = x[:, :1]
        else:
            q, k, v = jnp.moveaxis(dense(p['qkv'], h).reshape(batch, TOKENS, 3, HEADS, HEAD), 2, 0)
        x = x + dense(p['out'], jax.nn.dot_product_attention(q, k, v).reshape(batch, -1, WIDTH))
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
    x = jax.random.normal(jax.random.PRNGKey(1), (batch, SIDE, SIDE, 3))
    y = jnp.zeros((batch,), jnp.int32)
    now = {'state': (p, optimizer.init(p), jax.random.PRNGKey(2))}

    def step():
        now['state'], now['loss'] = train(now['state'], x, y)

    times = measure(step, lambda: jax.block_until_ready(now['loss']))
    memory = jax.devices()[0].memory_stats() or {}
    return *times, memory.get('peak_bytes_in_use', 0) / 2**30, float(now['loss'])


def emit(**case):
    line = json.dumps(case)
    print(line, flush=True)
    if args.out:
        with open(args.out, 'a', encoding='utf-8') as f:
            f.write(line + '\n')


for variant in args.variants.split(','):
    run = run_jax if variant == 'jax' else run_torch
    for batch in map(int, args.batches.split(',')):
        for cut in map(int, args.cut.split(',')):
            try:
                median, row, first, memory, loss = run(variant, batch, cut)
            except Exception as e:  # a peer that fails says why, and the next one runs
                emit(name=variant, batch=batch, cut=cut, error=f'{type(e).__name__}: {str(e)[:200]}')
                continue
            emit(name=variant, batch=batch, cut=cut, step_ms=round(median * 1e3, 3),
                 images_per_s=round(batch / row, 1), mfu=round(batch * FLOP / row / (args.peak * 1e12), 4),
                 peak_mem_gb=round(memory, 2), first_step_s=round(first, 1), loss=round(loss, 4))
