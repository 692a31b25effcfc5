#!/usr/bin/env python3
"""Golden vectors of grain's mp_prefetch behind InterleaveIterDataset: workers are dealt whole datasets.

usage: interleave_workers.py FILE     (tests/golden/interleave_workers.txt; needs grain 0.2.18)
"""
import logging
import random
import sys

import grain
from absl import flags
from grain import experimental


def main():
    logging.disable(logging.CRITICAL)
    flags.FLAGS.mark_as_parsed()
    rng = random.Random(16)
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(f"# grain {grain.__version__}: InterleaveIterDataset([range(100 k, 100 k + length) ..], "
                "cycle_length).mp_prefetch(num_workers); empty workers left out.\n"
                "# cycle_length num_workers lengths, .. | elements\n")
        for _ in range(24):
            n = rng.randint(2, 7)
            cycle, workers = rng.randint(1, n), rng.randint(2, n)
            lengths = [rng.randint(1, 6) for _ in range(n)]
            parts = [grain.MapDataset.range(100 * k, 100 * k + m).to_iter_dataset() for k, m in enumerate(lengths)]
            ds = experimental.InterleaveIterDataset(parts, cycle_length=cycle)
            out = list(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)))
            f.write(f"{cycle} {workers} {','.join(map(str, lengths))} | {' '.join(map(str, out))}\n")


if __name__ == "__main__":
    main()
