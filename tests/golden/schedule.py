"""Writes schedule.txt here: optax's learning rates (optax 0.2.8) for settings drawn at random.

Rows: "KIND PEAK END WARMUP TOTAL STEP RATE"; KIND as in model/optim/schedule.h; TOTAL 0: constant after the warm-up.
"""
import os, random
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
import optax

draw = random.Random(7)
COSINE, LINEAR = 0, 1

with open("schedule.txt", "w") as f:
    f.write("# optax 0.2.8: KIND PEAK END WARMUP TOTAL STEP RATE\n")
    for case in range(36):
        peak = float(np.float32(10 ** draw.uniform(-5, 1)))
        end = float(np.float32(draw.choice([0, peak * draw.random(), peak * draw.uniform(1, 3)])))
        warmup = draw.choice([0, 1, draw.randint(1, 2000)])
        total = warmup + draw.choice([1, draw.randint(1, 100000)])
        after = optax.linear_schedule(peak, end, total - warmup) if case % 3 == LINEAR else optax.constant_schedule(peak)
        rate = optax.join_schedules([optax.linear_schedule(0, peak, warmup), after], [warmup])
        if case % 3 == COSINE:
            rate = optax.warmup_cosine_decay_schedule(0, peak, warmup, total, end)
        steps = {0, 1, warmup // 2, warmup - 1, warmup, warmup + 1, total - 1, total, total + 12345}
        steps |= {draw.randint(0, total) for _ in range(3)}
        for step in sorted(s for s in steps if s >= 0):
            kind, last = (case % 3, total) if case % 3 < 2 else (COSINE, 0)
            f.write(f"{kind} {peak:.9g} {end:.9g} {warmup} {last} {step} {float(rate(step)):.9g}\n")
