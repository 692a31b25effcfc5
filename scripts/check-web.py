"""Looks at a run's live page with a real Chromium, through WebDriver, and plays hostile pages and
clients.  usage: check-web.py MILLRACE [FOLDER_FOR_SCREENSHOTS]"""

import csv
import http.client
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

from chromium import Browser, children, fail, run_check, wait_for
from ports import free_port

millrace = os.path.abspath(sys.argv[1])
shots = sys.argv[2] if len(sys.argv) > 2 else None


def shoot(browser, name):
    if shots:
        browser.shoot(os.path.join(shots, name))


SMALL = ["train.layers=1", "train.embed=64", "train.heads=2", "train.mlp=64"]


def start_run(folder, *settings):
    command = [millrace, "train", "--run-dir", "runs/" + os.path.basename(folder), *settings, "--web", "web.port=0", "batch=32",
               "epochs=1000", *SMALL, "train.watch-every=20", "train.steps=100000"]
    run = subprocess.Popen(command, stdout=open(folder + ".log", "w"), stderr=subprocess.STDOUT,
                           cwd=os.path.dirname(os.path.dirname(folder)))
    children.append(run)

    def url():
        found = re.search(r"^web: (http\S+)$", open(folder + ".log").read(), re.M)
        return found and found.group(1)

    return run, wait_for(url, "the page's address")


def told(folder, kind="step"):
    steps = {}
    for line in open(os.path.join(folder, "metrics.jsonl")):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # being written
        if record["kind"] == kind:
            steps[record["step"]] = record
    return steps


def share_of_a_core(pid, seconds=10):
    """CPU time of the page's threads while a browser watches."""
    def used():
        ns = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{task}"
            if open(folder + "/comm").read().startswith(("web", "MHD")):
                ns += int(open(folder + "/schedstat").read().split()[0])
        return ns / 1e9
    before, start = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - start)


def page_shows_the_files_numbers(browser, folder, metric="accuracy"):
    seen = browser.run("const d = document.getElementById('numbers').dataset; return [d.step, d.loss, d.judged]")
    step, loss, judged = int(seen[0]), float(seen[1]), json.loads(seen[2])
    record = wait_for(lambda: told(folder).get(step), f"step {step} in metrics.jsonl")
    if loss != record["loss"] or judged != {metric: record[metric]}:
        fail(f"step {step}: the page says {loss}, {judged}, the file {record['loss']}, {record[metric]}")
    return step


def earlier_run(work):
    """A short one in the same folder, to be laid under the curves; what its metrics.jsonl says."""
    folder = os.path.join(work, "runs", "earlier")
    subprocess.run([millrace, "train", "--run-dir", "runs/earlier", "--steps", "40", "seed=3", "batch=32", *SMALL],
                   cwd=work, check=True, capture_output=True)
    return told(folder)


def curves(browser, earlier):
    zoom = "return charts.loss.xAxisRange()"
    for act, why in ((lambda: browser.press("#zoom-in"), "the button"),
                     (lambda: browser.drag("#loss canvas:last-of-type", (-100, 0), (100, 0)), "dragging")):
        before = browser.run(zoom)
        act()
        wait_for(lambda: browser.run(zoom)[1] - browser.run(zoom)[0] < 0.9 * (before[1] - before[0]), f"zoom by {why}")
        if browser.run("return charts['judged-accuracy'].xAxisRange()") != browser.run(zoom):
            fail("zoom: the curves show different steps")
        browser.press("#reset")
        wait_for(lambda: browser.run(zoom)[1] >= before[1], "all of the curve again")
    smoothing(browser, earlier)
    cursors(browser)
    rough = """const y = charts.loss.layout_.points[0].map((p) => p.yval).filter((v) => v !== null).slice(0, 200);
        return y.slice(1).reduce((sum, v, i) => sum + Math.abs(v - y[i]), 0)"""
    before = browser.run(rough)
    browser.run("const s = document.getElementById('smooth'); s.value = 20; s.dispatchEvent(new Event('input'))")
    wait_for(lambda: browser.run(rough) < before / 2, "a smoother curve")
    browser.run("const s = document.getElementById('smooth'); s.value = 1; s.dispatchEvent(new Event('input'))")
    for state in (True, False):
        browser.press("#log")
        wait_for(lambda: browser.run("return charts.loss.getOption('logscale')") == state, f"log scale {state}")
    browser.run("const o = document.getElementById('overlay'); o.value = 'earlier'; o.dispatchEvent(new Event('change'))")
    other = """const out = []; for (let i = 0; i < charts.loss.numRows(); i++)
        if (charts.loss.getValue(i, 4) !== null) out.push([charts.loss.getValue(i, 0), charts.loss.getValue(i, 4)]); return out"""
    wait_for(lambda: browser.run(other) == [[step, r["loss"]] for step, r in sorted(earlier.items())], "the earlier run's curve")
    browser.run("const o = document.getElementById('overlay'); o.value = ''; o.dispatchEvent(new Event('change'))")
    wait_for(lambda: not browser.run(other), "the curves without it")


DRAWN = """drawCurves(); const out = {};  // series -> what is drawn: the points of the chart itself, without those between which it draws nothing
    for (const id in charts) charts[id].layout_.setNames.forEach((name, i) => {
      out[id + '/' + name] = charts[id].layout_.points[i].filter((p) => p.yval !== null && !isNaN(p.yval)).map((p) => [p.xval, p.yval]); });
    const told = (m, value) => [...m].filter(([, r]) => typeof r[value] === 'number').map(([step, r]) => [step, r[value]]).sort((a, b) => a[0] - b[0]);
    return [out, { 'loss/train': told(steps, 'loss'), 'loss/valid': told(valid, 'loss'), 'judged-accuracy/valid': told(valid, 'accuracy'),
      'rate/train': told(steps, 'images_per_s'), 'loss/other run': told(overlay || [], 'loss') }]"""


def mean_over(points, n):
    """What a smoothed curve is: an exponential mean over about n steps of a series' own points."""
    out, total, weight, last = [], 0, 0, None
    for step, v in points:
        kept = 0 if last is None else (1 - 1 / n) ** (step - last)
        total, weight, last = v + kept * total, 1 + kept * weight, step
        out.append([step, total / weight])
    return out


def smoothing(browser, earlier):
    """A smoothed curve has the points that its series has, no more and no others, however few they are."""
    wait_for(lambda: browser.run("return valid.size"), "a validation")
    browser.run("const o = document.getElementById('overlay'); o.value = 'earlier'; o.dispatchEvent(new Event('change'))")
    wait_for(lambda: browser.run("return overlay && overlay.size") == len(earlier), "the earlier run")
    for n in (1, 20, 100):
        browser.run(f"const s = document.getElementById('smooth'); s.value = {n}; s.dispatchEvent(new Event('input'))")
        drawn, told = browser.run(DRAWN)
        for name, points in told.items():
            want = mean_over(points, n)
            if [p[0] for p in drawn[name]] != [p[0] for p in want]:
                fail(f"smoothing {n}: {name} is drawn at {len(drawn[name])} steps, of which the last is {drawn[name][-1:]}; want {len(want)} up to {want[-1:]}")
            if any(abs(a[1] - b[1]) > 1e-9 * abs(b[1]) for a, b in zip(drawn[name], want)):
                fail(f"smoothing {n}: {name} is not the mean of its own points")
        if n == 1 and told["loss/train"] != drawn["loss/train"]:
            fail("without smoothing the curve is not what was told")
        if drawn["loss/other run"][-1][0] != max(earlier):
            fail(f"smoothing {n}: the other run ends at {drawn['loss/other run'][-1]}, want step {max(earlier)}")
    browser.run("const s = document.getElementById('smooth'); s.value = 1; s.dispatchEvent(new Event('input'));"
                "const o = document.getElementById('overlay'); o.value = ''; o.dispatchEvent(new Event('change'))")


def cursors(browser):
    """The step under the mouse is shown in all charts, and stays when records arrive."""
    legends = "return ['loss', 'judged-accuracy', 'rate'].map((id) => document.getElementById(id + '-legend').textContent)"
    browser.run("document.getElementById('loss').scrollIntoView({ block: 'center' })")
    browser.hover("#loss canvas:last-of-type", (30, 0))
    at = wait_for(lambda: browser.run("return hovered"), "a step under the mouse")
    for wait in (0, 5):
        before = browser.run("return steps.size")
        wait_for(lambda: browser.run("return steps.size") >= before + wait, "more steps")
        browser.run("drawCurves()")
        seen, lines = browser.run(legends), browser.run(
            "return [...document.querySelectorAll('.cursor')].map((e) => !e.hidden && e.getBoundingClientRect().left)")
        told = browser.run(f"const r = steps.get({at}); return [r.loss.toFixed(4), r.accuracy.toFixed(4)]")  # ties are rounded otherwise here
        want = [f"step {at} train {told[0]}", f"step {at} train {told[1]}", f"step {at} train "]
        if not all(s.startswith(w) for s, w in zip(seen, want)):
            fail(f"the mouse is over step {at}: the charts say {seen}, want {want}")
        if False in lines or max(lines) - min(lines) > 20:
            fail(f"the cursors of the charts are at {lines}")
    browser.hover("h1", (0, 0))
    wait_for(lambda: browser.run("return hovered === null && document.querySelectorAll('.cursor:not([hidden])').length === 0"), "charts without a cursor")


def survives_a_resume(browser, run, folder, url):
    """An open page shows the run again when it is resumed, without what is made anew."""
    run.send_signal(signal.SIGINT)
    if run.wait(300) != 130:
        fail(f"the run ended with {run.returncode}")
    wait_for(lambda: browser.run("return document.getElementById('state').textContent") == "stopped on request", "the page of a stopped run")
    again, same = start_run(folder, "--resume")
    if same.split("token=")[1] != url.split("token=")[1]:
        fail("the token is another after a resume")
    if same != url:
        fail(f"the address is {same} after a resume, was {url}")
    last = max(told(folder))
    wait_for(lambda: int(browser.run("return document.getElementById('numbers').dataset.step || 0")) > last + 5, "steps after the resume")
    if browser.run("return document.getElementById('state').textContent") != "live":
        fail("the page does not say that the run is live again")
    have = browser.run("return [...steps.keys()].sort((a, b) => a - b)")
    if have[0] != 1 or sorted(set(have)) != have:
        fail(f"the page begins at step {have[0]} after a resume")
    return again


def graph(browser):
    """Boxes, shares, queues, the limiting stage: as the run has them."""
    if browser.run("return document.querySelectorAll('#graph g').length") < 10:
        fail("the graph is not drawn")
    wait_for(lambda: browser.run("return document.querySelectorAll('#graph .limiting').length") == 1, "a limiting stage")
    wait_for(lambda: browser.run("return [document.querySelector('#graph g:has(.limiting) text')?.textContent, document.getElementById('now-limiting').textContent]")
             == ["train", "train"], "train as the limiting stage")
    shares = """return [...document.querySelectorAll('#graph g')].map((g) => [g.querySelector('text').textContent,
        ...['busy', 'starved', 'blocked'].map((c) => Number(g.querySelector('.' + c).getAttribute('width')) / (box.w - 16))])"""

    def are_right():
        seen = {name: share for name, *share in browser.run(shares)}
        return max(map(sum, seen.values())) <= 1.02 and abs(sum(seen["train"]) - 1) <= 0.02 and seen["train"][0] > 0.5
    wait_for(are_right, "shares that add up, and train busy")
    queues = "return [...document.querySelectorAll('#graph text.soft')].map((t) => t.textContent).filter((t) => /^\\d+( |$)/.test(t)).map(Number)"
    wait_for(lambda: len(browser.run(queues)) >= 5 and max(browser.run(queues)) >= 1, "buffers that wait on edges")
    browser.run("document.querySelector('#graph g').focus()")
    if ": " not in browser.run("return document.getElementById('stage-note').textContent"):
        fail("a stage with the focus does not say what it is")


def the_rest(browser, folder):
    bars, low, high, want = browser.run("""drawTimes(); const t = [...steps.values()].slice(-2000).map((r) => r.step_s).filter((v) => v > 0);
        const text = [...document.querySelectorAll('#times text')].map((e) => e.textContent);
        return [[...document.querySelectorAll('#times .bar')].map((b) => Number(b.getAttribute('height'))), text[0], text[1],
                [Math.min(...t), Math.max(...t)].map((v) => v.toPrecision(3) + ' s')]""")
    if low != want[0] or not high.endswith(want[1]) or max(bars) < 94 or len(bars) != 30:
        fail(f"the histogram of step times goes from {low} to {high}, want {want}")
    pictures = "return [...document.querySelectorAll('#samples img')].filter((i) => i.naturalWidth).map((i) => i.alt)"
    wait_for(lambda: len(browser.run(pictures)) >= 8, "sample pictures")
    if not set(browser.run(pictures)) <= set(browser.run("return classes")):
        fail("the samples have no names of classes")
    browser.run("[...document.querySelectorAll('#settings summary')].find((s) => s.textContent.startsWith('train')).click()")
    rows = browser.run("return [...document.querySelectorAll('#settings details[open] tr')].map((r) => [...r.cells].map((c) => c.textContent))")
    if ["layers", "1"] not in rows or ["embed", "64"] not in rows:
        fail(f"the settings of train are not shown: {rows[:5]}")
    browser.run("document.querySelector('#settings details[open]').open = false")
    lines = dict(re.findall(r"^Step (\d+), Loss: (\S+),", browser.run("return document.getElementById('log-tail').textContent"), re.M))
    wrong = {n: text for n, text in lines.items() if int(n) in told(folder) and text != f"{told(folder)[int(n)]['loss']:.4f}"}
    if len(lines) < 2 or wrong:
        fail(f"the log's tail: {len(lines)} lines, of which {wrong} differ from metrics.jsonl")
    # The first update comes at once; forty intervals, since one that comes late makes the next ones come early.
    rate = browser.wait("const s = new EventSource('/events'); let n = 0, from;"
                        "s.addEventListener('live', () => { from ??= performance.now();"
                        "if (n++ == 40) { s.close(); done(40000 / (performance.now() - from)); } })")
    if rate > 10.5:
        fail(f"{rate} updates a second, want at most 10")


def keyboard(browser):
    """Everything can be reached and used without a mouse."""
    tab, enter = "\ue004", "\ue007"
    browser.run("document.body.tabIndex = -1; document.body.focus()")  # the tab key goes on from here
    reached = []
    for _ in range(400):
        browser.keys(tab)
        at, ring, again = browser.run("""const e = document.activeElement, c = getComputedStyle(e), again = e.tabbed; e.tabbed = true;
            return [e.id || e.tagName + (e.getAttribute('aria-label') || ''), c.outlineStyle !== 'none', again]""")
        if at.startswith("BODY") or again:
            break
        if not ring:
            fail(f"{at} does not show that it has the focus")
        reached.append(at)
        if at == "log":
            before = browser.run("return document.getElementById('log').checked")
            browser.keys(" ")
            if browser.run("return document.getElementById('log').checked") == before:
                fail("the space key does not change the log scale")
            browser.keys(" ")
        if at == "smooth":
            browser.keys("\ue014")  # to the right
            if browser.run("return document.getElementById('smooth-n').textContent") != "2":
                fail("an arrow key does not change the smoothing")
            browser.keys("\ue012")
    want = {"smooth", "log", "overlay", "zoom-in", "zoom-out", "left", "right", "reset", "log-tail"}
    if not want <= set(reached) or sum(r.startswith("BUTTON") for r in reached) < 100 or sum(r.startswith("SUMMARY") for r in reached) < 10:
        fail(f"the tab key reaches {sorted(set(reached))}")
    browser.run("const b = [...document.querySelectorAll('#confusion button')].find((b, i) => Math.floor(i / 10) === i % 10); b.focus()")
    browser.keys(enter)
    wait_for(lambda: browser.run("return document.getElementById('wrong').textContent") == "These are right.", "what the enter key opens")


def confusion_opens_pictures(browser, folder):
    """With the classes' names and the counts of the record; a cell opens the pictures of its mistake."""
    wait_for(lambda: browser.run("return document.querySelectorAll('#confusion button').length"), "confusion matrix")
    seen = browser.run("""return [document.getElementById('confusion-of').textContent,
        [...document.querySelectorAll('#confusion tr')].slice(1).map((r) => [...r.querySelectorAll('button')].map((b) => Number(b.textContent))),
        [...document.querySelectorAll('#confusion tr:first-child th')].slice(1).map((h) => h.title)]""")
    step = int(re.search(r"step (\d+)", seen[0])[1])
    record = wait_for(lambda: told(folder, "valid").get(step), f"the validation of step {step} in metrics.jsonl")
    if seen[1:] != [record["confusion"], record["classes"]]:
        fail(f"the confusion matrix {seen[1:]} is not that of step {step}")
    wait_for(lambda: browser.run("return wrong.length"), "pictures of mistakes")
    truth, guess = browser.run("""const p = wrong[0], b = document.querySelectorAll('#confusion button')[10 * p.truth + p.guess];
        b.click(); return [classes[p.truth], classes[p.guess]]""")
    opened = wait_for(lambda: browser.run("return [...document.querySelectorAll('#wrong img')].filter((i) => i.naturalWidth).map((i) => i.alt)"), "misclassified pictures")
    if set(opened) != {f"{truth}, taken for {guess}"}:
        fail(f"the cell of {truth} taken for {guess} opens {opened}")


def colours(browser):
    light = {}
    for mode in ("dark", "light"):
        browser.dark(mode)
        time.sleep(1)
        text = browser.run("return getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).backgroundColor + ' ' + getComputedStyle(document.body).color")
        light[mode] = [sum(map(int, re.findall(r"\d+", c)[:3])) for c in re.findall(r"rgb\([^)]*\)", text)]
        shoot(browser, f"page-{mode}.png")
    if not light["dark"][0] < 200 < 500 < light["light"][0] or not light["dark"][-1] > 450 > 300 > light["light"][-1]:
        fail(f"light and dark look alike: {light}")


def fits_a_phone(browser):
    browser.size(390, 844)
    wait_for(lambda: browser.run("return innerWidth") <= 500, "a small window")
    time.sleep(1)
    wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    cut = browser.run("""return [...document.querySelectorAll('main section, .chart canvas, .tools > *')].filter((e) => {
        const r = e.getBoundingClientRect(); return r.right > innerWidth + 1 || r.left < -1; }).map((e) => e.id || e.tagName)""")
    small = browser.run("return [...document.querySelectorAll('.tools button')].map((b) => b.getBoundingClientRect()).filter((r) => r.width < 24 || r.height < 24).length")
    first = browser.run("""const scrolls = document.querySelector('svg.graph').parentElement; scrolls.scrollLeft = 0;
        const r = document.querySelector('#graph g rect').getBoundingClientRect(), around = scrolls.getBoundingClientRect();
        return r.left >= around.left && r.right <= around.right""")
    if not first:
        fail("on a phone the graph's first stage is out of sight")
    if wide > 0 or cut or small:
        fail(f"on a phone the page is {wide} pixels too wide; beyond the edge: {cut}; {small} buttons are too small for a finger")


def a_finger_scrolls(browser):
    """Over a chart too, which would fill a phone; a tap shows a step."""
    def touch(kind, *at):
        points = [{"x": at[0], "y": at[1]}] if at else []
        browser.call("POST", "/goog/cdp/execute", {"cmd": "Input.dispatchTouchEvent", "params": {"type": kind, "touchPoints": points}})
    browser.run("document.getElementById('judged-accuracy').scrollIntoView({ block: 'center' })")
    middle = "const r = document.getElementById('judged-accuracy').getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]"
    x, y = browser.run(middle)
    # the mouse, which stands elsewhere since the checks before, may take the cursor away again at once
    browser.run("window.tapped = []; const was = showCursor; showCursor = (id) => { if (hovered !== null) tapped.push(hovered); was(id); }")
    touch("touchStart", x, y)
    touch("touchEnd")
    wait_for(lambda: browser.run("return tapped.length"), "the step under a finger")
    before, shown = browser.run("return [window.scrollY, shown]")
    touch("touchStart", x, y)
    for i in range(1, 10):
        touch("touchMove", x, y - 20 * i)
    touch("touchEnd")
    wait_for(lambda: browser.run("return window.scrollY") > before + 50, "a page that a finger scrolls over a chart")
    if browser.run("return shown") != shown:
        fail("a finger that scrolls has zoomed the curves")
    browser.run("window.scrollTo(0, 0)")


def status(port, path, headers, method="GET"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.putrequest(method, path, skip_host=True)
    for k, v in headers.items():
        c.putheader(k, v)
    c.endheaders()
    answer = c.getresponse()
    c.close()
    return answer.status


def refusals(url):
    """Each fails closed, and the run continues."""
    port = int(re.search(r":(\d+)/", url).group(1))
    token = url.split("token=")[1]
    good = {"Host": f"127.0.0.1:{port}"}
    cases = [
        (200, f"/run.json?token={token}", good, "GET"),
        (401, "/run.json", good, "GET"),
        (401, "/run.json?token=" + "0" * 32, good, "GET"),
        (403, f"/run.json?token={token}", {"Host": f"evil.example:{port}"}, "GET"),
        (403, f"/run.json?token={token}", {"Host": f"127.0.0.1.evil.example:{port}"}, "GET"),
        (403, f"/run.json?token={token}", {}, "GET"),
        (403, f"/run.json?token={token}", {**good, "Origin": "http://evil.example"}, "GET"),
        (403, f"/run.json?token={token}", {**good, "Origin": "null"}, "GET"),
        (405, f"/run.json?token={token}", good, "POST"),
        (404, f"/runs/..%2f..%2fetc?token={token}", good, "GET"),
        (404, f"/runs/.?token={token}", good, "GET"),
    ]
    for want, path, headers, method in cases:
        got = status(port, path, headers, method)
        if got != want and not (want == 403 and not headers and got == 400):
            fail(f"{method} {path} with {headers}: {got}, want {want}")
    return port, token


def hostile_pages(browser, elsewhere, url, port):
    """Script that got into the page, other origins and a foreign name, in a real browser that has been let in before."""
    browser.run("const s = document.createElement('script'); s.textContent = 'window.inlined = 1'; document.body.append(s)")
    if browser.run("return window.inlined || document.cookie || ''") != "":
        fail("the page runs an inline script, or shows its cookie to scripts")
    foreign = free_port()
    os.mkdir(elsewhere)
    children.append(subprocess.Popen([sys.executable, "-m", "http.server", str(foreign), "--bind", "127.0.0.1"],
                                     cwd=elsewhere, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", foreign)) == 0, "the foreign page's server")
    browser.go(f"http://127.0.0.1:{foreign}/")
    address = url.replace("/?", "/run.json?")
    attempts = {
        "fetch": f"fetch({json.dumps(address)}, {{credentials: 'include'}}).then((r) => r.text()).then(done).catch(() => done('refused'))",
        "an event stream": f"const s = new EventSource({json.dumps(url.replace('/?', '/events?'))}, {{withCredentials: true}});"
                           "s.onmessage = (e) => { s.close(); done(e.data); }; s.onerror = () => { s.close(); done('refused'); }",
        "a WebSocket": f"const s = new WebSocket({json.dumps(url.replace('http', 'ws').replace('/?', '/events?'))});"
                       "s.onopen = () => done('open'); s.onmessage = (e) => done(e.data); s.onerror = () => done('refused')",
        "a script": f"const s = document.createElement('script'); s.src = {json.dumps(url.replace('/?', '/app.js?'))};"
                    "s.onload = () => done('loaded'); s.onerror = () => done('refused'); document.body.append(s)",
        "a frame": f"const f = document.createElement('iframe'); f.src = {json.dumps(url)};"
                   "f.onload = () => { try { done(f.contentDocument ? 'readable' : 'refused'); } catch (e) { done('refused'); } };"
                   "document.body.append(f)",
    }
    for what, script in attempts.items():
        got = browser.wait(script)
        if got != "refused":
            fail(f"a foreign page got in by {what}: {got[:80]}")
    browser.go(url.replace("127.0.0.1", "rebound.example"))  # a name of the foreign page's that now points here
    text = browser.run("return document.body.textContent").strip()
    if text != "refused":
        fail(f"under another name the page answers {text[:80]}")


def answered(port, data, seconds=60):
    """What comes back for some bytes; "" where the connection is just closed."""
    with socket.create_connection(("127.0.0.1", port), seconds) as s:
        try:
            s.sendall(data)
            return s.recv(4096).decode("latin-1")
        except OSError:
            return ""


def malformed(port, token):
    """None of these is answered with the page, and each connection ends."""
    good = f"GET /run.json?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
    cases = {
        "a long path": b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
        "a long header": good + b"X: " + b"a" * 100000 + b"\r\n\r\n",
        "many headers": good + b"".join(b"X-%d: a\r\n" % i for i in range(10000)) + b"\r\n",
        "a body": good.replace(b"GET", b"POST") + b"Content-Length: 5\r\n\r\nhello",
        "a body that never ends": good.replace(b"GET", b"PUT") + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"a" * 100000,
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500) + b"\r\n\r\n",
        "nonsense": b"\x00\xff\x16\x03 nonsense\r\n\r\n",
        "two hosts": good + b"Host: evil.example\r\n\r\n",
    }
    for what, data in cases.items():
        if answered(port, data).startswith("HTTP/1.1 200"):
            fail(f"{what} is answered with the page")
    if not answered(port, good + b"\r\n").startswith("HTTP/1.1 200"):
        fail("after these the page is gone")


def sockets(pid):
    return sum(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))


def slow_and_many(pid, port, token):
    """Of sixty connections that say nothing, or a byte now and then, 32 are let in; these are ended after 20 s,
    and so are those that waited behind them."""
    start, before = time.monotonic(), sockets(pid)
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    time.sleep(2)
    let_in = sockets(pid) - before
    if let_in > 32:
        fail(f"{let_in} connections were let in at once, want 32 at most")
    for s in held:
        s.setblocking(False)
    ended = {}
    while len(ended) < 60 and time.monotonic() < start + 120:
        for i in set(range(60)) - set(ended):
            try:
                if i % 2:
                    held[i].send(b"a")  # half of them: the head of a request, a byte at a time
                if not held[i].recv(100):
                    ended[i] = time.monotonic() - start
            except BlockingIOError:
                pass
            except OSError:
                ended[i] = time.monotonic() - start
        time.sleep(0.5)
    for s in held:
        s.close()
    if len(ended) < 60:
        fail(f"of sixty silent and slow connections {60 - len(ended)} were still open after two minutes")
    request = f"GET /run.json?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    wait_for(lambda: answered(port, request).startswith("HTTP/1.1 200"), "the page after these")
    return let_in, sorted(ended.values())[let_in // 2]


def beyond_loopback(work):
    """With a certificate it listens anywhere, and still wants the token."""
    cert, key = os.path.join(work, "cert.pem"), os.path.join(work, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    folder = os.path.join(work, "runs", "tls")
    run, url = start_run(folder, "web.bind=0.0.0.0", f"web.tls-cert={cert}", f"web.tls-key={key}")
    port = int(re.search(r":(\d+)/", url).group(1))
    trust = ssl.create_default_context(cafile=cert)
    trust.check_hostname = False

    def status_with(headers):
        c = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=trust)
        c.request("GET", "/run.json", headers=headers)
        got = c.getresponse().status
        c.close()
        return got

    token = url.split("token=")[1]
    got = [status_with({"Authorization": f"Bearer {token}"}), status_with({}), status_with({"Host": "evil.example"})]
    if got != [200, 401, 403]:
        fail(f"over TLS: {got}, want 200 with the token, 401 without, 403 for another host")
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if b"200" in s.recv(100):
            fail("it answers without TLS")
    run.send_signal(signal.SIGINT)
    run.wait(300)


def watch(browser, run, folder, earlier):
    """Each thing that the page shows, as a person uses it; returns a step that was compared."""
    wait_for(lambda: int(browser.run("return document.body.dataset.points || 0")) >= 220, "220 points of the curves")
    step = page_shows_the_files_numbers(browser, folder)
    graph(browser)
    curves(browser, earlier)
    the_rest(browser, folder)
    confusion_opens_pictures(browser, folder)
    keyboard(browser)
    browser.run("const s = document.getElementById('smooth'); s.value = 5; s.dispatchEvent(new Event('input')); window.scrollTo(0, 0)")
    confusion_opens_pictures(browser, folder)
    browser.run("document.activeElement.blur(); document.getElementById('stage-note').textContent = ''")
    colours(browser)
    return step


def save_npy(path, rows):
    """An array of f32 as numpy.save writes it, (records, numbers)."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows))


def a_model_without_classes(browser, work):
    """What it is judged by has the tile, the chart and the lines; accuracy, of which it has none, and confusion have no place."""
    folder = os.path.join(work, "runs", "numbers")
    os.makedirs(folder)
    xs = [[(i * k % 97) / 97 for k in (1, 3, 7)] for i in range(640)]
    save_npy(os.path.join(work, "x.npy"), xs)
    save_npy(os.path.join(work, "y.npy"), [[x[0] - 2 * x[1]] for x in xs])
    graph = (f"npy fields=x:{work}/x.npy,y:{work}/y.npy ! shuffle seed=1 epochs=100000 ! batch 64 ! delay us=5000 asleep=true ! train-step name=train model=mlp hidden=64 ! telemetry  "
             f"telemetry. ! jsonl path={folder}/metrics.jsonl  telemetry. ! csv path={folder}/metrics.csv  telemetry. ! web run={folder} port=0")
    log = folder + ".log"
    run = subprocess.Popen([millrace, "run", graph], stdout=open(log, "w"), stderr=subprocess.STDOUT, cwd=work)
    children.append(run)
    browser.go(wait_for(lambda: (found := re.search(r"^web: (http\S+)$", open(log).read(), re.M)) and found.group(1), "the page's address"))
    wait_for(lambda: int(browser.run("return document.body.dataset.points || 0")) >= 40, "40 points of the curves")
    page_shows_the_files_numbers(browser, folder, "mean_error")
    seen = browser.run("""return [[...document.querySelectorAll('#numbers div')].map((d) => d.lastChild.textContent),
        [...document.querySelectorAll('h3')].map((h) => h.firstChild.textContent.trim()), document.getElementById('now-mean_error').textContent,
        document.body.innerText.toLowerCase().includes('accuracy'), document.getElementById('h-confusion').checkVisibility()]""")
    if seen[:2] != [["step", "loss", "mean error", "images/s", "to go", "the others wait for"], ["Loss", "Mean error", "Images a second"]]:
        fail(f"the page of a regression has these numbers and charts: {seen[:2]}")
    if not re.fullmatch(r"\d+\.\d{4}", seen[2]) or seen[3] or seen[4]:
        fail(f"the page of a regression shows a mean error of {seen[2]}, the word accuracy: {seen[3]}, confusion: {seen[4]}")
    drawn = browser.run("drawCurves(); return [...steps].map(([step, r]) => [r.mean_error, exact['judged-mean_error'].train.get(step)])")
    if len(drawn) < 40 or any(told != shown for told, shown in drawn):
        fail(f"the chart of the mean error is not that of its steps: {drawn[:3]}")
    if not re.search(r"^Step \d+, Loss: \S+, Mean error: \d+\.\d{4}$", browser.run("return document.getElementById('log-tail').textContent"), re.M):
        fail("the log's tail does not tell the mean error")
    with open(os.path.join(folder, "metrics.csv"), newline="") as f:
        rows = [row for row in csv.DictReader(f) if row["kind"] == "step"]
    # Metrics reach a sink through a queue that drops the oldest when the sink is slow: each file may lack a step.
    lines = told(folder)
    pairs = [(float(row["mean_error"]), lines[step]["mean_error"]) for row in rows if (step := int(row["step"])) in lines]
    if len(pairs) < 40 or "accuracy" in rows[0] or any(abs(a - b) > 1e-8 for a, b in pairs):
        fail(f"metrics.csv does not tell the mean error: {rows[0]}")
    shoot(browser, "page-numbers.png")
    run.send_signal(signal.SIGINT)
    run.wait(300)


def parts_of_parameters(browser, work):
    """Ranks with parts: each parameter's is drawn as `explain --array` draws it, and a run without has no such section."""
    if browser.run("return document.getElementById('h-arrays').checkVisibility()"):
        fail("the page of a run on one rank shows parameters on ranks")
    folder = os.path.join(work, "runs", "parts")
    run, url = start_run(folder, "--mesh", "data=2,model=2")
    browser.go(url)
    wait_for(lambda: browser.run("return document.getElementById('h-arrays').checkVisibility()"), "the parameters on ranks")
    name = "encoder_blocks.0.linear1.kernel"
    browser.run(f"[...document.querySelectorAll('#arrays button')].find((b) => b.textContent === '{name}').click()")
    row = browser.run(f"return [...[...document.querySelectorAll('#arrays tr')].find((r) => r.cells[0].textContent === '{name}').cells].map((c) => c.textContent)")
    boxes = browser.run("return [...document.querySelectorAll('#array tr')].map((r) => [...r.cells].map((c) => c.textContent))")
    if row != [name, "64x64", "64x32", "(None,model)"] or boxes != [["", "0:32", "32:64"], ["", "0,2", "1,3"]]:
        fail(f"{name} is shown as {row} and drawn as {boxes}")
    said = subprocess.run([millrace, "explain", "--mesh", "data=2,model=2", "--array", "64x64=" + row[3]], capture_output=True, text=True, check=True).stdout
    drawn = [re.findall(r"[\d:,]+", line) for line in said.splitlines()[1:] if re.search(r"\d", line)]
    if drawn != [boxes[0][1:], boxes[1][1:]]:
        fail(f"explain --array draws {drawn}, the page {boxes}")
    shoot(browser, "page-parts.png")
    run.send_signal(signal.SIGINT)
    run.wait(300)


def attack(browser, run, folder, url):
    """All that a hostile page or client may try; the run continues meanwhile.  Returns how many slow
    ones were let in, and for how many seconds."""
    port, token = refusals(url)
    hostile_pages(browser, os.path.join(os.path.dirname(folder), "elsewhere"), url, port)
    malformed(port, token)
    before = max(told(folder))
    let_in, ended = slow_and_many(run.pid, port, token)
    if max(told(folder)) < before + 10 or run.poll() is not None:  # it took twenty seconds at least
        fail("training stood still while slow clients were there")
    return let_in, ended


def main(work):
    folder = os.path.join(work, "runs", "shown")
    os.makedirs(os.path.dirname(folder))
    earlier = earlier_run(work)
    run, url = start_run(folder)
    browser = Browser()
    browser.size(1400, 1700)
    browser.go(url)
    step = watch(browser, run, folder, earlier)
    if browser.run("return document.title") != "shown \u00b7 millrace":
        fail(f"the page's title is {browser.run('return document.title')}, want the run's name first")
    icon = browser.wait("fetch(document.querySelector('link[rel=icon]').href).then((r) => done([r.status, r.headers.get('content-type').split(';')[0]]))")
    if icon != [200, "image/svg+xml"]:
        fail(f"the page's icon: {icon}")
    steps = max(told(folder))
    core = share_of_a_core(run.pid)
    steps = max(told(folder)) - steps
    if core > 0.01:
        fail(f"the page takes {100 * core:.2f} % of a core, want at most 1 %")
    fits_a_phone(browser)
    a_finger_scrolls(browser)
    shoot(browser, "page-phone.png")
    errors = [e["message"] for e in browser.call("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE" ]
    if errors:
        fail(f"the browser complains: {errors[:3]}")
    run = survives_a_resume(browser, run, folder, url)
    with_numbers = Browser()
    a_model_without_classes(with_numbers, work)
    with_numbers.quit()
    with_parts = Browser()
    with_parts.go(wait_for(lambda: re.findall(r"^web: (http\S+)$", open(folder + ".log").read(), re.M), "the page's address")[-1])
    parts_of_parameters(with_parts, work)
    with_parts.quit()
    let_in, ended = attack(browser, run, folder, url)
    run.send_signal(signal.SIGINT)
    if run.wait(300) != 130:
        fail(f"the run ended with {run.returncode}")
    beyond_loopback(work)
    print(f"web: the page showed step {step} as metrics.jsonl does, and all else that it should; hostile pages and clients were "
          f"refused, of slow ones {let_in} let in and ended after {ended:.0f} s; the page took {100 * core:.2f} % of a core while {steps} steps were made")


run_check(main)
