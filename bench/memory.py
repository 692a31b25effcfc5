#!/usr/bin/env python3
"""Memory of data sets with many records.

usage: memory.py BUILD [RECORDS]      BUILD: build/release; RECORDS: 100,000,000
Runs, each with at most 2 GiB of private memory (RLIMIT_DATA), so that more of it would end them:
  shuffle      a shuffle of RECORDS records, two workers
  make index   of a simulated tar of RECORDS members (bench/large_index.c): what a scan of it notes, and the index file
  use index    reading that tar in shuffled order, two workers: finding, checking and using its index
Prints of each the most memory that only the process can hold (RssAnon), and the most pages of files that it had mapped (RssFile), which the
kernel evicts when memory is short.  Takes 11 GB of disk in $TMPDIR or /var/tmp per 100 million records, and a few minutes."""
import json, os, resource, subprocess, sys, tempfile, time

LIMIT = 2 << 30
SECONDS = 10
build, records = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000_000
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def status(pid):
    """kB by name; {} of a process that has ended"""
    try:
        lines = open(f"/proc/{pid}/status").read().splitlines()
    except OSError:
        return {}
    return {k: int(v.split()[0]) for k, v in (x.split(":", 1) for x in lines) if v.strip().endswith("kB")}


def run(name, *command):
    most, begin = {"RssAnon": 0, "RssFile": 0}, time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)))
    while p.poll() is None:
        now = status(p.pid)
        most = {k: max(v, now.get(k, 0)) for k, v in most.items()}
        time.sleep(.02)
    if p.returncode:
        sys.exit(f"memory.py: {name}: ended with {p.returncode}")
    print(f"{name:12} RssAnon {most['RssAnon'] / 1e3:7.0f} MB, RssFile {most['RssFile'] / 1e3:7.0f} MB at most, "
          f"{time.monotonic() - begin:.0f} s", flush=True)
    return p.stdout.read()


def loader(name, source):
    graph = f"{source} ! shuffle seed=1 epochs=0 ! batch 64 drop-remainder workers=2 name=b ! null"
    got = json.loads(run(name, os.path.join(build, "millrace"), "bench", "loader", "--json", "--seconds", str(SECONDS), "--graph", graph))
    print(f"{'':12} {got['images_per_s']:.0f} records/s", flush=True)


print(f"# {records} records, at most {LIMIT >> 20} MiB of private memory")
subprocess.run(["ninja", "-C", build, "large_index"], check=True, stdout=subprocess.DEVNULL)
loader("shuffle", f"range {records}")
with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as work:
    tar = os.path.join(work, "large.tar")
    run("make index", os.path.join(build, "bench/large_index"), tar, str(records))
    print(f"{'':12} {os.path.getsize(tar + '.mrindex') / 1e6:.0f} MB of index", flush=True)
    loader("use index", f'tar "{tar}"')
