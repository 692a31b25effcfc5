"""Do consumers that stand still, a full disk or peers that are gone slow training?  One run, watched
through pages, pipes, files and a socket; in every second turn, all at once, its readers are stopped
(SIGSTOP), its disk is full (no file may grow) and some of its peers are killed.  The step times of
the turns are compared in pairs, in the order read, stalled, stalled, read, so that a drift of the
machine cancels; beside them the processor time of the thread that trains.
usage: stalled.py MILLRACE [SECONDS_A_TURN] [PAIRS]; takes 2 * SECONDS * PAIRS and ten seconds more"""

import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

millrace = os.path.abspath(sys.argv[1])
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 1
work = tempfile.mkdtemp()
folder = os.path.join(work, "run")
metrics = os.path.join(folder, "metrics.jsonl")
settled = 1  # seconds at the start of a turn that are left out
children = []


def reader(*command):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children.append(p)
    return p


def write_graph():
    """The default graph with more faces than the command line has flags for."""
    subprocess.run([millrace, "train", "--steps", "1", "--run-dir", os.path.join(work, "first"), "batch=16",
                    "train.layers=1"], capture_output=True, check=True)
    text = open(os.path.join(work, "first", "graph.mr")).read()
    for name in ("stopped", "gone"):
        os.mkfifo(os.path.join(work, name))
        text += f"\ntelemetry. ! jsonl name={name} path={work}/{name}\n"
    text = re.sub(r"^train.*! checkpoint.*$", "", text, flags=re.M)  # one that cannot be written ends a run, and should
    text += f"telemetry. ! csv path={work}/metrics.csv\ntelemetry. ! tensorboard dir={work}/events\n"
    text += f"telemetry. ! web run=$run port=0\ntelemetry. ! publish ipc://{work}/socket\n"
    open(os.path.join(work, "graph.mr"), "w").write(text)


def start():
    command = [millrace, "train", "--graph", os.path.join(work, "graph.mr"), "--run-dir", folder, f"jsonl.path={metrics}",
               "epochs=100000", "train.layers=1", "train.embed=128", "train.mlp=256", "batch=256", "train.checkpoint-every=0"]
    log = os.path.join(work, "log")
    keeper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=open(log, "w"))  # the disk is full for the run alone
    run = subprocess.Popen(command, stdout=keeper.stdin, stderr=subprocess.STDOUT)
    keeper.stdin.close()
    children.extend([run, keeper])
    while not (found := re.search(r"^web: http://(\S+?)/\?(token=\S+)$", open(log).read(), re.M)):
        if run.poll() is not None:
            sys.exit(open(log).read())
        time.sleep(0.1)
    return run, f"http://{found[1]}/events?{found[2]}"


def cpu_of_training(run):
    """CPU seconds of the thread that trains: what other people's load on the machine does not change."""
    for task in os.listdir(f"/proc/{run.pid}/task"):
        if open(f"/proc/{run.pid}/task/{task}/comm").read().startswith("train/0"):
            return int(open(f"/proc/{run.pid}/task/{task}/schedstat").read().split()[0]) / 1e9
    sys.exit(f"no thread trains: {run.poll()}\n" + open(os.path.join(work, "log")).read()[-3000:])


def fill_disk(run, full):
    """No file may grow beyond what it is now: writes fail as on a full disk."""
    hard = resource.prlimit(run.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (1 if full else hard, hard))


def stall(run, stopped, peers, page, yes):
    for p in stopped:
        p.send_signal(signal.SIGSTOP if yes else signal.SIGCONT)
    fill_disk(run, yes)
    while yes and peers:
        p = peers.pop()
        p.kill()
        p.wait()
    if not yes and not peers:
        peers += [reader("curl", "-sN", page), reader("cat", os.path.join(work, "gone"))]


def steps():
    """Step -> (seconds since the run's start, seconds it took); and whether the last words are there."""
    told, final = {}, False
    for line in open(metrics):
        r = json.loads(line)
        final = final or r["kind"] == "final"
        if r["kind"] == "step":
            told[r["step"]] = (r["elapsed_s"], r["step_s"])
    return told, final


def run_turns(run, stopped, peers, page):
    """(stalled, its first and last second of the run, CPU time of training) of each turn."""
    begun = time.time() - json.loads(open(metrics).read().splitlines()[-1])["elapsed_s"]
    turns = []
    for turn in range(2 * pairs):
        stalled = turn % 4 in (1, 2)
        stall(run, stopped, peers, page, stalled)
        time.sleep(settled)
        before, since = cpu_of_training(run), time.time()
        time.sleep(seconds)
        turns.append((stalled, since - begun, time.time() - begun, cpu_of_training(run) - before))
    return turns


def main():
    write_graph()
    stopped = [reader("cat", os.path.join(work, "stopped"))]
    peers = [reader("cat", os.path.join(work, "gone"))]
    run, page = start()
    stopped += [reader("curl", "-sN", page) for _ in range(4)]
    peers.append(reader("curl", "-sN", page))
    time.sleep(5)
    turns = run_turns(run, stopped, peers, page)
    stall(run, stopped, peers, page, False)
    time.sleep(1)
    run.send_signal(signal.SIGINT)
    run.wait(60)
    told, final = steps()
    last = max(told)
    wall, cpu = {False: [], True: []}, {False: [], True: []}
    for stalled, since, until, used in turns:
        within = [took for at, took in told.values() if since <= at < until]
        if not within:
            sys.exit("no step of a turn was told")
        ran = [s for s, (at, _) in told.items() if since <= at < until]
        wall[stalled].append(statistics.median(within))
        cpu[stalled].append(used / (max(ran) - min(ran) + 1))
    ratio = [b / a for a, b in zip(wall[False], wall[True])]
    cpu_ratio = [b / a for a, b in zip(cpu[False], cpu[True])]
    print(f"median step {1000 * statistics.median(wall[False]):.2f} ms watched, {1000 * statistics.median(wall[True]):.2f} ms "
          f"stalled; ratio of {pairs} pairs {statistics.median(ratio):.3f} ({min(ratio):.3f} to {max(ratio):.3f}), of CPU "
          f"time a step {statistics.median(cpu_ratio):.3f} ({min(cpu_ratio):.3f} to {max(cpu_ratio):.3f}); {len(told)} of "
          f"{last} steps told, final record {'there' if final else 'MISSING'}")
    return 0 if final else 1


try:
    code = main()
finally:
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGCONT)
            child.kill()
    shutil.rmtree(work, ignore_errors=True)
sys.exit(code)
