#!/usr/bin/env python3
"""The cases of `millrace bench jax-cases` in JAX on this CPU, f32; one JSON object.

usage: jax_micro.py [CASE...]     needs jax; NAME_us: median until the result is there, NAME_compile_ms: tracing,
lowering and compiling; async_us: until the call of the large product is back."""
import json, os, statistics, sys, time
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
import jax, jax.numpy as jnp
import numpy as np

def waves(x):
    for _ in range(10): x = 0.5 * x + 0.1 * jnp.sin(x)
    return x

def mlp_loss(p, x, y):
    for k, (w, b) in enumerate(p):
        x = x @ w + b
        if k < 2: x = jnp.tanh(x)
    return jnp.mean((x - y) ** 2)

def mlp(*a): return jax.value_and_grad(mlp_loss)([a[0:2], a[2:4], a[4:6]], a[6], a[7])

CASES = {
    'waves': (waves, [(1000, 1000)]),
    'hessian': (jax.hessian(lambda x: jnp.sum(x * x)), [(1000,)]),
    'matvecs': (jax.vmap(lambda w, x: w @ x, in_axes=(None, 0)), [(512, 512), (256, 512)]),
    'mlp': (mlp, [(784, 512), (512,), (512, 512), (512,), (512, 10), (10,), (128, 784), (128, 10)]),
    'matmul': (lambda a, b: a @ b, [(2000, 2000), (2000, 2000)]),
    'empty': (lambda x: x, [()]),
}

def values(shape):
    n = int(np.prod(shape, dtype=np.int64))
    v = ((np.arange(n, dtype=np.uint64) * np.uint64(2654435761) & np.uint64(0xffffffff)) >> np.uint64(7)) % np.uint64(2001)
    return jnp.asarray((v.astype(np.float32) / 1000 - 1).reshape(shape))

def run(f, args):
    t = time.perf_counter(); out = f(*args); back = time.perf_counter() - t
    jax.block_until_ready(out)
    return back, time.perf_counter() - t

def main():
    jax.block_until_ready(jnp.zeros(3) + 1)  # the runtime's own start is not a case's
    out = {'jax': jax.__version__}
    for name in sys.argv[1:] or CASES:
        f, shapes = CASES[name]
        f, args = jax.jit(f), [values(s) for s in shapes]
        jax.block_until_ready(args)
        begin = time.perf_counter()
        f.lower(*args).compile()
        out[name + '_compile_ms'] = 1e3 * (time.perf_counter() - begin)
        for _ in range(2): run(f, args)
        begin, runs = time.perf_counter(), []
        while len(runs) < 2000 and (len(runs) < 5 or time.perf_counter() - begin < 1): runs.append(run(f, args))
        there = statistics.median(r[1] for r in runs)
        out[('dispatch' if name == 'empty' else name) + '_us'] = 1e6 * there
        if name == 'matmul': out['async_us'] = 1e6 * statistics.median(r[0] for r in runs)
    print(json.dumps(out))

main()
