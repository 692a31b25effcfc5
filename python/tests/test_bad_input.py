"""Errors are exceptions with the program's own sentence."""

import ctypes
import functools
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import millrace as mr
import millrace._stream


@pytest.mark.parametrize("text,kind,says", [
    ("rnage 10 ! batch 2", mr.UsageError, 'did you mean "range"'),
    ("range 10 ! batch sise=2", mr.ConfigError, 'did you mean "size"'),
    ("range 10 ! batch two", mr.ConfigError, "two"),
    ("range 10 ! shuffle seed=1", mr.UsageError, "makes no batches"),
    ("", mr.UsageError, "no stages"),
    ("range 10 ! batch 2 !", mr.UsageError, '"!" joins two stages'),
    ("range 10 ! batch 'a", mr.UsageError, "quote"),
    ("missing/graph.mr", mr.ReadError, "missing/graph.mr"),
    ("/", mr.UsageError, "folder"),
    ("npy images=/missing.npy ! batch 2", mr.Error, "missing.npy"),
    ("range 10 ! normalize ! batch 2", mr.ShapeError, "normalize"),
    ("plugin x.so\nrange 10 ! batch 2", mr.UnavailableError, "plug"),
    ("range 10\0 ! batch 2", mr.UsageError, "zero byte"),
])
def test_what_is_wrong_with_a_graph_is_said(text, kind, says):
    with pytest.raises(kind, match=re.escape(says)) as e:
        mr.stream(text)
    assert str(e.value) and isinstance(e.value, mr.Error)


@pytest.mark.parametrize("how,kind,says", [
    ({"keep": -1}, mr.ConfigError, "[0,4096]"),
    ({"keep": 1 << 40}, mr.ConfigError, "[0,4096]"),
    ({"keep": "many"}, mr.ConfigError, "'many'"),
    ({"host": (2, 2)}, mr.ConfigError, "host 2 of 2"),
    ({"host": (0, 0)}, mr.ConfigError, "(0, 0)"),
    ({"host": 3}, mr.ConfigError, "host 3"),
    ({"host": ("0", "2")}, mr.ConfigError, "('0', '2')"),
    ({"host": (0, 1 << 40)}, mr.ConfigError, "want (i, n)"),
    ({"keep": 2.5}, mr.ConfigError, "2.5"),
    ({"stage": "train"}, mr.UsageError, '"train"'),
    ({"state": "{}"}, mr.DataError, "not the state of a stream"),
    ({"state": ""}, mr.DataError, "not the state of a stream"),
    ({"state": 7}, TypeError, "int"),
    ({"settings": {"workers": "many"}}, mr.ConfigError, "many"),
    ({"settings": {"shuffle.sed": 1}}, mr.ConfigError, "seed"),
    ({"settings": {"nothing": 1}}, mr.Error, "nothing"),
    ({"settings": {"workers": object()}}, TypeError, "object"),
    ({"settings": ["workers=2"]}, TypeError, "want a mapping"),
    ({"settings": {"workers": "2\0"}}, mr.UsageError, "zero byte"),
    ({"stage": 3}, TypeError, "stage: want its name"),
    ({"colour": 1}, TypeError, "colour"),
])
def test_what_is_wrong_with_an_opening_is_said(how, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        mr.stream("range 10 ! shuffle seed=1 ! batch 2", **how)


@pytest.mark.parametrize("graph", [7, None, ["range 10"], b"range 10 ! batch 2"])
def test_a_graph_is_text_a_path_or_stages(graph):
    with pytest.raises(TypeError, match="graph: want"):
        mr.stream(graph)


@pytest.mark.parametrize("of,into,says", [
    ("shuffle seed=1 ! batch 32", "shuffle seed=2 ! batch 32", 'it had "shuffle seed=1"'),
    ("shuffle seed=1 ! batch 32", "shuffle seed=1 ! batch 16", 'it had "batch size=32"'),
    ("shuffle seed=1 ! batch 32", "shuffle seed=1 ! filter p=0.5 ! batch 32", 'it had no "filter'),
    ("filter p=0.5 ! batch 32", "batch 32", 'it had "filter'),
])
def test_a_state_of_another_stream_says_what_differs(of, into, says):
    with mr.stream(f"range 1000 ! {of}") as s:
        next(s)
        state = s.state()
    with pytest.raises(mr.DataError, match=re.escape(says)):
        mr.stream(f"range 1000 ! {into}", state=state)


@pytest.mark.parametrize("cut", range(0, 120, 10))
def test_a_cut_state_is_refused(cut):
    with mr.stream("range 1000 ! shuffle seed=1 ! batch 10") as s:
        state = s.state()
    with pytest.raises(mr.DataError):
        mr.stream("range 1000 ! shuffle seed=1 ! batch 10", state=state[:cut])


@pytest.mark.parametrize("change", [
    {"step": -1}, {"step": 1.5e300}, {"position": None}, {"words": [1]}, {"words": ["x"]}, {"words": ["1"] * 600},
    {"ledger": "zz"}, {"ledger": 7}, {"version": 99}, {"stages": ["shuffle seed=9"]}, {"stages": [[]]}, {"records": 3},
])
def test_a_changed_state_is_refused(change):
    graph = "range 1000 ! shuffle seed=1 ! batch 10"
    with mr.stream(graph) as s:
        state = json.loads(s.state())
    with pytest.raises(mr.DataError):
        mr.stream(graph, state={**state, **change})


@pytest.mark.parametrize("use", [
    lambda s: next(s), lambda s: s.state(), lambda s: s.seek(1), lambda s: len(s), lambda s: s[0], lambda s: s.spec,
    lambda s: s.stats(), lambda s: s.ledger, lambda s: s.step, lambda s: s.stop(), lambda s: s.graph,
])
def test_a_closed_stream_says_so(use):
    s = mr.stream("range 10 ! batch 2")
    s.close()
    s.close()
    with pytest.raises(mr.ClosedError, match="the stream is closed"):
        use(s)


@pytest.mark.parametrize("at", [-1, 6, 1 << 40, 1 << 64, -(1 << 64)])
def test_a_place_beyond_the_stream_is_refused_and_the_old_one_stays(at):
    with mr.stream("range 10 ! batch 2") as s:
        next(s)
        with pytest.raises(mr.ConfigError, match=r"want \[0,5\]"):
            s.seek(at)
        assert next(s).step == 2


@pytest.mark.parametrize("state", [None, 7, {}, {"other": 1}])
def test_a_state_dict_of_something_else_is_refused(state):
    with mr.stream("range 10 ! batch 2") as s, pytest.raises(TypeError, match="state_dict"):
        s.load_state_dict(state)


@pytest.mark.parametrize("at", [1.5, "1", None, slice(0, 2)])
def test_an_item_is_a_whole_number(at):
    with mr.stream("range 10 ! batch 2") as s, pytest.raises(TypeError, match="whole number"):
        s[at]


@pytest.mark.parametrize("at", [1.5, "1", None])
def test_a_place_is_a_whole_number(at):
    with mr.stream("range 10 ! batch 2") as s:
        with pytest.raises(TypeError, match="whole number"):
            s.seek(at)
        with pytest.raises(TypeError, match="whole number"):
            s.who(at)


def test_a_batch_is_not_pickled_but_says_what_is(capfd):
    with mr.stream("range 10 ! batch 2") as s:
        batch = next(s)
        for what in (batch, batch["value"]):
            with pytest.raises(TypeError, match="which no pickle takes along: send"):
                pickle.dumps(what)
    assert capfd.readouterr().err == ""


def test_a_name_that_is_not_utf8_reaches_the_library_as_it_is(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xe4"
    os.mkdir(folder)
    numpy.save(os.fsdecode(folder) + "/x.npy", numpy.arange(6, dtype=numpy.float32).reshape(6, 1))
    with mr.stream(mr.npy(fields="x:" + os.fsdecode(folder) + "/x.npy") | mr.batch(6)) as s:
        assert numpy.asarray(next(s)["x"]).ravel().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(mr.UsageError, match="no character"):
        mr.stream("npy fields=x:\ud800 ! batch 2")


@pytest.mark.parametrize("address", [5, None, b"tcp://127.0.0.1:1"])
def test_an_address_is_a_text(address):
    with pytest.raises(TypeError, match="address: want a text"):
        mr.connect(address)


def test_a_bad_file_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnot a picture")
    with mr.stream(f"folder {tmp_path} ! shuffle seed=1 ! decode ! resized-crop 8 ! batch 1") as s:
        for _ in range(2):  # again and again
            with pytest.raises(mr.Error, match="broken.png"):
                next(s)


def test_closing_ends_the_wait_of_another_thread():
    for _ in range(20):
        s = mr.stream("range 1000000 ! shuffle seed=1 epochs=0 ! batch 2 ! delay us=100000 asleep")
        seen = []

        def wait():
            try:
                for _ in s:
                    pass
            except mr.Error as e:
                seen.append(type(e))
        t = threading.Thread(target=wait)
        t.start()
        s.close()
        t.join()
        assert seen and seen[0] in (mr.StoppedError, mr.ClosedError)


def test_a_child_of_a_fork_gets_a_sentence():
    with mr.stream("range 100 ! shuffle seed=1 ! batch 10") as s:
        kept = next(s)
        child = os.fork()
        if not child:
            try:
                next(s)
            except mr.UsageError as e:
                del kept
                s.close()
                with mr.stream("range 10 ! batch 5") as own:
                    os._exit(0 if "forked from" in str(e) and next(own).n == 5 else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert next(s).step == 2


def test_a_child_of_a_fork_gets_a_sentence_while_a_thread_waits():
    with mr.stream("range 100 ! shuffle seed=1 ! batch 10 ! delay us=1000000000 asleep") as s:
        waits = threading.Event()

        def take():
            waits.set()
            with pytest.raises((mr.StoppedError, mr.ClosedError)):
                next(s)
        t = threading.Thread(target=take)
        t.start()
        waits.wait()
        while s._turn.acquire(blocking=False):  # until the thread has its turn
            s._turn.release()
        child = os.fork()
        if not child:
            try:
                next(s)
            except mr.UsageError as e:
                os._exit(0 if "forked from" in str(e) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        s.stop()
        t.join()


def run(code, **how):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **how)


def test_control_c_ends_a_wait():
    code = ("import millrace as mr, signal, sys\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what a shell starts by & ignores it
            "s = mr.stream('range 1000000 ! shuffle epochs=0 seed=1 ! batch 2 ! delay us=1000000000 asleep')\n"
            "try:\n    print('waits', flush=True)\n    next(s)\n"
            "except KeyboardInterrupt:\n    print('interrupted'); sys.exit(5)\n")
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "waits\n"
    p.send_signal(signal.SIGINT)
    try:
        out, _ = p.communicate(timeout=60)
    finally:
        p.kill()
    assert (p.returncode, out) == (5, "interrupted\n")  # and the exit waits for no stage


@pytest.mark.parametrize("call", ["mr.connect(A, settings={'wait': 3600})", "mr.stream(f'source {A} wait=3600 ! null')"])
def test_control_c_ends_the_wait_for_a_server(tmp_path, call):
    code = ("import millrace as mr, signal, sys\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"A = 'ipc://{tmp_path}/nobody'\n"
            "len(mr.stream('range 10 ! batch 2'))\n"  # the library is loaded
            f"try:\n    print('waits', flush=True)\n    {call}\n"
            "except KeyboardInterrupt:\n    print('interrupted'); sys.exit(5)\n")
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "waits\n"
    p.send_signal(signal.SIGINT)
    try:
        out, _ = p.communicate(timeout=60)
    finally:
        p.kill()
    assert (p.returncode, out) == (5, "interrupted\n")


def test_an_opening_that_is_interrupted_is_undone(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sends = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            sends.start()
            mr.stream(f"source ipc://{tmp_path}/nobody wait=3600 ! null")
    finally:
        signal.signal(signal.SIGINT, before)
    sends.join()
    assert all(undone.wait(60) for undone in millrace._stream._halted)
    with mr.stream("range 4 ! batch 2") as s:
        assert sum(b.n for b in s) == 4


def test_a_signal_just_before_the_wait_ends_it_too():
    """Its handler in Python runs between two calls of Python: none is between this signal and the wait."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    call = functools.partial.__call__
    with mr.stream("range 1000 ! shuffle seed=1 ! batch 2 ! delay us=1000000000 asleep") as s:
        take, signalled = s._take, functools.partial(ctypes.CDLL(None)["raise"], signal.SIGINT)
        s._take = lambda *a: list(map(call, (signalled, functools.partial(take, *a))))[1]
        try:
            with pytest.raises(KeyboardInterrupt):
                next(s)
        finally:
            signal.signal(signal.SIGINT, before)
        assert s.step == 0


@pytest.mark.parametrize("code", [
    "import numpy; s = mr.stream(T); a = numpy.asarray(next(s)['value'])",
    "import numpy; s = mr.stream(T); a = numpy.from_dlpack(next(s)['value'])",
    "s = mr.stream(T); b = [next(s) for _ in range(6)]",
    "s = mr.stream(T); c = next(s)['value'].__dlpack__()",
    "import threading; s = mr.stream(T); t = threading.Thread(target=lambda: list(s), daemon=True); t.start()",
    "s = mr.stream(T); import sys; sys.exit(0)",
])
def test_the_interpreter_ends_with_streams_and_arrays_alive(code):
    p = run("import millrace as mr\nT = 'range 1000000 ! shuffle seed=1 epochs=0 ! batch 10'\n" + code)
    assert (p.returncode, p.stdout, p.stderr) == (0, "", "")


def test_nothing_prints_and_notices_are_logged(capfd, caplog):
    with caplog.at_level(logging.INFO, logger="millrace"):
        with mr.stream("range 100 ! shuffle seed=1 ! batch 10") as s:
            list(s)
    out = capfd.readouterr()
    assert (out.out, out.err) == ("", "")


def test_an_import_loads_neither_numpy_nor_the_library():
    p = run("import sys, millrace\n"
            "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
            "assert 'libmillrace' not in open('/proc/self/maps').read()\n")
    assert p.returncode == 0, p.stderr


def test_a_library_that_is_not_there_is_said():
    p = run("import millrace as mr\ntry:\n    mr.stream('range 10 ! batch 2')\n"
            "except mr.UnavailableError as e:\n    print(e)", env={**os.environ, "MILLRACE_LIBRARY": "/missing.so"})
    assert "cannot load libmillrace.so.0" in p.stdout and "/missing.so" in p.stdout


def test_numbers_of_numpy_are_whole_numbers():
    with mr.stream("range 100 ! batch 10", keep=numpy.int64(1), host=(numpy.int32(1), numpy.int32(2))) as s:
        s.seek(numpy.int64(3))
        assert next(s).ids == s[numpy.uint8(3)].ids == s.who(numpy.int64(3)) == [35, 36, 37, 38, 39]


def test_numbers_of_numpy_are_settings():
    with mr.stream("range 100 ! shuffle seed=1 ! batch 10", settings={"size": numpy.int64(5)}) as s:
        assert next(s).n == 5
