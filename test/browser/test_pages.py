"""Pages of the examples as a person sees them."""


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
    assert "100000" in page.inner_text("body").replace(",", "")
    saved = list((tmp_path / "uploads").iterdir())
    assert len(saved) == 1 and saved[0].read_bytes() == b"x" * 100_000
