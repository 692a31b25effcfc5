"""Looks at a run's live page with a real Chromium, through WebDriver, and plays hostile pages and
clients.  usage: check-web.py MILLRACE [FOLDER_FOR_SCREENSHOTS]"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from chromium import Browser, children, end_children, fail, free_port, wait_for

millrace = os.path.abspath(sys.argv[1])
shots = sys.argv[2] if len(sys.argv) > 2 else None


def shoot(browser, name):
    if shots:
        browser.shoot(os.path.join(shots, name))


def start_run(folder, *settings):
    command = [millrace, "train", "--run-dir", "runs/" + os.path.basename(folder), *settings, "--web", "web.port=0", "batch=32", "epochs=1000",
               "train.layers=1", "train.embed=64", "train.heads=2", "train.mlp=64",
               "train.watch-every=20", "train.steps=100000"]
    run = subprocess.Popen(command, stdout=open(folder + ".log", "w"), stderr=subprocess.STDOUT,
                           cwd=os.path.dirname(os.path.dirname(folder)))
    children.append(run)

    def url():
        found = re.search(r"^web: (http\S+)$", open(folder + ".log").read(), re.M)
        return found and found.group(1)

    return run, wait_for(url, "the page's address")


def told(folder):
    steps = {}
    for line in open(os.path.join(folder, "metrics.jsonl")):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # being written
        if record["kind"] == "step":
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


def page_shows_the_files_numbers(browser, folder):
    seen = browser.run("const d = document.getElementById('numbers').dataset; return [d.step, d.loss, d.accuracy]")
    step, loss, accuracy = int(seen[0]), float(seen[1]), float(seen[2])
    record = wait_for(lambda: told(folder).get(step), f"step {step} in metrics.jsonl")
    if (loss, accuracy) != (record["loss"], record["accuracy"]):
        fail(f"step {step}: the page says {loss}, {accuracy}, the file {record['loss']}, {record['accuracy']}")
    return step


def use_the_page(browser, folder):
    wait_for(lambda: int(browser.run("return document.body.dataset.points || 0")) >= 30, "30 points of the curves")
    step = page_shows_the_files_numbers(browser, folder)
    if browser.run("return document.querySelectorAll('#graph g').length") < 10:
        fail("the graph is not drawn")
    wait_for(lambda: browser.run("return document.querySelectorAll('#graph .limiting').length") == 1, "a limiting stage")
    wait_for(lambda: browser.run("return [...document.querySelectorAll('#samples img')].filter(i => i.naturalWidth).length") >= 8, "sample pictures")
    before = browser.run("return charts.loss.xAxisRange()")
    browser.press("#zoom-in")
    after = browser.run("return charts.loss.xAxisRange()")
    if not after[1] - after[0] < before[1] - before[0]:
        fail(f"zoom: {before} became {after}")
    browser.press("#reset")
    wait_for(lambda: browser.run("return charts.loss.xAxisRange()[1]") > after[1], "all of the curve again")
    browser.run("const s = document.getElementById('smooth'); s.value = 20; s.dispatchEvent(new Event('input'))")
    browser.press("#log")
    wait_for(lambda: browser.run("return charts.loss.rollPeriod()") == 20, "smoothing")
    browser.press("#log")
    stops = browser.run("return [...document.querySelectorAll('button, select, input, summary, g[tabindex], pre')].filter(e => e.tabIndex >= 0).length")
    if stops < 20:
        fail(f"only {stops} things can be reached by keyboard")
    return step


def confusion_opens_pictures(browser):
    wait_for(lambda: browser.run("return document.querySelectorAll('#confusion button').length"), "confusion matrix", 60)
    browser.run("""const b = [...document.querySelectorAll('#confusion button')].find((b, i) =>
        Math.floor(i / 10) !== i % 10 && wrong.some(p => p.truth === Math.floor(i / 10) && p.guess === i % 10));
        b.click()""")
    wait_for(lambda: browser.run("return [...document.querySelectorAll('#wrong img')].filter(i => i.naturalWidth).length"), "misclassified pictures")


def fits_a_phone(browser):
    browser.size(390, 844)
    time.sleep(1)
    wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        fail(f"on a phone the page is {wide} pixels too wide")


def status(port, path, headers, method="GET"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    c.putrequest(method, path, skip_host=True)
    for k, v in headers.items():
        c.putheader(k, v)
    c.endheaders()
    answer = c.getresponse()
    c.close()
    return answer.status


def hostile(browser, url):
    """Each fails closed, and the run goes on."""
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
    foreign = free_port()
    children.append(subprocess.Popen([sys.executable, "-m", "http.server", str(foreign), "--bind", "127.0.0.1"],
                                     cwd=tempfile.mkdtemp(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", foreign)) == 0, "the foreign page's server")
    browser.go(f"http://127.0.0.1:{foreign}/")
    stolen = browser.call("POST", "/execute/async", {"script": """const done = arguments[0];
        fetch(arguments_url, {credentials: 'include'}).then(r => r.text()).then(t => done(t)).catch(e => done('refused'))"""
        .replace("arguments_url", json.dumps(url + "&x=/run.json")), "args": []})
    if stolen != "refused":
        fail(f"a foreign page could read {stolen[:80]}")
    floods = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for s in floods[:20]:
        s.sendall(b"GET /" + b"a" * 100000)  # a head that is too long
    for s in floods[20:40]:
        s.sendall(b"\x00\xff\x16\x03 nonsense\r\n\r\n")
    return floods  # the rest says nothing and must time out


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
        c = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=trust)
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
    run.wait(30)


def main():
    global browser
    work = tempfile.mkdtemp()
    folder = os.path.join(work, "runs", "shown")
    os.makedirs(os.path.dirname(folder))
    run, url = start_run(folder)
    browser = Browser()
    browser.size(1400, 1500)
    browser.go(url)
    step = use_the_page(browser, folder)
    confusion_opens_pictures(browser)
    browser.run("const s = document.getElementById('smooth'); s.value = 5; s.dispatchEvent(new Event('input'))")
    browser.dark("light")
    time.sleep(1)
    shoot(browser, "page-light.png")
    browser.dark("dark")
    time.sleep(1)
    shoot(browser, "page-dark.png")
    steps = max(told(folder))
    core = share_of_a_core(run.pid)
    steps = max(told(folder)) - steps
    fits_a_phone(browser)
    shoot(browser, "page-phone.png")
    errors = [e["message"] for e in browser.call("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE" and "favicon" not in e["message"]]
    if errors:
        fail(f"the browser complains: {errors[:3]}")
    before = max(told(folder))
    floods = hostile(browser, url)
    wait_for(lambda: max(told(folder)) > before + 20, "training during the flood")
    for s in floods:
        s.close()
    run.send_signal(signal.SIGINT)
    if run.wait(30) != 130:
        fail(f"the run ended with {run.returncode}")
    beyond_loopback(work)
    print(f"web: the page showed step {step} as metrics.jsonl does; hostile clients "
          f"were refused; the page took {100 * core:.2f} % of a core while {steps} steps were made")


browser = None
try:
    main()
finally:
    if browser:
        browser.quit()
    end_children()
