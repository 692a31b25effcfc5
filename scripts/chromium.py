"""A real Chromium, driven through WebDriver as far as the checks of the live page need it; and what
they share: ports, waiting, processes that end with the check."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

children = []


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, text, seconds=120):
    for _ in range(int(seconds * 10)):
        value = what()
        if value:
            return value
        time.sleep(0.1)
    fail(f"{text}: not within {seconds} s")


class Browser:
    """As much of WebDriver as is needed here."""

    def __init__(self):
        self.port = free_port()
        children.append(subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL))
        wait_for(self.is_ready, "chromedriver")
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        wanted = {"alwaysMatch": {"goog:chromeOptions": {"args": args, "binary": "/usr/bin/chromium"},
                                  "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = None
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
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def quit(self):
        """Ends the browser too, which would outlive its driver."""
        if self.session:
            self.call("DELETE", "")

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def press(self, selector):
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{next(iter(found.values()))}/click")

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
