"""Reads a served stream twice, whole and from the middle, and metrics; compares with batch --out.
Then records of five fields of five types, one ragged, made of arrays that it writes (--make WORK)."""
import sys

import numpy

def make(work):
    """Arrays for the source npy: 320 records."""
    r = numpy.random.default_rng(5)
    rows = r.integers(0, 9, 320)
    at = numpy.concatenate([[0], numpy.cumsum(rows)])
    arrays = dict(pixels=r.integers(0, 256, (320, 70, 70), "u1"), weight=r.random(320, "f4"), box=r.random((320, 2, 2)).astype("f2"),
                  id=r.integers(0, 1 << 62, 320), tokens=r.integers(0, 1 << 32, (at[-1], 3), "u4"), at=at.astype("i8"))
    for name, a in arrays.items():
        numpy.save(f"{work}/{name}.npy", a)


if sys.argv[1] == "--make":
    make(sys.argv[2])
    sys.exit()

example, server, several, publisher, work = sys.argv[1:]
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
a = {name: numpy.load(f"{work}/{name}.npy") for name in ("pixels", "weight", "box", "id", "tokens", "at")}
EVEN = ("pixels", "weight", "box", "id")
for number, fields, keys, excluded in batches.batches(several):
    assert sorted(fields) == sorted(EVEN + ("tokens",)) and len(keys) == 16, fields.keys()
    for name in EVEN:
        assert fields[name].dtype == a[name].dtype and numpy.array_equal(fields[name], a[name][keys]), (number, name)
    for key, rows in zip(keys, fields["tokens"], strict=True):
        assert numpy.array_equal(rows, a["tokens"][a["at"][key]:a["at"][key + 1]]), (number, key)
    if number + 1 in (1, 20):
        z = numpy.load(f"{work}/{number + 1}.npz")
        assert sorted(z) == sorted(EVEN + ("tokens", "tokens.offsets")), list(z)
        assert all(z[name].dtype == a[name].dtype and numpy.array_equal(z[name], fields[name]) for name in EVEN)
        at = z["tokens.offsets"]
        assert all(numpy.array_equal(z["tokens"][at[i]:at[i + 1]], rows) for i, rows in enumerate(fields["tokens"]))
assert number == 19, number
record = next(iter(batches.metrics(publisher)))
assert record["step"] >= 1 and "loss" in record, record
print("links: 47 batches, 20 of five fields, and a record of metrics read from Python, equal to millrace's own and to NumPy's")
