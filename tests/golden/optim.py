"""Writes optim.txt here: parameters after each of three steps of optax's optimizers (optax 0.2.8, jax 0.10.2).

Lines: "NAME STEP values of a (2,3) and of b (3) after the step".  Gradients: see grads().
"""
import jax.numpy as jnp
import numpy as np
import optax

LR = 0.05
A = np.array([[0.5, -1.25, 0.0], [2.0, -0.03125, 1.0]], np.float32)
B = np.zeros(3, np.float32)  # lamb: a tensor of norm 0


def grads(step):
    a = np.array([[0.25, -0.5, 1.0], [-2.0, 0.0, 0.125]], np.float32) * np.float32(4 - step)
    b = np.array([0.75, -1.5, 0.0], np.float32) * np.float32(step)
    return jnp.array(a), jnp.array(b)


CASES = {
    "sgd": optax.sgd(LR),
    "momentum": optax.sgd(LR, momentum=0.9),
    "nesterov": optax.sgd(LR, momentum=0.9, nesterov=True),
    "adam": optax.adam(LR),
    "adamw": optax.adamw(LR, weight_decay=1e-2),
    "lion": optax.lion(LR),
    "lamb": optax.lamb(LR),
    "lamb_decay": optax.lamb(LR, weight_decay=1e-2),
    "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(LR, momentum=0.9)),
}

with open("optim.txt", "w") as f:
    f.write("# optax 0.2.8: NAME STEP a[2,3] b[3]\n")
    for name, opt in CASES.items():
        p = (jnp.array(A), jnp.array(B))
        state = opt.init(p)
        for step in (1, 2, 3):
            update, state = opt.update(grads(step), state, p)
            p = optax.apply_updates(p, update)
            values = np.concatenate([np.ravel(x) for x in p])
            f.write(f"{name} {step} " + " ".join(f"{float(v):.9g}" for v in values) + "\n")
