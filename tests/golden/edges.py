"""Writes edges.txt: what elementwise functions of jax give at infinities, NaN, both zeros and kinks,
with their slopes there.  Needs jax; run as: python3 edges.py > edges.txt"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

ONE = [-np.inf, -100, -1, -0.5, -0.0, 0, 0.5, 1, 100, np.inf, np.nan]
TWO = [-np.inf, -2, -1, -0.0, 0, 0.5, 1, 2, np.inf, np.nan]
UNARY = {n: getattr(lax, n) for n in
         "abs cos erf exp expm1 floor log log1p logistic neg rsqrt sign sin sqrt tanh".split()}
UNARY |= {f"integer_pow_{y}": functools.partial(lax.integer_pow, y=y) for y in (-2, -1, 0, 1, 2, 3, 5)}
UNARY |= {"gelu_tanh": jax.nn.gelu, "gelu_erf": functools.partial(jax.nn.gelu, approximate=False)}
BINARY = {n: getattr(lax, n) for n in "add sub mul div max min pow".split()}


def numbers(v):
    print(*(repr(float(x)) for x in np.asarray(v, np.float64)))


def show(name, f, dtype, *args):
    x = [jnp.array(a, dtype) for a in args]
    y, back = jax.vjp(f, *x)
    print(name, "bf16" if dtype == jnp.bfloat16 else "f32", len(args), len(args[0]))
    for v in (*args, y, *back(jnp.ones_like(y))):
        numbers(v)


print("# jax", jax.__version__, "by edges.py: function, dtype, operands, points; the operands, the values, a slope by each")
for dtype in (jnp.float32, jnp.bfloat16):
    for name, f in UNARY.items():
        show(name, f, dtype, ONE)
    for name, f in BINARY.items():
        show(name, f, dtype, [a for a in TWO for _ in TWO], TWO * len(TWO))
