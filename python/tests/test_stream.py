"""Iterating, saving, finding and sharing a stream's place."""

import copy
import json
import pickle
import random
import threading

import numpy
import pytest
from conftest import STREAMS, content

import millrace as mr


def test_two_streams_of_one_graph_hold_the_same(graph, whole):
    with mr.stream(graph) as s:
        assert [content(b) for b in s] == whole[0]
        assert s.ledger == whole[1]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_number_of_workers_changes_nothing(graph, whole, workers):
    with mr.stream(graph, settings={"batch.workers": workers}) as s:
        assert [content(b) for b in s] == whole[0]
        assert s.ledger == whole[1]


@pytest.mark.parametrize("seed", range(12))
def test_a_state_resumes_exactly(graph, whole, seed):
    draw = random.Random(seed)
    stop = draw.randrange(len(whole[0]) + 1)
    with mr.stream(graph, settings={"batch.workers": draw.randrange(1, 5)}) as s:
        for _ in range(stop):
            next(s)
        state = s.state()
    assert len(state) < 600
    with mr.stream(graph, state=state, settings={"batch.workers": draw.randrange(1, 5)}) as s:
        assert s.step == stop
        assert [content(b) for b in s] == whole[0][stop:]
        assert s.ledger == whole[1]


@pytest.mark.parametrize("form", [str, str.encode, json.loads], ids=["text", "bytes", "dict"])
def test_a_state_has_three_forms(graph, whole, form):
    with mr.stream(graph) as s:
        next(s)
        state = form(s.state())
    with mr.stream(graph, state=state) as s:
        assert content(next(s)) == whole[0][1]


def test_a_state_dict_is_a_state(graph, whole):
    with mr.stream(graph) as s:
        next(s)
        saved = s.state_dict()
    with mr.stream(graph, state=saved) as s:
        assert content(next(s)) == whole[0][1]


def test_a_state_dict_goes_back_in_place(graph, whole):
    with mr.stream(graph) as s:
        for _ in range(3):
            next(s)
        saved = json.loads(json.dumps(s.state_dict()))
        for _ in range(2):
            next(s)
        s.load_state_dict(saved)
        assert content(next(s)) == whole[0][3]


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize("then", [1, 2, 4])
def test_a_state_resumes_on_other_hosts(hosts, then):
    graph = "range 960 ! shuffle seed=6 epochs=2 ! batch 48"

    def records(n, state, steps):
        seen, left = [], None
        for h in range(n):
            with mr.stream(graph, host=(h, n), state=state) as s:
                for batch, _ in zip(s, range(steps)):
                    seen += [(batch.step, batch.first + i, key) for i, key in enumerate(batch.ids)]
                    if batch.step == steps:
                        break
                left = left or s.state()
        return seen, left

    before, left = records(hosts, None, 9)
    after, _ = records(then, left, 1000)
    whole, _ = records(1, None, 1000)
    assert sorted(before + after) == sorted(whole)


@pytest.mark.parametrize("seed", range(4))
def test_any_batch_is_found(graph, whole, seed):
    at = random.Random(seed).randrange(len(whole[0]))
    with mr.stream(graph) as s:
        s.seek(at)
        assert s.step == at
        state = s.state()
        assert content(next(s)) == whole[0][at]
    with mr.stream(graph, state=state) as s:
        assert content(next(s)) == whole[0][at]


@pytest.mark.parametrize("at", [0, 3, -1])
def test_a_stream_has_items(at):
    with mr.stream(STREAMS["positions"]) as s:
        batches = [content(b) for b in s]
        assert len(s) == len(batches)
        assert content(s[at]) == batches[at]
        assert s.who(at) == s[at].ids


@pytest.mark.parametrize("at", [96, -97, 10**9])
def test_items_end(at):
    with mr.stream(STREAMS["positions"]) as s, pytest.raises(IndexError, match="96 batches"):
        s[at]


def test_the_end_is_an_end_and_seek_begins_anew(graph, whole):
    with mr.stream(graph) as s:
        assert sum(1 for _ in s) == len(whole[0])
        with pytest.raises(StopIteration):
            next(s)
        s.seek(0)
        assert [content(b) for b in s] == whole[0]
        assert s.ledger == whole[1]


def test_two_loops_share_a_place(graph, whole):
    with mr.stream(graph) as s:
        a, b = iter(s), iter(s)
        assert [content(next(a)), content(next(b)), content(next(a))] == whole[0][:3]


def test_a_stream_is_pickled_with_its_place(graph, whole):
    with mr.stream(graph) as s:
        next(s)
        with pickle.loads(pickle.dumps(s)) as other:
            assert [content(b) for b in other] == whole[0][1:]
        with copy.copy(s) as other:
            assert content(next(other)) == whole[0][1]
        assert content(next(s)) == whole[0][1]


def test_threads_share_a_stream(graph, whole):
    seen, lock = [], threading.Lock()
    with mr.stream(graph) as s:
        def take():
            for batch in s:
                c = batch.step, content(batch)
                with lock:
                    seen.append(c)
        threads = [threading.Thread(target=take) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert [c for _, c in sorted(seen)] == whole[0]


def test_threads_that_keep_all_batches_share_a_stream():
    """More threads than buffers that may be kept: the others get copies."""
    for _ in range(5):
        seen, failed, begin = [], [], threading.Barrier(8)
        with mr.stream("synthetic n=512 ! shuffle seed=1 ! batch 4", keep=2) as s:
            def take():
                begin.wait()
                try:
                    seen.extend(list(s))
                except mr.Error as e:
                    failed.append(e)
            threads = [threading.Thread(target=take) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert not failed
            assert sorted(b.step for b in seen) == sorted({b.step for b in seen}) and len(seen) == 128


def test_streams_run_in_threads_of_their_own(whole, graph):
    out = [None] * 3

    def run(i):
        with mr.stream(graph) as s:
            out[i] = [content(b) for b in s]
    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert out == [whole[0]] * 3


def test_what_a_stream_is():
    with mr.stream("synthetic n=64 ! shuffle seed=1 ! batch 8") as s:
        assert s.spec["batch"] == 8 and s.spec["steps"] == 8
        assert [f["name"] for f in s.spec["fields"]] == ["image", "label"]
        assert s.spec["fields"][0]["dim"] == [3, 32, 32]
        assert len(list(s)) == 8
        stats = s.stats()
        assert {x["name"]: x["items"] for x in stats["stages"]}["batch"] == 8
        assert "hand" not in s.graph and "shuffle" in s.graph
        assert repr(s) == "millrace.stream('synthetic n=64 ! shuffle seed=1 ! batch 8')"


def test_stages_behind_the_batches_do_not_run(tmp_path):
    with mr.stream(f"range 100 ! shuffle seed=1 ! batch 10 ! ledger {tmp_path}/l state={tmp_path}/s") as s:
        assert sum(b.n for b in s) == 100
    assert list(tmp_path.iterdir()) == []


def test_a_graph_may_be_a_file(tmp_path):
    (tmp_path / "own graph.mr").write_text("range 100 ! shuffle seed=1 ! batch 10\n")
    with mr.stream(tmp_path / "own graph.mr") as s:
        assert len(list(s)) == 10


def test_an_endless_stream_has_no_length():
    with mr.stream("range 100 ! shuffle seed=1 epochs=0 ! batch 10") as s:
        with pytest.raises(TypeError, match="endless"):
            len(s)
        assert next(s).n == 10
        assert s[12345].step == 12346
        with pytest.raises(IndexError):
            s[-1]


def test_memory_stays_flat():
    import resource

    with mr.stream("range 1000000 ! shuffle seed=1 epochs=0 ! batch 8") as s:
        for _ in range(2000):
            next(s)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20000):
            numpy.asarray(next(s)["value"])
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB
