"""uvhttp, the command line over the library."""
import http.client
import signal
import ssl
import subprocess
import threading
import time

import pytest
from harness import EXAMPLES, HOST, build_option, free_port, poll
from pki import IS_MBEDTLS, Pki, TlsConnection
from wire import Connection, head

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


def of_host(server, host, target="/"):
    with server.connect() as connection:
        connection.send(head(target=target, host=host))
        return connection.response()


def test_on_loopback_only_its_own_hosts_are_served(serve, site):
    """A page of another site can make a name of its own lead to 127.0.0.1: only the Host tells (DNS rebinding)."""
    server = serve("uvhttp", site, hosts=())
    for host in ("localhost", "localhost:8080", "LOCALHOST.", "app.localhost", HOST, f"{HOST}:1", "127.9.9.9", "[::1]:80"):
        assert of_host(server, host).body == b"<p>home", host
    for host in ("rebound.example", "rebound.example:8080", "localhost.example", "127.0.0.1.example", "192.168.0.1", "test"):
        response = of_host(server, host)
        assert response.status == 421, host
        assert b"--host NAME" in response.body and b"home" not in response.body
        assert of_host(server, host, "/none").status == 421
    with server.connect() as connection:  # the target wins over Host (RFC 9112 section 3.2.2)
        connection.send(head(target="http://rebound.example/", host="localhost"))
        assert connection.response().status == 421
    with server.connect() as connection:
        connection.send(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.response().body == b"<p>home"


def test_hosts_are_allowed_by_option(serve, site):
    server = serve("uvhttp", site, "--host", "a.example", "--host=*.b.example", hosts=())
    for host in ("a.example", "x.b.example:80", "localhost"):
        assert of_host(server, host).status == 200, host
    for host in ("b.example", "c.example"):
        assert of_host(server, host).status == 421, host
    assert of_host(serve("uvhttp", site, "--any-host", hosts=()), "c.example").status == 200
    text, status = refused("serve", site, "--host", "http://a/")
    assert status == 1 and 'hosts has "http://a/": expected a name' in text


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


# --- TLS from the configuration ---

needs_tls = pytest.mark.skipif(build_option("UVHTTP_TLS") == "off", reason="built without TLS")
with_yaml = pytest.mark.skipif(build_option("BUILD_WITH_YAML") != "ON", reason="built without YAML")
READ = "were read again"


@pytest.fixture
def pki(tmp_path):
    (tmp_path / "pki").mkdir()
    made = Pki(tmp_path / "pki")
    made.issue("live", "/CN=a.test", ["a.test"])
    return made


def use(pki, name="live"):
    return ["--certificate", pki.path(f"{name}.pem"), "--key", pki.path(f"{name}.key")]


def serial(server, pki, **options):
    with TlsConnection(server.address, pki.context(**options)) as connection:
        assert connection.get("/").body == b"<p>home"
        return int(connection.socket.getpeercert()["serialNumber"], 16)


@needs_tls
@with_yaml
def test_tls_stands_in_the_file(serve, site, pki, tmp_path):
    pki.issue_until("alice", time.time() + 86400)
    pki.issue_until("mallory", time.time() + 86400)
    pki.revoke("mallory")
    lists = pki.list_revoked("ca")
    file = tmp_path / "server.yaml"
    newest = "1.2" if IS_MBEDTLS else "1.3"
    file.write_text(
        f"tls_certificate: {pki.path('live.pem')}\ntls_key: {pki.path('live.key')}\ntls_client_ca: {pki.ca}\n"
        f"tls_client_crl: {lists}\ntls_clients: require\ntls_min_version: {newest}\n"
    )
    server = serve("uvhttp", site, "--config", file)
    serial(server, pki, client="alice")
    for wrong in ({}, {"client": "mallory"}):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            serial(server, pki, **wrong)
    if not IS_MBEDTLS:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            serial(server, pki, client="alice", version=ssl.TLSVersion.TLSv1_2)


@needs_tls
@pytest.mark.parametrize("how", ["option", "environment"])
def test_the_handshake_timeout_can_be_set(serve, site, how):
    """The default is longer than the connection waits here."""
    options = ["--tls-handshake-timeout", "1"] if how == "option" else []
    environment = {"UVHTTP_TLS_HANDSHAKE_TIMEOUT": "1"} if how == "environment" else {}
    server = serve("uvhttp", site, "--tls", *options, env=environment)
    with Connection(server.address) as silent:
        silent.socket.settimeout(8)
        assert silent.socket.recv(1) == b""


@needs_tls
@pytest.mark.parametrize("arguments, says", [
    (["--certificate", "x.pem,y.pem", "--key", "x.key"],
     "tls_key names 1 files, tls_certificate 2: expected one for each certificate"),
    (["--certificate", "x.pem,y.pem", "--key", "x.key,"], "the name of file 2 is empty"),
    (["--tls", "--tls-client-crl", "x.crl"], "client_crl_file is set, but client_ca_file does not say"),
])
def test_tls_settings_that_contradict_are_said(site, arguments, says):
    text, status = refused("serve", site, "--port", 0, *arguments)
    assert status == 1 and says in text, text


# --- SIGHUP ---


@pytest.mark.parametrize("program", ["uvhttp", "performance_test"])
def test_sighup_does_not_end_the_server(serve, site, program):
    server = serve(program, *([site] if program == "uvhttp" else []))
    server.signal(signal.SIGHUP)
    poll(lambda: READ in server.stderr())
    assert server.get("/").status == 200
    server.signal()
    assert server.wait() == 0


@needs_tls
def test_sighup_takes_new_handshakes_to_the_new_certificate_under_load(serve, site, pki):
    server = serve("uvhttp", site, *use(pki), "--io-threads", 2)
    first, stop, errors, serials = serial(server, pki), threading.Event(), [], set()

    def work(requests):
        context, count = pki.context(), 0
        try:
            while not stop.is_set() or count < 5:
                with TlsConnection(server.address, context) as connection:
                    serials.add(int(connection.socket.getpeercert()["serialNumber"], 16))
                    for _ in range(requests):
                        assert connection.get("/").body == b"<p>home"
                count += 1
        except Exception as error:  # whatever it is, it is the result
            errors.append(error)

    workers = [threading.Thread(target=work, args=(1 + 20 * i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    made = [first]
    for count in range(1, 4):
        made.append(pki.issue("next", "/CN=a.test", ["a.test"]))
        for kind in ("key", "pem"):
            pki.path(f"next.{kind}").replace(pki.path(f"live.{kind}"))
        server.signal(signal.SIGHUP)
        poll(lambda count=count: server.stderr().count(READ) == count)
        assert serial(server, pki) == made[-1]
    stop.set()
    for worker in workers:
        worker.join()
    assert not errors and serials <= set(made) and made[-1] in serials | {serial(server, pki)}


@needs_tls
def test_sighup_with_a_wrong_certificate_keeps_what_is_served(serve, site, pki):
    server = serve("uvhttp", site, *use(pki))
    first, good = serial(server, pki), pki.path("live.pem").read_bytes()
    pki.path("live.pem").write_text("no certificate")
    server.signal(signal.SIGHUP)
    poll(lambda: "not reloaded: " in server.stderr())
    assert f"{pki.path('live.pem')}: no PEM certificate" in server.stderr()
    assert serial(server, pki) == first
    pki.path("live.pem").write_bytes(good)
    server.signal(signal.SIGHUP)
    poll(lambda: READ in server.stderr())
    assert serial(server, pki) == first


@with_yaml
def test_sighup_reads_the_configuration_again(serve, site, tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("backlog: 100\nperformance:\n  log_level: warn\n")
    # The harness sets the level in the environment, which is above the file.
    server = serve("uvhttp", site, "--config", file, "--keepalive-timeout", 50, env={"UVHTTP_LOG_LEVEL": None})
    file.write_text("backlog: many\n")
    server.signal(signal.SIGHUP)
    poll(lambda: "not reloaded: " in server.stderr())
    assert f'not reloaded: {file}:1:10: backlog is "many": expected 1..65535' in server.stderr()
    assert server.get("/").status == 200 and READ not in server.stderr()
    file.write_text("backlog: 100\nkeepalive_timeout: 7\nperformance:\n  log_level: info\n")
    server.signal(signal.SIGHUP)
    poll(lambda: READ in server.stderr())
    poll(lambda: "http: reloaded: configuration (log_level: warn -> info), " in server.stderr())  # at level info, which is in force now
    assert "restart" not in server.stderr()  # the option is above the file
    file.write_text("backlog: 101\nread_buffer_size: 4096\n")
    server.signal(signal.SIGHUP)
    poll(lambda: server.stderr().count(READ) == 2)
    poll(lambda: "changed, but applied only by a restart: backlog, read_buffer_size\n" in server.stderr())


def test_sighup_opens_the_access_log_again(serve, site, tmp_path):
    log, old = tmp_path / "access.log", tmp_path / "access.log.1"
    server = serve("uvhttp", site, "--access-log", log)
    server.get("/docs/a.txt")
    poll(lambda: "a.txt" in log.read_text())
    log.rename(old)
    server.signal(signal.SIGHUP)
    poll(log.exists)
    server.get("/index.html")
    poll(lambda: "index.html" in log.read_text())
    assert "index.html" not in old.read_text()


def test_what_cannot_be_served_is_said(serve, site, tmp_path):
    text, status = refused("serve", tmp_path / "none")
    assert status == 1 and "none: the directory cannot be opened: No such file or directory" in text
    text, status = refused("serve", site / "index.html")
    assert status == 1 and "Not a directory" in text
    port = free_port()
    serve("uvhttp", site, address=(HOST, port))
    text, status = refused("serve", site, "--address", HOST, "--port", port)
    assert status == 1 and f'cannot listen on "{HOST}:{port}": address already in use' in text


@pytest.mark.parametrize("arguments, says", [
    ([], "uvhttp: no command; uvhttp serve serves the current directory, uvhttp help lists all"),
    (["sevre"], "uvhttp: 'sevre' is no command, did you mean serve?"),
    (["--port", "80"], "uvhttp: '--port' is no command; uvhttp help lists them"),
    (["help", "srve"], "uvhttp help: 'srve' is no command, did you mean serve?"),
    (["."], "uvhttp: '.' is no command; to serve that directory: uvhttp serve ."),
    (["serve", "--prot", "80"], "uvhttp serve: option '--prot': unknown, did you mean --port?"),
    (["serve", "--port", "65536"], "uvhttp serve: --port '65536': allowed is 0..65535"),
    (["serve", "a", "b"], "uvhttp serve: argument 'b': one DIR is allowed, and 'a' is given already"),
    (["serve", "--certificate", "x"], "uvhttp serve: --certificate 'x': its private key is missing: add --key FILE (PEM)"),
    (["serve", "--key", "x"], "uvhttp serve: --key 'x': its certificate is missing: add --certificate FILE (PEM)"),
    (["serve", "--fallback", "nope.html", "/"], "uvhttp serve: --fallback 'nope.html': there is no such file below DIR; its path is relative to that directory"),
    (["serve", "-a", "127.0.0.1:9000"], "uvhttp serve: --address '127.0.0.1:9000': the port is an option of its own: add --port 9000"),
    (["serve", "-a", "[::1]:9000"], "uvhttp serve: --address '[::1]:9000': the port is an option of its own: add --port 9000"),
    (["serve", "-a", ":9000"], "uvhttp serve: --address ':9000': the port is an option of its own: add --port 9000"),
    (["serve", "--address", "systemd"], "uvhttp serve: --address 'systemd': no socket was passed in (LISTEN_FDS is not set): start it by a systemd socket unit, or name an address and --port"),
])
def test_wrong_usage_is_said_in_one_line(arguments, says, monkeypatch):
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    assert refused(*arguments) == (says + "\n", 2)


def test_help_and_version(site):
    for command in (["help"], ["--help"], ["-h"]):
        assert "serve [DIR]" in subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True).stdout
    options = subprocess.run([PROGRAM, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout
    assert "Usage: uvhttp serve [options] [DIR]" in options and "--keepalive-timeout" in options
    for command in ("version", "--version"):
        assert subprocess.run([PROGRAM, command], capture_output=True, text=True, check=True).stdout.startswith("uvhttp ")
