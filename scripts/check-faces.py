"""One run, watched through every face at once: a terminal's lines, millrace top (of the folder and of
the page), the live page in a real Chromium, a real Prometheus, the real tensorboard package, JSON
lines, CSV, a ZeroMQ subscriber, and one that does not read.  The process that trains is killed
(SIGKILL) and resumes several times; then the process that reads is stopped, so that the other stands
still at one step, and all faces must say the same of it.  At the end each of them must have every
step once and in order.
usage: check-faces.py MILLRACE; needs tensorboard, zmq, Chromium, Prometheus"""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import zmq
from chromium import Browser, children, fail, run_check, wait_for
from ports import free_port
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tb_logging

tb_logging.get_logger().setLevel("ERROR")  # it tells what it purges, which is what is wanted here
millrace = os.path.abspath(sys.argv[1])
KILLS, EVERY, SLOWLY_US = 3, 40, 10000  # checkpoints are far apart, so that kills cost many steps

GRAPH = """
let run = RUN
process reader {
  synthetic ! shuffle seed=12 epochs=0 ! flip ! normalize ! batch 16 drop-remainder name=batches
}
process trainer restart=100 {
  delay SLOWLY asleep name=slow ! train.
  vit-step name=train embed=32 mlp=32 heads=2 layers=1 checkpoint-every=EVERY watch-every=50
  train.metrics ! telemetry name=told every=0
  told. ! progress every=1
  told. ! jsonl path=$run/metrics.jsonl
  told. ! csv path=$run/metrics.csv
  told. ! tensorboard dir=$run/tensorboard
  told. ! prometheus port=PORT
  told. ! web run=$run port=0
  told. ! publish ipc://$run/socket
  train.state ! checkpoint dir=$run/checkpoints
}
batches. ! slow.
"""


class Run:
    """A run of two processes and its supervisor."""

    def __init__(self, work):
        self.folder, self.said, self.port = os.path.join(work, "run"), os.path.join(work, "said"), free_port()
        text = GRAPH.replace("RUN", self.folder).replace("PORT", str(self.port))
        text = text.replace("EVERY", str(EVERY)).replace("SLOWLY", str(SLOWLY_US))
        graph = os.path.join(work, "faces.mr")
        open(graph, "w").write(text)
        os.mkdir(self.folder)
        self.process = subprocess.Popen([millrace, "run", graph], stdout=open(self.said, "w"), stderr=subprocess.STDOUT)
        children.append(self.process)

    def pid_of(self, name):
        """The child of this run's supervisor that runs a process of the graph."""
        for task in os.listdir("/proc"):
            try:
                parent = int(open(f"/proc/{task}/stat").read().rpartition(")")[2].split()[1])
                words = open(f"/proc/{task}/cmdline").read().split("\0")
            except (OSError, IndexError, ValueError):
                continue
            if parent == self.process.pid and f"--process={name}" in words:
                return int(task)
        return None

    def lines(self):
        return open(self.said).read().splitlines()

    def pages(self):
        """The addresses that were printed, one in each life of the trainer."""
        return [line.split(" ", 1)[1] for line in self.lines() if line.startswith("web: http")]

    def page(self):
        """The address that was printed last."""
        return self.pages()[-1] if self.pages() else None

    def records(self):
        """The step records of metrics.jsonl in the order of the file."""
        found = []
        for line in open(os.path.join(self.folder, "metrics.jsonl")):
            if line.endswith("\n"):
                record = json.loads(line)
                if record["kind"] == "step":
                    found.append(record)
        return found

    def last(self):
        try:
            records = self.records()
        except OSError:
            return 0
        return records[-1]["step"] if records else 0


class Scraper:
    """A real Prometheus."""

    def __init__(self, work, target):
        self.port = free_port()
        with open(os.path.join(work, "prometheus.yml"), "w") as f:
            f.write("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n  - job_name: millrace\n"
                    f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n")
        children.append(subprocess.Popen(
            ["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def query(self, text):
        where = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(text)}"
        try:
            with urllib.request.urlopen(where, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []

    def there(self, text):
        """What there is, as soon as there is something: a scrape that a busy machine lets fail takes all away up to the next."""
        return wait_for(lambda: self.query(text), f"Prometheus: {text}")

    def value(self, text):
        return float(self.there(text)[0]["value"][1])


class Subscriber(threading.Thread):
    def __init__(self, folder):
        super().__init__(daemon=True)
        self.steps, self.quiet = [], threading.Event()
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"train/loss")
        self.socket.connect(f"ipc://{folder}/socket")

    def run(self):
        while True:
            if not self.socket.poll(50):
                self.quiet.set()
                continue
            topic, body = self.socket.recv_multipart()
            if topic != b"train/loss":
                continue  # one that begins alike
            record = json.loads(body)
            self.steps.append((record["step"], record["value"]))


class Deaf:
    """A subscriber that wants all and reads nothing: what it misses must be on every face.  Whose queue is full does not
    notice that a publisher dies, and never comes to the next one: it is made after the last kill."""

    def __init__(self, folder):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 1)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.socket.connect(f"ipc://{folder}/socket")


def top(where):
    """What it prints, as numbers; and the two numbers of each link."""
    text = subprocess.run([millrace, "top", "--once", where], capture_output=True, text=True, check=True).stdout
    wanted = {"step": r"^step (\d+)", "loss": r"  loss (\S+)", "accuracy": r"accuracy (\S+)", "images_per_s": r"(\S+) images/s",
              "step_p50_s": r"p50 (\S+) s", "lr": r"learning rate (\S+)", "grad_norm": r"gradient norm (\S+)",
              "param_norm": r"parameter norm (\S+)", "loss_scale": r"loss scale (\S+)", "cpu_cores": r"CPU (\S+) cores",
              "publish_dropped": r"^missed by slow subscribers: (\d+)$"}
    found = {name: re.search(pattern, text, re.M) for name, pattern in wanted.items()}
    missing = [name for name, match in found.items() if not match]
    if missing:
        fail(f"top {where} does not say {missing}:\n{text}")
    links = re.findall(r"^(\S+) +released up to (\d+), committed up to (\d+)$", text, re.M)
    return {name: match[1] for name, match in found.items()}, {name: (int(r), int(c)) for name, r, c in links}


def page(browser):
    """The large numbers of the page, and its table of metrics, which is drawn later than they are: its step is table_step."""
    big, table = browser.run("""return [Object.fromEntries(['step', 'loss', 'accuracy', 'rate'].map(
        (k) => [k, document.getElementById('now-' + k)?.textContent])),
        Object.fromEntries([...document.querySelectorAll('#all-numbers tr')].map((r) => [...r.cells].map((c) => c.textContent)))]""")
    said = {name.replace(" ", "_"): text for name, text in table.items()}
    return {**said, "table_step": said.get("step"), "step": big["step"], "loss": big["loss"], "accuracy": big["accuracy"], "images_per_s": big["rate"]}


def scraped(scraper):
    names = {"step": "millrace_step", "loss": 'millrace_loss{split="train"}', "accuracy": 'millrace_accuracy{split="train"}',
             "lr": "millrace_learning_rate", "grad_norm": "millrace_gradient_norm", "param_norm": "millrace_parameter_norm",
             "loss_scale": "millrace_loss_scale", "images_per_s": "millrace_images_per_second",
             "cpu_cores": "millrace_cpu_cores", "step_p50_s": 'millrace_step_seconds{quantile="0.5"}',
             "publish_dropped": "millrace_publish_dropped_total"}
    return {name: scraper.value(text) for name, text in names.items()}


def tensorboard(folder):
    """Step -> value of each series, read from the event files as TensorBoard does."""
    events = event_accumulator.EventAccumulator(os.path.join(folder, "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(p.step, p.value) for p in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def tabled(folder):
    with open(os.path.join(folder, "metrics.csv"), newline="") as f:
        return [row for row in csv.DictReader(f) if row["kind"] == "step"]


def progress(lines):
    found = (re.match(r"Step (\d+), Loss: (\S+), Accuracy: (\S+),", line) for line in lines)
    return [(int(m[1]), m[2], m[3]) for m in found if m]


def digits(text):
    """Half a unit of the last digit that a face shows."""
    mantissa, _, exponent = text.lower().partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def same(face, said, told, share=2e-7):
    """Numbers agree to the last digit that was shown, or to a share of themselves."""
    count = 0
    for name, value in said.items():
        number, unit = (str(value).split() + [""])[:2]
        scale = {"GB": 1e9, "MB": 1e6, "": 1, "s": 1}[unit]
        number = float(number) * scale
        within = max(share * abs(told[name]), digits(str(value).split()[0]) * scale * 1.001
                     if isinstance(value, str) else 0)
        if not abs(number - told[name]) <= within:
            fail(f"step {told['step']}: {face} says {name} {value}, metrics.jsonl {told[name]!r}")
        count += 1
    return count


def one_line(face, steps, last, first=1):
    """Every step once and in order."""
    want = list(range(first, last + 1))
    if list(steps) != want:
        at = next((i for i, (a, b) in enumerate(zip(steps, want)) if a != b), min(len(steps), len(want)))
        fail(f"{face}: {list(steps)[max(0, at - 3):at + 4]} where {want[max(0, at - 3):at + 4]} is due, {len(steps)} of {len(want)}")


def writes_no_more(thread):
    """Whether a thread, a folder of /proc, is stopped or has ended."""
    try:
        return open(f"{thread}/stat").read().rpartition(")")[2].split()[0] in "TtZX"
    except (FileNotFoundError, ProcessLookupError):  # it ended after it was listed, or while it was read
        return True


def stop_every_thread(pid):
    """A thread within a system call stops where it leaves the kernel: until then a line may still be written."""
    os.kill(pid, signal.SIGSTOP)
    threads = f"/proc/{pid}/task"
    wait_for(lambda: all(writes_no_more(f"{threads}/{t}") for t in os.listdir(threads)), "every thread of the trainer to stop")


def is_at_rest(run, subscriber):
    """Whether no step is on its way to one face while another has it: of a trainer that makes none."""
    subscriber.quiet.clear()
    wait_for(subscriber.quiet.is_set, "the last of what was published")
    shown = progress(run.lines())
    return shown and subscriber.steps and shown[-1][0] == subscriber.steps[-1][0] == run.last()


def kill_the_trainer(run, subscriber):
    """At a step far from its checkpoint; waits until the run has gone beyond it.  A face may be a step
    ahead of metrics.jsonl for less than a millisecond: the moment of the kill is not in one of these."""
    at = run.last() // EVERY * EVERY + EVERY - 5
    wait_for(lambda: run.last() >= at, f"step {at}")
    trainer, lives = run.pid_of("trainer"), len(run.pages())

    def killed():
        nonlocal at
        stop_every_thread(trainer)
        at = run.last()
        still = is_at_rest(run, subscriber) and at % EVERY >= 10
        os.kill(trainer, signal.SIGKILL if still else signal.SIGCONT)
        return still
    wait_for(killed, "a moment between two steps")
    wait_for(lambda: run.pid_of("trainer") not in (None, trainer) and len(run.pages()) > lives, "the trainer's next life")
    if len({page.split("token=")[1] for page in run.pages()}) > 1:
        fail(f"a page of the same run folder has another token: {run.pages()}")
    wait_for(lambda: run.last() >= at + 10, "what comes after the kill")


def stand_still(run, scraper, subscriber):
    """Stops the reader; returns what metrics.jsonl says of the step that the trainer then waits behind."""
    wait_for(lambda: run.records()[-1]["publish_dropped"] > 0, "what the deaf subscriber misses")
    os.kill(run.pid_of("reader"), signal.SIGSTOP)
    before, still = -1, 0
    while still < 3:  # what is under way comes to its end
        time.sleep(1)
        still = still + 1 if run.last() == before else 0
        before = run.last()
    wait_for(lambda: is_at_rest(run, subscriber), "the last step on every face")
    wait_for(lambda: scraper.value("millrace_step") == before, "a scrape of the last step")
    return run.records()[-1]


def links_are_told(run, browser, scraper, told):
    """released and committed of the link's end: a record's on all faces; the page's live ones go on a little."""
    want = {name: (stage["released"], stage["committed"]) for name, stage in told["stages"].items() if "released" in stage}
    if list(want) != ["from-batches"] or not 0 < want["from-batches"][1] <= want["from-batches"][0] <= told["step"]:
        fail(f"the links of step {told['step']} are {want}")
    series = tensorboard(run.folder)
    said = {"top": top(run.folder)[1], "top of the page": top(run.page())[1]}
    said["Prometheus"] = {name: tuple(int(scraper.value(f'millrace_link_{which}_buffers{{stage="{name}"}}')) for which in ("released", "committed"))
                          for name in want}
    said["TensorBoard"] = {name: tuple(series[f"stages/{name}/{which}"][-1][1] for which in ("released", "committed")) for name in want}
    for face, links in said.items():
        if links != want:
            fail(f"links of step {told['step']}: {face} says {links}, metrics.jsonl {want}")
    boxes = """return [...document.querySelectorAll('#graph g')].map((g) => [...g.querySelectorAll('text')].map((t) => t.textContent))"""

    def on_the_page():
        for name, kind in browser.run(boxes):
            match = re.fullmatch(r"link-in (\d+) \((\d+)\)", kind)
            if name == "from-batches" and match:
                released, committed = int(match[1]), int(match[2])
                return want[name][0] <= released <= told["step"] and want[name][1] <= committed <= released
        return False
    wait_for(on_the_page, "the link's two numbers on the page")


def compare_faces(run, browser, scraper, told):
    browser.go(run.page())
    wait_for(lambda: page(browser)["step"] == page(browser)["table_step"] == str(told["step"]), "the page's last step")
    known = {name: value for name, value in page(browser).items() if name in told and name != "elapsed_s"}
    counts = {"page": same("the page", known, told), "top": same("top", top(run.folder)[0], told)}
    same("top of the page", top(run.page())[0], told)
    counts["Prometheus"] = same("Prometheus", scraped(scraper), told, 1e-8)
    step, loss, accuracy = progress(run.lines())[-1]
    counts["progress"] = same("progress", {"step": step, "loss": loss, "accuracy": accuracy}, told)
    of_stages = {f"{stage}.{name}": value for stage, numbers in told["stages"].items() for name, value in numbers.items()}
    row = {k: v for k, v in tabled(run.folder)[-1].items() if (k in told or "." in k) and k not in ("kind", "ledger") and v}
    counts["CSV"] = same("CSV", row, {**told, **of_stages}, 1e-8)
    if lacking := of_stages.keys() - row.keys():
        fail(f"the table does not say {lacking}")
    series = tensorboard(run.folder)
    if "publish_dropped" not in known or "publish_dropped" not in row:
        fail("the page or the table does not say what slow subscribers miss")
    newest = {tag.split("/", 1)[1]: points[-1][1] for tag, points in series.items()
              if tag.split("/", 1)[1] in told and points[-1][0] == told["step"]}
    counts["TensorBoard"] = same("TensorBoard", newest, told)
    few = {face: n for face, n in counts.items() if n < (3 if face == "progress" else 10)}
    if few:
        fail(f"too few numbers compared: {few}")
    return counts


def table_is_true(run, scraper, told):
    """docs/metrics.md: what it names is in metrics.jsonl, in metrics.csv and in Prometheus; and what is there is named."""
    columns = tabled(run.folder)[-1]
    documented = {"kind", "ledger", "data", "elapsed_s", "stages"}
    for line in open(os.path.join(os.path.dirname(__file__), "..", "docs", "metrics.md")):
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]]
        if not line.startswith("| `") or len(cells) < 4 or {"gpu_busy", "skipped_steps", "remote_bytes", "cache_hit_rate"} & set(cells[0]):
            continue  # another table; of a GPU: scripts/check-nvml.sh; of skipped steps: tests/apps/test_on_nan.c; of servers: test_remote_run.c
        names, series = cells[0], [name.split("{")[0] for name in cells[2]]
        documented.update(names)
        if names[0] == "stages":
            stages = [stage for name, stage in told["stages"].items() if "released" not in names or name == "from-batches"]
            missing = [name for name in names[1:] if any(name not in stage for stage in stages)]
        else:
            missing = [n for n in names if n not in told] + [n for n in names if n not in columns and n != "total_steps"]
        series = [series[0] + name if name.startswith("_") else name for name in series]
        series = [name.replace("_sum_count", "_count") for name in series]
        for name in series:
            scraper.there("millrace_" + name)
        if missing:
            fail(f"docs/metrics.md names {missing}, which a run does not have")
    if set(told) - documented:
        fail(f"docs/metrics.md does not name {set(told) - documented}")


def every_face_shows_one_line(run, browser, scraper, subscriber, told):
    last, losses = told["step"], {r["step"]: r["loss"] for r in run.records()}
    one_line("metrics.jsonl", [r["step"] for r in run.records()], last)
    one_line("CSV", [int(r["step"]) for r in tabled(run.folder)], last)
    one_line("progress", [step for step, _, _ in progress(run.lines())], last)
    for tag, points in tensorboard(run.folder).items():
        if tag == "train/loss":
            one_line("TensorBoard", [step for step, _ in points], last)
        elif not tag.startswith("_") and [step for step, _ in points] != sorted({step for step, _ in points}):
            fail(f"TensorBoard: {tag} goes back")
    one_line("the page's curve", browser.run("return Array.from({length: charts.loss.numRows()}, (_, i) => charts.loss.getValue(i, 0))"), last)
    scraped_losses = scraper.query('millrace_loss{split="train"}[1h]')[0]["values"]
    scrapes = {t: float(v) for t, v in scraper.query("millrace_step[1h]")[0]["values"]}  # asked last: it has all of these times
    repeats = {t: float(v) for t, v in scraper.query("millrace_repeating_until_step[1h]")[0]["values"] if float(v) > 0}
    new = [step for t, step in scrapes.items() if t not in repeats]
    if new != sorted(new) or scraper.value("resets(millrace_images_total[1h])") != 0:
        fail("Prometheus: the steps go back")
    for t in repeats:
        if t in scrapes and scrapes[t] > repeats[t]:
            fail(f"Prometheus: step {scrapes[t]} is shown as repeated, and they end at {repeats[t]:.0f}")
    for t, loss in scraped_losses:
        if not math.isclose(float(loss), losses[scrapes[t]], rel_tol=1e-8):
            fail(f"Prometheus: loss {loss} of step {scrapes[t]}, in the end it is {losses[scrapes[t]]}")
    steps = [step for step, _ in subscriber.steps]
    if steps != sorted(set(steps)) or steps[-1] != last:
        fail(f"the subscriber's steps go back or do not end at {last}: {steps}")
    if any(losses[step] != loss for step, loss in subscriber.steps):
        fail("the subscriber's losses are not those of metrics.jsonl")
    return len(scrapes)


def missed_is_told_live(browser, told):
    """At the edge to the publisher, behind the buffers that wait there."""
    texts = "return drawn.edges.map((t, i) => [run.stages[run.edges[i].to].def, t.textContent])"

    def at_the_edge():
        shown = [re.search(r"\(−(\d+)\)", text) for stage, text in browser.run(texts) if stage == "publish"]
        return len(shown) == 1 and shown[0] and int(shown[0][1]) >= told["publish_dropped"]
    wait_for(at_the_edge, "what slow subscribers miss at the page's edge")


def missed_is_told_at_the_end(run):
    final = [json.loads(line) for line in open(os.path.join(run.folder, "metrics.jsonl")) if '"kind":"final"' in line]
    line = f"Missed by slow subscribers: {final[-1]['publish_dropped']:.0f} messages"
    if final[-1]["publish_dropped"] <= 0 or line not in run.lines():
        fail(f"progress does not end with: {line}")


def main(work):
    run = Run(work)
    scraper, subscriber = Scraper(work, run.port), Subscriber(run.folder)
    subscriber.start()
    for _ in range(KILLS):
        kill_the_trainer(run, subscriber)
    deaf = Deaf(run.folder)
    told = stand_still(run, scraper, subscriber)
    browser = Browser()
    counts = compare_faces(run, browser, scraper, told)
    links_are_told(run, browser, scraper, told)
    missed_is_told_live(browser, told)
    table_is_true(run, scraper, told)
    scrapes = every_face_shows_one_line(run, browser, scraper, subscriber, told)
    again = sum(re.match(r"Steps \d+ to \d+ are repeated", line) is not None for line in run.lines())
    os.kill(run.pid_of("reader"), signal.SIGCONT)
    run.process.send_signal(signal.SIGINT)
    run.process.wait(300)
    missed_is_told_at_the_end(run)
    deaf.socket.close()
    if again != KILLS:
        fail(f"{KILLS} kills made steps again, progress says so {again} times")
    print(f"faces: step {told['step']} is the same on all; numbers compared: "
          + ", ".join(f"{face} {n}" for face, n in counts.items())
          + f"; one line after {KILLS} kills ({scrapes} scrapes, {len(subscriber.steps)} published)")


run_check(main)
