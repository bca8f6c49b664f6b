"""Owns: the fixtures. UVHTTP_ENGINE and UVHTTP_BUILD_DIR are set by ./dev test."""
import pytest

import harness
from harness import EXAMPLES, HOST, free_port, make_serve, stop_all


def pytest_report_header():
    return f"uvhttp: engine {harness.ENGINE}, programs of {harness.BUILD_DIR}"


@pytest.fixture(scope="session", autouse=True)
def engine(tmp_path_factory):
    """A kernel or a container may be without io_uring: then its tests are skipped, with what the library says about it."""
    if harness.ENGINE != "uring":
        return
    address = (HOST, free_port())
    command = [EXAMPLES / "performance_test", "--address", address[0], "--port", address[1]]
    stderr = tmp_path_factory.mktemp("engine") / "stderr"
    server = harness.Server(command, address, stderr, env={"UVHTTP_ENGINE": None}).wait_ready()  # it chooses
    server.stop()
    if " on io_uring " not in server.stderr():
        pytest.skip(server.stderr().splitlines()[0])


@pytest.fixture
def serve(tmp_path):
    servers = []
    yield make_serve(tmp_path, servers)
    stop_all(servers)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The test server with one loop and its defaults, shared by the tests of a module."""
    servers = []
    yield make_serve(tmp_path_factory.mktemp("server"), servers)()
    stop_all(servers)


@pytest.fixture(scope="session")
def sanitizer():
    return harness.sanitizer()


@pytest.fixture
def connection(server):
    with server.connect() as one:
        yield one
