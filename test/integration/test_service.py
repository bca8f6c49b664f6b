"""A program as a service: its manager, PID file, user, limits, and the way to its end. What a manager does, the tests do."""
import os
import pathlib
import re
import signal
import socket
import stat
import sys
import time

import pytest

from harness import HOST, poll
from wire import Connection

pytestmark = pytest.mark.threads
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Manager:
    """The end of the service manager."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(30)
        self.environment = {"NOTIFY_SOCKET": address.replace("\0", "@")}

    def message(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def until(self, key):
        """The next message with the key; what comes before is dropped."""
        while key not in (message := self.message()):
            pass
        return message

    def is_silent(self, seconds):
        self.socket.settimeout(seconds)
        try:
            return not self.socket.recv(4096)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(30)

    def drop_all(self):
        self.socket.setblocking(False)
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            self.socket.settimeout(30)


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    one = Manager(str(tmp_path / "notify") if request.param == "path" else f"\0uvhttp-test-{os.getpid()}-{time.monotonic_ns()}")
    yield one
    one.socket.close()


@pytest.fixture
def one_manager(tmp_path):
    one = Manager(str(tmp_path / "notify"))
    yield one
    one.socket.close()


def start(serve, *arguments, env=None, **options):
    return serve("http_test_server", "--service", "on", *arguments, env=env or {}, **options)


# --- the manager hears ---


def test_the_manager_hears_of_start_reload_and_stop(serve, manager, tmp_path):
    server = serve("uvhttp", tmp_path, env=manager.environment)
    ready = manager.message()
    assert ready["READY"] == "1" and str(server.address[1]) in ready["STATUS"]
    before = time.monotonic_ns() // 1000
    server.signal(signal.SIGHUP)
    reloading = manager.message()
    assert reloading["RELOADING"] == "1" and before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert "read again" in manager.message()["STATUS"]
    assert manager.message() == {"READY": "1"}
    server.signal()
    assert manager.message()["STOPPING"] == "1"
    assert server.wait() == 0
    assert manager.is_silent(0.01)


def test_a_reload_that_fails_says_why_to_the_manager(serve, one_manager, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("keepalive_timeout: 50\n")
    server = serve("uvhttp", tmp_path, "--config", config, env=one_manager.environment)
    one_manager.until("READY")
    config.write_text("keepalive_timeout: loud\n")
    server.signal(signal.SIGHUP)
    one_manager.until("RELOADING")
    assert "not reloaded" in (status := one_manager.message()["STATUS"]) and "config.yaml" in status
    assert one_manager.message() == {"READY": "1"}, "it serves as before"


def test_ready_comes_when_it_accepts(serve, one_manager):
    server = start(serve, env=one_manager.environment, wait=False)
    one_manager.until("READY")
    with Connection(server.address) as connection:
        assert connection.get("/ready").body == b"ready"


def test_without_a_manager_nothing_is_sent_and_nothing_is_wrong(serve):
    server = start(serve, env={"NOTIFY_SOCKET": ""})
    assert server.new_stderr() == ""


def test_a_manager_that_is_gone_is_named_once(serve, tmp_path):
    server = start(serve, env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert server.get("/ready").status == 200
    poll(lambda: "NOTIFY_SOCKET" in server.stderr())  # the log has a thread of its own
    server.stop()
    assert server.stderr().count("NOTIFY_SOCKET") == 1


def connect_to_loop(server, first):
    """A connection of the first loop, or of another one."""
    while True:
        connection = Connection(server.address)
        if (int(connection.get("/tid").body) == server.pid()) == first:
            return connection
        connection.close()


@pytest.mark.parametrize("first", [True, False], ids=["first", "other"])
def test_liveness_is_reported_while_every_loop_iterates(serve, one_manager, tmp_path, first):
    go = tmp_path / "go"
    environment = {**one_manager.environment, "WATCHDOG_USEC": "400000"}
    server = start(serve, env=environment, settings={"io_threads": 2, "handler_warn_ms": "never"})
    for _ in range(3):
        one_manager.until("WATCHDOG")
    with connect_to_loop(server, first) as connection:
        connection.send(f"GET /block?entered={tmp_path / 'entered'}&go={go} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        poll(lambda: one_manager.drop_all() or one_manager.is_silent(0.5), 20, message="a loop is blocked, and the service is reported as alive")
        go.write_text("")
        assert connection.response().status == 200
    one_manager.until("WATCHDOG")


def test_liveness_of_another_process_is_not_reported(serve, one_manager):
    environment = {**one_manager.environment, "WATCHDOG_USEC": "40000", "WATCHDOG_PID": "1"}
    start(serve, env=environment)
    one_manager.until("READY")
    assert one_manager.is_silent(0.2)


def test_sockets_are_found_by_their_names(serve, tmp_path):
    listeners = [socket.create_server((HOST, 0)) for _ in range(2)]
    numbers = [str(listener.fileno()) for listener in listeners]
    activate = (
        "import fcntl, os, sys\nkept = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]]\n"
        "[os.dup2(one, 3 + i) for i, one in enumerate(kept)]\n"
        "os.environ.update(LISTEN_FDS='2', LISTEN_FDNAMES='web:admin', LISTEN_PID=str(os.getpid()))\nos.execv(sys.argv[3], sys.argv[3:])\n"
    )
    serve(listen=["systemd:admin"], address=listeners[1].getsockname(), pass_fds=[int(n) for n in numbers], prefix=[sys.executable, "-c", activate, *numbers])
    with Connection(listeners[1].getsockname()) as connection:
        assert connection.get("/echo").status == 200
    refused = serve(
        listen=["systemd:adm"], wait=False, address=listeners[0].getsockname(), pass_fds=[int(n) for n in numbers], prefix=[sys.executable, "-c", activate, *numbers]
    )
    assert refused.wait() == 1 and "systemd:adm" in refused.stderr()


# --- the way to the end ---


def test_a_server_that_stops_is_not_ready_before_it_drains(serve, one_manager):
    server = start(serve, env=one_manager.environment, settings={"drain_grace_ms": 3600000, "drain_idle_ms": 100})
    with Connection(server.address) as kept:
        assert kept.get("/ready").status == 200
        server.signal()
        poll(lambda: kept.get("/ready").status == 503)
        assert "not ready" in one_manager.until("STOPPING")["STATUS"]
        with Connection(server.address) as late:
            response = late.get("/ready")
            assert response.status == 503 and response.body == b"grace" and response.header("Connection") is None
        server.signal()
        kept.assert_closed()
    assert one_manager.until("STATUS")["STATUS"] == "draining"
    assert server.wait() == 0


@pytest.mark.parametrize("service", ["on", "off"])
def test_a_second_signal_ends_the_grace_period_and_the_drain(serve, service):
    server = serve("http_test_server", "--service", service, settings={"drain_grace_ms": 3600000, "io_threads": 2})
    with Connection(server.address) as kept:
        server.signal()
        poll(lambda: kept.get("/ready").status == 503)
        server.signal()
        assert server.wait() == 0


@pytest.mark.parametrize("service", ["on", "off"])
def test_the_grace_period_ends_by_itself(serve, one_manager, service):
    """What is served meanwhile, the tests before this one show: here a client could be too slow for it."""
    server = serve("http_test_server", "--service", service, env=one_manager.environment, settings={"drain_grace_ms": 300, "drain_idle_ms": 0})
    with Connection(server.address) as kept:
        begin = time.monotonic()
        server.signal()
        kept.assert_closed()
        assert time.monotonic() - begin > 0.29, "an idle connection is closed when the drain begins"
    assert server.wait() == 0
    if service == "on":
        assert "not ready" in one_manager.until("STOPPING")["STATUS"]
        assert one_manager.until("STATUS")["STATUS"] == "draining"


# --- PID file ---


def test_the_pid_file_is_there_while_the_service_runs(serve, tmp_path):
    path = tmp_path / "pid"
    server = start(serve, settings={"pid_file": path})
    assert path.read_text() == f"{server.pid()}\n" and stat.S_IMODE(path.stat().st_mode) == 0o644
    server.stop()
    assert not path.exists()


def test_a_second_process_does_not_get_the_pid_file(serve, tmp_path):
    path = tmp_path / "pid"
    server = start(serve, settings={"pid_file": path})
    second = start(serve, settings={"pid_file": path}, wait=False)
    assert second.wait() == 1
    assert str(path) in second.stderr() and str(server.pid()) in second.stderr()
    assert path.read_text() == f"{server.pid()}\n", "it is the first one's still"


def test_a_stale_pid_file_is_replaced(serve, tmp_path):
    path = tmp_path / "pid"
    server = start(serve, settings={"pid_file": path})
    server.kill()
    assert path.exists()
    second = start(serve, settings={"pid_file": path})
    assert path.read_text() == f"{second.pid()}\n"


def test_a_pid_file_that_is_a_link_is_refused(serve, tmp_path):
    target = tmp_path / "precious"
    target.write_text("content")
    (tmp_path / "pid").symlink_to(target)
    server = start(serve, settings={"pid_file": tmp_path / "pid"}, wait=False)
    assert server.wait() == 1 and "pid_file" in server.stderr()
    assert target.read_text() == "content"


# --- user, mask, limits ---


def identities(pid):
    """Of all threads: real, effective, saved and file system user, group, and the supplementary groups."""
    found = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):  # a thread of the kernel's for io_uring that has ended since
            continue
        found.add(tuple(tuple(re.search(rf"^{name}:\s*(.*)$", text, re.M)[1].split()) for name in ("Uid", "Gid", "Groups")))
    return found


def low_port():
    """Below 1024, where only root may bind."""
    for port in range(700, 1000):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


@as_root
def test_the_user_changes_after_binding_in_all_threads(serve):
    server = start(serve, settings={"user": "nobody", "group": "nogroup", "io_threads": 3, "worker_threads_min": 2}, address=(HOST, low_port()))
    with Connection(server.address) as connection:
        poll(lambda: connection.get("/ready").status == 200)  # when all loops have started
    poll(lambda: len(list(pathlib.Path(f"/proc/{server.pid()}/task").iterdir())) >= 5)
    assert identities(server.pid()) == {(("65534",) * 4, ("65534",) * 4, ("65534",))}


@as_root
def test_a_number_is_a_user_too(serve):
    server = start(serve, settings={"user": "54321", "group": "54322"})
    assert identities(server.pid()) == {(("54321",) * 4, ("54322",) * 4, ("54322",))}


@as_root
@pytest.mark.parametrize("settings, named", [({"user": "no-such-user"}, "no-such-user"), ({"group": "no-such-group"}, "no-such-group"), ({"user": "54321"}, "54321")])
def test_a_user_that_does_not_exist_ends_the_start(serve, settings, named):
    server = start(serve, settings=settings, wait=False)
    assert server.wait() == 1 and named in server.stderr()


@as_root
def test_an_ordinary_user_cannot_become_another_one(serve):
    def ordinary():
        os.setgroups([])
        os.setresgid(54322, 54322, 54322)
        os.setresuid(54321, 54321, 54321)

    server = start(serve, settings={"user": "nobody"}, wait=False, preexec_fn=ordinary)
    assert server.wait() == 1 and "nobody" in server.stderr() and "not permitted" in server.stderr().lower()
    same = start(serve, settings={"user": "54321", "group": "54322"}, preexec_fn=ordinary)
    assert same.get("/ready").status == 200, "it already is"


@as_root
def test_the_new_user_has_to_be_able_to_spool(serve, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    server = start(serve, settings={"user": "nobody", "spool_directory": spool}, wait=False)
    assert server.wait() == 1 and f'spool_directory "{spool}": no file can be made there: Permission denied' in server.stderr()


def test_the_umask_is_that_of_a_unix_socket(serve, tmp_path):
    path = str(tmp_path / "socket")
    start(serve, settings={"umask": "0117"}, listen=[f"unix:{path}"], address=path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660


@pytest.mark.parametrize("mask", ["8", "1000", "rwx", "-1"])
def test_a_wrong_umask_is_named(serve, mask):
    server = start(serve, settings={"umask": mask}, wait=False)
    assert server.wait() == 1 and "umask" in server.stderr() and mask in server.stderr()


def test_the_limit_of_descriptors(serve):
    server = start(serve, settings={"descriptor_limit": 777, "raise_descriptor_limit": "false"})
    limits = pathlib.Path(f"/proc/{server.pid()}/limits").read_text()
    assert re.search(r"^Max open files +777 ", limits, re.M), limits


def test_a_program_that_did_not_ask_for_it_is_no_service(serve, one_manager, tmp_path):
    """An embedded server leaves the process alone."""
    serve(settings={"pid_file": tmp_path / "pid", "umask": "777", "descriptor_limit": 777}, env=one_manager.environment)
    assert not (tmp_path / "pid").exists() and one_manager.is_silent(0.01)


