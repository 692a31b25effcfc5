"""The history of bench results: a JSON line a result, and a drawing of it.

    history.py add FILE COMMIT [PEERS.json] < lines of `millrace bench --json`
    history.py plot FILE OUT.svg

Needs nothing but Python's standard library.
"""

import datetime
import html
import json
import os
import sys

# The figure of each bench that is drawn, and whether less is better.
MAIN = {
    "step": ("step_s", True),
    "infer": ("step_s", True),
    "compile": ("compile_ms", True),
    "loader": ("images_per_s", False),
    "reader": ("images_per_s", False),
    "stage": ("ns_per_hop", True),
}
COLOURS = ["#2f6fae", "#c8641b", "#3c8a3f", "#8a4fa3", "#a33b4f"]


def machine():
    model, flags = "unknown", set()
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == "model name" and model == "unknown":
                model = value.strip()
            if key.strip() == "flags":
                flags = set(value.split())
                break
    isa = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if name in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(memory / 2**30), "isa": isa}


def ratios(figures, peers):
    """How many times millrace is as fast as each peer, by figure."""
    out = {}
    for name, values in peers.items():
        if name not in figures:
            sys.exit(f"history: peers: no figure {name}; there are {', '.join(figures)}")
        less = name.endswith(("_s", "_ms", "_ns", "per_hop")) and "per_s" not in name
        for peer, value in values.items():
            out.setdefault(name, {})[peer] = round(value / figures[name] if less else figures[name] / value, 3)
    return out


def add(path, commit, peers_path=None):
    peers = json.load(open(peers_path)) if peers_path else {}
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = []
    for text in sys.stdin:
        if not text.strip():
            continue
        figures = json.loads(text)
        bench, data = figures.pop("bench"), figures.pop("data", "none")
        mine = figures.pop("peers", peers.get(bench, {}))
        lines.append({"date": date, "commit": commit, "machine": machine(), "bench": bench, "data": data,
                      "figures": figures, "peers": mine, "ratios": ratios(figures, mine)})
    if not lines:
        sys.exit("history: nothing on standard input; want lines of `millrace bench ... --json`")
    with open(path, "a") as f:
        for line in lines:
            f.write(json.dumps(line) + "\n")
    print(f"{len(lines)} results added to {path}")


def read(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def series(results):
    """{bench: {"millrace, CPU, 2 cores": [(date, value), ...]}}"""
    out = {}
    for r in results:
        name = MAIN.get(r["bench"], (next(iter(r["figures"])), True))[0]
        if name not in r["figures"]:
            continue
        where = f'{r["machine"]["cpu"]}, {r["machine"]["cores"]} cores'
        panel = out.setdefault((r["bench"], name), {})
        panel.setdefault(f"millrace, {where}", []).append((r["date"], r["figures"][name]))
        for peer, value in r["peers"].get(name, {}).items():
            panel.setdefault(f"{peer}, {where}", []).append((r["date"], value))
    return out


def seconds(date):
    return datetime.datetime.strptime(date, "%Y-%m-%dT%H:%M:%SZ").timestamp()


def draw_panel(top, title, lines, out):
    left, width, height = 90, 640, 150
    points = [p for line in lines.values() for p in line]
    t0, t1 = min(seconds(d) for d, _ in points), max(seconds(d) for d, _ in points)
    most = max(v for _, v in points) * 1.1 or 1
    x = lambda d: left + (width / 2 if t0 == t1 else (seconds(d) - t0) / (t1 - t0) * width)
    y = lambda v: top + 30 + height - v / most * height
    out.append(f'<text class="t" x="{left}" y="{top + 16}">{html.escape(title)}</text>')
    for k in range(5):
        v = most * k / 4
        out.append(f'<line class="g" x1="{left}" x2="{left + width}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>')
        out.append(f'<text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.3g}</text>')
    ends = {min(points)[0]: "start", max(points)[0]: "end"}
    for date, side in ends.items():
        anchor = "middle" if len(ends) == 1 else side
        out.append(f'<text x="{x(date):.1f}" y="{top + height + 46}" text-anchor="{anchor}">{date[:10]}</text>')
    for k, (name, line) in enumerate(sorted(lines.items())):
        colour = COLOURS[k % len(COLOURS)]
        line = sorted(line)
        path = " ".join(f"{x(d):.1f},{y(v):.1f}" for d, v in line)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        for d, v in line:
            tip = html.escape(f"{name}: {v:.6g}, {d}")
            out.append(f'<circle cx="{x(d):.1f}" cy="{y(v):.1f}" r="4" fill="{colour}"><title>{tip}</title></circle>')
        row = top + 40 + 18 * k
        out.append(f'<circle cx="{left + width + 20}" cy="{row - 4}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{left + width + 30}" y="{row}">{html.escape(name)}</text>')
    return max(height + 70, 60 + 18 * len(lines))


def plot(path, target):
    panels = series(read(path))
    if not panels:
        sys.exit(f"history: {path} has no results to draw")
    body, top = [], 10
    for (bench, figure), lines in sorted(panels.items()):
        less = MAIN.get(bench, (figure, True))[1]
        title = f"{bench}: {figure} ({'less' if less else 'more'} is better)"
        top += draw_panel(top, title, lines, body)
    style = ("<style>text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.g{stroke:#8884}"
             ".b{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#eee}.b{fill:#16181d}}</style>")
    with open(target, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 {top}" width="1120" height="{top}">'
                f'{style}<rect class="b" width="1120" height="{top}"/>\n' + "\n".join(body) + "\n</svg>\n")
    print(f"{len(panels)} panels in {target}")


def main():
    if len(sys.argv) in (4, 5) and sys.argv[1] == "add":
        add(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "plot":
        plot(*sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
