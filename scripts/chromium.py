"""A real Chromium, driven through WebDriver as far as the checks of the live page need it; and what
they share: waiting, processes that end with the check."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from ports import free_port

children, browsers = [], []


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def wait_for(what, text, seconds=600):  # no wait takes a tenth of it on a busy machine; a hang is told
    for _ in range(int(seconds * 10)):
        value = what()
        if value:
            return value
        time.sleep(0.1)
    fail(f"{text}: not within {seconds} s")


class Browser:
    """As much of WebDriver as is needed here."""

    def __init__(self):
        self.session = None
        browsers.append(self)
        self.port = free_port()
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, start_new_session=True)
        children.append(self.driver)
        wait_for(self.is_ready, "chromedriver")
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP rebound.example 127.0.0.1"]  # a foreign name that points here
        wanted = {"alwaysMatch": {"goog:chromeOptions": {"args": args, "binary": "/usr/bin/chromium"},
                                  "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 300000}}}
        self.session = self.call("POST", "/session", {"capabilities": wanted})["sessionId"]

    def is_ready(self):
        try:
            return self.call("GET", "/status", None, raw=True)["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None, raw=False):
        if not raw and path != "/session":
            path = f"/session/{self.session}{path}"
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=330) as answer:
            return json.load(answer)["value"]

    def quit(self):
        """Ends the browser too, which would outlive its driver; one that does not answer is killed."""
        try:
            if self.session:
                self.call("DELETE", "")
        except OSError:
            os.killpg(self.driver.pid, signal.SIGKILL)

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def wait(self, script):
        """Runs a script that gives its value to done(), some time."""
        return self.call("POST", "/execute/async", {"script": "const done = arguments[arguments.length - 1];" + script, "args": []})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})

    def press(self, selector):
        self.call("POST", f"/element/{next(iter(self.find(selector).values()))}/click")

    def keys(self, *keys):
        """Presses one key after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, selector, start, end):
        """With the mouse, from one offset from an element's middle to another."""
        where = self.find(selector)
        moves = [{"type": "pointerMove", "duration": 50, "origin": where, "x": x, "y": y} for x, y in (start, end)]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            moves[0], {"type": "pointerDown", "button": 0}, moves[1], {"type": "pointerUp", "button": 0}]}]})

    def hover(self, selector, at):
        """Moves the mouse to an offset from an element's middle."""
        move = {"type": "pointerMove", "duration": 50, "origin": self.find(selector), "x": at[0], "y": at[1]}
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}]})

    def size(self, w, h):
        self.call("POST", "/window/rect", {"width": w, "height": h})

    def shoot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("GET", "/screenshot")))

    def dark(self, mode):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": mode}]}})


def end_children():
    for child in children:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()


def run_check(main):
    """Calls main with a new folder.  However it ends, its browsers, children and the folder go with it."""
    work = tempfile.mkdtemp()
    try:
        main(work)
    finally:
        for browser in browsers:
            browser.quit()
        end_children()
        shutil.rmtree(work, ignore_errors=True)
