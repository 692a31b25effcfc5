"""Writes optim_dtypes.txt here: parameters of f64, of bf16 and of f16 after each of three steps of optax's optimizers
(optax 0.2.8, jax 0.10.2), operation by operation.

Lines: "NAME DTYPE STEP values of a (2,3) and of b (3) after the step".  Settings are numbers of f32, as ours are.
"""
import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_jit", True)

import jax.numpy as jnp
import numpy as np
import optax


def f32(v):
    return float(np.float32(v))


LR = f32(0.05)
A = np.array([[0.5, -1.25, 0.0], [2.0, -0.03125, 1.0]])
B = np.zeros(3)  # lamb: a tensor of norm 0


def grads(step, dtype):
    a = np.array([[0.25, -0.5, 1.0], [-2.0, 0.0, 0.125]]) * (4 - step)
    b = np.array([0.75, -1.5, 0.0]) * step
    return jnp.array(a, dtype), jnp.array(b, dtype)


ADAM = {"b1": f32(0.9), "b2": f32(0.999), "eps": f32(1e-8)}
CASES = {
    "sgd": optax.sgd(LR),
    "momentum": optax.sgd(LR, momentum=f32(0.9)),
    "nesterov": optax.sgd(LR, momentum=f32(0.9), nesterov=True),
    "adam": optax.adam(LR, **ADAM),
    "adamw": optax.adamw(LR, weight_decay=f32(1e-2), **ADAM),
    "lion": optax.lion(LR, b1=f32(0.9), b2=f32(0.99), weight_decay=f32(1e-3)),
    "lamb": optax.lamb(LR, **{**ADAM, "eps": f32(1e-6)}),
    "lamb_decay": optax.lamb(LR, weight_decay=f32(1e-2), **{**ADAM, "eps": f32(1e-6)}),
}

with open("optim_dtypes.txt", "w") as f:
    f.write("# optax 0.2.8: NAME DTYPE STEP a[2,3] b[3]\n")
    for dtype in ("float64", "bfloat16", "float16"):
        for name, opt in CASES.items():
            p = (jnp.array(A, dtype), jnp.array(B, dtype))
            state = opt.init(p)
            for step in (1, 2, 3):
                update, state = opt.update(grads(step, dtype), state, p)
                p = optax.apply_updates(p, update)
                assert all(x.dtype == dtype for x in jax.tree.leaves((p, update)))
                values = np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in p])
                f.write(f"{name} {dtype} {step} " + " ".join(f"{v:.17g}" for v in values) + "\n")
