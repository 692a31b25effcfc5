"""Do clients of the live page and ZeroMQ peers that mean harm slow training?  The page is flooded
(requests without token, of other hosts and origins, and of no HTTP at all, each on a new connection),
held up (headers at a byte a second on most of the connections that one may open) and sent headers without
end; the socket of stage publish gets greetings followed by nonsense, and sizes that no message has.

Attackers are elsewhere: on a machine of their own they would take no time from training, so that a
measurement with them on the same processor would be one of the scheduler.  The run has the first
processor, with one thread of training and all threads that answer; the attackers have the second, at
the usual priority.  A second run of the program, which does next to nothing, shares theirs.  There
are three kinds of turns: peace; the same attackers at the second run ("elsewhere"); and at the run
that is measured ("attacked").  Attacked beside elsewhere is what the program's own answers cost: all
else, down to what the attackers do to memory and the kernel, is the same.  The order turns round with
every round, so that a drift of the machine cancels.  Told too: processor time of the threads that
answer (those at the lowest priority), for 1000 connections.

usage: hostile.py MILLRACE [SECONDS_A_TURN] [ROUNDS]; needs two processors"""

import glob
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
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for work, n, at in ((flood, 2, port), (drip, 24, port), (endless, 1, port), (malformed_peer, 2, peers)):
        for _ in range(n):
            threading.Thread(target=work, args=(at,), daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    print(attempts[0], flush=True)
    os._exit(0)


TRAINED, ATTACKERS = 0, 1  # of the processors that this process may use
GRAPH = """
synthetic ! shuffle seed=12 epochs=0 ! flip ! resized-crop ! normalize ! batch 64 drop-remainder ! delay SLOWLY asleep ! train.
vit-step name=train layers=1 embed=128 mlp=256
train.metrics ! telemetry name=told
told. ! jsonl path='FOLDER/metrics.jsonl'
told. ! web port=0
told. ! publish 'tcp://127.0.0.1:*'
"""


def on(processor):
    return {sorted(os.sched_getaffinity(0))[processor]}


class Run:
    """A run with a page and a publisher, on one processor."""

    def __init__(self, millrace, folder, processor, slowly_us):
        os.mkdir(folder)
        self.metrics, log = os.path.join(folder, "metrics.jsonl"), os.path.join(folder, "log")
        graph = GRAPH.replace("FOLDER", folder).replace("SLOWLY", str(slowly_us))
        where = on(processor)
        self.process = subprocess.Popen([millrace, "run", graph], stdout=open(log, "w"), stderr=subprocess.STDOUT,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=lambda: os.sched_setaffinity(0, where))
        self.ports = [self.port_of(log, r"^web: http://\S+?:(\d+)/"), self.port_of(log, r"^publish: tcp://\S+?:(\d+)$")]

    def port_of(self, log, pattern):
        while not (found := re.search(pattern, open(log).read(), re.M)):
            if self.process.poll() is not None:
                sys.exit(open(log).read())
            time.sleep(0.1)
        return int(found[1])

    def answering_s(self):
        """Processor time of the threads at the lowest priority and of stage publish, which lets subscribers in."""
        total = 0
        for thread in glob.glob(f"/proc/{self.process.pid}/task/*"):
            nice = int(open(thread + "/stat").read().rsplit(")", 1)[1].split()[16])
            if nice == 19 or open(thread + "/comm").read().startswith("publish"):
                total += int(open(thread + "/schedstat").read().split()[0])
        return total / 1e9

    def step_s(self, since):
        """Median time from one step's record to the next one's, in what was written since."""
        lines = open(self.metrics).read()[since:].splitlines()[1:-1]
        at = [r["elapsed_s"] for r in map(json.loads, lines) if r["kind"] == "step"]
        if len(at) < 2:
            sys.exit(f"hostile.py: {len(at)} steps in a turn; the machine stood still, or turns are too short")
        return statistics.median(b - a for a, b in zip(at, at[1:]))


class Turn:
    """What the run did for some seconds, while nobody or somebody is attacked."""

    def __init__(self, run, target, seconds):
        where = on(ATTACKERS)
        client = target and subprocess.Popen([sys.executable, __file__, "--attack", *map(str, target.ports)], stdout=subprocess.PIPE,
                                             text=True, preexec_fn=lambda: os.sched_setaffinity(0, where))
        try:
            time.sleep(1)
            since, used, begun = os.path.getsize(run.metrics), run.answering_s(), time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - begun
            self.answering = (run.answering_s() - used) / passed
            self.step = run.step_s(since)
        finally:
            if client:
                client.terminate()
                self.connections = int(client.communicate()[0]) / (passed + 1)


def told(turns):
    step = {kind: statistics.median(t.step for t in turns[kind]) for kind in turns}
    rate = {kind: statistics.median(t.connections for t in turns[kind]) for kind in ("elsewhere", "attacked")}
    print(f"median step {1000 * step['peace']:.2f} ms in peace, {1000 * step['elsewhere']:.2f} ms while another run is attacked by "
          f"{rate['elsewhere']:.0f} connections a second, {1000 * step['attacked']:.2f} ms attacked by {rate['attacked']:.0f}")
    for other in ("elsewhere", "peace"):
        ratio = [a.step / b.step for a, b in zip(turns["attacked"], turns[other])]
        print(f"attacked beside {other}: {statistics.median(ratio):.3f} ({min(ratio):.3f} to {max(ratio):.3f}) of {len(ratio)} rounds")
    extra = [(a.answering - b.answering) / a.connections for a, b in zip(turns["attacked"], turns["peace"])]
    share = statistics.median(t.answering for t in turns["attacked"])
    print(f"threads that answer: {1e6 * statistics.median(extra):.1f} ms of processor time for 1000 connections, "
          f"{100 * share:.2f} % of a processor attacked, {100 * statistics.median(t.answering for t in turns['peace']):.2f} % in peace")


def main(millrace, seconds=20.0, rounds=4):
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("hostile.py: needs two processors, one for the run and one for those who attack it")
    work = tempfile.mkdtemp()
    runs = []
    try:
        runs.append(Run(millrace, os.path.join(work, "run"), TRAINED, 0))
        runs.append(Run(millrace, os.path.join(work, "other"), ATTACKERS, 1000000))
        target = {"peace": None, "elsewhere": runs[1], "attacked": runs[0]}
        turns = {kind: [] for kind in target}
        time.sleep(5)
        for i in range(rounds):
            for kind in list(target)[::-1 if i % 2 else 1]:
                turns[kind].append(Turn(runs[0], target[kind], seconds))
        told(turns)
    finally:
        for run in runs:
            run.process.kill()
            run.process.wait()
        shutil.rmtree(work, ignore_errors=True)


if sys.argv[1] == "--attack":
    attack(int(sys.argv[2]), int(sys.argv[3]))
else:
    main(os.path.abspath(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
