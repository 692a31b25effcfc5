"""Streams of every kind, and what they hold."""

import hashlib

import numpy
import pytest

import millrace as mr

STREAMS = {
    "positions": "range 1000 ! shuffle seed=1 epochs=3 ! batch 32 workers=2",
    "pictures": "synthetic n=300 ! shuffle seed=3 epochs=2 ! flip ! normalize ! batch 16 workers=3",
    "walk": "range 500 ! shuffle seed=5 epochs=2 ! to-iter-dataset ! window-shuffle 64 seed=2 ! batch 20",
    "mix": "range 300 ! shuffle seed=1 epochs=2 ! mix weights=1,3 name=m range 900 ! shuffle seed=2 epochs=2 ! m.b "
           "m. ! filter p=0.5 ! batch 16",
    "regrouped": "range 640 ! shuffle seed=8 epochs=2 ! batch 10 ! rebatch 24",
    "remainder": "range 100 ! shuffle seed=4 ! batch 7",
}


def content(batch):
    """What a batch holds, as a digest."""
    h = hashlib.sha256(repr((batch.step, batch.n, batch.ids, batch.excluded)).encode())
    for name, array in batch.items():
        h.update(name.encode())
        h.update(numpy.asarray(array).tobytes())
    return h.hexdigest()


@pytest.fixture(params=STREAMS, ids=list(STREAMS))
def graph(request):
    return STREAMS[request.param]


_whole = {}


@pytest.fixture
def whole(graph):
    """The contents of all batches of the graph, and its ledger at the end."""
    if graph not in _whole:
        with mr.stream(graph) as s:
            _whole[graph] = [content(b) for b in s], s.ledger
    return _whole[graph]
