"""Batches of another process: what `millrace serve` gives."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

import millrace as mr

PROGRAM = os.environ.get("MILLRACE_PROGRAM")


def free_port():
    spec = importlib.util.spec_from_file_location("ports", Path(__file__).parents[2] / "scripts/ports.py")
    ports = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ports)
    return ports.free_port(), ports  # the port is held as long as the module is


@pytest.mark.skipif(not PROGRAM, reason="MILLRACE_PROGRAM names no program")
@pytest.mark.parametrize("link", ["ipc", "tcp"])
def test_a_served_stream_is_that_of_its_graph(tmp_path, link):
    port, held = free_port()
    text = "range 100 ! shuffle seed=1 ! batch 10"
    address = f"ipc://{tmp_path}/s" if link == "ipc" else f"tcp://127.0.0.1:{port}"
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
        assert held.held
