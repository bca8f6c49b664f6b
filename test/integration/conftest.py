"""Owns: the fixtures. UVHTTP_ENGINE and UVHTTP_BUILD_DIR are set by ./dev test."""
import itertools

import pytest

import harness
from harness import EXAMPLES, HOST, TEST_PROGRAMS, Server, free_port

numbers = itertools.count()


def pytest_report_header():
    return f"uvhttp: engine {harness.ENGINE}, programs of {harness.BUILD_DIR}"


def make_serve(directory, servers):
    def serve(program="http_test_server", *args, settings=None, wait=True, address=None, listen=None, prefix=(), **options):
        """Starts a program and waits until it takes connections. The test server takes `settings` (fields of the
        configuration) and `listen` (addresses as it understands them; `address` is then where to connect)."""
        address = address or (HOST, free_port())
        text = f"{address[0]}:{address[1]}" if listen is None else ""
        if program == "http_test_server":
            command = [TEST_PROGRAMS / program]
            for item in [text] if listen is None else listen:
                command += ["--listen", item]
            for name, value in (settings or {}).items():
                command += ["--set", f"{name}={value}"]
        elif program == "performance_test":
            command = [EXAMPLES / program, "--address", address[0], "--port", address[1], "--io-threads", 1]
        else:
            command = [EXAMPLES / program, text]
        stderr_path = directory / f"{program}-{next(numbers)}.stderr"
        server = Server([*prefix, *command, *args], address, stderr_path, **options)
        servers.append(server)
        return server.wait_ready() if wait else server

    return serve


def stop_all(servers):
    errors = []
    for server in servers:
        try:
            server.stop()
        except AssertionError as error:
            server.kill()
            errors.append(error)
    if errors:
        raise errors[0]


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
