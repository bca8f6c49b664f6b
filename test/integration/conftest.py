"""Owns: the fixtures. UVHTTP_ENGINE and UVHTTP_BUILD_DIR are set by ./dev test."""
import pytest

import harness
from harness import make_serve, stop_all


def pytest_report_header():
    return f"uvhttp: engine {harness.ENGINE}, programs of {harness.BUILD_DIR}"


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
