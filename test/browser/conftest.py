"""Owns: a headless Chromium (Debian's package) and the programs that it looks at. ./dev browser runs this folder; it is no
part of ./dev test, because the browser alone is larger than everything else that a test machine needs."""
import os
import pathlib
import shutil
import sys

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import make_serve, stop_all

SHOTS = pathlib.Path(os.environ.get("UVHTTP_BUILD_DIR", "build")).absolute() / "browser"


@pytest.fixture
def serve(tmp_path):
    servers = []
    yield make_serve(tmp_path, servers)
    stop_all(servers)


@pytest.fixture(scope="session")
def chromium():
    program = shutil.which("chromium")
    assert program, "chromium is not installed: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, request):
    """open_page(url) is a page; what it complains about fails the test, and a picture of each is left in
    build/browser/."""
    pages, complaints = [], []

    def complain(message):
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):  # which nobody has
            complaints.append(f"{message.text} {message.location}")

    def open_page(url, **options):
        page = chromium.new_page(viewport={"width": 900, "height": 600}, **options)
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        pages.append(page)
        return page

    yield open_page
    SHOTS.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(page for page in pages if not page.is_closed()):
        page.screenshot(path=SHOTS / f"{request.node.name}-{number}.png")
        page.close()
    assert complaints == []
