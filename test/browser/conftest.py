"""Owns: a headless Chromium (Debian's package) and the programs that it looks at. ./dev browser runs this folder; it is no
part of ./dev test, because the browser alone is larger than everything else that a test machine needs."""
import json
import os
import pathlib
import shutil
import sys

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import ENGINE, make_serve, stop_all

SHOTS = pathlib.Path(os.environ.get("UVHTTP_BUILD_DIR", "build")).absolute() / "browser"
LOG_EVENTS = ("HTTP2_SESSION", "HTTP2_SESSION_SEND_HEADERS", "HTTP2_SESSION_RECV_GOAWAY")


@pytest.fixture
def serve(tmp_path):
    servers = []
    yield make_serve(tmp_path, servers)
    stop_all(servers)


@pytest.fixture(scope="session")
def launch():
    """launch(option...) is a Chromium of its own."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: apt-get install chromium"
    with sync_playwright() as playwright:
        yield lambda *options: playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *options])


@pytest.fixture(scope="session")
def chromium(launch):
    browser = launch()
    yield browser
    browser.close()


class Pages:
    """Pages of a browser; it leaves a picture of each in build/browser/."""

    def __init__(self, browser, name):
        self.browser, self.name = browser, name
        self.pages, self.complaints = [], []

    def complain(self, message):
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):  # which nobody has
            self.complaints.append(f"{message.text} {message.location}")

    def open(self, url, functions=None, **options):
        """`functions`: what scripts of the page may call, by name."""
        page = self.browser.new_page(viewport={"width": 900, "height": 600}, **options)
        for name, function in (functions or {}).items():
            page.expose_function(name, function)
        page.on("console", self.complain)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        self.pages.append(page)
        return page

    def close(self):
        SHOTS.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(page for page in self.pages if not page.is_closed()):
            page.screenshot(path=SHOTS / f"{self.name}-{number}-{ENGINE}.png")
            page.close()


@pytest.fixture
def open_page(chromium, request):
    """open_page(url) is a page; what it complains about fails the test."""
    pages = Pages(chromium, request.node.name)
    yield pages.open
    pages.close()
    assert pages.complaints == []


class Recording:
    """Pages of a Chromium of its own, and what its network log says of them."""

    def __init__(self, launch, path, name):
        self.path = path
        self.browser = launch(f"--log-net-log={path}", "--net-log-capture-mode=IncludeSensitive")
        self.pages = Pages(self.browser, name)
        self.open = self.pages.open

    def close(self):
        if self.browser:
            self.pages.close()
            self.browser.close()  # only then the log is complete
            self.browser = None

    def events(self):
        """{type: parameters of each such event, in order}, of sessions to the server; closes the browser."""
        self.close()
        log = json.loads(self.path.read_text())
        names = {number: name for name, number in log["constants"]["logEventTypes"].items()}
        found = {name: [] for name in LOG_EVENTS}
        for event in log["events"]:
            name = names[event["type"]]
            if name in found and event.get("params"):
                found[name].append(event["params"])
        return found


@pytest.fixture
def record(launch, request, tmp_path):
    recording = Recording(launch, tmp_path / "net.json", request.node.name)
    yield recording
    recording.close()
    assert recording.pages.complaints == []
