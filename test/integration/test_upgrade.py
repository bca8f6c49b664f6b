"""The upgrade of a running service to a new binary: SIGUSR2. `./dev upgrade` is the same at length."""
import base64
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from harness import ENGINE, EXAMPLES, HOST, TEST_PROGRAMS, free_port, poll, sanitizer
from pki import Pki, TlsConnection
from test_service import Manager, as_root, identities, low_port
from wire import Connection

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "upgrade"))
import upgrade_clients
import upgrade_run

pytestmark = pytest.mark.threads


class Successors:
    """Processes that replaced others: none of them is a child of this one."""

    def __init__(self):
        self.found = []

    def add(self, pid):
        self.found.append((pid, os.pidfd_open(pid)))

    def end(self, number=signal.SIGTERM):
        for pid, handle in self.found:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            ended = select.select([handle], [], [], 20)[0]
            if not ended:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
            assert ended, f"process {pid} does not end"
        self.found = []


@pytest.fixture
def successors():
    one = Successors()
    yield one
    one.end()


class Service:
    """A program of its own file, so that it can be replaced, with a PID file."""

    def __init__(self, serve, successors, directory, *arguments, settings=None, **options):
        self.program = directory / "http_test_server"
        shutil.copy(TEST_PROGRAMS / "http_test_server", self.program)
        self.pid_file = directory / "pid"
        self.successors = successors
        settings = {"pid_file": self.pid_file, "upgrade_timeout": 30, "drain_idle_ms": 200, **(settings or {})}
        self.server = serve(self.program, "--service", "on", *arguments, settings=settings, **options)

    def pid(self):
        return int(self.pid_file.read_text().split()[0])  # a longer number that stood there may not have been cut off yet

    def replace(self, by=None):
        """Another file at the path, as an installation does it."""
        new = self.program.with_suffix(".new")
        shutil.copy(by or self.program, new)
        new.rename(self.program)

    def signal(self):
        os.kill(self.pid(), signal.SIGUSR2)

    def upgrade(self):
        """Returns the number of the new process."""
        old = self.pid()
        self.signal()
        poll(lambda: self.pid() != old, 60, message=self.server.stderr())
        self.successors.add(self.pid())
        return self.pid()

    def process_of(self, address):
        """Which process responds."""
        with Connection(address) as connection:
            return int(connection.get("/pid").body)


@pytest.mark.parametrize("io_threads", [1, 3])
def test_a_replaced_file_is_what_runs_next(serve, successors, tmp_path, io_threads):
    service = Service(serve, successors, tmp_path, settings={"io_threads": io_threads})
    old = service.pid()
    arguments = pathlib.Path(f"/proc/{old}/cmdline").read_bytes()
    service.replace()
    new = service.upgrade()
    assert os.stat(f"/proc/{new}/exe").st_ino == service.program.stat().st_ino
    assert service.server.wait() == 0, "the old one has drained"
    assert old == service.server.pid() and service.process_of(service.server.address) == new
    assert pathlib.Path(f"/proc/{new}/cmdline").read_bytes() == arguments


def admin_state(address):
    with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        connection.request("GET", "/ready")
        return json.load(connection.getresponse())


def test_the_admin_listener_passes_too(serve, successors, tmp_path):
    """Its address is in use until the old process has ended, which may take long."""
    address = f"{HOST}:{free_port()}"
    service = Service(serve, successors, tmp_path, settings={"admin": address, "drain_idle_ms": 10000})
    with Connection(service.server.address) as idle:
        idle.get("/pid")
        poll(lambda: admin_state(address) == {"ready": True, "state": "running"})
        service.upgrade()
        # The old one, which drains, does not accept here any more.
        poll(lambda: all(admin_state(address)["ready"] for _ in range(20)))
    service.upgrade()
    assert service.server.wait() == 0
    poll(lambda: admin_state(address)["ready"])


def is_alone(connection):
    """Whether it is its server's only connection."""
    counters = json.loads(connection.get("/counters").body)
    return counters["connections_accepted"] - counters["connections_closed"] == 1


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_one_upgrade_after_the_other(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path, settings={"io_threads": 2})
    descriptors = None
    for _ in range(4):
        old = service.pid()
        pid = service.upgrade()
        # Until then it may still accept, and close what it accepted: it drains. It ends after the new one has closed the channel to it.
        poll(lambda: has_ended(old), 30)
        with Connection(service.server.address) as connection:
            poll(lambda: is_alone(connection))
            now = len(os.listdir(f"/proc/{pid}/fd"))
        assert descriptors in (None, now), "each process has as many descriptors as the one before"
        descriptors = now
    successors.end()
    assert not service.pid_file.exists()


def listening(address):
    """The inodes of the listening sockets of an IPv4 address."""
    local = f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[1] == local and row[3] == "0A"}


def sockets(pid):
    links = []
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a connection that has been closed since
            links.append(os.readlink(path))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


@pytest.mark.parametrize("before, after", [(1, 3), (3, 1), (4, 3)])
def test_the_number_of_loops_may_change(serve, successors, tmp_path, before, after):
    """Each socket of the SO_REUSEPORT group is listened on, whatever the number of loops is: the kernel puts connections
    into all of them."""
    service = Service(serve, successors, tmp_path, settings={"io_threads": before})
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(script(tmp_path, f'exec {good} "$@" --set io_threads={after}'))
    new = service.upgrade()
    assert service.server.wait() == 0
    assert len(list(pathlib.Path(f"/proc/{new}/task").iterdir())) >= after
    # The kernel's table may miss a row when other rows leave while it is read.
    poll(lambda: len(listening(service.server.address)) == before, message="the same sockets, and no other")
    assert listening(service.server.address) <= sockets(new)
    for _ in range(60):
        assert service.process_of(service.server.address) == new
    last = service.upgrade()
    poll(lambda: has_ended(new), 30)
    assert service.process_of(service.server.address) == last


def test_connections_in_the_backlog_are_not_lost(serve, successors, tmp_path):
    """Clients that connect and send while the old process stands still get their response from one or the other."""
    service = Service(serve, successors, tmp_path, settings={"io_threads": 2})
    service.upgrade()
    assert service.server.wait() == 0
    pid = service.pid()
    with contextlib.ExitStack() as stack:
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGUSR2)
        waiting = [stack.enter_context(Connection(service.server.address)) for _ in range(40)]
        for connection in waiting:
            connection.send(b"GET /pid HTTP/1.1\r\nHost: a\r\n\r\n")
        os.kill(pid, signal.SIGCONT)
        for connection in waiting:
            assert connection.response().status == 200
    poll(lambda: service.pid() != pid, 30)
    successors.add(service.pid())


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_unix_socket_passes_on(serve, successors, tmp_path, kind):
    address = str(tmp_path / "socket") if kind == "path" else f"@uvhttp-upgrade-{os.getpid()}"
    service = Service(serve, successors, tmp_path, settings={"io_threads": 2}, listen=[f"unix:{address}"], address=address)
    inode = os.stat(address).st_ino if kind == "path" else None
    new = service.upgrade()
    assert service.server.wait() == 0
    assert service.process_of(service.server.address) == new
    assert kind == "abstract" or os.stat(address).st_ino == inode, "it is the same socket"


def test_a_port_that_the_kernel_chose_stays(serve, successors, tmp_path):
    path = str(tmp_path / "socket")
    service = Service(serve, successors, tmp_path, listen=[f"{HOST}:0", f"{HOST}:0", f"unix:{path}"], address=path)
    starts = lambda: [line for line in service.server.stderr().splitlines() if "listening on" in line]
    service.upgrade()
    assert service.server.wait() == 0
    first, second = (line.partition("listening on ")[2] for line in starts())
    assert first == second and first.count(HOST) == 2


def test_systemds_sockets_pass_on(serve, successors, tmp_path):
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        activate = "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nos.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\nos.execv(sys.argv[2], sys.argv[2:])\n"
        service = Service(
            serve, successors, tmp_path, listen=["systemd"], address=listener.getsockname(), pass_fds=[number], prefix=[sys.executable, "-c", activate, str(number)]
        )
        new = service.upgrade()
        assert service.server.wait() == 0
        assert service.process_of(listener.getsockname()) == new


@pytest.mark.parametrize("kind", ["fd", "systemd"])
def test_an_admin_listener_on_an_inherited_socket_passes_too(serve, successors, tmp_path, kind):
    """Who reaches it is what its address says, in both processes: other hosts are refused on a loopback address."""
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        activate = "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nos.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\nos.execv(sys.argv[2], sys.argv[2:])\n"
        options = {"prefix": [sys.executable, "-c", activate, str(number)]} if kind == "systemd" else {}
        address = f"{HOST}:{listener.getsockname()[1]}"
        service = Service(serve, successors, tmp_path, settings={"admin": "systemd" if kind == "systemd" else f"fd:{number}"}, pass_fds=[number], **options)
        for _ in range(3):
            poll(lambda: admin_state(address) == {"ready": True, "state": "running"})
            with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
                connection.request("GET", "/ready", headers={"Host": "example.org"})
                assert connection.getresponse().status == 421
            service.upgrade()


def test_tls_connections_are_accepted_by_the_next_process(serve, successors, tmp_path):
    pki = Pki(tmp_path)
    pki.issue("a", "/CN=a.test", ["a.test"])
    address = (HOST, free_port())
    settings = {"drain_idle_ms": 10000}  # within which the next request of the one that is kept has to come
    service = Service(serve, successors, tmp_path, "--tls-listen", f"{address[0]}:{address[1]}", *pki.use("a"), listen=[], address=address, settings=settings)
    with TlsConnection(address, pki.context(), "a.test") as kept:
        assert kept.get("/ready").status == 200
        new = service.upgrade()
        poll(lambda: (response := kept.get("/pid")).header("Connection") == "close" and int(response.body) != new, message="the old one serves to the end")
    with TlsConnection(address, pki.context(), "a.test") as connection:
        assert int(connection.get("/pid").body) == new
    assert service.server.wait() == 0


@pytest.mark.parametrize("change", ["another", "none"])
def test_the_pid_file_is_that_of_the_new_configuration(serve, successors, tmp_path, change):
    service = Service(serve, successors, tmp_path)
    old, other = service.pid_file, tmp_path / "other"
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(script(tmp_path, f'echo $$ > {tmp_path}/new\nexec {good} "$@" --set pid_file={other if change == "another" else ""}'))
    service.server.signal(signal.SIGUSR2)
    assert service.server.wait() == 0
    successors.add(new := int((tmp_path / "new").read_text()))
    assert service.process_of(service.server.address) == new
    assert not old.exists() and other.exists() == (change == "another")
    if change == "none":
        return
    assert int(other.read_text()) == new
    with open(other) as held, pytest.raises(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    successors.end()
    assert not other.exists()


# --- what goes wrong ---


def script(tmp_path, text):
    path = tmp_path / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def assert_continues(service, *words):
    pid = service.server.pid()
    poll(lambda: "continues" in service.server.stderr(), 30, message=service.server.stderr())
    for word in words:
        assert word in service.server.stderr(), service.server.stderr()
    assert service.pid() == pid and service.process_of(service.server.address) == pid


def test_a_program_that_ends_leaves_the_old_one_serving(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path)
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(script(tmp_path, "exit 3"))
    service.signal()
    assert_continues(service, "status 3")
    service.replace(good)
    service.upgrade()
    assert service.server.wait() == 0


def test_a_program_that_is_killed_is_named(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path)
    service.replace(script(tmp_path, "kill -9 $$"))
    service.signal()
    assert_continues(service, "signal 9")


def test_a_program_that_is_not_there_is_named(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path)
    service.program.unlink()
    service.signal()
    assert_continues(service, "No such file")


def test_a_program_that_never_gets_ready_is_ended(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path, settings={"upgrade_timeout": 1})
    service.replace(script(tmp_path, "exec sleep 1000"))
    service.signal()
    assert_continues(service, "upgrade_timeout")
    child = re.search(r"process (\d+) did not start", service.server.stderr())[1]
    assert not pathlib.Path(f"/proc/{child}").exists(), "it is gone, and was reaped"


@pytest.mark.skipif(not (EXAMPLES / "uvhttp").exists(), reason="built without static files or middleware")
def test_uvhttp_passes_the_password_of_its_command_line_on(serve, successors, tmp_path):
    """/proc has the arguments with which the next process starts, and both hide the password there."""
    site, pid_file = tmp_path / "site", tmp_path / "pid"
    site.mkdir()
    (site / "index.html").write_text("home")
    server = serve("uvhttp", site, "--pid-file", pid_file, "--basic-auth=alice:first", "--basic-auth", "carol:second")
    pid = lambda: int(pid_file.read_text().split()[0])
    for _ in range(2):
        old = pid()
        os.kill(old, signal.SIGUSR2)
        poll(lambda: pid() != old, 60, message=server.stderr())
        successors.add(pid())
        assert server.wait() == 0
        assert server.get("/").status == 401
        assert server.get("/", headers=[("Authorization", "Basic " + base64.b64encode(b"carol:second").decode())]).body == b"home"
        arguments = pathlib.Path(f"/proc/{pid()}/cmdline").read_text()
        assert arguments.count("--basic-auth") == 2 and "first" not in arguments and "second" not in arguments


@pytest.mark.skipif(not (EXAMPLES / "uvhttp").exists(), reason="built without static files or middleware")
def test_the_browser_is_not_opened_again(serve, successors, tmp_path):
    site, pid_file, opened = tmp_path / "site", tmp_path / "pid", tmp_path / "opened"
    site.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "xdg-open").write_text(f"#!/bin/sh\necho \"$1\" >>{opened}\n")
    (tmp_path / "bin" / "xdg-open").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    server = serve("uvhttp", site, "--pid-file", pid_file, "--open", env=environment)
    pid = lambda: int(pid_file.read_text().split()[0])
    old = pid()
    poll(lambda: opened.exists() and opened.read_text().count("\n") == 1)
    for _ in range(2):
        old = pid()
        os.kill(old, signal.SIGUSR2)
        poll(lambda: pid() != old, 60, message=server.stderr())
        successors.add(pid())
    assert opened.read_text().count("\n") == 1


def test_the_reason_of_the_new_process_is_in_the_old_ones_log_and_status(serve, successors, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    service = Service(serve, successors, tmp_path, env=manager.environment, settings={"umask": "077"})
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(script(tmp_path, f'exec {good} "$@" --set umask=9'))
    service.signal()
    assert_continues(service, 'umask is "9"')
    while "upgrade failed" not in (status := manager.until("STATUS")["STATUS"]):
        pass
    assert "umask" in status
    manager.socket.close()


def test_the_manager_follows_to_the_new_process(serve, successors, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    service = Service(serve, successors, tmp_path, env=manager.environment)
    assert manager.message()["READY"] == "1"
    new = service.upgrade()
    message = manager.message()
    assert message["MAINPID"] == str(new) and message["READY"] == "1", "a reload of the old one is over, too"
    assert service.server.wait() == 0
    assert manager.is_silent(0.05), "the old one does not say that the service stops"
    os.kill(new, signal.SIGTERM)
    assert manager.message()["STOPPING"] == "1"
    manager.socket.close()


def held(tmp_path, good):
    """A new process that starts when it is let; its number is in the file `new`."""
    number = f"echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/new"
    return script(tmp_path, f'{number}\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\nexec {good} "$@"')


def number_of_new(tmp_path):
    path = tmp_path / "new"
    poll(path.exists, 30)
    return int(path.read_text())


def test_a_new_process_that_cannot_start_leaves_the_backlog_alone(serve, successors, tmp_path):
    """Its first loops have listeners when the descriptors end; the old process is full, so that clients wait."""
    service = Service(serve, successors, tmp_path, settings={"max_connections": 1})
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(script(tmp_path, f'ulimit -n 64\nexec {good} "$@" --set io_threads=16 --set engine=epoll'))
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(Connection(service.server.address))
        busy.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
        waiting = [stack.enter_context(Connection(service.server.address)) for _ in range(4)]
        for connection in waiting:
            connection.send(b"GET /pid HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        service.signal()
        poll(lambda: "continues" in service.server.stderr(), 30, message=service.server.stderr())
        assert "descriptors" in service.server.stderr()
        busy.send(b"b")
        assert busy.response().status == 200
        busy.close()
        assert [int(connection.response().body) for connection in waiting] == [service.server.pid()] * 4


def test_a_stop_ends_an_upgrade_that_is_in_progress(serve, successors, tmp_path):
    """The new process would get ready while the old one drains, and serve although the service was stopped."""
    manager = Manager(str(tmp_path / "notify"))
    service = Service(serve, successors, tmp_path, env=manager.environment)
    good = tmp_path / "good"
    shutil.copy(service.program, good)
    service.replace(held(tmp_path, good))
    with Connection(service.server.address) as connection:
        connection.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
        service.signal()
        successors.add(new := number_of_new(tmp_path))
        service.server.signal()
        manager.until("STOPPING")
        (tmp_path / "go").touch()
        poll(lambda: has_ended(new), 30)
        connection.send(b"b")
        assert connection.response().status == 200
    assert service.server.wait() == 0
    assert "upgrade: cancelled, because the server stops" in service.server.stderr()
    assert not service.pid_file.exists()
    manager.socket.close()


def test_sigterm_after_an_upgrade_does_not_cut_requests_off(serve, successors, tmp_path):
    """A manager that stops the service signals all of its processes: for the old one that is the first signal."""
    service = Service(serve, successors, tmp_path, settings={"drain_idle_ms": 0})
    with Connection(service.server.address) as connection:
        connection.send(b"GET /later?ms=2000 HTTP/1.1\r\nHost: a\r\n\r\n")
        service.server.get("/ready")
        service.upgrade()
        service.server.signal()
        assert connection.response().status == 200
    assert service.server.wait() == 0


def test_an_upgrade_is_refused_while_the_server_stops(serve, successors, tmp_path):
    service = Service(serve, successors, tmp_path, settings={"drain_grace_ms": 3600000, "drain_idle_ms": 0})
    service.server.signal()
    with Connection(service.server.address) as connection:
        poll(lambda: connection.get("/ready").status == 503)
        service.server.signal(signal.SIGUSR2)
        poll(lambda: "upgrade: not started" in service.server.stderr())
        service.server.signal()  # ends the grace period, too
        assert service.server.wait() == 0


@as_root
def test_an_ordinary_user_is_upgraded_on_a_port_of_root(serve, successors, tmp_path):
    with tempfile.TemporaryDirectory() as directory:  # that of the test is root's alone
        os.chmod(directory, 0o755)
        service = Service(serve, successors, pathlib.Path(directory), settings={"user": "nobody"}, address=(HOST, low_port()))
        new = service.upgrade()
        assert service.server.wait() == 0
        assert {uid for uid, *_ in identities(new)} == {("65534",) * 4}
        assert service.process_of(service.server.address) == new
        successors.end()
        assert service.pid_file.read_text() == "", "it may not remove the file of root's directory"


# --- under load ---


def test_upgrades_and_reloads_under_load_lose_nothing(tmp_path):
    if sanitizer():
        pytest.skip("the other tests run with sanitizers")
    command = [sys.executable, upgrade_run.__file__, "--program", EXAMPLES / "performance_test", "--engine", ENGINE, "--no-progress"]
    command += ["--upgrades", 4, "--reloads", 4, "--requests", 20000, "--connections", 2, "--depth", 8, "--batches", 20, "--interval", 0.1]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 upgrades" in ran.stdout and "4 reloads" in ran.stdout


@pytest.mark.parametrize("wrong", ["number", "status", "cut", "close"])
def test_a_lost_or_wrong_response_is_seen(wrong):
    """What the clients of the load would say about a server that loses something."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    responses = {
        "number": head + b"0000000007" + head + b"0000000009",
        "status": head + b"0000000007" + head.replace(b"200", b"503") + b"0000000008",
        "cut": head + b"0000000007" + head + b"00000",
        "close": head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"0000000007",
    }
    with socket.create_server((HOST, 0)) as listener:

        def respond():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(responses[wrong])

        thread = threading.Thread(target=respond)
        thread.start()
        done, repeated, _, failure = upgrade_clients.run("http1", listener.getsockname(), 7, 1, 2, 1, lambda: False, lambda done: None)
        thread.join()
    assert failure.startswith("http1: Failed") and done == repeated == 0
