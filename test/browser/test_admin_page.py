"""The dashboard of the admin listener as a person sees it, under load. Scripts of the test must not need eval, which the
page's policy forbids."""
import contextlib
import json
import re
import subprocess

import pytest
from conftest import SHOTS
from harness import ENGINE, HOST, free_port, poll
from load_program import LOAD

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def start(serve):
    """start(option...) is a server with routes to show, and the address of its dashboard."""

    def begin(*options):
        port = free_port()
        return serve("performance_test", "--admin", f"{HOST}:{port}", "--metrics", "true", *options), f"http://{HOST}:{port}/"

    return begin


@contextlib.contextmanager
def load(server, path="/"):
    with subprocess.Popen(["wrk", "-t1", "-c8", "-d30s", server.url(path)], stdout=subprocess.DEVNULL) as wrk:
        yield
        wrk.terminate()


def tile(page, number):
    return page.evaluate("n => document.querySelectorAll('#tiles dd')[n].firstChild.textContent", number)


def rows(page, table):
    return page.evaluate("id => [...document.querySelectorAll('#' + id + ' tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))", table)


def test_the_figures_are_those_of_the_load(start, open_page):
    server, url = start()
    page = open_page(url)
    poll(lambda: page.inner_text("#state") == "running")
    with load(server):
        poll(lambda: page.evaluate("points.filter(p => p && p.rate > 0).length") >= 3, 20)
        assert int(tile(page, 0).replace(",", "")) > 100 and tile(page, 1) != "–"
        poll(lambda: int(tile(page, 5)) >= 8)
        assert [row[0] for row in rows(page, "loops")] == ["0"]
    poll(lambda: page.evaluate("last && last.totals.requests") == server_total(server, page), 20)
    shown = {row[0]: row for row in rows(page, "routes")}
    assert shown["/"][1] == "GET" and int(shown["/"][6].replace(",", "")) > 300


def server_total(server, page):
    """Requests by the server's own counter, and none while the page catches up."""
    return server.counter("requests") - 1 if page.evaluate("last && last.point.rate") == 0 else None


def wrk_count(server):
    said = subprocess.run(["wrk", "-t1", "-c8", "-d5s", server.url("/")], capture_output=True, text=True, timeout=60, check=True).stdout
    return int(re.search(r"(\d+) requests in", said)[1])


def load_count(server):
    said = subprocess.run([LOAD, "-c", "8", "-t", "1", "-d", "5s", "-j", "-", server.url("/")], capture_output=True, text=True, timeout=60, check=True).stdout
    return json.loads(said)["results"]["requests"]


@pytest.mark.parametrize("generator", [wrk_count, load_count])
def test_the_rates_agree_with_the_generator(start, open_page, generator):
    """Within 1 %: what is shown for each second makes the number of requests that the generator counted."""
    server, url = start()
    page = open_page(url)
    poll(lambda: page.evaluate("points.length") >= 3)
    before = page.evaluate("last.totals.requests")
    count = generator(server)
    poll(lambda: page.evaluate("last.point.rate") == 0, 20)
    assert page.evaluate("last.totals.requests") - before == pytest.approx(count, rel=0.01)
    assert page.evaluate("points.reduce((sum, point) => sum + (point ? point.rate : 0), 0)") == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits(start, open_page, width, scheme):
    server, url = start("--io-threads", "2")
    page = open_page(url, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    with load(server):
        poll(lambda: page.evaluate("points.filter(p => p && p.rate > 0).length") >= 2, 20)
        for one in "conns", "config":
            page.click(f"#{one} summary")
        poll(lambda: len(rows(page, "conntable")) >= 8 and len(rows(page, "settings")) > 60)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 18, 21)"}[scheme]
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = false")
        page.screenshot(path=SHOTS / f"admin-{width}-{scheme}-{ENGINE}.png", full_page=True)


def test_everything_has_a_name_and_can_be_reached_by_keys(start, open_page):
    _, url = start()
    page = open_page(url)
    poll(lambda: page.evaluate("points.length") >= 3)
    nameless = page.evaluate("[...document.querySelectorAll('button, canvas, input, select, table')].filter(e => !(e.getAttribute('aria-label') || "
                             "e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML)")
    assert nameless == []
    assert "Requests" in page.get_attribute("#rate", "aria-label")
    page.focus("#rate")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert "s ago" in page.inner_text("#when")
    page.keyboard.press("Escape")
    assert page.inner_text("#when") == ""
    page.keyboard.press("p")
    assert page.get_attribute("#pause", "aria-pressed") == "true"
    seen = page.evaluate("points.length")
    poll(lambda: page.evaluate("state") == "running")
    page.keyboard.press("p")
    poll(lambda: page.evaluate("points.length") > seen)
    page.click("#routes th:first-child button")
    assert page.get_attribute("#routes th:first-child", "aria-sort") == "ascending"


def test_configuration_is_shown_and_the_level_changes(start, open_page):
    server, url = start("--backlog", "77")
    page = open_page(url)
    page.click("#config summary")
    poll(lambda: len(rows(page, "settings")) > 60)
    page.check("#changed")
    changed = {row[0] for row in rows(page, "settings")}
    assert {"backlog", "admin", "io_threads", "metrics"} <= changed <= {"backlog", "admin", "io_threads", "metrics", "engine", "log_level"}
    page.fill("#filter", "backlog")
    assert [row[:3] for row in rows(page, "settings")] == [["backlog", "77", "option"]]
    page.select_option("#level", "debug")
    poll(lambda: server.get("/").status == 200 and "DEBUG" in server.stderr())


def test_the_drain_is_confirmed_first(start, open_page):
    server, url = start()
    page = open_page(url)
    poll(lambda: page.inner_text("#state") == "running")
    page.click("#drain")
    page.keyboard.press("Escape")
    page.click("#drain")
    page.click("text=Cancel")
    assert page.inner_text("#state") == "running" and server.get("/").status == 200
    page.click("#drain")
    page.click("text=Drain and stop")
    assert server.wait() == 0 and "drain, asked for by" in server.stderr()
    poll(lambda: page.inner_text("#state") == "no connection")
    page.close()  # it complains that it cannot connect


def test_the_page_asks_for_the_token(start, chromium):
    server, url = start("--admin-token", TOKEN)
    page = chromium.new_page()
    page.goto(url)
    for token in "wrong", TOKEN:
        page.wait_for_selector("#ask[open]")
        page.fill("#token", token)
        page.click("text=Continue")
    poll(lambda: page.inner_text("#state") == "running")
    assert TOKEN not in server.stderr()
    page.close()
