"""Does a hang have a name?  Jobs of ranks, each a process in a network of its own (a namespace with a cable to a bridge),
are made to stand still in ways and at moments that are drawn at random, and the ranks that the others name are compared with
the one that was stalled.  A job whose rank goes on afterwards has to go on too.
usage: stalls.py MILLRACE RANKS_PROGRAM [STALLS] [SEED] [KIND,...]; about 20 seconds a stall; as root, for the networks.
RANKS_PROGRAM: tests/ranks_program of the build.  Last line: how many were named rightly, of each kind."""

import ctypes
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

if os.environ.get("STALLS_NETWORK") != "own":  # all that is made here ends with this process
    os.environ["STALLS_NETWORK"] = "own"
    os.execvp("unshare", ["unshare", "-n", "--", sys.executable, *sys.argv])

millrace, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
stalls = int(sys.argv[3]) if len(sys.argv) > 3 else 100
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 28
RANKS = 4
NAMED_S = 25  # from the last step until a rank is named: 10 s of standing still, on a busy machine
work = tempfile.mkdtemp(prefix="stalls-")
draw = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

GRAPH = """let run = unset
synthetic n=256 split=train ! shuffle seed=1 epochs=100000 ! flip p=0.5 ! normalize preset=cifar10
  ! batch 16 drop-remainder
  ! train-step name=train model=vit layers=1 embed=32 mlp=64 heads=2 dropout=0.1 ema=0.9 lr=1e-3 threads=1
      ordered=8 zero=1 checkpoint-files=ranks checkpoint-every=40 leak-check=off dtype=f32
synthetic n=32 split=test ! sequential epochs=100000 ! normalize preset=cifar10 ! batch name=held 16 ! train.valid
train.metrics ! jsonl path=$run/metrics.jsonl
train.state ! checkpoint dir=$run/checkpoints keep=2
"""

NAMES = [r"rank (\d+) has not been heard of", r"has waited for rank (\d+) in", r"rank (\d+) did not come to",
         r"rank (\d+) has left", r"rank (\d+) has failed", r"rank \d+ waits for rank (\d+) in",
         r"rank (\d+) made \w+ number \d+ .* where rank (\d+) made"]


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


# ---- a host of each rank ----


def make_hosts():
    """Processes that hold a network each, and a cable from it to the bridge."""
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "link", "set", "br0", "up")
    hosts = []
    for r in range(RANKS):
        host = subprocess.Popen(["unshare", "-n", "sleep", "1000000"])
        hosts.append(host)
        while os.readlink(f"/proc/{host.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        run("ip", "link", "add", f"v{r}", "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        run("ip", "link", "set", f"v{r}", "master", "br0", "up")
        for args in (["link", "set", "lo", "up"], ["addr", "add", f"10.77.0.{r + 1}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            run("nsenter", "-t", str(host.pid), "-n", "ip", *args)
    return hosts


def cable(rank, up):
    run("ip", "link", "set", f"v{rank}", "up" if up else "down")


def slow_cable(rank, slow):
    if slow:
        run("tc", "qdisc", "add", "dev", f"v{rank}", "root", "tbf", "rate", "4mbit", "burst", "64kbit", "latency", "2s")
    else:
        run("tc", "qdisc", "del", "dev", f"v{rank}", "root")


# ---- a job ----


class Job:
    """Ranks as torchrun starts them."""

    def __init__(self, hosts, number, command):
        self.folder = os.path.join(work, f"run{number}")
        self.ranks, self.errors = [], []
        for r in range(RANKS):
            env = dict(os.environ, MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", RANK=str(r), WORLD_SIZE=str(RANKS), LOCAL_RANK="0",
                       LOCAL_WORLD_SIZE="1", GROUP_RANK=str(r), GROUP_WORLD_SIZE=str(RANKS), MILLRACE_SECRET=secret, OMP_WAIT_POLICY="passive")
            log = open(os.path.join(work, f"err{number}.{r}"), "w+")
            self.errors.append(log)
            self.ranks.append(subprocess.Popen(["nsenter", "-t", str(hosts[r].pid), "-n", "--", *command(self.folder)], env=env,
                                               stdout=subprocess.DEVNULL, stderr=log))

    def step(self):
        """The newest step that the run has told."""
        try:
            with open(os.path.join(self.folder, "metrics.jsonl"), "rb") as f:
                lines = f.read().splitlines()
            return max((json.loads(x).get("step", 0) for x in lines[-6:-1]), default=0)
        except (OSError, ValueError):
            return 0

    def wait_for(self, step, seconds):
        until = time.time() + seconds
        while self.step() < step and time.time() < until and self.lives():
            time.sleep(0.05)
        return self.step() >= step

    def lives(self):
        return all(p.poll() is None for p in self.ranks)

    def said(self, rank):
        return open(self.errors[rank].name).read()

    def ended(self, ranks, seconds):
        until = time.time() + seconds
        while time.time() < until and any(self.ranks[r].poll() is None for r in ranks):
            time.sleep(0.05)
        return all(self.ranks[r].poll() is not None for r in ranks)

    def close(self):
        for p in self.ranks:
            if p.poll() is None:
                p.send_signal(signal.SIGCONT)
                p.kill()
            p.wait()
        for f in self.errors:
            f.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def names_in(text):
    found = set()
    for pattern in NAMES:
        for m in re.finditer(pattern, text):
            found |= {int(x) for x in m.groups()}
    return found


# ---- one thread that stands, while its process answers ----


def thread_of(pid, name):
    for task in os.listdir(f"/proc/{pid}/task"):
        if open(f"/proc/{pid}/task/{task}/comm").read().startswith(name):
            return int(task)
    raise RuntimeError(f"no thread {name}")


def hold_thread(thread):
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) or libc.ptrace(PTRACE_INTERRUPT, thread, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(thread, WALL)


def let_thread_go(thread):
    libc.ptrace(PTRACE_DETACH, thread, None, None)


# ---- the stalls: each returns why it was not named rightly, or None ----


def others_end(job, rank, extra=""):
    others = [r for r in range(RANKS) if r != rank]
    if not job.ended(others, NAMED_S):
        return "others still wait: " + " | ".join(job.said(r)[-200:] for r in others)
    for r in others:
        named = names_in(job.said(r)) or {int(x) for x in re.findall(extra, job.said(r))} if extra else names_in(job.said(r))
        if named != {rank} or job.ranks[r].returncode != 1:
            return f"rank {r} ends with {job.ranks[r].returncode}, names {sorted(named)}: {job.said(r)[-400:]}"
    return None


def stopped(job, rank):
    job.ranks[rank].send_signal(signal.SIGSTOP)
    return others_end(job, rank)


def killed(job, rank):
    job.ranks[rank].kill()
    return others_end(job, rank)


def dead_host(job, rank):
    cable(rank, False)
    try:
        why = others_end(job, rank)
        if not why and not job.ended([rank], NAMED_S):
            why = "the rank without a network still waits"
        return why
    finally:
        cable(rank, True)


def full_disk(job, rank):
    resource.prlimit(job.ranks[rank].pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    return others_end(job, rank, r"rank (\d+): [^\n]*(?:File too large|No space left)")


def held(job, rank, thread):
    """Named while it stands, and nothing ends: the job goes on where the thread does."""
    t = thread_of(job.ranks[rank].pid, thread)
    hold_thread(t)
    try:
        until, named, newest = time.time() + NAMED_S, set(), job.step()
        while time.time() < until and not named and job.lives():
            time.sleep(0.1)
            if job.step() > newest:  # batches that were made before are worked on first
                newest, until = job.step(), time.time() + NAMED_S
            for r in range(RANKS):
                if r != rank:
                    named |= names_in(job.said(r))
    finally:
        let_thread_go(t)
    if named != {rank}:
        return f"names {sorted(named)}: " + " | ".join(job.said(r)[-300:] for r in range(RANKS))
    step = job.step()
    return None if job.wait_for(step + 5, 60) else f"does not go on from step {step}: " + " | ".join(
        job.said(r)[-300:] for r in range(RANKS))


def starved(job, rank):
    return held(job, rank, "batch/")


def computing(job, rank):
    return held(job, rank, "train/")


def evaluating(job, rank):
    """The reader of the records that rank 0 evaluates."""
    return held(job, rank, "held/")


def writing(job, rank):
    """What writes rank 0's checkpoints."""
    return held(job, rank, "checkpoint/")


def slow_link(job, rank):
    """Slow is not stalled: nobody but this rank is named, and the job goes on."""
    slow_cable(rank, True)
    try:
        step = job.step()
        alive = job.wait_for(step + 2, 60)
    finally:
        slow_cable(rank, False)
    named = set().union(*(names_in(job.said(r)) for r in range(RANKS) if r != rank))
    if named - {rank}:
        return f"names {sorted(named)}: " + " | ".join(job.said(r)[-300:] for r in range(RANKS))
    step = job.step()
    if named and not job.lives():
        return None
    return None if alive and job.wait_for(step + 5, 60) else "does not go on: " + " | ".join(job.said(r)[-300:] for r in range(RANKS))


def skipped(number, hosts, rank):
    folder = os.path.join(work, f"skip{number}")
    os.mkdir(folder)
    job = Job(hosts, number, lambda _: [program, folder, "zmq", "skip", str(rank)])
    try:
        if not job.ended(range(RANKS), 60):
            return "ranks still wait"
        for r in range(RANKS):
            text = open(os.path.join(folder, str(r))).read()
            if r != rank and rank not in names_in(text):
                return f"rank {r} says {text[:300]}"
        return None
    finally:
        job.close()


FATAL = {"stopped": stopped, "killed": killed, "dead-host": dead_host, "full-disk": full_disk}
# cut: ranks have parts of parameters, and wait for each other along the axes of the mesh.
PASSING = {"starved": starved, "computing": computing, "evaluating": evaluating, "writing": writing, "cut": computing,
           "slow-link": slow_link}
OF_RANK_0 = {"evaluating", "writing"}
SETTINGS = {"cut": ["--mesh", "data=2,model=2", "train.zero=0", "train.ordered=0"]}
KINDS = sys.argv[5].split(",") if len(sys.argv) > 5 else [*FATAL, *PASSING, "skipped"]
secret = f"{draw.getrandbits(256):064x}"


def one_stall(hosts, number, kind):
    rank = 0 if kind in OF_RANK_0 else draw.randrange(RANKS)
    if kind == "skipped":
        return rank, skipped(number, hosts, rank)
    graph = os.path.join(work, "graph.mr")
    job = Job(hosts, number, lambda folder: [millrace, "train", "--graph", graph, "--run-dir", folder, *SETTINGS.get(kind, [])])
    try:
        if not job.wait_for(2 + draw.randrange(60), 120):
            return rank, "the job did not begin: " + " | ".join(job.said(r)[-300:] for r in range(RANKS))
        time.sleep(draw.random() * 0.3)
        return rank, (FATAL.get(kind) or PASSING[kind])(job, rank)
    finally:
        job.close()


def end_by_signal(*_):
    sys.exit(1)


def main():
    signal.signal(signal.SIGTERM, end_by_signal)  # what is made here is taken away then too
    right, count = {k: 0 for k in KINDS}, {k: 0 for k in KINDS}
    with open(os.path.join(work, "graph.mr"), "w") as f:
        f.write(GRAPH)
    hosts = make_hosts()
    try:
        for number in range(stalls):
            kind = KINDS[number % len(KINDS)]
            begun = time.time()
            rank, why = one_stall(hosts, number, kind)
            count[kind] += 1
            right[kind] += why is None
            print(f"{number + 1:3d} {kind:9s} of rank {rank}: {'named rightly' if why is None else 'WRONG: ' + why}"
                  f" ({time.time() - begun:.0f} s)", flush=True)
    finally:
        for host in hosts:
            host.kill()
            host.wait()
        shutil.rmtree(work, ignore_errors=True)
    print(f"{sum(right.values())} of {sum(count.values())} stalls were named rightly, by seed {seed}: " + ", ".join(
        f"{k} {right[k]} of {count[k]}" for k in KINDS))
    return 0 if right == count else 1


sys.exit(main())
