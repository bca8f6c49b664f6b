"""Options of uvhttp serve, its configuration files with sites and addresses, and what it writes to a terminal."""
import base64
import contextlib
import gzip
import http.client
import os
import pty
import re
import signal
import ssl
import subprocess

import pytest
from harness import EXAMPLES, build_option, free_port, poll
from wire import head

PROGRAM = EXAMPLES / "uvhttp"
needs_tls = pytest.mark.skipif(build_option("UVHTTP_TLS") == "off", reason="built without TLS")
needs_yaml = pytest.mark.skipif(build_option("BUILD_WITH_YAML") != "ON", reason="built without YAML")
needs_gzip = pytest.mark.skipif(build_option("BUILD_WITH_COMPRESSION") != "ON", reason="built without compression")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without static files or middleware")
LOCAL = "127.0.0.1"
BROWSER = [("Accept", "text/html,*/*;q=0.8")]


@pytest.fixture
def site(tmp_path):
    directory = tmp_path / "site"
    (directory / "docs").mkdir(parents=True)
    (directory / "index.html").write_text("<p>home")
    (directory / "docs" / "a.txt").write_text("a")
    return directory


def refused(*arguments):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=30)
    return result.stderr, result.returncode


@contextlib.contextmanager
def running(*arguments, **options):
    """It, and its lines until it serves."""
    command = [PROGRAM, *map(str, arguments)]
    environment = {"UVHTTP_LOG_LEVEL": "warn", **options.pop("env", os.environ)}  # a debug build begins with info
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)
    try:
        lines = []
        while not lines or "listening on" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], "it has ended"
        yield process, lines
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def fetched(port, target):
    """The body; None: it does not listen yet."""
    with contextlib.suppress(ConnectionRefusedError):
        client = http.client.HTTPConnection(LOCAL, port, timeout=10)
        client.request("GET", target)
        return client.getresponse().read()


def at(server, name, target="/", **options):
    with server.connect() as connection:
        connection.send(head(target=target, host=name, **options))
        return connection.response()


# --- options ---


def test_a_port_has_a_letter(site):
    port = free_port(LOCAL)
    with running("serve", site, "-p", port) as (_, lines):
        assert lines[0] == f"uvhttp: {site} on http://127.0.0.1:{port}/\n"


def test_a_single_page_application_gets_its_index_for_navigation(serve, site):
    server = serve("uvhttp", site, "--spa")
    assert server.get("/users/7", headers=BROWSER).body == b"<p>home"
    assert server.get("/app.js").status == 404 and server.get("/api/none", headers=[("Accept", "*/*")]).status == 404
    assert server.get("/docs/a.txt", headers=BROWSER).body == b"a"


@needs_gzip
def test_text_is_compressed_and_what_is_compressed_already_is_sent(serve, site):
    text = "".join(f"line {i}\n" for i in range(20000))  # more than sendfile begins with
    (site / "big.txt").write_text(text)
    (site / "ready.txt").write_text(text)
    (site / "ready.txt.gz").write_bytes(gzip.compress(b"made before"))
    plain = serve("uvhttp", site).get("/big.txt", headers=[("Accept-Encoding", "gzip")])
    assert plain.header("Content-Encoding") is None
    server = serve("uvhttp", site, "--gzip")
    pressed = server.get("/big.txt", headers=[("Accept-Encoding", "gzip")])
    assert pressed.header("Content-Encoding") == "gzip" and gzip.decompress(pressed.body).decode() == text
    assert server.get("/big.txt").body.decode() == text
    for each in (server, serve("uvhttp", site)):
        assert gzip.decompress(each.get("/ready.txt", headers=[("Accept-Encoding", "gzip")]).body) == b"made before"


def basic(text):
    return [("Authorization", "Basic " + base64.b64encode(text.encode()).decode())]


def test_a_password_is_asked_for(serve, site, tmp_path):
    users = tmp_path / "users"
    users.write_text("# name and password\nalice:se:cret\n\nbob:b\n")
    users.chmod(0o600)
    server = serve("uvhttp", site, "--basic-auth-file", users, "--basic-auth", "carol:c")
    refusal = server.get("/")
    assert refusal.status == 401 and refusal.header("WWW-Authenticate").startswith("Basic ") and b"home" not in refusal.body
    for good in ("alice:se:cret", "bob:b", "carol:c"):
        assert server.get("/", headers=basic(good)).body == b"<p>home", good
    for wrong in ("alice:secret", "alice:", "bob:c", "dave:b", "carol"):
        assert server.get("/", headers=basic(wrong)).status == 401, wrong
    arguments = open(f"/proc/{server.process.pid}/cmdline").read()
    assert "--basic-auth" in arguments and "carol" not in arguments


@pytest.mark.parametrize("text, mode, says", [
    ("alice\n", 0o600, ":1: expected USER:PASSWORD"),
    ("# nobody\n", 0o600, ": there is no line USER:PASSWORD"),
    ("alice:a\n", 0o644, ": every user of this machine can read it: chmod o-r "),
    (None, 0, ": No such file or directory"),
])
def test_a_file_of_passwords_that_is_wrong_is_said(site, tmp_path, text, mode, says):
    users = tmp_path / "users"
    if text is not None:
        users.write_text(text)
        users.chmod(mode)
    error, status = refused("serve", site, "--basic-auth-file", users)
    assert f"{users}{says}" in error and status == 2


def test_fields_are_in_every_response(serve, site):
    server = serve("uvhttp", site, "--header", "X-One: 1, 2", "--header=Cache-Control:no-store")
    for target in ("/", "/docs/a.txt", "/none", "/docs"):
        response = server.get(target)
        assert response.header("X-One") == "1, 2" and response.header("Cache-Control") == "no-store", target


def test_redirects_keep_rest_and_query(serve, site):
    server = serve("uvhttp", site, "--redirect", "/old", "/docs/", "--redirect", "/blog/*", "https://new.example/b/*", "302",
                   "--redirect", "/up/*", "/*", "--redirect", "/q", "/docs/?fixed=1")
    for target, status, location in [
        ("/old", 301, "/docs/"), ("/old?x=1&y", 301, "/docs/?x=1&y"), ("/blog/a%20b/%3Cc%3E?z", 302, "https://new.example/b/a%20b/%3Cc%3E?z"),
        ("/up//evil.example/", 301, "/evil.example/"), ("/q?x", 301, "/docs/?fixed=1"), ("/up/a%2fb%25", 301, "/a%2fb%25"), ("/up/%0d%0aX:%20y", 301, "/%0D%0AX%3A%20y"),
    ]:
        response = server.get(target)
        assert (response.status, response.header("Location")) == (status, location), target
    assert server.get("/older").status == 404 and server.get("/docs/a.txt").body == b"a"


@pytest.mark.parametrize("arguments, says", [
    (["--header", "no colon"], "uvhttp serve: --header 'no colon': expected 'Name: value'"),
    (["--header", "a b: c"], 'uvhttp serve: "a b" is no name of a header field: expected \'Name: value\''),
    (["--header", "Content-Length: 3"], "uvhttp serve: Content-Length is set by the server itself: leave it out"),
    (["--redirect", "/a"], "uvhttp serve: --redirect '/a': expected FROM TO, and perhaps a status"),
    (["--redirect", "a", "/b"], "uvhttp serve: redirect from \"a\": a path begins with '/'"),
    (["--redirect", "/a", "b"], 'uvhttp serve: redirect to "b": expected a path, or a URL with http:// or https://'),
    (["--redirect", "/a", "/b*"], "uvhttp serve: redirect to \"/b*\": without a '*' at the end of \"/a\" it has no rest"),
    (["--redirect", "/a", "/b", "300"], "uvhttp serve: redirect with status 300: expected 301, 302, 303, 307 or 308"),
    (["--redirect", "/a/*", "/a/b/*"], 'uvhttp serve: redirect from "/a/*" to "/a/b/*": it would never end'),
    (["--redirect", "/a*", "https://b.example*"], "uvhttp serve: redirect to \"https://b.example*\": the rest would be part of the authority: write a '/' before the '*'"),
    (["--basic-auth", "nobody"], "uvhttp serve: --basic-auth '': expected USER:PASSWORD"),
    (["--http-port", "0"], "uvhttp serve: --http-port '0': there is no HTTPS to redirect to: add --tls, or --certificate and --key"),
    (["-p"], "uvhttp serve: -p '': needs a value"),
    (["--access-log-format", "xml"], "uvhttp serve: --access-log-format 'xml': allowed are auto, human, combined, common, json"),
])
def test_wrong_options_are_said_in_one_line(site, arguments, says):
    assert refused("serve", site, *arguments) == (says + "\n", 2)


def test_an_application_without_an_index_is_said(site):
    (site / "index.html").unlink()
    assert refused("serve", site, "--spa") == (f"uvhttp serve: --spa: there is no index.html in {site}\n", 2)


def test_the_browser_is_opened(site, tmp_path):
    opened = tmp_path / "opened"
    for name, script in (("with", f"#!/bin/sh\necho \"$1\" >{opened}\n"), ("without", None)):
        (tmp_path / name).mkdir()
        if script:
            (tmp_path / name / "xdg-open").write_text(script)
            (tmp_path / name / "xdg-open").chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path / name}" + (":/bin" if script else "")}
        with running("serve", site, "-p", 0, "--open", env=environment) as (_, lines):
            url = re.search(r"http://127\.0\.0\.1:\d+/", lines[0])[0]
            if script:
                poll(lambda: opened.exists() and opened.read_text() == url + "\n")
            else:
                assert lines[1] == f"uvhttp: no browser was started (xdg-open: No such file or directory): open {url} yourself\n"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "*"])
def test_an_address_for_everybody_is_said_and_can_be_opened(site, address):
    port = free_port(LOCAL)
    with running("serve", site, "-p", port, "--address", address) as (_, lines):
        assert lines[0] == f"uvhttp: {site} on http://localhost:{port}/, for everybody who can reach this machine\n"


# --- HTTPS ---


def location(port, name, target, method="GET"):
    client = http.client.HTTPConnection(LOCAL, port)
    client.request(method, target, headers={"Host": name})
    response = client.getresponse()
    client.close()
    return response.status, response.getheader("Location")


@needs_tls
def test_plain_requests_are_sent_to_https(site):
    tls, plain = free_port(LOCAL), free_port(LOCAL)
    with running("serve", site, "-p", tls, "--tls", "--http-port", plain) as (_, lines):
        assert lines[1] == f"uvhttp: {site} on http://127.0.0.1:{plain}/, which redirects to HTTPS\n"
        assert location(plain, f"localhost:{plain}", "/docs/a.txt?x=1") == (308, f"https://localhost:{tls}/docs/a.txt?x=1")
        assert location(plain, "[::1]", "/%0d%0a") == (308, f"https://[::1]:{tls}/%0D%0A")
        assert location(plain, "localhost", "*", "OPTIONS") == (308, f"https://localhost:{tls}")
        assert location(plain, "evil.example", "/")[0] == 421
        client = http.client.HTTPSConnection(LOCAL, tls, context=ssl._create_unverified_context())
        client.request("GET", "/docs/a.txt")
        assert client.getresponse().read() == b"a"
        client.close()


# --- a file with sites and addresses ---


@needs_yaml
def test_sites_are_chosen_by_name(serve, site, tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "x.css").write_text("css")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text("<p>other")
    users = tmp_path / "users"
    users.write_text("alice:a\n")
    users.chmod(0o600)
    file = tmp_path / "server.yaml"
    file.write_text("""
keepalive_timeout: 7
sites:
  - hosts: [a.example, "*.a.example"]
    root: site
    headers: {X-Site: a}
    redirects:
      - {from: /old, to: /docs/, status: 302}
    mounts:
      - {prefix: /assets/, root: assets, max_age: 60}
      - {prefix: /assets/deep, root: other}
  - hosts: b.example
    root: other
    basic_auth_file: users
    listing: false
  - root: assets
""")
    server = serve("uvhttp", "--config", file, hosts=())
    home = at(server, "a.example")
    assert home.body == b"<p>home" and home.header("X-Site") == "a" and home.header("Cache-Control") == "no-cache"
    assert at(server, "www.A.example:80", "/docs/a.txt").body == b"a"
    assert at(server, "a.example", "/old").header("Location") == "/docs/"
    css = at(server, "a.example", "/assets/x.css")
    assert css.body == b"css" and css.header("Cache-Control") == "max-age=60"
    assert at(server, "a.example", "/assets").header("Location") == "/assets/"
    assert b"x.css" in at(server, "a.example", "/assets/").body
    assert at(server, "a.example", "/assets/deep/").body == b"<p>other"
    assert at(server, "a.example", "/assetsx.css").status == 404
    assert at(server, "b.example").status == 401
    assert at(server, "b.example", headers=basic("alice:a")).body == b"<p>other"
    assert at(server, "b.example", "/old", headers=basic("alice:a")).status == 404
    assert at(server, "localhost", "/x.css").body == b"css" and at(server, "localhost", "/old").header("X-Site") is None
    assert at(server, "c.example", "/x.css").status == 421  # the addresses are those of loopback only


@needs_yaml
@needs_tls
def test_addresses_stand_in_the_file(site, tmp_path):
    plain, tls, path = free_port(LOCAL), free_port(LOCAL), tmp_path / "socket"
    file = tmp_path / "server.yaml"
    file.write_text(f"listen:\n  - 127.0.0.1:{plain}\n  - {{address: '127.0.0.1:{tls}', tls: true}}\n  - unix:{path}\n"
                    "sites:\n  - {root: site, https_only: true}\n")
    with running("serve", "--config", file):
        assert location(plain, "localhost", "/x")[1] == f"https://localhost:{tls}/x"
        client = http.client.HTTPSConnection(LOCAL, tls, context=ssl._create_unverified_context())
        client.request("GET", "/")
        assert client.getresponse().read() == b"<p>home"
        client.close()
        assert path.is_socket()


@needs_yaml
@pytest.mark.parametrize("arguments, says", [
    (["-p", "8081"], "--port '8081': server.yaml has addresses: change them there"),
    (["-a", "0.0.0.0"], "--address '0.0.0.0': server.yaml has addresses: change them there"),
    (["--tls"], '--tls: server.yaml has addresses: add "tls: true" to one of them, and name tls_certificate and tls_key'),
    (["--http-port", "8081"], "--http-port '8081': server.yaml has addresses: add one, and \"https_only: true\" to a site"),
    (["--certificate", "a.pem", "--key", "a.key"], 'tls_certificate is "a.pem", and no address has TLS: add "tls: true" to one of "listen"'),
])
def test_an_option_that_addresses_of_the_file_contradict_is_refused(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.yaml").write_text("listen: ['127.0.0.1:0']\n")
    said, status = refused("serve", ".", "--config", "server.yaml", *arguments)
    assert f"uvhttp serve: {says}\n" in said and status == 2


@needs_yaml
def test_a_file_that_can_be_read_only_once_is_refused(site, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for command in (["check", fifo], ["serve", "--config", fifo]):
        with subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
            try:
                fifo.write_text(f"sites:\n  - root: {site}\n")
                out, error = process.communicate(timeout=10)
            finally:
                process.kill()
        assert (out, error) == ("", f"uvhttp serve: {fifo}: a pipe, and the configuration is read more than once: give a regular file\n")
        assert process.returncode == (1 if command[0] == "check" else 2)


@needs_yaml
@needs_tls
def test_https_behind_a_unix_socket_has_the_usual_port(site, tmp_path):
    plain, file = free_port(LOCAL), tmp_path / "server.yaml"
    file.write_text(f"listen:\n  - 127.0.0.1:{plain}\n  - {{address: 'unix:{tmp_path}/socket', tls: true}}\n"
                    "sites:\n  - {root: site, https_only: true}\n")
    with running("serve", "--config", file):
        assert location(plain, f"localhost:{plain}", "/x") == (308, "https://localhost/x")


# --- a terminal ---


def on_terminal(arguments, environment, act):
    """What is written to a terminal until it ends."""
    terminal, inner = pty.openpty()
    with running(*arguments, env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}, stdout=inner) as (_, lines):
        os.close(inner)
        act(int(re.search(r":(\d+)/", lines[0])[1]))
    text = b""
    try:
        while data := os.read(terminal, 65536):
            text += data
    except OSError:  # its end
        pass
    os.close(terminal)
    return text.decode()


def three_requests(port):
    client = http.client.HTTPConnection(LOCAL, port)
    for target in ("/docs/a.txt", "/none%1b[31m", "/docs"):
        client.request("GET", target)
        client.getresponse().read()
    client.close()


def test_requests_on_a_terminal_are_for_people(site):
    text = on_terminal(["serve", site, "-p", "0"], {}, three_requests)
    lines = text.splitlines()
    assert len(lines) == 3 and "\033[32m200\033[0m" in lines[0] and "\033[33m404" in lines[1] and "\033[36m301" in lines[2]
    assert "GET  /docs/a.txt" in lines[0] and ", 127.0.0.1" in lines[0] and "1 B, " in lines[0]
    assert "\033[31m" not in text  # which the client has sent
    plain = on_terminal(["serve", site, "-p", "0"], {"NO_COLOR": "1"}, three_requests)
    assert "\033" not in plain and re.match(r"\d\d:\d\d:\d\d  200  GET  /docs/a.txt  1 B, \d+(\.\d)? (us|ms), 127\.0\.0\.1\r\n", plain)
    assert "\033" not in on_terminal(["serve", site, "-p", "0"], {"TERM": "dumb"}, three_requests)


@pytest.mark.parametrize("name, line", [
    ("human", r"\d\d:\d\d:\d\d  200  GET  /docs/a.txt  1 B, "), ("combined", r'.*"GET /docs/a.txt HTTP/1.1" 200 1 "-" "-"'),
    ("common", r'.*"GET /docs/a.txt HTTP/1.1" 200 1\n'), ("json", r'\{"time":.*"target":"/docs/a.txt"'), ("auto", r'.*"GET /docs'),
])
def test_the_format_of_requests_can_be_chosen(serve, site, name, line):
    server = serve("uvhttp", site, "--access-log", "-", "--access-log-format", name)
    server.get("/docs/a.txt")
    server.stop()
    assert re.search("^" + line, server.stderr(), re.M) and "\033" not in server.stderr()  # both go to one file


# --- the page of ./dev run ---


def test_the_welcome_page_leads_to_what_there_is(serve, tmp_path):
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "docs" / "guide" / "getting_started.md").write_text("# start")
    admin = f"{LOCAL}:{free_port(LOCAL)}"
    server = serve("performance_test", "--docs", tmp_path / "docs", "--admin", admin)
    page = server.get("/welcome")
    assert page.header("Content-Type") == "text/html; charset=utf-8" and "default-src 'none'" in page.header("Content-Security-Policy")
    links = re.findall(r'href="([^"]*)"', page.body.decode())
    assert f"http://{admin}/" in links and "/docs/guide/getting_started.md" in links and len(links) > 8
    for link in links:
        if link.startswith("/"):
            assert server.get(link).status == 200, link
    assert server.get("/docs/guide/getting_started.md").header("Content-Type") == "text/plain; charset=utf-8"
    assert server.get("/").body == b"Hello, World!"
    plain = serve("performance_test").get("/welcome").body.decode()
    assert "Dashboard" not in plain and "/docs/" not in plain


def test_a_reader_of_its_lines_that_goes_does_not_end_it(site):
    port = free_port(LOCAL)
    command = [PROGRAM, "serve", site, "-p", str(port), "--access-log", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert any(f":{port}/" in line for line in iter(process.stdout.readline, "")), "it has ended"
        process.stdout.close()
        assert poll(lambda: fetched(port, "/docs/a.txt"), 30) == fetched(port, "/docs/a.txt") == b"a"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_process_without_standard_descriptors_serves(site):
    """What it prints goes nowhere, and not to a connection that has the number of standard error."""
    port = free_port(LOCAL)
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", PROGRAM, "serve", site, "-p", str(port), "--access-log", "-"])
    try:
        assert poll(lambda: fetched(port, "/docs/a.txt"), 30) == b"a"
        assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (1, 2)] == ["/dev/null"] * 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
