"""Pages as a person sees them: those of the examples."""

import json


def url(server, path="/"):
    host, port = server.address
    return f"http://{host}:{port}{path}"


def test_hello_world_is_shown(serve, open_page):
    page = open_page(url(serve("hello")))
    assert page.inner_text("body") == "Hello, World!"


def test_what_one_page_says_the_other_sees(serve, open_page):
    server = serve("events")
    speaker, listener = open_page(url(server)), open_page(url(server))
    # An event stream that is not open yet would miss what is said: both say so themselves.
    for page in (speaker, listener):
        page.evaluate("new Promise(done => { const source = new EventSource('/events'); source.onopen = done; })")
    speaker.fill("input[name=text]", "good <b>morning</b>")
    speaker.press("input[name=text]", "Enter")
    for page in (speaker, listener):
        page.wait_for_selector("li")
        assert page.inner_text("li") == "good <b>morning</b>"


def test_a_form_uploads_a_file(serve, open_page, tmp_path):
    (tmp_path / "uploads").mkdir()
    server = serve("upload", tmp_path / "uploads")
    page = open_page(url(server))
    page.set_input_files("input[type=file]", {"name": "Ünïcode & <co>.txt", "mimeType": "text/plain", "buffer": b"x" * 100_000})
    with page.expect_navigation():
        page.click("button")
    (file,) = json.loads(page.inner_text("pre"))["files"]
    assert file["name"] == file["saved"] == "Ünïcode & <co>.txt" and file["size"] == 100_000
    saved = list((tmp_path / "uploads").iterdir())
    assert len(saved) == 1 and saved[0].read_bytes() == b"x" * 100_000


def test_two_visitors_chat(serve, open_page):
    server = serve("websocket_chat")
    first, second = open_page(url(server, "/?name=Ada")), open_page(url(server))
    first.wait_for_selector("text=Ada has come")
    second.fill("input[name=name]", "Zoë")
    second.press("input[name=name]", "Enter")
    first.wait_for_selector("text=Zoë has come")
    first.fill("input[name=text]", "good <b>morning</b>")
    first.press("input[name=text]", "Enter")
    for page in (first, second):
        page.wait_for_selector("text=Ada: good <b>morning</b>")
        assert page.is_visible("input[name=text]") and not page.is_visible("input[name=name]")
    second.close()
    first.wait_for_selector("text=Zoë has left")


def test_a_directory_is_listed_and_its_pages_open(serve, open_page, tmp_path):
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    (site / "a & <b>.txt").write_text("text")
    (site / "sub" / "index.html").write_text("<!doctype html><title>t</title><p>in sub")
    server = serve("static_files", site)
    page = open_page(url(server))
    page.click("text=a & <b>.txt")
    assert page.inner_text("body") == "text"
    page.go_back()
    page.click("text=sub")
    assert page.inner_text("p") == "in sub" and page.url.endswith("/sub/")


def test_a_page_comes_by_https(serve, open_page):
    server = serve("https")
    page = open_page(url(server).replace("http:", "https:"), ignore_https_errors=True)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
    assert server.process.poll() is None
