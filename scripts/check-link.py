"""Reads a served stream twice, whole and from the middle, and metrics; compares with batch --out."""
import sys

import numpy

example, server, publisher, work = sys.argv[1:]
sys.path.insert(0, example)
import batches  # noqa: E402

whole = list(batches.batches(server))
assert [b[0] for b in whole] == list(range(20)), [b[0] for b in whole]
for step in (1, 20):
    number, fields, keys, excluded = whole[step - 1]
    assert list(fields) == ["image", "label"] and not excluded.any(), fields
    assert numpy.array_equal(fields["image"], numpy.load(f"{work}/{step}.npy")), step
    assert numpy.array_equal(fields["label"], numpy.load(f"{work}/{step}-labels.npy")), step
assert sorted(numpy.concatenate([b[2] for b in whole]).tolist()) == list(range(320))
rest = list(batches.batches(server, number=13))
assert [b[0] for b in rest] == list(range(13, 20))
assert all(numpy.array_equal(a[1]["image"], b[1]["image"]) for a, b in zip(rest, whole[13:]))
record = next(iter(batches.metrics(publisher)))
assert record["step"] >= 1 and "loss" in record, record
print("links: 27 batches and a record of metrics read from Python, equal to millrace's own")
