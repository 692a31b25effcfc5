"""Batches of another process: what `millrace serve` gives."""

import os
import subprocess

import pytest

import millrace as mr

PROGRAM = os.environ.get("MILLRACE_PROGRAM")


@pytest.mark.skipif(not PROGRAM, reason="MILLRACE_PROGRAM names no program")
def test_a_served_stream_is_that_of_its_graph(tmp_path):
    text, address = "range 100 ! shuffle seed=1 ! batch 10", f"ipc://{tmp_path}/s"
    with mr.stream(text) as s:
        want = [b.ids for b in s]
        ledger = s.ledger
    server = subprocess.Popen([PROGRAM, "serve", text, "--bind", address], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        with mr.connect(address) as s:
            first = [next(s) for _ in range(3)]
            state = s.state()
            assert all(b.copied for b in first)  # what is kept must not stop the link
            assert [b.ids for b in first] + [b.ids for b in s] == want
            assert s.ledger == ledger
        with mr.connect(address, state=state) as s:
            assert [b.ids for b in s] == want[3:]
    finally:
        server.terminate()
        server.wait()
