"""Sources and maps in Python: records by functions, with the order, ledger and states of all others."""

import json
import logging
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import content

import millrace as mr


class Squares:
    """Records of numbers, as torch's and grain's data sets are."""

    def __init__(self, n=100):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"value": numpy.int64(i), "label": i % 10, "row": numpy.full(3, i * i, numpy.float32)}


class Pairs(Squares):
    def __getitem__(self, i):
        return numpy.full((4, 5, 3), i % 256, numpy.uint8), i


def doubled(record):
    return {"value": record["value"] * 2, "label": record["label"]}


def jittered(record, rng):
    return {**record, "noise": rng.standard_normal(2)}


def whole(graph, **how):
    with mr.stream(graph, **how) as s:
        return [content(b) for b in s], s.ledger


def test_records_are_those_of_getitem():
    with mr.stream(mr.dataset(Squares(10)) | mr.batch(4)) as s:
        batches = list(s)
    assert [b.n for b in batches] == [4, 4, 2] and batches[1].ids == [4, 5, 6, 7]
    assert batches[1]["row"].tolist() == [[i * i] * 3 for i in range(4, 8)]
    assert batches[2]["label"].tolist() == [8, 9] and batches[2]["label"].dtype == "int32"


def test_order_and_ledger_are_those_of_a_source_in_c():
    text = "! shuffle seed=3 epochs=2 ! batch 8"
    with mr.stream("range 100 " + text) as s:
        want, ids = [], []
        for b in s:
            want.append(b["value"].tolist())
            ids.append(b.ids)
        ledger = s.ledger
    graph = mr.dataset(Squares()) | mr.shuffle(seed=3, epochs=2) | mr.batch(8)
    with mr.stream(graph) as s:
        batches = [(b["value"].tolist(), b.ids) for b in s]
        assert batches == list(zip(want, ids)) and s.ledger == ledger


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_nothing(workers):
    graph = mr.dataset(Squares()) | mr.shuffle(seed=1) | mr.map(doubled) | mr.batch(16)
    assert whole(graph, settings={"batch.workers": workers}) == whole(graph)


@pytest.mark.parametrize("stop", range(0, 14, 3))
def test_a_state_resumes_exactly(stop):
    graph = mr.dataset(Squares()) | mr.shuffle(seed=1, epochs=2) | mr.map(jittered, random=True) | mr.batch(16)
    want = whole(graph)
    with mr.stream(graph) as s:
        for _ in range(stop):
            next(s)
        state = s.state()
    with mr.stream(graph, state=state, settings={"batch.workers": 3}) as s:
        assert [content(b) for b in s] == want[0][stop:] and s.ledger == want[1]


def test_seek_items_and_pickles():
    graph = mr.dataset(Squares()) | mr.shuffle(seed=1) | mr.map(doubled) | mr.batch(10)
    want = whole(graph)[0]
    with mr.stream(graph) as s:
        assert content(s[7]) == want[7] and len(s) == 10
        s.seek(4)
        with pickle.loads(pickle.dumps(s)) as other:
            assert content(next(other)) == content(next(s)) == want[4]


def test_a_pair_is_an_image_and_its_label():
    graph = mr.dataset(Pairs(20)) | mr.shuffle(seed=1) | mr.flip() | mr.normalize() | mr.batch(5)
    with mr.stream(graph) as s:
        batch = next(s)
        assert batch["image"].shape == (5, 4, 5, 3) and batch["image"].dtype == "float32"
        assert numpy.allclose(batch["image"][:, 0, 0, 0] * 255, batch["label"].tolist())


def test_a_map_between_stages_in_c():
    def inverted(r):
        return {"image": 255 - r["image"], "label": r["label"]}
    a = mr.synthetic(n=64) | mr.map(inverted) | mr.map(inverted, name="again") | mr.normalize() | mr.batch(16)
    with mr.stream(a) as s, mr.stream("synthetic n=64 ! normalize ! batch 16") as t:
        for b, c in zip(s, t):
            assert (numpy.asarray(b["image"]) == numpy.asarray(c["image"])).all() and b.ids == c.ids


def test_random_maps_draw_from_the_records_generator():
    base = mr.dataset(Squares()) | mr.shuffle(seed=1) | mr.map(jittered, random=True) | mr.batch(20)
    other = mr.dataset(Squares()) | mr.shuffle(seed=2) | mr.map(jittered, random=True) | mr.batch(20)
    assert whole(base) == whole(base) and whole(base)[1] != whole(other)[1]
    plain = mr.dataset(Squares()) | mr.shuffle(seed=1) | mr.batch(20)
    assert whole(base)[1] != whole(plain)[1]  # the ledger holds the draws
    with pytest.raises(mr.ConfigError, match="generator|seed"):
        mr.stream(mr.dataset(Squares()) | mr.map(jittered, random=True) | mr.batch(20))


def test_functions_of_batches_come_last():
    def summed(batch):
        return {"sum": batch["row"].sum(1), "label": batch["label"]}
    graph = mr.dataset(Squares()) | mr.batch(10) | mr.map_batches(summed) | mr.map_batches(lambda b: {"sum": b["sum"]})
    with mr.stream(graph) as s:
        batch = next(s)
        assert list(batch) == ["sum"] and batch["sum"].tolist() == [3.0 * i * i for i in range(10)]
        assert batch.ids == list(range(10)) and list(s[1]) == ["sum"]
    with pytest.raises(mr.UsageError, match="come last"):
        mr.range(3) | mr.map_batches(summed) | mr.batch(2)


def test_worker_processes_make_the_same():
    here = mr.dataset(Squares(), name="s") | mr.shuffle(seed=1) | mr.map(jittered, random=True, name="m") | mr.batch(10)
    there = (mr.dataset(Squares(), name="s", processes=2) | mr.shuffle(seed=1)
             | mr.map(jittered, random=True, name="m", processes=1) | mr.batch(10, workers=2))
    assert whole(there) == whole(here)


class Pids(Squares):
    def __getitem__(self, i):
        return {"value": os.getpid()}


def test_worker_processes_are_others():
    with mr.stream(mr.dataset(Pids(40), processes=2) | mr.batch(10, workers=2)) as s:
        pids = {v for b in s for v in b["value"].tolist()}
    assert os.getpid() not in pids and 1 <= len(pids) <= 2


# ---- what is wrong ----

class Fails(Squares):
    def __getitem__(self, i):
        if i == 17:
            raise KeyError("no seventeenth")
        return {"value": i}


@pytest.mark.parametrize("processes", [0, 1])
def test_an_exception_names_the_record_and_is_the_cause(processes):
    with mr.stream(mr.dataset(Fails(), processes=processes) | mr.batch(5)) as s:
        with pytest.raises(mr.DataError, match="Fails: record 17: KeyError: 'no seventeenth'") as e:
            list(s)
        assert isinstance(e.value.__cause__, KeyError)


def test_a_bad_record_is_replaced_where_on_bad_says_so():
    with mr.stream(mr.dataset(Fails(), on_bad="skip-replace") | mr.batch(5)) as s:
        assert sum(b.n for b in s) == 100


def test_an_exception_of_a_map_names_the_record():
    def f(r):
        return {"value": 1 // (int(r["value"]) - 31)}
    with mr.stream(mr.range(100) | mr.shuffle(seed=1) | mr.map(f, name="inverse") | mr.batch(10)) as s:
        with pytest.raises(mr.DataError, match="inverse: record 31: ZeroDivisionError"):
            list(s)


class Uneven(Squares):
    def __init__(self, then):
        super().__init__()
        self.then = then

    def __getitem__(self, i):
        return self.then if i == 7 else {"a": numpy.zeros(3, numpy.float32), "b": 1}


@pytest.mark.parametrize("then,says", [
    ({"a": numpy.zeros(4, numpy.float32), "b": 1}, "record 7: field a is float32[4], and of the first record it is float32[3]"),
    ({"a": numpy.zeros(3), "b": 1}, "record 7: field a is float64[3]"),
    ({"a": numpy.zeros(3, numpy.float32)}, "record 7: gives the fields a, and the first record has a, b"),
    ({"a": numpy.zeros(3, numpy.float32), "c": 1}, "record 7: gives no field b"),
    (None, "record 7"),
])
def test_uneven_records_are_refused(then, says):
    with mr.stream(mr.dataset(Uneven(then)) | mr.batch(5)) as s:
        with pytest.raises(mr.DataError, match=re.escape(says)):
            list(s)


@pytest.mark.parametrize("record,says", [
    ({"a": numpy.zeros(3, numpy.int16)}, "int16 is none of"),
    ({"a": "text"}, "is none of"),
    ({"a b": 1}, "want a name of letters"),
    ({"a" * 40: 1}, "at most 31 letters"),
    ({}, "want [1,16]"),
    ({f"f{i}": i for i in range(17)}, "want at most 16"),
    ({"a": numpy.zeros((1,) * 8)}, "at most 7"),
    ({"a": object()}, "is none of"),
])
def test_records_that_are_no_records_are_refused(record, says):
    class One(Squares):
        def __getitem__(self, i):
            return record
    with pytest.raises(mr.Error, match=re.escape(says)):
        mr.stream(mr.dataset(One()) | mr.batch(5))


@pytest.mark.parametrize("make,kind,says", [
    (lambda: mr.dataset(7), TypeError, "int has no __len__"),
    (lambda: mr.dataset([]), mr.UsageError, "list is empty"),
    (lambda: mr.map(3), TypeError, "want a function"),
    (lambda: mr.map_batches(3), TypeError, "want a function"),
    (lambda: mr.map(doubled, processes=-1), mr.ConfigError, "processes -1"),
    (lambda: mr.range(9) | mr.map(doubled) | mr.map(lambda r: r, name="doubled"), mr.UsageError, "two of the graph's"),
])
def test_wrong_arguments_are_said(make, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        make()


def test_pictures_of_many_sizes_want_a_stage_before():
    graph = mr.folder("x") | mr.decode() | mr.map(doubled) | mr.batch(2)
    with pytest.raises(mr.Error):
        mr.stream(graph)


def test_a_function_that_cannot_be_sent_says_so():
    graph = mr.range(10) | mr.map(lambda r: {"value": r["value"]}, name="local", processes=1) | mr.batch(5)
    with pytest.raises(mr.UsageError, match="cannot be sent to a worker process"):
        mr.stream(graph)


def test_the_text_alone_does_not_find_the_function():
    with pytest.raises(mr.UsageError, match="own-source"):
        mr.stream(str(mr.dataset(Squares()) | mr.batch(5)))


def test_a_state_of_another_source_says_what_differs():
    with mr.stream(mr.dataset(Squares()) | mr.batch(5)) as s:
        next(s)
        state = json.loads(s.state())
    with pytest.raises(mr.DataError, match="Pids|own-source"):
        mr.stream(mr.dataset(Pids()) | mr.batch(5), state=state)


def test_the_price_is_said_once(caplog):
    with caplog.at_level(logging.INFO, logger="millrace"):
        with mr.stream(mr.dataset(Squares(1000)) | mr.batch(10)) as s:
            list(s)
    said = [r.getMessage() for r in caplog.records if "us a record" in r.getMessage()]
    assert len(said) == 1 and said[0].startswith("Squares: ")


def test_inputs_are_read_only():
    def f(r):
        r["value"][...] = 0
        return r
    with pytest.raises(mr.DataError, match="read-only"):
        with mr.stream(mr.range(10) | mr.map(f) | mr.batch(5)) as s:
            next(s)


def test_a_stream_that_goes_while_its_functions_run():
    for _ in range(20):
        s = mr.stream(mr.dataset(Squares(10000)) | mr.shuffle(seed=1, epochs=0) | mr.map(doubled) | mr.batch(8, workers=3))
        next(s)
        del s


# ---- functions of batches in worker processes ----

def totals(batch):
    return {"sum": batch["row"].sum(1), "label": batch["label"]}


def with_pid(batch):
    return {**batch, "pid": numpy.int64(os.getpid())}


def refuses_seventeen(batch):
    if 17 in batch["label"]:
        raise KeyError("no seventeenth")
    return batch


class Numbered(Squares):
    def __getitem__(self, i):
        return {"label": i, "row": numpy.full(3, i, numpy.float32)}


def places(graph, **how):
    """Each batch with the place behind it."""
    with mr.stream(graph, **how) as s:
        return [(b.step, b.ids, {n: numpy.asarray(a).tolist() for n, a in b.items()}, s.step, s.ledger, s.state())
                for b in s]


ROWS = mr.dataset(Numbered(), name="rows") | mr.shuffle(seed=1, epochs=2) | mr.batch(16)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_functions_of_batches_make_the_same_in_worker_processes(processes):
    want = places(ROWS | mr.map_batches(totals))
    assert places(ROWS | mr.map_batches(totals, processes=processes)) == want
    assert places(ROWS | mr.map_batches(totals, processes=processes), keep=0) == want


def test_worker_processes_of_batches_are_others_and_take_all_functions():
    with mr.stream(ROWS | mr.map_batches(totals) | mr.map_batches(with_pid, processes=2)) as s:
        pids = {int(b["pid"]) for b in s}
        assert os.getpid() not in pids and 1 <= len(pids) <= 2
        assert list(s[3]) == ["sum", "label", "pid"]


@pytest.mark.parametrize("stop", range(0, 14, 3))
def test_a_state_knows_of_no_batch_that_is_ahead(stop):
    graph = ROWS | mr.map_batches(totals, processes=2)
    with mr.stream(graph) as s:
        want = places(graph)  # by the same worker processes
        for _ in range(stop):
            next(s)
        state, saved, text = s.state(), s.state_dict(), pickle.dumps(s)
        assert [b.ids for b in s] == [w[1] for w in want[stop:]]
        s.load_state_dict(saved)
        assert s.step == stop and [b.ids for b in s] == [w[1] for w in want[stop:]]
        s.seek(stop)
        assert s.step == stop and next(s).ids == want[stop][1]
    with pickle.loads(text) as s:
        assert [b.ids for b in s] == [w[1] for w in want[stop:]]
    assert places(graph, state=state) == want[stop:]


@pytest.mark.parametrize("processes", [0, 2])
def test_an_exception_of_a_batch_names_it_and_the_next_one_follows(processes):
    graph = mr.dataset(Numbered(30)) | mr.batch(5) | mr.map_batches(refuses_seventeen, processes=processes)
    with mr.stream(graph) as s:
        says = "refuses_seventeen: batch 3 of records 15, 16, 17, 18, ...: KeyError: 'no seventeenth'"
        steps = [next(s).step for _ in range(3)]
        with pytest.raises(mr.DataError, match=re.escape(says)) as e:
            next(s)
        assert isinstance(e.value.__cause__, KeyError)
        assert steps + [b.step for b in s] == [1, 2, 3, 5, 6]


@pytest.mark.parametrize("processes", [0, 1])
def test_a_failure_of_the_stream_comes_behind_the_batches_that_it_gave(processes):
    steps = []
    with mr.stream(mr.dataset(Fails()) | mr.batch(5) | mr.map_batches(with_pid, processes=processes)) as s:
        with pytest.raises(mr.DataError, match="Fails: record 17"):
            steps.extend(b.step for b in s)
        with pytest.raises(mr.DataError, match="Fails: record 17"):
            next(s)
        assert s.step == len(steps)
    assert steps == list(range(1, len(steps) + 1)) and len(steps) <= 3


@pytest.mark.parametrize("processes", [0, 1])
def test_a_function_of_batches_gives_a_dict(processes):
    with mr.stream(ROWS | mr.map_batches(len, processes=processes)) as s:
        with pytest.raises(mr.ShapeError, match="len: gives int, want a dict of arrays"):
            next(s)


def test_a_function_of_batches_that_cannot_be_sent_says_so():
    with pytest.raises(mr.UsageError, match="processes=1: local cannot be sent to a worker process"):
        mr.stream(ROWS | mr.map_batches(lambda b: b, name="local", processes=1))
    with pytest.raises(mr.ConfigError, match="processes True"):
        mr.map_batches(totals, processes=True)


@pytest.mark.parametrize("processes", [0, 2])
def test_the_price_of_a_batch_is_said_once(caplog, processes):
    graph = ROWS | mr.map_batches(totals, processes=processes) | mr.map_batches(with_pid)
    with caplog.at_level(logging.INFO, logger="millrace"):
        with mr.stream(graph) as s:
            list(s)
            s.seek(0)
            list(s)
    said = [r.getMessage() for r in caplog.records if "us a batch" in r.getMessage()]
    assert len(said) == 1 and said[0].startswith("totals, with_pid: ")


def test_a_child_of_a_fork_does_not_wait_for_the_worker_processes():
    with mr.stream(ROWS | mr.map_batches(totals, processes=2)) as s:
        next(s)
        child = os.fork()
        if not child:
            try:
                next(s)
            except mr.UsageError as e:
                os._exit(0 if "forked from" in str(e) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert next(s).step == 2


# ---- the worker processes' lives ----

def test_a_child_of_a_fork_has_worker_processes_of_its_own():
    graph = mr.dataset(Numbered(20), processes=1) | mr.batch(5) | mr.map_batches(with_pid, processes=1)
    with mr.stream(graph) as s:
        pids = {int(next(s)["pid"])}
        child = os.fork()
        if not child:
            try:
                s.close()  # ends none of the parent's
                with mr.stream(graph) as own:
                    made = [(b.ids, int(b["pid"]) in pids) for b in own]
                os._exit(0 if made == [(list(range(i, i + 5)), False) for i in range(0, 20, 5)] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [b.step for b in s] == [2, 3, 4]


def is_alive(pid):
    """Whether a process runs: one that has ended may have no parent that asks for its end."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until_gone(pids):
    end = time.monotonic() + 120
    while any(is_alive(p) for p in pids):
        assert time.monotonic() < end, "a worker process is alive"
        time.sleep(0.01)


def test_worker_processes_end_with_a_program_that_is_killed():
    code = ("import test_own, millrace as mr, sys\n"
            "if __name__ == '__main__':\n"
            "    s = mr.stream(test_own.ROWS | mr.map_batches(test_own.with_pid, processes=1))\n"
            "    print(int(next(s)['pid']), flush=True)\n"
            "    sys.stdin.read()\n")
    path = os.pathsep.join((os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": path}) as p:
        pid = int(p.stdout.readline())
        assert is_alive(pid)
        p.kill()
    until_gone([pid])


def test_the_last_close_ends_the_worker_processes():
    graph = mr.dataset(Pids(20), processes=1) | mr.batch(5) | mr.map_batches(with_pid, processes=1)
    with mr.stream(graph) as s:
        with mr.stream(graph) as t:
            batch = next(t)
        pids = {int(batch["pid"]), int(batch["value"][0])}
        assert int(next(s)["pid"]) in pids and all(is_alive(p) for p in pids)
    assert not any(is_alive(p) for p in pids) and not multiprocessing.active_children()
    with mr.stream(graph) as s:
        assert int(next(s)["pid"]) not in pids
    with pytest.raises(mr.DataError, match="not the state"):
        mr.stream(graph, state="{}")
    assert not multiprocessing.active_children()


def test_control_c_is_not_for_the_worker_processes():
    with mr.stream(ROWS | mr.map_batches(with_pid, processes=1)) as s:
        pid = int(next(s)["pid"])
        os.kill(pid, signal.SIGINT)
        assert {int(b["pid"]) for b in s} == {pid}


class Odd(Exception):
    """One that pickles, and does not come back."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class RaisesOdd(Numbered):
    def __getitem__(self, i):
        if i == 7:
            raise Odd("this", "that")
        return super().__getitem__(i)


def raises_odd(batch):
    if 7 in batch["label"]:
        raise Odd("this", "that")
    return batch


def test_an_exception_that_cannot_be_sent_back_is_its_words():
    with mr.stream(mr.dataset(RaisesOdd(20), processes=1) | mr.batch(5)) as s:
        with pytest.raises(mr.DataError, match="record 7: RuntimeError: Odd: this and that"):
            list(s)
    with mr.stream(mr.dataset(Numbered(20)) | mr.batch(5) | mr.map_batches(raises_odd, processes=1)) as s:
        assert next(s).step == 1
        with pytest.raises(mr.DataError, match="batch 1 of .*RuntimeError: Odd: this and that"):
            next(s)
        assert [b.step for b in s] == [3, 4]


class EndsOnce:
    """Ends its process at label 7, if it has not before."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __call__(self, batch):
        if 7 in batch["label"] and not os.path.exists(self.mark):
            open(self.mark, "w").close()
            os._exit(3)
        return batch


@pytest.mark.parametrize("processes", [1, 2])
def test_no_batch_is_lost_with_a_worker_process(tmp_path, processes):
    graph = mr.dataset(Numbered(40)) | mr.batch(5)
    want = places(graph)
    with mr.stream(graph | mr.map_batches(EndsOnce(tmp_path / "mark"), name="ends", processes=processes)) as s:
        made, failures = [], 0
        while len(made) < len(want):
            try:
                b = next(s)
            except mr.DataError as e:
                assert re.match("ends: a worker process ended while it had batch [01] of records [05], ", str(e))
                failures += 1
                continue
            made.append((b.step, b.ids, {n: numpy.asarray(a).tolist() for n, a in b.items()}, s.step, s.ledger, s.state()))
        assert next(s, None) is None and failures == 1
    assert made == want


class EndsOnceAtSeven(Numbered):
    def __init__(self, n, mark):
        super().__init__(n)
        self.mark = str(mark)

    def __getitem__(self, i):
        if i == 7 and not os.path.exists(self.mark):
            open(self.mark, "w").close()
            os._exit(3)
        return super().__getitem__(i)


def test_records_are_made_by_new_processes_once_one_has_ended(tmp_path):
    graph = mr.dataset(EndsOnceAtSeven(20, tmp_path / "mark"), processes=1) | mr.batch(5)
    with mr.stream(graph) as s:
        with pytest.raises(mr.DataError, match="record 7: BrokenProcessPool"):
            list(s)
        s.seek(0)
        assert [b.step for b in s] == [1, 2, 3, 4]


def test_a_seek_waits_for_the_batch_that_another_thread_takes():
    with mr.stream(ROWS | mr.map_batches(totals, processes=1)) as s:
        next(s)
        take, seeks = s._take_batch, threading.Thread(target=s.seek, args=(0,))

        def take_batch(*arguments):
            s._take_batch = take
            seeks.start()
            seeks.join(0.2)  # a seek that does not wait is over by then
            return take(*arguments)
        s._take_batch = take_batch
        assert next(s).step == 2
        seeks.join()
        assert s.step == 0 and [b.step for b in s] == list(range(1, 15))


def test_a_signals_handler_cannot_take_a_batch_in_the_midst_of_one():
    with mr.stream(ROWS | mr.map_batches(totals, processes=1)) as s:
        take, steps = s._take_batch, []

        def take_batch(*arguments):  # as a handler that runs here
            for call in (lambda: next(s), lambda: s.seek(0)):
                with pytest.raises(mr.UsageError, match="a signal's handler"):
                    call()
            steps.append(s.step)
            return take(*arguments)
        s._take_batch = take_batch
        assert [b.step for b in s] == list(range(1, 15)) and steps[:2] == [0, 0]


def test_what_a_function_comes_back_to_stays_after_its_stream_has_gone():
    code = ("import gc, os, sys, threading, weakref\n"
            "import millrace as mr\n"
            "begun, go_on, thread = threading.Event(), threading.Event(), []\n"
            "class Slow:\n"
            "    def __len__(self):\n        return 8\n"
            "    def __getitem__(self, i):\n"
            "        if threading.current_thread() is not threading.main_thread():\n"  # which asks for the fields
            "            thread.append(threading.get_native_id())\n"
            "            begun.set()\n            go_on.wait()\n"
            "        return {'x': 1.0}\n"
            "s = mr.stream(mr.dataset(Slow()) | mr.batch(4))\n"
            "called = weakref.ref(s._own[0])\n"
            "begun.wait()\n"
            "s.close()\n"
            "del s\n"
            "go_on.set()\n"
            "while os.path.exists(f'/proc/self/task/{thread[0]}'):\n    pass\n"
            "gc.collect()\n"
            "sys.exit(3 if called() is None else 0)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
