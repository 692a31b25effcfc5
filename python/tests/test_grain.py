"""The adapter in the real grain: scripts/check-python-frameworks.sh."""

import json

import numpy
import pytest

grain = pytest.importorskip("grain")

from conftest import STREAMS  # noqa: E402

import millrace as mr  # noqa: E402
from millrace.grain import IterDataset  # noqa: E402


def values(batch):
    return {name: array.tobytes() for name, array in batch.items()}


def test_its_batches_are_the_streams(graph):
    with mr.stream(graph) as s:
        want = [values({n: numpy.asarray(a) for n, a in b.items()}) for b in s]
    assert [values(b) for b in IterDataset(graph)] == want


@pytest.mark.parametrize("stop", range(5))
def test_a_state_goes_through_json_into_another_iterator(graph, stop):
    want = [values(b) for b in IterDataset(graph)]
    it = iter(IterDataset(graph))
    for _ in range(stop):
        next(it)
    state = json.loads(json.dumps(it.get_state()))
    for _ in range(2):
        next(it)
    other = iter(IterDataset(graph, settings={"batch.workers": 3}))
    other.set_state(state)
    assert [values(b) for b in other] == want[stop:]
    it.set_state(state)  # and back in place
    assert values(next(it)) == want[stop]


def test_grains_own_transforms_follow_it():
    ds = IterDataset(STREAMS["positions"]).map(lambda b: int(b["value"].sum())).batch(4)
    sums = [int(x) for b in ds for x in b]
    with mr.stream(STREAMS["positions"]) as s:
        assert sums == [int(numpy.asarray(b["value"]).sum()) for b in s]


def test_a_state_of_grains_own_chain_resumes_it():
    ds = IterDataset(STREAMS["pictures"]).map(lambda b: b["label"].tolist())
    it = iter(ds)
    head = [next(it) for _ in range(7)]
    state = json.loads(json.dumps(it.get_state()))
    again = iter(ds)
    again.set_state(state)
    assert head + list(again) == list(ds)


def test_its_order_is_grains():
    sampler = grain.samplers.IndexSampler(num_records=100, shuffle=True, seed=1, num_epochs=1)
    want = [int(sampler[i].record_key) for i in range(100)]
    assert [int(x) for b in IterDataset("range 100 ! shuffle seed=1 ! batch 10") for x in b["value"]] == want
