"""Runs the random programs of test_random_programs in jax, in double precision, and compares values,
derivatives and maps of them:

    python3 -m venv /tmp/jax && /tmp/jax/bin/pip install jax
    MILLRACE_SEED=1 MILLRACE_PROGRAMS=200 MILLRACE_PROGRAMS_TO=/tmp/programs.py build/release/tests/test_model_random_programs
    /tmp/jax/bin/python tests/model/random_programs_jax.py /tmp/programs.py

Prints what differs, by seed; ends with 1 if anything does.  A wild program (seeds that are odd) may
differ where a composite (gelu, layer_norm, ...) overflows or cancels in one way of writing it."""
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
inf, nan = np.inf, np.nan
DTYPE = {"bool": "bool", "u8": "uint8", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
         "f32": "float64", "f64": "float64"}  # everything in double precision


def const(v, dtype):
    return np.array(v, DTYPE[dtype])


def is_float(x):
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def layer_norm(x, scale, bias, eps=0, **_):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * (lax.rsqrt(var + eps) * scale) + bias, None, None


def attention(q, k, v, scale=1, **_):
    p = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) * scale, axis=-1)
    return jnp.einsum("bhts,bshd->bthd", p, v), None


def linear(x, w, *b, transposed=False, **_):
    y = x @ (w.T if transposed else w)
    return y + b[0] if b else y


def cross_entropy(x, label, smoothing=0, **_):
    target = jax.nn.one_hot(label, x.shape[1], dtype=x.dtype) * (1 - smoothing) + smoothing / x.shape[1]
    top = lax.stop_gradient(x.max(1))
    loss = top + jnp.log(jnp.exp(x - top[:, None]).sum(1)) - (target * x).sum(1)
    return jnp.where(label == -1, 0, loss)


def as_tangent(t, x):
    return jnp.zeros(x.shape, x.dtype) if not is_float(x) else t


def no_tangent(t, y):
    return t if is_float(y) else np.zeros(np.shape(y), jax.dtypes.float0)


def custom_jvp(*x, call_jaxpr=None, jvp_jaxpr=None):
    f = jax.custom_jvp(call_jaxpr)

    @f.defjvp
    def rule(x, t):
        out = jvp_jaxpr(*x, *map(as_tangent, t, x))
        y = out[:len(out) // 2]
        return y, tuple(map(no_tangent, out[len(y):], y))
    return f(*x)


def custom_vjp(*x, call_jaxpr=None, fwd_jaxpr=None, bwd_jaxpr=None):
    f = jax.custom_vjp(call_jaxpr)
    n = len(jax.eval_shape(call_jaxpr, *x))

    def fwd(*x):
        out = fwd_jaxpr(*x)
        return out[:n], (out[n:], out[:n], x)

    def bwd(kept, ct):
        kept, y, x = kept
        return tuple(map(no_tangent, bwd_jaxpr(*kept, *map(as_tangent, ct, y)), x))
    f.defvjp(fwd, bwd)
    return f(*x)


def scan(*x, jaxpr=None, num_consts=0, num_carry=0, length=0, reverse=False, **_):
    consts, carry, rows = x[:num_consts], x[num_consts:num_consts + num_carry], x[num_consts + num_carry:]

    def step(c, r):
        out = jaxpr(*consts, *c, *r)
        return out[:num_carry], out[num_carry:]
    carry, y = lax.scan(step, carry, rows, length=length, reverse=reverse)
    return (*carry, *y)


def while_loop(*x, body_jaxpr=None, body_nconsts=0, cond_jaxpr=None, cond_nconsts=0):
    cc, bc, carry = x[:cond_nconsts], x[cond_nconsts:cond_nconsts + body_nconsts], x[cond_nconsts + body_nconsts:]
    return lax.while_loop(lambda c: cond_jaxpr(*cc, *c)[0], lambda c: body_jaxpr(*bc, *c), carry)


def plain(f):  # an op whose attributes do not matter
    return lambda *x, out, **_: f(*x)


def to_dtype(x, out):
    return lax.convert_element_type(x, DTYPE[out[0][0]])


ONE = "abs cos erf exp expm1 floor log log1p logistic neg rsqrt sign sin sqrt tanh add sub mul div max min pow eq ne lt le gt ge select_n stop_gradient optimization_barrier"
OPS = {n: plain(getattr(lax, n)) for n in ONE.split()}
OPS |= {
    "integer_pow": lambda x, y, **_: lax.integer_pow(x, y),
    "iota": lambda out, dimension, **_: lax.broadcasted_iota(DTYPE[out[0][0]], out[0][1], dimension),
    "convert_element_type": lambda x, out, **_: to_dtype(x, out),
    "reshape": lambda x, out, **_: x.reshape(out[0][1]),
    "squeeze": lambda x, dimensions, **_: lax.squeeze(x, dimensions),
    "transpose": lambda x, permutation, **_: lax.transpose(x, permutation),
    "broadcast_in_dim": lambda x, out, broadcast_dimensions, **_: lax.broadcast_in_dim(x, out[0][1], broadcast_dimensions),
    "slice": lambda x, start_indices, limit_indices, **_: lax.slice(x, start_indices, limit_indices),
    "pad": lambda x, low, high, **_: lax.pad(x, jnp.zeros((), x.dtype), [(a, b, 0) for a, b in zip(low, high)]),
    "concatenate": lambda *x, dimension, **_: lax.concatenate(x, dimension),
    "rev": lambda x, dimensions, **_: lax.rev(x, dimensions),
    "reduce_sum": lambda x, axes, **_: lax.reduce_sum(x, axes),
    "reduce_max": lambda x, axes, **_: lax.reduce_max(x, axes),
    "cumsum": lambda x, axis, reverse, **_: lax.cumsum(x, axis, reverse),
    "sum_squares": lambda x, **_: (x * x).sum(),
    "take": lambda x, i, **_: jnp.take(x, i, axis=0, mode="clip"),
    "dot_general": lambda a, b, dimension_numbers, **_: lax.dot_general(a, b, dimension_numbers),
    "linear": linear, "layer_norm": layer_norm, "attention": attention, "softmax_cross_entropy": cross_entropy,
    "softmax": lambda x, **_: jax.nn.softmax(x, axis=-1),
    "gelu": lambda x, kind, **_: jax.nn.gelu(x, approximate=kind == "tanh"),
    "jit": lambda *x, jaxpr, **_: jax.jit(jaxpr)(*x),
    "checkpoint": lambda *x, jaxpr, **_: jax.checkpoint(jaxpr)(*x),
    "custom_jvp_call": lambda *x, out, **a: custom_jvp(*x, **a),
    "custom_vjp_call": lambda *x, out, **a: custom_vjp(*x, **a),
    "scan": lambda *x, out, **a: scan(*x, **a),
    "while": lambda *x, out, **a: while_loop(*x, **a),
    "cond": lambda i, *x, branches, **_: lax.switch(i, branches, *x),
}


class Missing(Exception):
    pass


def op(name, x, out, /, **attrs):
    if name not in OPS:
        raise Missing(name)
    y = OPS[name](*map(jnp.asarray, x), out=out, **attrs)
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)


def arrays(values):
    return [jnp.array(np.array(v, np.float64).reshape(a[1])).astype(DTYPE[a[0]]) for a, v in values]


def derived(f, how, wrt, n):
    def moving(x):
        def g(*w):
            full = list(x)
            for i, v in zip(wrt, w):
                full[i] = v
            return f(*full)
        return g, tuple(x[i] for i in wrt)

    def vjp(*args):
        g, w = moving(args[:n])
        y, back = jax.vjp(g, *w)
        return back(tuple(map(no_tangent, args[n:], y)))

    def jvp(*args):
        g, w = moving(args[:n])
        y, t = jax.jvp(g, w, args[n:])
        return (*y, *(as_tangent(a, b) for a, b in zip(t, y)))
    return {"vjp": vjp, "jvp": jvp, "value": f}[how]


def differs(got, want):
    got, want = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        same |= np.abs(got - want) <= 1e-5 * (0.1 + np.abs(want))  # composites hold constants of f32
    return np.flatnonzero(~same)


def first_difference(results, got):
    for k, ((aval, want), y) in enumerate(zip(results, got)):
        at = differs(want, y)
        if len(at):
            i = at[0]
            return f"output {k} of {aval} element {i} is {want[i]!r}, in jax {np.asarray(y, np.float64).ravel()[i]!r}"
    return None


def check(name, program, how, mapped, wrt, inputs, results):
    x = arrays(inputs)
    n = program.__code__.co_argcount
    f = derived(program, how, wrt, n)
    f = jax.vmap(f) if mapped else f
    # XLA compiles a product with a mask as a choice, which loses a NaN: then op by op.
    for run in (jax.jit(f), f):
        wrong = first_difference(results, run(*x))
        if not wrong:
            return True
    print(f"{name} {how}{' mapped' if mapped else ''}: {wrong}", flush=True)
    return False


def main(path):
    good, bad, skipped = 0, 0, 0
    for text in open(path).read().split("# program\n")[1:]:
        env = {"op": op, "const": const, "inf": inf, "nan": nan}
        exec(text, env)
        try:
            ok = check(env["name"], env["program"], env["how"], env["mapped"], env["wrt"], env["inputs"], env["results"])
            good, bad = good + ok, bad + (not ok)
        except Missing:
            skipped += 1
        except Exception as e:
            print(f"{env['name']} {env['how']}: {type(e).__name__}: {str(e)[:300]}", flush=True)
            bad += 1
    print(f"jax {jax.__version__}: {good} agree, {bad} differ, {skipped} left out (ops that jax draws or lays out otherwise)")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
