#!/usr/bin/env python3
"""The history of bench results: one line of JSON each, and its picture.

    record.py add FILE BENCH '{"figure": value, ...}'   appends a line with date, commit and machine
    record.py draw FILE OUT.svg                         draws every figure over the commits (matplotlib)
"""
import datetime
import json
import os
import subprocess
import sys


def git(*args):
    root = os.path.dirname(os.path.abspath(__file__))
    return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True).stdout.strip()


def machine():
    with open("/proc/cpuinfo") as f:
        info = dict(line.split(":", 1) for line in f if ":" in line)
    info = {k.strip(): v.strip() for k, v in info.items()}
    flags = info.get("flags", "").split()
    isa = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_vbmi", "avx512_bf16") if f in flags]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": info.get("model name", "?"), "cores": os.cpu_count(), "memory_gib": round(gib, 1), "isa": isa}


def add(file, bench, figures):
    line = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": git("rev-parse", "--short", "HEAD"),
        "machine": machine(),
        "bench": bench,
        "figures": json.loads(figures),
    }
    with open(file, "a") as f:
        f.write(json.dumps(line) + "\n")


def draw(file, out):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    with open(file) as f:
        lines = [json.loads(text) for text in f]
    benches = sorted({line["bench"] for line in lines})
    fig, axes = plt.subplots(len(benches), 1, figsize=(8, 2.2 * len(benches)), squeeze=False)
    for ax, bench in zip(axes[:, 0], benches):
        mine = [line for line in lines if line["bench"] == bench]
        names = sorted({n for line in mine for n in line["figures"] if not n.endswith("_ratio")})
        for name in names:
            at = [(i, line["figures"][name]) for i, line in enumerate(mine) if name in line["figures"]]
            ax.plot(*zip(*at), marker="o", label=name, linewidth=2.4 if name.startswith("millrace") else 1.2)
        ax.set_title(bench, loc="left", fontsize=10)
        ax.set_ylim(bottom=0)
        ax.set_xticks(range(len(mine)), [f"{line['date'][:10]}\n{line['commit']}" for line in mine], fontsize=7)
        ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    fig.tight_layout()
    fig.savefig(out)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "add":
        add(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "draw":
        draw(*sys.argv[2:])
    else:
        sys.exit(__doc__)
