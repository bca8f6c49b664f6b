"""uvhttp, the command line over the library."""
import http.client
import os
import re
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
needs_yaml = pytest.mark.skipif(build_option("BUILD_WITH_YAML") != "ON", reason="built without YAML")
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


def expect_check(file, says):
    result = subprocess.run([PROGRAM, "check", file], capture_output=True, text=True, timeout=30)
    assert (result.stdout, result.stderr, result.returncode) == (says, "", 0)


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
    assert status == 2 and 'hosts has "http://a/": expected a name' in text


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
    (["help", "serve", "x"], "uvhttp help: argument 'x': one COMMAND is allowed, and 'serve' is given already"),
    (["--help", "srve"], "uvhttp help: 'srve' is no command, did you mean serve?"),
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


# --- wrong values ---


@pytest.mark.parametrize("option, value", [
    ("-p", "x"), ("--port", "65536"), ("--port", "-1"), ("--port", ""),
    ("-a", ""), ("--address", ""), ("--address", "no.address"), ("--address", "1.2.3.4.5"), ("--address", "::g"), ("--address", "unix:"),
    ("--address", "fd:x"), ("--address", "fd:999"), ("--address", "127.0.0.1:80"), ("--address", "systemd"),
    ("--open", None), ("--any-host", None), ("--tls", None), ("--kernel-tls", None), ("--spa", None), ("--gzip", None), ("--no-listing", None),
    ("--dot-files", None), ("--no-symlinks", None),
    ("--host", ""), ("--host", "http://a/"), ("--host", "a b"),
    ("--certificate", ""), ("--certificate", "only.pem"), ("--key", ""), ("--key", "only.key"),
    ("--http-port", "x"), ("--http-port", "65536"), ("--http-port", "8081"),
    ("--fallback", ""), ("--fallback", "none.html"), ("--max-age", "x"), ("--max-age", "31536001"), ("--max-age", ""),
    ("--basic-auth", "user"), ("--basic-auth", ""), ("--basic-auth-file", ""), ("--basic-auth-file", "none"),
    ("--header", "name"), ("--header", ""), ("--header", "a b: c"), ("--header", "Date: now"),
    ("--redirect", "a"), ("--redirect", ""),
    ("--cors", "a"), ("--cors", ""), ("--access-log", ""), ("--access-log-format", "x"), ("--access-log-format", ""),
    ("--admin", "nonsense"), ("--admin", "0.0.0.0:0"), ("--config", ""), ("--config", "none.yaml"),
    ("--umask", "9"), ("--user", "no-such-user"), ("--group", "no-such-group"), ("--tcp-congestion-control", "none"),
    ("--engine", "x"), ("--keepalive-timeout", "x"), ("--keepalive-timeout", ""), ("--log-level", "x"), ("--http2", "maybe"),
])
def test_a_wrong_value_of_an_option_is_an_error_of_usage_that_names_it(site, option, value, monkeypatch):
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    words = [option + "=1"] if value is None else [option, value]
    port = [] if option in ("-p", "--port") else ["-p", 0]
    text, status = refused("serve", site, *port, *words)
    name = {"-p": "--port", "-a": "--address"}.get(option, option)
    assert status == 2 and any(shown in text for shown in (name, name[2:].replace("-", "_"), (value or name).split(": ")[0])), text
    assert len(text.splitlines()) <= 2 and (value != "" or "-" in text), text


def test_the_listing_of_options_in_the_table_above_is_whole():
    """An option of the command line that is new gets a row there."""
    text = subprocess.run([PROGRAM, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout.split("\nFields of")[0]
    options = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M)) - {"--help", "--version", "--help-all"}
    table = test_a_wrong_value_of_an_option_is_an_error_of_usage_that_names_it.pytestmark[0].args[1]
    assert options <= {row[0] for row in table}


# --- check and serve: one start ---


def reasons(text):
    """Lines, those of the log without the time in front of them. A build for development also says what went well."""
    lines = [line for line in text.splitlines() if not re.match(r"\S+Z INFO ", line)]
    return [re.sub(r"^\S+Z ERROR ", "", line) for line in lines]


@pytest.fixture
def configuration(site, tmp_path):
    def write(text):
        file = tmp_path / "server.yaml"
        if "sites:" not in text:
            text += "\nsites: [{root: site}]"
        if "listen:" not in text:
            text += "\nlisten: ['127.0.0.1:0']"
        file.write_text(text + "\n")
        return file
    return write


@needs_yaml
@pytest.mark.parametrize("text, says, status", [
    ("umask: '9'", 'http: umask is "9": expected octal digits, 000..777', 2),
    ("umask: '1000'", 'http: umask is "1000": expected octal digits, 000..777', 2),
    pytest.param("descriptor_limit: 1073741824", "http: descriptor_limit is 1073741824: Operation not permitted", 2,
                 marks=pytest.mark.skipif(os.geteuid() != 0, reason="check leaves out the rights of others than root")),
    ("pid_file: none/pid", 'http: pid_file "none/pid": No such file or directory', 1),
    ("pid_file: site/index.html/pid", 'http: pid_file "site/index.html/pid": Not a directory', 1),
    ("pid_file: site", 'http: pid_file "site": Is a directory', 1),
    ("pid_file: site/none/", 'http: pid_file "site/none/": Is a directory', 1),
    ("pid_file: site/docs/link.txt", 'http: pid_file "site/docs/link.txt": Too many levels of symbolic links', 1),
    ("spool_directory: none", 'http: spool_directory "none": no file can be made there: No such file or directory', 1),
    ("spool_directory: site/index.html", 'http: spool_directory "site/index.html": no file can be made there: Not a directory', 1),
    ("user: no-such-user", 'http: user "no-such-user" does not exist', 2),
    ("group: no-such-group", 'http: group "no-such-group" does not exist', 2),
    ("user: '4242424242'", 'http: user "4242424242" has no entry: give a group, too', 2),
    ("tcp_congestion_control: none", 'cannot listen on "127.0.0.1:0": invalid configuration value: tcp_congestion_control "none" is not known to the kernel', 2),
    ("admin: nonsense", 'http: admin is "nonsense": expected host:port or unix:/path', 2),
    ("admin: 0.0.0.0:0", 'http: admin is "0.0.0.0:0", which others than this machine may reach', 2),
    ("admin: 127.0.0.1:0\nadmin_token: short", "http: admin_token has fewer than 16 characters", 2),
    ("admin_token: 0123456789abcdef", 'admin_token is set, and there is no admin listener: set "admin" to its address', 2),
    ("admin: unix:none/admin", 'http: admin: cannot listen on "unix:none/admin": invalid or unknown address: No such file or directory', 2),
    ("admin: 127.0.0.1:PORT\nlisten: ['127.0.0.1:PORT']", 'http: cannot listen on "127.0.0.1:PORT": address already in use', 1),
    ("admin: '[::1]:PORT'\nlisten: ['*:PORT']", 'http: cannot listen on "*:PORT": address already in use', 1),
    ("listen: ['127.0.0.1:PORT', '0.0.0.0:PORT']", 'http: cannot listen on "0.0.0.0:PORT": address already in use', 1),
    ("listen: ['localhost:PORT', '127.0.0.1:PORT']", 'http: cannot listen on "127.0.0.1:PORT": address already in use', 1),
    ("listen: ['unix:site/index.html']", 'http: cannot listen on "unix:site/index.html": address already in use', 1),
    ("listen: ['unix:none/socket']", 'http: cannot listen on "unix:none/socket": invalid or unknown address: No such file or directory', 2),
    ("listen: ['example.com:PORT']", 'http: cannot listen on "example.com:PORT": invalid or unknown address: expected host:port', 2),
    ("listen: ['unix:socket proxy_protocol']", "nobody is trusted with the PROXY protocol", 2),
    ("trace: true\ntrace_endpoint: nowhere", 'http: configuration: trace_endpoint is "nowhere": invalid or unknown address', 2),
    ("tls_certificate: none.pem\ntls_key: none.key\nlisten: [{address: '127.0.0.1:0', tls: true}]", "none.pem: No such file or directory", 1),
    ("tls_certificate: none.pem\nlisten: [{address: '127.0.0.1:0', tls: true}]", "tls_key names 0 files, tls_certificate 1", 1),
    ("tls_client_ca: none.pem", 'tls_client_ca is "none.pem", and no address has TLS: add "tls: true" to one of "listen"', 2),
    ("tls_client_crl: none.pem", 'tls_client_crl is "none.pem", and no address has TLS: add "tls: true" to one of "listen"', 2),
    ("tls_clients: require", 'tls_clients is "require", and no address has TLS: add "tls: true" to one of "listen"', 2),
    ("tls_certificate: none.pem\ntls_key: none.key", 'tls_certificate is "none.pem", and no address has TLS: add "tls: true" to one of "listen"', 2),
    ("sites: [{root: none}]", "none: the directory cannot be opened: No such file or directory", 1),
    ("sites: [{root: site, basic_auth_file: none}]", "none: No such file or directory", 2),
    ("sites: [{root: site, basic_auth_file: site}]", "site: Is a directory", 2),
    ("sites: [{root: site, cors: a}]", 'middleware: cors: origins has "a"', 2),
    ("sites: [{root: site, hosts: 'http://a/'}]", 'middleware: allowed_hosts: hosts has "http://a/"', 2),
])
def test_check_and_serve_refuse_the_same_with_the_same_words(configuration, tmp_path, text, says, status):
    port = str(free_port())
    file = configuration(text.replace("PORT", port))
    before = sorted(tmp_path.rglob("*"))
    results = [subprocess.run([PROGRAM, *command, file], capture_output=True, text=True, timeout=30, cwd=tmp_path)
               for command in (["check"], ["serve", "--config"])]
    checked, served = results
    assert says.replace("PORT", port) in checked.stderr
    assert reasons(checked.stderr) == reasons(served.stderr)
    assert (checked.returncode, checked.stdout, served.returncode) == (1, "", status)
    assert sorted(tmp_path.rglob("*")) == before


@needs_yaml
@pytest.mark.parametrize("text, says", [
    ("umask: '9'", 'http: umask is "9": expected octal digits, 000..777'),
    ("listen: ['unix:none/socket']", "No such file or directory"),
    ("tls_certificate: none.pem\ntls_key: none.key\nlisten: [{address: '127.0.0.1:0', tls: true}]", "none.pem: No such file or directory"),
    ("trace: true\ntrace_endpoint: nowhere", "the configuration is wrong; another log_level shows why"),
])
def test_a_start_that_fails_is_explained_without_a_log_too(configuration, text, says):
    file = configuration("performance: {log_level: none}\n" + text)
    for command in (["check", file], ["serve", "--config", file]):
        assert says in refused(*command)[0]


@needs_yaml
def test_check_reads_the_environment_as_serve_does(configuration, monkeypatch):
    file = configuration("")
    monkeypatch.setenv("UVHTTP_UMASK", "9")
    assert reasons(refused("check", file)[0]) == reasons(refused("serve", "--config", file)[0]) == ['http: umask is "9": expected octal digits, 000..777']
    monkeypatch.setenv("UVHTTP_UMASK", "022")
    monkeypatch.setenv("UVHTTP_BACKLOG", "many")
    assert "UVHTTP_BACKLOG" in refused("check", file)[0] and "UVHTTP_BACKLOG" in refused("serve", "--config", file)[0]


@needs_yaml
def test_a_good_configuration_passes_both_and_check_leaves_nothing(serve, configuration, tmp_path):
    port, admin = free_port(), free_port()
    text = f"pid_file: {tmp_path}/pid\numask: '027'\nadmin: 127.0.0.1:{admin}\nuser: {os.getuid()}\ngroup: {os.getgid()}\n"
    addresses = [f"{HOST}:{port}", f"[::1]:{port}", f"unix:{tmp_path}/socket"]
    text += f"listen: {addresses}\ntcp_congestion_control: system\n"
    text += "performance: {log_level: debug}"
    file = configuration(text)
    before = sorted(tmp_path.rglob("*"))
    said = f"{file}: ok, 3 addresses, 1 site\n"
    expect_check(file, said)
    assert sorted(tmp_path.rglob("*")) == before
    server = serve("uvhttp", "--config", file, listen=addresses, address=(HOST, port))
    assert server.get("/").body == b"<p>home"
    assert (tmp_path / "pid").exists() and (tmp_path / "socket").exists()
    expect_check(file, said)  # next to the server that it is of
    assert server.get("/").body == b"<p>home"


@needs_yaml
@pytest.mark.parametrize("address", ["systemd", "systemd:http", "fd:999"])
def test_check_leaves_out_sockets_that_are_passed_in(configuration, monkeypatch, address):
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    file = configuration(f"listen: ['{address}']")
    expect_check(file, f"{file}: ok, 1 address, 1 site\n")
    reason = "it is no listening stream socket" if address == "fd:999" else "systemd has passed in no such socket"
    assert f'cannot listen on "{address}": invalid or unknown address: {reason}' in refused("serve", "--config", file)[0]


@needs_yaml
@pytest.mark.parametrize("address", ["systemd", "systemd:http", "fd:999"])
def test_check_leaves_out_an_admin_socket_that_is_passed_in(configuration, monkeypatch, address):
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    file = configuration(f"admin: '{address}'")
    expect_check(file, f"{file}: ok, 1 address, 1 site\n")
    assert f'admin is "{address}"' in refused("serve", "--config", file)[0]


def test_help_and_version(site):
    for command in (["help"], ["--help"], ["-h"]):
        assert "serve [DIR]" in subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True).stdout
    options = subprocess.run([PROGRAM, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout
    assert "Usage: uvhttp serve [options] [DIR]" in options and "--keepalive-timeout" in options
    for command in ("version", "--version"):
        assert subprocess.run([PROGRAM, command], capture_output=True, text=True, check=True).stdout.startswith("uvhttp ")
