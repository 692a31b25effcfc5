"""Does a consumer that stands still slow training?  One run with a page, a FIFO and top watched by
real consumers; they are stopped (SIGSTOP) and let go in turns, and the step times of the turns are
compared in pairs.  usage: stalled.py MILLRACE [SECONDS_A_TURN] [PAIRS]"""

import json
import os
import re
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
fifo = os.path.join(work, "fifo")
os.mkfifo(fifo)
graph = subprocess.run([millrace, "train", "--steps", "1", "--run-dir", os.path.join(work, "first"), "batch=16",
                        "train.layers=1"], capture_output=True, check=True)
text = open(os.path.join(work, "first", "graph.mr")).read()
text += f"\ntelemetry. ! jsonl name=piped path={fifo}\ntelemetry. ! web run=$run port=0\n"
open(os.path.join(work, "graph.mr"), "w").write(text)



def cpu_of_training():
    """CPU seconds of the thread that trains: what other people's load on the machine does not change."""
    for task in os.listdir(f"/proc/{run.pid}/task"):
        stat = open(f"/proc/{run.pid}/task/{task}/stat").read()
        if "(train/0)" in stat:
            fields = stat[stat.rindex(")") + 2:].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    sys.exit("no thread trains")


consumers = [subprocess.Popen(["cat", fifo], stdout=subprocess.DEVNULL)]
log = os.path.join(work, "log")
run = subprocess.Popen([millrace, "train", "--graph", os.path.join(work, "graph.mr"), "--run-dir", os.path.join(work, "run"),
                        "jsonl.path=" + os.path.join(work, "run", "metrics.jsonl"), "epochs=100000", "train.layers=1", "train.embed=128", "train.mlp=256",
                        "batch=16", "train.checkpoint-every=0"], stdout=open(log, "w"), stderr=subprocess.STDOUT)
try:
    while not (found := re.search(r"^web: http://(\S+?)/\?(token=\S+)$", open(log).read(), re.M)):
        if run.poll() is not None:
            sys.exit(open(log).read())
        time.sleep(0.1)
    for _ in range(4):
        consumers.append(subprocess.Popen(["curl", "-sN", f"http://{found[1]}/events?{found[2]}"], stdout=subprocess.DEVNULL))
    time.sleep(5)
    turns, cpu = [], []
    for turn in range(2 * pairs):
        for c in consumers:
            c.send_signal(signal.SIGSTOP if turn % 2 else signal.SIGCONT)
        before = cpu_of_training()
        size = os.path.getsize(os.path.join(work, "run", "metrics.jsonl"))
        time.sleep(seconds)
        used = cpu_of_training() - before
        with open(os.path.join(work, "run", "metrics.jsonl")) as f:
            f.seek(size)
            took = [r["step_s"] for r in map(json.loads, f.read().splitlines()[1:-1]) if r["kind"] == "step"]
        if not took:
            sys.exit(open(log).read() + "no step in a turn")
        turns.append(statistics.median(took))
        cpu.append(used / len(took))
    for c in consumers:
        c.send_signal(signal.SIGCONT)
    run.send_signal(signal.SIGINT)
    run.wait(60)
    ratios = [b / a for a, b in zip(turns[::2], turns[1::2])]
    cpu_ratios = [b / a for a, b in zip(cpu[::2], cpu[1::2])]
    final = '"kind":"final"' in open(os.path.join(work, "run", "metrics.jsonl")).read()
    print(f"median step {1000 * statistics.median(turns[::2]):.2f} ms read, {1000 * statistics.median(turns[1::2]):.2f} ms with "
          f"all consumers stopped; ratio of pairs {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
          f"of CPU time a step {statistics.median(cpu_ratios):.3f} ({min(cpu_ratios):.3f} to {max(cpu_ratios):.3f}); "
          f"final record {'there' if final else 'MISSING'}")
finally:
    for p in [run, *consumers]:
        if p.poll() is None:
            p.send_signal(signal.SIGCONT)
            p.kill()
