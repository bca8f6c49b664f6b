"""uvhttp, the command line over the library."""
import http.client
import ssl
import subprocess

import pytest
from harness import EXAMPLES, HOST, free_port

PROGRAM = EXAMPLES / "uvhttp"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without static files or middleware")


@pytest.fixture
def site(tmp_path):
    directory = tmp_path / "site"
    (directory / "docs").mkdir(parents=True)
    (directory / "index.html").write_text("<p>home")
    (directory / "docs" / "a.txt").write_text("a")
    (directory / ".secret").write_text("s")
    (directory / "docs" / "link.txt").symlink_to("a.txt")
    return directory


def refused(*arguments):
    """What it says on stderr when it ends by itself, and its exit status."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=30)
    return result.stderr, result.returncode


def test_a_directory_is_served_and_the_start_says_where(serve, site):
    server = serve("uvhttp", site)
    host, port = server.address
    assert f"uvhttp: {site} on http://{host}:{port}/\n" in server.stderr()
    home = server.get("/")
    assert home.body == b"<p>home" and home.header("Content-Type") == "text/html; charset=utf-8"
    assert home.header("Cache-Control") == "no-cache"
    assert server.get("/", headers=[("If-None-Match", home.header("ETag"))]).status == 304
    assert b"a.txt" in server.get("/docs/").body
    assert server.get("/docs/link.txt").body == b"a"
    assert server.get("/.secret").status == 404
    assert server.get("/none").status == 404


def test_without_a_directory_it_is_the_current_one(serve, site):
    server = serve("uvhttp", cwd=site)
    assert server.get("/").body == b"<p>home"
    assert f"uvhttp: {site} on " in server.stderr()


def test_options_for_files(serve, site):
    server = serve("uvhttp", site, "--max-age", 60, "--fallback", "index.html")
    assert server.get("/").header("Cache-Control") == "max-age=60"
    assert server.get("/some/page").body == b"<p>home"
    server = serve("uvhttp", site, "--no-listing", "--dot-files", "--no-symlinks")
    assert server.get("/docs/").status == 404
    assert server.get("/.secret").body == b"s"
    assert server.get("/docs/link.txt").status == 404


def test_scripts_of_other_origins_read_what_they_may(serve, site):
    server = serve("uvhttp", site, "--cors", "https://a.example")
    assert server.get("/", headers=[("Origin", "https://a.example")]).header("Access-Control-Allow-Origin") == "https://a.example"
    assert server.get("/", headers=[("Origin", "https://b.example")]).header("Access-Control-Allow-Origin") is None


def test_requests_are_noted_where_one_says(serve, site, tmp_path):
    log = tmp_path / "access.log"
    server = serve("uvhttp", site, "--access-log", log)
    server.get("/docs/a.txt")
    server.stop()
    assert '"GET /docs/a.txt HTTP/1.1" 200 1 ' in log.read_text()
    server = serve("uvhttp", site, "--access-log", "-")
    server.get("/docs/a.txt")
    server.stop()
    assert '"GET /docs/a.txt HTTP/1.1" 200 1 ' in server.stderr()  # the harness sends both to one file
    server = serve("uvhttp", site)
    server.get("/docs/a.txt")
    server.stop()
    assert "GET" not in server.stderr()  # no terminal


def test_https_needs_no_certificate(serve, site):
    if "UVHTTP_TLS=off" in subprocess.run([PROGRAM, "version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("built without TLS")
    server = serve("uvhttp", site, "--tls")
    host, port = server.address
    assert f" on https://{host}:{port}/\n" in server.stderr()
    client = http.client.HTTPSConnection(host, port, context=ssl._create_unverified_context())
    client.request("GET", "/")
    assert client.getresponse().read() == b"<p>home"
    client.close()


def test_fields_of_the_configuration_are_options(serve, site):
    server = serve("uvhttp", site, "--io-threads", 1, "--request-line-max", 64)
    assert server.get("/" + "a" * 100).status == 414


def test_what_can_not_be_served_is_said(serve, site, tmp_path):
    text, status = refused("serve", tmp_path / "none")
    assert status == 1 and "none: the directory can not be opened: No such file or directory" in text
    text, status = refused("serve", site / "index.html")
    assert status == 1 and "Not a directory" in text
    port = free_port()
    serve("uvhttp", site, address=(HOST, port))
    text, status = refused("serve", site, "--address", HOST, "--port", port)
    assert status == 1 and f'can not listen on "{HOST}:{port}": address already in use' in text


@pytest.mark.parametrize("arguments, says", [
    ([], "uvhttp: no command; uvhttp serve serves the current directory, uvhttp help lists all"),
    (["sevre"], "uvhttp: 'sevre' is no command; uvhttp help lists them"),
    (["."], "uvhttp: '.' is no command; to serve that directory: uvhttp serve ."),
    (["serve", "--prot", "80"], "uvhttp serve: option '--prot': unknown, did you mean --port?"),
    (["serve", "--port", "65536"], "uvhttp serve: --port '65536': allowed is 0..65535"),
    (["serve", "a", "b"], "uvhttp serve: argument 'b': one DIR is allowed, and 'a' is given already"),
    (["serve", "--certificate", "x"], "uvhttp serve: --certificate 'x': its private key is missing: add --key FILE (PEM)"),
    (["serve", "--key", "x"], "uvhttp serve: --key 'x': its certificate is missing: add --certificate FILE (PEM)"),
    (["serve", "--fallback", "nope.html", "/"], "uvhttp serve: --fallback 'nope.html': there is no such file below DIR; its path is relative to that directory"),
    (["serve", "--address", "systemd"], "uvhttp serve: --address 'systemd': no socket was passed in (LISTEN_FDS is not set): start it by a systemd socket unit, or name an address and --port"),
])
def test_wrong_usage_is_said_in_one_line(arguments, says, monkeypatch):
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    assert refused(*arguments) == (says + "\n", 2)


def test_help_and_version(site):
    for command in (["help"], ["--help"], ["-h"]):
        assert "serve [DIR]" in subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True).stdout
    options = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert "Usage: uvhttp serve [options] [DIR]" in options and "--keepalive-timeout" in options
    for command in ("version", "--version"):
        assert subprocess.run([PROGRAM, command], capture_output=True, text=True, check=True).stdout.startswith("uvhttp ")
