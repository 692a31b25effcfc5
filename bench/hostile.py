"""Do clients of the live page that mean harm slow training?  In every second turn, ordered normal,
attacked, attacked, normal, the page is flooded (requests without token, of other hosts and origins,
and of no HTTP at all, each on a new connection), held up (headers at a byte a second on as many
connections as one may open) and sent headers without end.  The step times of the turns are compared
in pairs.  usage: hostile.py MILLRACE [SECONDS_A_TURN] [PAIRS]"""

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

FLOOD = [b"GET /events?token=guess HTTP/1.1\r\nHost: localhost\r\n\r\n",
         b"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n",
         b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://elsewhere.example\r\n\r\n",
         b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
         b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"]


def flood(port):
    for i in range(10**9):
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as s:
                s.sendall(FLOOD[i % len(FLOOD)])
                s.settimeout(0.2)
                s.recv(64)
        except OSError:
            pass
        time.sleep(0.002)


def drip(port):
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as s:
                s.sendall(b"GET / HTTP/1.1\r\nX: ")
                while True:
                    s.sendall(b"a")
                    time.sleep(1)
        except OSError:
            time.sleep(0.1)


def endless(port):
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as s:
                for _ in range(1000):
                    s.sendall(b"X-More: " + b"a" * 4000 + b"\r\n")
        except OSError:
            time.sleep(0.1)


def attack(port):
    for work, n in ((flood, 2), (drip, 64), (endless, 1)):
        for _ in range(n):
            threading.Thread(target=work, args=(port,), daemon=True).start()
    threading.Event().wait()


def start(millrace, work):
    """A run with a page; its process and the page's port."""
    log = open(os.path.join(work, "log"), "w")
    run = subprocess.Popen([millrace, "train", "--web", "--run-dir", os.path.join(work, "run"), "epochs=100000",
                            "train.layers=1", "train.embed=128", "train.mlp=256", "batch=256"],
                           stdout=log, stderr=subprocess.STDOUT)
    while not (found := re.search(r"^web: http://\S+?:(\d+)/", open(log.name).read(), re.M)):
        if run.poll() is not None:
            sys.exit(open(log.name).read())
        time.sleep(0.1)
    return run, int(found[1])


def turn(metrics, port, attacked, seconds):
    """Median step time of a turn."""
    client = subprocess.Popen([sys.executable, __file__, "--attack", str(port)]) if attacked else None
    time.sleep(1)
    begun = os.path.getsize(metrics)
    time.sleep(seconds)
    if client:
        client.kill()
        client.wait()
    lines = open(metrics).read()[begun:].splitlines()[1:-1]
    steps = [r["step_s"] for r in map(json.loads, lines) if r["kind"] == "step"]
    return statistics.median(steps)


def main(millrace, seconds=20.0, pairs=4):
    work = tempfile.mkdtemp()
    run, port = start(millrace, work)
    try:
        time.sleep(5)
        took = {False: [], True: []}
        for i in range(2 * pairs):
            attacked = i % 4 in (1, 2)
            took[attacked].append(turn(os.path.join(work, "run", "metrics.jsonl"), port, attacked, seconds))
        ratio = [b / a for a, b in zip(took[False], took[True])]
        print(f"median step {1000 * statistics.median(took[False]):.2f} ms in peace, "
              f"{1000 * statistics.median(took[True]):.2f} ms attacked; ratio of {pairs} pairs "
              f"{statistics.median(ratio):.3f} ({min(ratio):.3f} to {max(ratio):.3f})")
    finally:
        run.kill()
        run.wait()
        shutil.rmtree(work, ignore_errors=True)


if sys.argv[1] == "--attack":
    attack(int(sys.argv[2]))
else:
    main(os.path.abspath(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
