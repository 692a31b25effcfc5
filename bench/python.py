#!/usr/bin/env python3
"""usage: bench/python.py [--cifar DIR] [--photos DIR] [--seconds S] [--rounds N] [--long] [--peers DIR]

The Python package beside the program and beside other loaders, alternately in one run: images a second of the recipe's
transforms and of photographs, the processors' time of a batch in the program and in Python, microseconds that a batch costs
the loop in Python, two streams in two threads, import time and the size of the wheel.  MILLRACE_LIBRARY names the library,
unless the package brings it.  --cifar: the folder of CIFAR-10, else synthetic pictures.  --photos: a folder of
train/CLASS/*.jpg.  --long: also a million batches with flat memory, and 10,000 random saves and resumes on other numbers of
workers and hosts.  --peers: the folder that bench/peers/setup.sh has filled with torch, tf and ffcv; they load the same
data.  OUT names the file of results (bench/results/DATE-python.txt).
"""
import argparse
import datetime
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Optional

import numpy

import millrace as mr

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("MILLRACE_PROGRAM", str(ROOT / "build/release/millrace"))
RECIPE = ("{} ! shuffle seed=1 epochs=0 ! flip ! resized-crop 32 ! normalize ! "
          "batch 128 drop-remainder workers=2 name=b")
PHOTOS = ('folder "{}/train" ! shuffle seed=12 epochs=0 ! decode ! resized-crop 224 ! flip ! '
          "normalize preset=imagenet ! batch 64 drop-remainder workers=2 name=b")

LOOP = """
import sys, numpy, millrace
with millrace.stream(sys.argv[1]) as stream:
    for _, batch in zip(range(int(sys.argv[2])), stream):
        numpy.asarray(batch["image"])
"""
SAMPLE_S = 0.25
BATCHES = {"recipe": "500,4000", "photographs": "10,60"} # whose processor time is compared

# Of bench/peers: loaders.py on CIFAR-10 and photos.py, each with two workers or threads.
PEERS = {
    "recipe": ("loaders.py", ["torch_v2_w2", "grain_np_w2", "ffcv_w2", "dali_t2"]),
    "photographs": ("photos.py", ["torch_pil", "grain", "ffcv_same", "dali_full"]),
}
IMPORTS = [("torch", "torch"), ("torch", "grain"), ("tf", "nvidia.dali"), ("ffcv", "ffcv")] # environment, module


def python_of(peer: str) -> str:
    """The environment that bench/peers/setup.sh has made for it."""
    return "ffcv" if peer.startswith("ffcv") else "tf" if peer.startswith("dali") else "torch"


def in_python(graph: str, seconds: float) -> float:
    """Images a second of a loop that touches every batch: the median of samples as `millrace bench loader` takes them."""
    rates: list[float] = []
    with mr.stream(graph) as stream:
        begun = since = time.perf_counter()
        n = 0
        for batch in stream:
            n += numpy.asarray(batch["image"]).shape[0]
            now = time.perf_counter()
            if now - since < SAMPLE_S:
                continue
            rates.append(n / (now - since))
            if now - begun > seconds + SAMPLE_S and len(rates) > 1:
                break
            since, n = now, 0
    return statistics.median(rates[1:])  # the first one has the opening in it


def in_program(graph: str, seconds: float) -> float:
    out = subprocess.run([PROGRAM, "bench", "loader", "--json", "--seconds", f"{seconds:g}", "--graph", graph + " ! null"],
                         capture_output=True, text=True, check=True).stdout
    return float(json.loads(out.splitlines()[0])["images_per_s"])


def processor_us(command: list[str]) -> float:
    """Processor time of a batch, user and system of the whole process: what more batches cost, without the start."""
    took = []
    for n in command[-1].split(","):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([word.replace("{n}", n) for word in command[:-1]], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(n)))
    return (took[1][0] - took[0][0]) / (took[1][1] - took[0][1]) * 1e6


def processor_times(graph: str, batches: str) -> tuple[float, float]:
    """Of the program and of Python, one after the other."""
    return (processor_us([PROGRAM, "run", graph + " ! null limit={n}", batches]),
            processor_us([sys.executable, "-c", LOOP, graph, "{n}", batches]))


def of_peer(peers: Path, script: str, peer: str, data: str, seconds: float) -> Optional[float]:
    """Images a second, or None if it does not run here."""
    done = subprocess.run([peers / python_of(peer) / "bin/python", ROOT / "bench/peers" / script, peer, data],
                          env={**os.environ, "WINDOW": f"{seconds:g}"}, capture_output=True, text=True)
    found = [line.split() for line in done.stdout.splitlines() if line.split(".")[0].split(" ")[0] == peer]
    if done.returncode or not found:
        print(f"{peer} does not run: {((done.stderr.strip() or done.stdout).splitlines() or ['no word'])[-1]}", file=sys.stderr)
        return None
    return float(found[0][1])


def microseconds(graph: str, batches: int) -> float:
    """What a batch costs the loop in Python: processor time of this thread alone."""
    with mr.stream(graph) as stream:
        for _ in range(100):
            next(stream)
        begun = time.thread_time()
        for _ in range(batches):
            numpy.asarray(next(stream)["value"])
        return (time.thread_time() - begun) / batches * 1e6


def two_threads(graph: str, seconds: float) -> float:
    """Images a second of two streams in two threads."""
    rates = [0.0, 0.0]

    def loop(i: int) -> None:
        rates[i] = in_python(graph, seconds)
    threads = [threading.Thread(target=loop, args=(i,)) for i in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(rates)


def import_ms(python: str, module: str) -> float:
    """Wall time of a process that imports it."""
    best = float("inf")
    for _ in range(10):
        begun = time.perf_counter()
        subprocess.run([python, "-c", f"import {module}"], check=True)
        best = min(best, time.perf_counter() - begun)
    return best * 1e3


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def flat_memory(batches: int) -> tuple[float, float]:
    """MiB after a tenth of the batches, and after all."""
    with mr.stream("range 1000000 ! shuffle seed=1 epochs=0 ! batch 8 workers=2") as stream:
        for i, batch in enumerate(stream, 1):
            numpy.asarray(batch["value"])
            if i == batches // 10:
                early = resident_mib()
            if i == batches:
                return early, resident_mib()
    raise AssertionError("the stream is endless")


def contents(batch) -> list[str]:
    """Of each record: its number, and the bytes that all fields have of it."""
    arrays = [(name, numpy.asarray(array)) for name, array in batch.items()]
    return [hashlib.sha256(repr((i, [(name, a[k].tobytes()) for name, a in arrays])).encode()).hexdigest()
            for k, i in enumerate(batch.ids)]


def random_resumes(times: int) -> int:
    """Stops at random batches, resumes with other workers, and as one of several hosts; how many were not equal."""
    graph = "synthetic n=480 ! shuffle seed=3 epochs=3 ! flip ! normalize ! batch 24"
    with mr.stream(graph) as stream:
        want = [contents(b) for b in stream]
    draw, wrong, state, at = random.Random(1), 0, None, 0
    for _ in range(times):
        workers, hosts = draw.randrange(1, 5), draw.choice([1, 1, 2, 3, 4])
        host = draw.randrange(hosts)
        if at == len(want):
            state, at = None, 0
        with mr.stream(graph, state=state, host=(host, hosts), settings={"batch.workers": workers}) as stream:
            for _ in range(draw.randrange(1, 4)):
                if at == len(want):
                    break
                batch = next(stream)
                here = contents(batch)
                share = want[at][batch.first:batch.first + batch.n]
                wrong += not here or here != share or batch.step != at + 1 or len(here) != len(want[at]) // hosts
                at += 1
            state = stream.state()
    return wrong


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--cifar")
    p.add_argument("--photos")
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--long", action="store_true")
    p.add_argument("--peers", type=Path)
    a = p.parse_args()
    lines = []

    def say(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    model = next((x.split(": ")[1] for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    say(f"# {datetime.date.today()} commit {commit.strip()}, {os.cpu_count()} cores, {model}, Python {sys.version.split()[0]}, "
        f"load {os.getloadavg()[0]:.1f}")
    recipe = RECIPE.format(f'cifar10 "{a.cifar}"' if a.cifar else "synthetic n=50000")
    graphs = {"recipe": recipe}
    if a.photos:
        graphs["photographs"] = PHOTOS.format(a.photos)
    for name, graph in graphs.items():
        rates: dict[str, list[float]] = {}
        times: list[tuple[float, float]] = []
        for _ in range(a.rounds):
            rates.setdefault("program", []).append(in_program(graph, a.seconds))
            rates.setdefault("Python", []).append(in_python(graph, a.seconds))
            times.append(processor_times(graph, BATCHES[name]))
            script, names = PEERS[name]
            data = a.cifar if name == "recipe" else a.photos
            for peer in names if a.peers and data else []:
                rate = of_peer(a.peers, script, peer, data, a.seconds) if rates.get(peer) != [] else None
                rates.setdefault(peer, []).extend([rate] if rate else [])
        ratio = statistics.median(y / x for x, y in zip(rates["program"], rates["Python"]))
        say(f"{name}: " + ", ".join(f"{n} {statistics.median(r):.0f}" for n, r in rates.items() if r)
            + f" images/s; Python/program {ratio:.3f}")
        program, python = (statistics.median(t) for t in zip(*times))
        say(f"{name}: a batch takes {program:.0f} us of processors' time in the program and {python:.0f} us in Python, "
            f"{statistics.median(p / c for c, p in times):.3f} of it")
    say(f"two streams in two threads: {two_threads(recipe.replace('workers=2', 'workers=1'), a.seconds):.0f} images/s")
    say(f"a batch: {microseconds('range 1000000 ! shuffle seed=1 epochs=0 ! batch 8', 20000):.1f} us of processor time")
    say(f"import: millrace {import_ms(sys.executable, 'millrace'):.0f} ms, beside {import_ms(sys.executable, 'sys'):.0f} ms of Python alone"
        + "".join(f", {module} {import_ms(str(a.peers / venv / 'bin/python'), module):.0f} ms"
                  for venv, module in IMPORTS if a.peers and (a.peers / venv).exists()))
    for wheel in (ROOT / "build/wheels").glob("*.whl"):
        say(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")
    if a.long:
        early, late = flat_memory(1_000_000)
        say(f"a million batches: {early:.1f} MiB after a tenth, {late:.1f} MiB after all")
        say(f"10,000 random saves and resumes: {random_resumes(10_000)} differ")
    out = Path(os.environ.get("OUT", ROOT / f"bench/results/{datetime.date.today()}-python.txt"))
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
