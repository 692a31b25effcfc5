"""The history of bench results: a JSON line a result, and a drawing of it.

    history.py add FILE COMMIT [PEERS.json] < lines of `millrace bench --json`
    history.py plot FILE OUT.svg

Needs nothing but Python's standard library.
"""

import datetime
import html
import json
import math
import os
import sys

# The figure of each bench that is drawn, its unit, and whether less is better.  What step.sh
# records ("train-bf16") has step_s.
MAIN = {
    "compile": ("compile_ms", "ms", True),
    "loader": ("images_per_s", "images/s", False),
    "reader": ("images_per_s", "images/s", False),
    "stage": ("ns_per_hop", "ns", True),
}
STEP = ("step_s", "s", True)
LONG = {"s": "seconds", "ms": "milliseconds", "ns": "nanoseconds a buffer and hop", "images/s": "images a second"}
WORDS = {"train": "training step", "step": "training step", "infer": "inference"}
# Readable on white and on black.
COLOURS = ["#d9722e", "#4287c8", "#4f9d58", "#a06cc0", "#c8506a", "#7f8c2f"]


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


def panels(results):
    """One a bench and machine, in the order of their first results: [(title, note, unit, results)]."""
    found = {}
    for r in results:
        figure, unit, less = MAIN.get(r["bench"], STEP)
        if figure not in r["figures"]:
            continue
        mode, _, dtype = r["bench"].partition("-")
        batch = r["figures"].get("batch")
        words = [WORDS.get(mode, mode), dtype, f"{batch} records" if batch else ""]
        title = ", ".join(word for word in words if word)
        note = f'{LONG[unit]}; {"less" if less else "more"} is better; {r["machine"]["cpu"]}, {r["machine"]["cores"]} cores'
        found.setdefault((title, note, unit), []).append((figure, r))
    return [(*key, runs) for key, runs in found.items()]


def series(runs):
    """{name: [(index of the run, value, ratio to millrace or None)]}, millrace first."""
    out = {"millrace": []}
    for k, (figure, r) in enumerate(runs):
        out["millrace"].append((k, r["figures"][figure], None))
        for peer, value in r["peers"].get(figure, {}).items():
            out.setdefault(peer, []).append((k, value, r["ratios"][figure][peer]))
    return out


def round_step(most):
    """The distance of grid lines: 1, 2 or 5 times a power of ten, four or five of them to the top."""
    unit = 10 ** math.floor(math.log10(most / 4))
    return next(unit * k for k in (1, 2, 5, 10) if unit * k * 5 >= most)


def number(v):
    return f"{v:,.0f}" if v >= 1000 else f"{v:.3g}"


LEFT, WIDTH, HEIGHT = 80, 640, 150


def draw_grid(top, step, most, runs, x, y, out):
    for k in range(int(most / step + 1e-9) + 1):
        at = y(k * step)
        out.append(f'<line class="g" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(k * step)}</text>')
    every = math.ceil(len(runs) / 8)  # a label takes 80 units
    for k, (_, r) in enumerate(runs):
        if (len(runs) - 1 - k) % every:
            continue
        for row, text in enumerate((r["commit"], r["date"][:10])):
            out.append(f'<text x="{x(k):.1f}" y="{top + HEIGHT + 64 + 15 * row}" text-anchor="middle">'
                       f"{html.escape(text)}</text>")


def draw_line(name, line, runs, unit, colour, x, y, out):
    path = " ".join(f"{x(k):.1f},{y(v):.1f}" for k, v, _ in line)
    wide = 3 if name == "millrace" else 1.5
    out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="{wide}" points="{path}"/>')
    for k, v, ratio in line:
        times = f", millrace {ratio:.2f} times as fast" if ratio else ""
        tip = html.escape(f'{name}: {number(v)} {unit}{times}; {runs[k][1]["commit"]}, {runs[k][1]["date"]}')
        out.append(f'<circle cx="{x(k):.1f}" cy="{y(v):.1f}" r="4" fill="{colour}"><title>{tip}</title></circle>')


def draw_panel(top, panel, colours, out):
    title, note, unit, runs = panel
    lines = series(runs)
    most = max(v for line in lines.values() for _, v, _ in line)
    step = round_step(most)
    most = math.ceil(most / step - 1e-9) * step
    x = lambda k: LEFT + WIDTH * (k + 0.5) / len(runs)
    y = lambda v: top + 44 + HEIGHT - v / most * HEIGHT
    out.append(f'<text class="t" x="{LEFT}" y="{top + 14}">{html.escape(title[0].upper() + title[1:])}</text>')
    out.append(f'<text class="n" x="{LEFT}" y="{top + 30}">{html.escape(note)}</text>')
    draw_grid(top, step, most, runs, x, y, out)
    for row, (name, line) in enumerate(lines.items()):
        colour = colours.setdefault(name, COLOURS[len(colours) % len(COLOURS)])
        draw_line(name, line, runs, unit, colour, x, y, out)
        _, last, ratio = line[-1]
        text = f"{name}: {number(last)} {unit}" + (f", {ratio:.2f} times ours" if ratio and unit in ("s", "ms", "ns") else "")
        at = top + 54 + 20 * row
        out.append(f'<circle cx="{LEFT + WIDTH + 20}" cy="{at - 4}" r="5" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + WIDTH + 32}" y="{at}">{html.escape(text)}</text>')
    return max(HEIGHT + 104, 74 + 20 * len(lines))


def plot(path, target):
    found = panels(read(path))
    if not found:
        sys.exit(f"history: {path} has no results to draw")
    body, top, colours = [], 14, {}
    for panel in found:
        top += draw_panel(top, panel, colours, body)
    style = ("<style>text{font:12px sans-serif;fill:#222}.t{font-weight:bold;font-size:14px}.n{fill:#666}"
             ".g{stroke:#8886}.b{fill:#fff}"
             "@media(prefers-color-scheme:dark){text{fill:#eee}.n{fill:#aaa}.b{fill:#16181d}}</style>")
    with open(target, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1020 {top}" width="1020" height="{top}">'
                f'{style}<rect class="b" width="1020" height="{top}"/>\n' + "\n".join(body) + "\n</svg>\n")
    print(f"{len(found)} panels in {target}")


def main():
    if len(sys.argv) in (4, 5) and sys.argv[1] == "add":
        add(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "plot":
        plot(*sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
