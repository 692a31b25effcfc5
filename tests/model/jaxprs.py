#!/usr/bin/env python3
"""usage: tests/model/jaxprs.py [OUT]      (needs jax: python3 -m venv V && V/bin/pip install jax==0.10.2)

Prints the jaxprs of a wide sample of jax programs into OUT (default tests/golden/jaxprs/jax.txt), each with what jax
computes; the test model.jaxprs feeds them to the parser, runs them and says which share came in:

    MILLRACE_JAXPRS=OUT build/release/tests/test_model_jaxprs

The sample: every function of jax.lax, jax.numpy and jax.nn in common use whose values can be written with ops that
millrace has, alone and in small models, with grad, jvp, vmap, hessian, checkpoint and control flow over them; and
FOREIGN, functions in common use for which there is no op (sort, convolutions, draws by key, ...), so that the share is
not of what is known to work.  Inputs are made by a formula that the test knows (value())."""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

S, M, T, V = (), (3, 4), (2, 3, 4), (4,)


def value(shape, dtype, k):
    """Input k: the same numbers as in test_jaxprs.c."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    if dtype == np.float32:
        return (((i * 37 + k * 11) % 41).astype(np.float32) / 32 + 0.125).reshape(shape)
    if dtype == np.bool_:
        return ((i + k) % 2 == 0).reshape(shape)
    return ((i * 5 + k) % 3).astype(dtype).reshape(shape)


f32 = lambda *s: (s, np.float32)
i32 = lambda *s: (s, np.int32)
b1 = lambda *s: (s, np.bool_)
X, Y, W, U = f32(3, 4), f32(3, 4), f32(4, 5), f32(4)
P = []  # (name, function, inputs)


def add(name, f, *inputs):
    P.append((name, f, inputs))


def each(names, module, *inputs, **kw):
    for n in names.split():
        f = getattr(module, n)
        add(f"{module.__name__.split('.')[-1]}.{n}", (lambda f: lambda *a: f(*a, **kw))(f), *inputs)


# ---- elementwise ----
each("abs exp expm1 floor log log1p logistic neg rsqrt sign sin cos sqrt square tan tanh erf exp2 ceil is_finite "
     "stop_gradient", lax, X)
each("add sub mul div max min pow eq ne lt le gt ge", lax, X, Y)
each("abs exp expm1 exp2 floor ceil log log1p log2 log10 negative positive reciprocal sign sin cos tan sqrt square "
     "tanh isfinite isnan isinf deg2rad radians", jnp, X)
each("add subtract multiply divide true_divide maximum minimum power equal not_equal less less_equal greater "
     "greater_equal logaddexp fmax fmin hypot", jnp, X, Y)
each("logical_and logical_or logical_xor", jnp, b1(3, 4), b1(3, 4))
each("logical_not", jnp, b1(3, 4))
each("add subtract multiply maximum minimum floor_divide mod remainder", jnp, i32(3, 4), i32(3, 4))
add("lax.integer_pow", lambda x: lax.integer_pow(x, 3), X)
add("x ** 3", lambda x: x ** 3, X)
add("x ** -2", lambda x: x ** -2, X)
add("x ** 0.5", lambda x: x ** 0.5, X)
add("2 ** x", lambda x: 2.0 ** x, X)
add("arithmetic", lambda x, y: (x + 1) * 2 - y / 3 + (-x), X, Y)
add("rows and columns", lambda x, v: x * v + x[:, :1], X, U)
add("outer", lambda v, w: jnp.outer(v, w), U, U)
add("lax.clamp", lambda x: lax.clamp(0.2, x, 0.8), X)
add("jnp.clip", lambda x: jnp.clip(x, 0.2, 0.8), X)
add("jnp.where", lambda x, y: jnp.where(x > y, x, y), X, Y)
add("jnp.where scalar", lambda x: jnp.where(x > 0.5, x, 0.0), X)
add("jnp.where rows", lambda m, x: jnp.where(m[:, None], x, -1.0), b1(3), X)
add("lax.select", lambda x, y: lax.select(x > y, x, y), X, Y)
add("nan_to_num", jnp.nan_to_num, X)
add("heaviside", lambda x: jnp.heaviside(x - 0.5, 0.5), X)
add("bf16 and back", lambda x: (x.astype(jnp.bfloat16) * 2).astype(jnp.float32), X)
add("astype i32", lambda x: (x * 10).astype(jnp.int32), X)
add("astype bool", lambda x: (x > 0.5).astype(jnp.float32), X)
add("lerp", lambda x, y: x + (y - x) * 0.25, X, Y)

# ---- jax.nn ----
each("relu relu6 sigmoid silu swish softplus gelu elu leaky_relu hard_tanh hard_sigmoid hard_swish soft_sign celu selu "
     "log_sigmoid mish tanh squareplus softmax log_softmax standardize logsumexp identity sparse_plus glu", nn, X)
add("nn.gelu erf", lambda x: nn.gelu(x, approximate=False), X)
add("nn.softmax axis 0", lambda x: nn.softmax(x, axis=0), X)
add("nn.softmax where", lambda x, m: nn.softmax(x, where=m), X, b1(3, 4))
add("nn.log_softmax axis 0", lambda x: nn.log_softmax(x, axis=0), X)
add("nn.one_hot", lambda i: nn.one_hot(i, 5), i32(4))
add("nn.one_hot 2d", lambda i: nn.one_hot(i, 3), i32(2, 3))
add("nn.dot_product_attention", lambda q, k, v: nn.dot_product_attention(q, k, v), f32(2, 3, 2, 4), f32(2, 3, 2, 4),
    f32(2, 3, 2, 4))
add("nn.dot_product_attention causal", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
    f32(2, 3, 2, 4), f32(2, 3, 2, 4), f32(2, 3, 2, 4))

# ---- reductions ----
each("sum mean max min var std all any ptp count_nonzero", jnp, X)
each("sum mean max min var std argmax argmin cumsum", jnp, X, axis=1)
each("sum mean max min all any", jnp, X, axis=0, keepdims=True)
each("nansum nanmean nanmax nanmin", jnp, X)
add("sum of two axes", lambda x: jnp.sum(x, axis=(0, 2)), f32(2, 3, 4))
add("sum of i32", jnp.sum, i32(3, 4))
add("max of i32", lambda x: jnp.max(x, 0), i32(3, 4))
add("min of i32", lambda x: jnp.min(x, 1), i32(3, 4))
add("argmax of i32", lambda x: jnp.argmax(x, 0), i32(3, 4))
add("argmax of all", jnp.argmax, X)
add("weighted mean", lambda x, w: jnp.average(x, axis=1, weights=w), X, U)
add("linalg.norm", jnp.linalg.norm, X)
add("linalg.norm axis", lambda x: jnp.linalg.norm(x, axis=1), X)
add("linalg.norm ord 1", lambda x: jnp.linalg.norm(x, ord=1, axis=1), X)
add("trace", jnp.trace, f32(4, 4))
add("cumsum reverse", lambda x: lax.cumsum(x, axis=1, reverse=True), X)
add("logsumexp keepdims", lambda x: nn.logsumexp(x, axis=0, keepdims=True), X)
add("diff", lambda x: jnp.diff(x, axis=1), X)

# ---- shapes ----
add("reshape", lambda x: x.reshape(2, 6), X)
add("ravel", jnp.ravel, X)
add("T", lambda x: x.T, X)
add("transpose", lambda x: jnp.transpose(x, (2, 0, 1)), f32(2, 3, 4))
add("swapaxes", lambda x: jnp.swapaxes(x, 0, 2), f32(2, 3, 4))
add("moveaxis", lambda x: jnp.moveaxis(x, 0, -1), f32(2, 3, 4))
add("expand_dims", lambda x: jnp.expand_dims(x, 1), X)
add("squeeze", lambda x: jnp.squeeze(x), f32(3, 1, 4))
add("broadcast_to", lambda x: jnp.broadcast_to(x, (2, 3, 4)), X)
add("concatenate", lambda x, y: jnp.concatenate([x, y], axis=1), X, Y)
add("stack", lambda x, y: jnp.stack([x, y]), X, Y)
add("stack last", lambda x, y: jnp.stack([x, y], axis=-1), X, Y)
add("hstack", lambda x, y: jnp.hstack([x, y]), X, Y)
add("vstack", lambda x, y: jnp.vstack([x, y]), X, Y)
add("split", lambda x: jnp.split(x, 2, axis=1), X)
add("split at", lambda x: jnp.split(x, [1, 3], axis=1), X)
add("array_split", lambda x: jnp.array_split(x, 3, axis=1), X)
add("tile", lambda x: jnp.tile(x, (2, 3)), X)
add("repeat", lambda x: jnp.repeat(x, 3, axis=1), X)
add("pad", lambda x: jnp.pad(x, ((1, 2), (0, 3))), X)
add("pad with one", lambda x: jnp.pad(x, 1, constant_values=1.0), X)
add("pad edge", lambda x: jnp.pad(x, ((0, 0), (1, 1)), mode="edge"), X)
add("lax.pad crop", lambda x: lax.pad(x, 0.0, ((-1, 0, 0), (1, -2, 0))), X)
add("flip", lambda x: jnp.flip(x, 1), X)
add("fliplr", jnp.fliplr, X)
add("rot90", jnp.rot90, X)
add("roll", lambda x: jnp.roll(x, 1, axis=1), X)
add("atleast_2d", jnp.atleast_2d, U)
add("zeros_like", jnp.zeros_like, X)
add("ones_like", jnp.ones_like, X)
add("full_like", lambda x: jnp.full_like(x, 3), X)
add("arange", lambda x: x + jnp.arange(4), X)
add("linspace", lambda x: x + jnp.linspace(0, 1, 4), X)
add("eye", lambda x: x @ jnp.eye(4), X)
add("tri", lambda x: x * jnp.tri(3, 4), X)
add("tril", jnp.tril, X)
add("triu", jnp.triu, X)
add("diag", jnp.diag, U)
add("diagonal", jnp.diagonal, f32(4, 4))
add("meshgrid", lambda v, w: jnp.meshgrid(v, w), U, U)
add("lax.iota", lambda x: x + lax.iota(jnp.float32, 4), X)

# ---- indexing ----
add("x[1]", lambda x: x[1], X)
add("x[-1]", lambda x: x[-1], X)
add("x[:, 1:3]", lambda x: x[:, 1:3], X)
add("x[::2]", lambda x: x[::2], X)
add("x[:, ::-1]", lambda x: x[:, ::-1], X)
add("x[..., None]", lambda x: x[..., None], X)
add("x[i]", lambda x, i: x[i], X, i32(2))
add("x[i] 2d", lambda x, i: x[i], X, i32(2, 2))
add("x[:, i]", lambda x, i: x[:, i], X, i32(2))
add("x[i] scalar", lambda x, i: x[i], X, i32())
add("take clip", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), X, i32(2))
add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, 1), (1, 2)), X, i32())
add("dynamic_index", lambda x, i: lax.dynamic_index_in_dim(x, i, 0, keepdims=False), X, i32())
add("dynamic_update_slice", lambda x, i: lax.dynamic_update_slice(x, x[:1, :2] * 2, (i, 1)), X, i32())
add("lax.slice", lambda x: lax.slice(x, (0, 1), (3, 4), (2, 2)), X)
add("slice_in_dim", lambda x: lax.slice_in_dim(x, 1, 3, axis=1), X)
add("embedding", lambda t, i: t[i] * 2, f32(7, 3), i32(2, 3))

# ---- products ----
add("matmul", lambda x, w: x @ w, X, W)
add("dot", jnp.dot, X, W)
add("lax.dot", lax.dot, X, W)
add("vdot", jnp.vdot, U, U)
add("inner", jnp.inner, X, Y)
add("matvec", lambda x, v: x @ v, X, U)
add("batched", lambda x, y: x @ y, f32(2, 3, 4), f32(2, 4, 5))
add("einsum ij,jk", lambda x, w: jnp.einsum("ij,jk->ik", x, w), X, W)
add("einsum bqhd", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), f32(2, 3, 2, 4), f32(2, 3, 2, 4))
add("einsum trace", lambda x: jnp.einsum("ij->", x), X)
add("einsum bilinear", lambda x, y: jnp.einsum("ij,ij->i", x, y), X, Y)
add("tensordot", lambda x, y: jnp.tensordot(x, y, axes=2), X, Y)
add("dot_general", lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), f32(2, 3, 4), f32(2, 4, 5))
add("dot precision", lambda x, w: lax.dot(x, w, precision=lax.Precision.HIGHEST), X, W)
add("dot bf16", lambda x, w: lax.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16),
                                     preferred_element_type=jnp.float32), X, W)

# ---- derivatives and maps of some of them ----
UNARY = {
    "sin": jnp.sin, "tanh": jnp.tanh, "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "square": jnp.square,
    "abs": jnp.abs, "softmax": nn.softmax, "log_softmax": nn.log_softmax, "relu": nn.relu, "gelu": nn.gelu,
    "silu": nn.silu, "softplus": nn.softplus, "sigmoid": nn.sigmoid, "max": lambda x: jnp.max(x, -1),
    "mean": lambda x: jnp.mean(x, -1), "var": lambda x: jnp.var(x, -1), "cumsum": lambda x: jnp.cumsum(x, -1),
    "logsumexp": lambda x: nn.logsumexp(x, -1), "where": lambda x: jnp.where(x > 0.5, x * x, x),
    "clip": lambda x: jnp.clip(x, 0.2, 0.8), "norm": lambda x: jnp.linalg.norm(x, axis=-1), "cube": lambda x: x ** 3,
    "slice": lambda x: x[..., 1:3] * x[..., :2], "concat": lambda x: jnp.concatenate([x, x * x], -1),
    "pad": lambda x: jnp.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(1, 1)]),
    "reshape": lambda x: (x.reshape(-1) ** 2).sum(), "flip": lambda x: jnp.flip(x, -1) * x,
}
for n, f in UNARY.items():
    total = (lambda f: lambda x: jnp.sum(f(x)))(f)
    add(f"grad {n}", jax.grad(total), X)
    add(f"jvp {n}", (lambda f: lambda x, t: jax.jvp(f, (x,), (t,)))(f), X, Y)
    add(f"vmap {n}", jax.vmap(f), X)
    add(f"value_and_grad of vmap {n}", jax.value_and_grad((lambda f: lambda x: jnp.mean(jax.vmap(f)(x)))(f)), X)
    add(f"grad of checkpoint {n}", jax.grad((lambda t: lambda x: jax.checkpoint(t)(x))(total)), X)
    add(f"jit {n}", jax.jit(f), X)
for n in "sin tanh square softmax logsumexp cube gelu sigmoid".split():
    total = (lambda f: lambda x: jnp.sum(f(x) ** 2))(UNARY[n])
    add(f"hessian {n}", jax.hessian(total), U)
    add(f"grad of grad {n}", jax.grad((lambda t: lambda x: jnp.sum(jax.grad(t)(x) ** 2))(total)), U)
    add(f"jacfwd {n}", jax.jacfwd(UNARY[n]), U)
    add(f"jacrev {n}", jax.jacrev(UNARY[n]), U)
add("linearize", lambda x: jax.linearize(jnp.sin, x)[1](x), X)
add("vjp", lambda x, t: jax.vjp(jnp.sin, x)[1](t), X, Y)
add("psum in vmap", jax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i"), X)
add("pmean in vmap", jax.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i"), X)
add("vmap in_axes 1", jax.vmap(lambda v, w: v @ w, in_axes=(1, None)), X, f32(3, 5))
add("vmap of vmap", jax.vmap(jax.vmap(lambda v: v / v.sum())), f32(2, 3, 4))

# ---- control flow ----
add("scan", lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X)
add("scan reverse", lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x, reverse=True), X)
add("scan with constants", lambda x, w: lax.scan(lambda c, r: (jnp.tanh(c @ w + r), c.sum()), x[0], x), X, f32(4, 4))
add("grad of scan", jax.grad(lambda x: lax.scan(lambda c, r: (jnp.sin(c * r), None), x[0], x)[0].sum()), X)
add("vmap of scan", jax.vmap(lambda v: lax.scan(lambda c, r: (c + r, c), 0.0, v)), X)
add("fori_loop", lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, x), X)
add("while_loop", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)), X)
add("while of sum", lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x), X)
add("cond", lambda x: lax.cond(x[0, 0] > 0.5, lambda y: y + 1, lambda y: -y, x), X)
add("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), i32(), X)
add("grad of cond", jax.grad(lambda x: lax.cond(x[0] > 0.5, jnp.sin, jnp.cos, x).sum()), U)
add("map", lambda x: lax.map(lambda r: r * r.sum(), x), X)
add("associative", lambda x: lax.fori_loop(0, 4, lambda i, c: c + x[i], jnp.zeros(())), U)
add("optimization_barrier", lambda x: lax.optimization_barrier(x) * 2, X)

# ---- small models ----


def dense(x, w, b):
    return x @ w + b


def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def mlp(x, w1, b1_, w2):
    return nn.gelu(dense(x, w1, b1_)) @ w2


def attention(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    return nn.softmax(q @ k.T / 2.0, axis=-1) @ v


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.sum(nn.log_softmax(logits) * nn.one_hot(labels, logits.shape[-1]), axis=-1))


MLP = (X, W, f32(5), f32(5, 2))
ATT = (X, f32(4, 4), f32(4, 4), f32(4, 4))
MODELS = {
    "dense": (dense, (X, W, f32(5))), "layer_norm": (layer_norm, (X, U, U)), "mlp": (mlp, MLP),
    "attention": (attention, ATT),
    "rms_norm": (lambda x, g: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g, (X, U)),
    "block": (lambda x, g, b, w1, b1_, w2: x + mlp(layer_norm(x, g, b), w1, b1_, w2),
              (X, U, U, f32(4, 8), f32(8), f32(8, 4))),
    "gru": (lambda h, x, w: (1 - nn.sigmoid(x @ w)) * h + nn.sigmoid(x @ w) * jnp.tanh(x @ w), (X, X, f32(4, 4))),
    "swiglu": (lambda x, w, v: nn.silu(x @ w) * (x @ v), (X, W, W)),
    "logistic regression": (lambda x, w: jnp.mean(jnp.log1p(jnp.exp(-(x @ w)))), (X, U)),
    "mse": (lambda x, y: jnp.mean((x - y) ** 2), (X, Y)),
    "huber": (lambda x, y: jnp.mean(jnp.where(jnp.abs(x - y) < 0.3, 0.5 * (x - y) ** 2, 0.3 * (jnp.abs(x - y) - 0.15))),
              (X, Y)),
    "cosine": (lambda x, y: jnp.sum(x * y) / (jnp.linalg.norm(x) * jnp.linalg.norm(y)), (X, Y)),
    "batch_norm": (lambda x, g, b: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5) * g + b, (X, U, U)),
    "patches": (lambda x, w: x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, 12) @ w,
                (f32(2, 4, 4, 3), f32(12, 5))),
    "rotary": (lambda x: jnp.concatenate([x[:, :2] * jnp.cos(0.5) - x[:, 2:] * jnp.sin(0.5),
                                          x[:, 2:] * jnp.cos(0.5) + x[:, :2] * jnp.sin(0.5)], -1), (X,)),
}
for n, (f, inputs) in MODELS.items():
    total = (lambda f: lambda *a: jnp.sum(f(*a) ** 2))(f)
    every = tuple(range(len(inputs)))
    add(f"model {n}", f, *inputs)
    add(f"grad of model {n}", jax.grad(total, argnums=every), *inputs)
    add(f"jit of grad of model {n}", jax.jit(jax.grad(total)), *inputs)
    add(f"checkpoint of model {n}", jax.grad(jax.checkpoint(total)), *inputs)
    add(f"vmap of model {n}", jax.vmap(f, in_axes=(0,) + (None,) * (len(inputs) - 1)), ((2,) + inputs[0][0], np.float32),
        *inputs[1:])
add("cross entropy", cross_entropy, X, i32(3))
add("grad of cross entropy", jax.grad(cross_entropy), X, i32(3))
add("sgd step", lambda w, x, y: w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w), U, X, f32(3))
add("adam step", lambda p, g, m, v: p - 0.1 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8), U, U, U, U)
add("clip by norm", lambda g: g * jnp.minimum(1.0, 1.0 / (jnp.linalg.norm(g) + 1e-6)), X)
add("ema", lambda a, p: 0.99 * a + 0.01 * p, X, Y)
add("cosine schedule", lambda t: 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(t, 1.0))), f32())
add("accuracy", lambda x, y: jnp.mean(jnp.argmax(x, -1) == y), X, i32(3))

# ---- in common use, without an op here ----
each("sinh cosh arcsin arctan sort argsort prod cumprod round trunc cbrt", jnp, X)
add("atan2", jnp.arctan2, X, Y)
add("float mod", jnp.mod, X, Y)
add("bits", lambda x: x & 1, i32(3, 4))
add("shift", lambda x: x << 1, i32(3, 4))
add("top_k", lambda x: lax.top_k(x, 2), X)
add("erf_inv", lax.erf_inv, X)
add("lgamma", lax.lgamma, X)
add("take fill", lambda x, i: jnp.take(x, i, axis=0), X, i32(2))
add("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, axis=1), X, i32(3, 2))
add("x.at[i].add", lambda x, i: x.at[i].add(1.0), X, i32(2))
add("x.at[i].set", lambda x: x.at[1].set(0.0), X)
add("grad of x[i]", jax.grad(lambda x, i: jnp.sum(x[i] ** 2)), X, i32(2))
add("conv", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), f32(1, 3, 4, 4), f32(2, 3, 3, 3))
add("max pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), f32(4, 4))
add("random.normal", lambda x: x + jax.random.normal(jax.random.key(0), (3, 4)), X)
add("random.uniform", lambda x: x + jax.random.uniform(jax.random.key(0), (3, 4)), X)
add("dropout", lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, x.shape), x, 0.0), X)
add("fft", lambda x: jnp.abs(jnp.fft.fft(x)), U)
add("linalg.inv", lambda x: jnp.linalg.inv(x + 3 * jnp.eye(4)), f32(4, 4))
add("searchsorted", jnp.searchsorted, U, U)


def numbers(v):
    v = np.asarray(v)
    v = v.astype(np.float64).reshape(-1)
    return " ".join(repr(float(x)) for x in v[:12])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "golden", "jaxprs", "jax.txt")
    n = 0
    with open(out, "w") as f:
        f.write(f"# {len(P)} programs, printed by jax {jax.__version__}: tests/model/jaxprs.py\n\n")
        for name, fn, inputs in P:
            a = [jnp.asarray(value(s, t, k)) for k, (s, t) in enumerate(inputs)]
            try:
                text = str(jax.make_jaxpr(fn)(*a))
                outs = jax.tree.leaves(fn(*a))
            except Exception as e:  # a name that this jax no longer has
                print(f"{name}: {str(e).splitlines()[0][:100]}", file=sys.stderr)
                continue
            f.write(f"## {name}\n{text.rstrip()}\n")
            for o in outs:
                f.write(f"#= {numbers(o)}\n")
            f.write("\n")
            n += 1
    print(f"{n} programs in {out}")


if __name__ == "__main__":
    main()
