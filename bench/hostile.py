"""Do clients of the live page and ZeroMQ peers that mean harm slow training?  In every second turn,
ordered normal, attacked, attacked, normal, the page is flooded (requests without token, of other
hosts and origins, and of no HTTP at all, each on a new connection), held up (headers at a byte a
second on as many connections as one may open) and sent headers without end; the socket of stage
publish gets greetings followed by nonsense, and sizes that no message has.  The attackers run at the
lowest priority, since elsewhere they would not use this machine's processors at all.  The step times
of the turns are compared in pairs.  usage: hostile.py MILLRACE [SECONDS_A_TURN] [PAIRS]"""

import json
import os
import re
import shutil
import signal
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


attempts = [0]


def connect(port):
    attempts[0] += 1
    return socket.create_connection(("127.0.0.1", port), 2)


def say_in_turn(port, words):
    for i in range(10**9):
        try:
            with connect(port) as s:
                s.sendall(words[i % len(words)])
                s.settimeout(0.2)
                s.recv(64)
        except OSError:
            pass
        time.sleep(0.002)


def flood(port):
    say_in_turn(port, FLOOD)


def drip(port):
    while True:
        try:
            with connect(port) as s:
                s.sendall(b"GET / HTTP/1.1\r\nX: ")
                while True:
                    s.sendall(b"a")
                    time.sleep(1)
        except OSError:
            time.sleep(0.1)


def endless(port):
    while True:
        try:
            with connect(port) as s:
                for _ in range(1000):
                    s.sendall(b"X-More: " + b"a" * 4000 + b"\r\n")
        except OSError:
            time.sleep(0.1)


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)


def malformed_peer(port):
    """Of ZeroMQ: half a greeting, a whole one and then nonsense, a frame of 2^63 bytes."""
    say_in_turn(port, [GREETING[:11] + os.urandom(200), GREETING + os.urandom(200),
                       GREETING + b"\x02" + b"\x7f" + b"\xff" * 7 + os.urandom(200)])


def attack(port, peers):
    os.nice(19)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for work, n, at in ((flood, 2, port), (drip, 64, port), (endless, 1, port), (malformed_peer, 2, peers)):
        for _ in range(n):
            threading.Thread(target=work, args=(at,), daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    print(attempts[0], flush=True)
    os._exit(0)


def start(millrace, work):
    """A run with a page and a publisher; its process and their ports."""
    graph = os.path.join(work, "graph.mr")
    subprocess.run([millrace, "train", "--web", "--steps", "1", "--run-dir", os.path.join(work, "first"), "batch=16", "train.layers=1",
                    "web.port=0"], capture_output=True, check=True)
    text = open(os.path.join(work, "first", "graph.mr")).read() + "\ntelemetry. ! publish 'tcp://127.0.0.1:*'\n"
    open(graph, "w").write(text)
    log = open(os.path.join(work, "log"), "w")
    run = subprocess.Popen([millrace, "train", "--graph", graph, "--run-dir", os.path.join(work, "run"), "web.port=0", "epochs=100000",
                            "train.layers=1", "train.embed=128", "train.mlp=256", "batch=256"],
                           stdout=log, stderr=subprocess.STDOUT)

    def port_of(pattern):
        while not (found := re.search(pattern, open(log.name).read(), re.M)):
            if run.poll() is not None:
                sys.exit(open(log.name).read())
            time.sleep(0.1)
        return int(found[1])
    return run, (port_of(r"^web: http://\S+?:(\d+)/"), port_of(r"^publish: tcp://\S+?:(\d+)$"))


def turn(metrics, ports, attacked, seconds):
    """Median step time of a turn, and the connections that were made a second."""
    client = subprocess.Popen([sys.executable, __file__, "--attack", *map(str, ports)], stdout=subprocess.PIPE, text=True) if attacked else None
    time.sleep(1)
    begun = os.path.getsize(metrics)
    time.sleep(seconds)
    made = 0
    if client:
        client.terminate()
        made = int(client.communicate()[0]) / (seconds + 1)
    lines = open(metrics).read()[begun:].splitlines()[1:-1]
    steps = [r["step_s"] for r in map(json.loads, lines) if r["kind"] == "step"]
    return statistics.median(steps), made


def main(millrace, seconds=20.0, pairs=4):
    work = tempfile.mkdtemp()
    run, ports = start(millrace, work)
    try:
        time.sleep(5)
        took, made = {False: [], True: []}, []
        for i in range(2 * pairs):
            attacked = i % 4 in (1, 2)
            step, connections = turn(os.path.join(work, "run", "metrics.jsonl"), ports, attacked, seconds)
            took[attacked].append(step)
            made += [connections] if attacked else []
        ratio = [b / a for a, b in zip(took[False], took[True])]
        print(f"median step {1000 * statistics.median(took[False]):.2f} ms in peace, "
              f"{1000 * statistics.median(took[True]):.2f} ms attacked by {statistics.median(made):.0f} connections a second; ratio of {pairs} pairs "
              f"{statistics.median(ratio):.3f} ({min(ratio):.3f} to {max(ratio):.3f})")
    finally:
        run.kill()
        run.wait()
        shutil.rmtree(work, ignore_errors=True)


if sys.argv[1] == "--attack":
    attack(int(sys.argv[2]), int(sys.argv[3]))
else:
    main(os.path.abspath(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
