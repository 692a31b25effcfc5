"""Writes tnormal.txt and erf.txt here: jax.random.truncated_normal between many bounds, and jax.lax.erf and erf_inv, in
f32 (jax 0.10.2, CPU).

tnormal.txt: "PARTITIONABLE SEED LOWER UPPER draws[16]", floats as 8 hex digits of their bits.
erf.txt: "erf X Y" and "erf_inv X Y", the same.
"""
import os, struct
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np

BOUNDS = [(-2.5, 2.5), (-3, 3), (-4, 4), (-5, 5), (-6, 6), (-100, 100), (2, 3), (3, 4), (2.5, 9), (4.5, 5), (-5, -3.5), (-9, -2),
          (-1, 4), (-4, 0.5), (0, 3.25), (-np.inf, np.inf), (1, np.inf), (3.5, np.inf), (-np.inf, -2.75), (5.5, 6.5), (7, 8),
          (-5.3528, -1.3996), (5.3, 5.4)]


def bits(x):
    return "%08x" % struct.unpack("<I", struct.pack("<f", np.float32(x)))


with open("tnormal.txt", "w") as f:
    f.write(f"# jax {jax.__version__}: PARTITIONABLE SEED LOWER UPPER draws[16]\n")
    for layout in (1, 0):
        jax.config.update("jax_threefry_partitionable", bool(layout))
        for seed, (lo, hi) in enumerate(BOUNDS):
            draws = np.asarray(jax.random.truncated_normal(jax.random.PRNGKey(seed), lo, hi, (16,)))
            f.write(f"{layout} {seed} {bits(lo)} {bits(hi)} {' '.join(map(bits, draws))}\n")

with open("erf.txt", "w") as f:
    f.write(f"# jax {jax.__version__}: erf X Y and erf_inv X Y, f32\n")
    x = np.concatenate([np.linspace(-4.5, 4.5, 181), [3.7438, 3.744, 3.7622, 3.8326, 1e-30, -1e-3, 0.0, -0.0, np.inf, -np.inf, 1e38]])
    for a in x.astype(np.float32):  # one by one: for arrays XLA has another limit from which on erf is 1
        f.write(f"erf {bits(a)} {bits(jax.lax.erf(a))}\n")
    u = np.concatenate([np.linspace(-1, 1, 161), 1 - 2.0 ** -np.arange(3, 25), 2.0 ** -np.arange(3, 25) - 1, [1e-30, -1e-3]])
    for a, b in zip(u.astype(np.float32), np.asarray(jax.lax.erf_inv(u.astype(np.float32)))):
        f.write(f"erf_inv {bits(a)} {bits(b)}\n")
