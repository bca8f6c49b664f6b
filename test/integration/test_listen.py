"""Addresses: several, both families, Unix sockets, descriptors that were passed in, and those that are accepted."""
import os
import socket
import sys

import pytest

from harness import EXAMPLES, HOST, TEST_PROGRAMS, free_port
from wire import Connection


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def hello(address):
    with Connection(address) as connection:
        return connection.get("/echo").status


def test_several_addresses_at_once(serve, tmp_path):
    ports = [free_port() for _ in range(3)]
    path = str(tmp_path / "socket")
    listen = [f"{HOST}:{port}" for port in ports] + [f"unix:{path}"]
    server = serve(listen=listen, address=(HOST, ports[0]))
    for address in [(HOST, port) for port in ports] + [path]:
        assert hello(address) == 200
    for text in listen:
        assert text in server.stderr(), "the start line names it"


@needs_ipv6
def test_ipv6(serve):
    port = free_port("::1")
    serve(listen=[f"[::1]:{port}"], address=("::1", port))
    with Connection(("::1", port)) as connection:
        seen = connection.get("/echo").text
        assert f'"peer":"[::1]:{connection.socket.getsockname()[1]}"' in seen and '"peer_address":"::1"' in seen


@needs_ipv6
@pytest.mark.parametrize("form", [":{}", "*:{}"])
def test_both_families_on_one_address(serve, form):
    port = free_port("::")
    serve(listen=[form.format(port)], address=("127.0.0.1", port))
    assert hello(("127.0.0.1", port)) == 200
    assert hello(("::1", port)) == 200
    with Connection(("127.0.0.1", port)) as connection:
        assert '"peer_address":"127.0.0.1"' in connection.get("/echo").text, "not in its IPv6 form"


def test_port_0_is_chosen_by_the_kernel_and_reported(serve):
    server = serve(listen=[f"{HOST}:0", f"unix:@uvhttp-test-{os.getpid()}"], address=f"@uvhttp-test-{os.getpid()}")
    port = int(server.stderr().split(f"{HOST}:")[1].split()[0].rstrip(",;."))
    assert port > 0 and hello((HOST, port)) == 200


def test_a_unix_socket(serve, tmp_path):
    path = str(tmp_path / "socket")
    server = serve(listen=[f"unix:{path}"], address=path)
    with Connection(path) as connection:
        assert '"peer":"unix:"' in connection.get("/echo").text
        assert connection.get("/static?size=5000000").body.startswith(b"abc")
    server.stop()


def test_a_unix_socket_that_nobody_serves_any_more_is_replaced(serve, tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    serve(listen=[f"unix:{path}"], address=path)
    assert hello(path) == 200


def test_a_unix_socket_in_use_is_not_removed(serve, tmp_path):
    path = str(tmp_path / "socket")
    serve(listen=[f"unix:{path}"], address=path)
    second = serve(listen=[f"unix:{path}"], address=path, wait=False)
    assert second.wait() == 1
    assert path in second.stderr()
    assert hello(path) == 200


def test_a_file_that_is_no_socket_is_not_replaced(serve, tmp_path):
    path = tmp_path / "precious"
    path.write_text("content")
    server = serve(listen=[f"unix:{path}"], address=str(path), wait=False)
    assert server.wait() == 1
    assert path.read_text() == "content"


def test_an_inherited_descriptor(serve):
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        serve(listen=[f"fd:{number}"], address=listener.getsockname()[:2], pass_fds=[number])
        assert hello(listener.getsockname()[:2]) == 200


def test_an_inherited_descriptor_with_several_loops(serve):
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        serve(listen=[f"fd:{number}"], address=listener.getsockname()[:2], pass_fds=[number], settings={"io_threads": 3})
        for _ in range(30):
            assert hello(listener.getsockname()[:2]) == 200


def test_a_descriptor_is_listened_on_once(serve):
    """It would be closed twice, and the second time it can be somebody else's."""
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        server = serve(listen=[f"fd:{number}"] * 2, wait=False, pass_fds=[number])
        assert server.wait() == 1 and "address already in use" in server.stderr()


def test_a_descriptor_that_is_no_listening_socket_is_refused(serve, tmp_path):
    with open(tmp_path / "file", "wb") as file:
        server = serve(listen=[f"fd:{file.fileno()}"], wait=False, pass_fds=[file.fileno()])
        assert server.wait() == 1
        assert f"fd:{file.fileno()}" in server.stderr()
    server = serve(listen=["fd:99"], wait=False)
    assert server.wait() == 1 and "fd:99" in server.stderr()


ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_socket_activation(serve):
    """As systemd does it: descriptor 3, LISTEN_FDS, and LISTEN_PID of the very process."""
    with socket.create_server((HOST, 0)) as listener:
        number = listener.fileno()
        serve(listen=["systemd"], address=listener.getsockname()[:2], pass_fds=[number], prefix=[sys.executable, "-c", ACTIVATE, str(number)])
        assert hello(listener.getsockname()[:2]) == 200


def test_socket_activation_for_another_process_is_not_used(serve):
    server = serve(listen=["systemd"], wait=False, env={"LISTEN_FDS": "1", "LISTEN_PID": "1"})
    assert server.wait() == 1
    assert "systemd" in server.stderr()


@pytest.mark.parametrize("program", ["http_test_server", "performance_test", "hello", "rest_api", "embed_in_uv_loop", "deferred_reply"])
def test_a_port_in_use_is_named(serve, program):
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        server = serve(program, address=(HOST, port), wait=False)
        assert server.wait() == 1
        assert f"{HOST}:{port}" in server.stderr() and "in use" in server.stderr()
        assert len(server.stderr().splitlines()) == 1


def test_a_second_server_does_not_share_the_port_of_the_first(serve):
    """SO_REUSEPORT is between the loops of one server: a second server must not take half of the clients unnoticed."""
    server = serve(settings={"io_threads": 2})
    second = serve(address=server.address, settings={"io_threads": 2}, wait=False)
    assert second.wait() == 1
    assert str(server.address[1]) in second.stderr()


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x", "[::1:80", "300.0.0.1:80", "unix:", "fd:x", "192.0.2.1:80"])
def test_wrong_addresses_are_refused_and_named(serve, address):
    server = serve(listen=[address], wait=False)
    assert server.wait() == 1
    assert address in server.stderr()


def test_a_port_can_be_used_again_at_once(serve):
    address = (HOST, free_port())
    for _ in range(3):
        server = serve(address=address)
        with server.connect() as connection:
            connection.get("/close")  # the server closes first: TIME_WAIT is on its side
            connection.assert_closed()
        server.stop()


def test_all_programs_exist():
    for name in ("hello", "rest_api", "embed_in_uv_loop", "deferred_reply", "performance_test"):
        assert (EXAMPLES / name).is_file()
    assert (TEST_PROGRAMS / "http_test_server").is_file()
