"""Owns: the fixtures. UVHTTP_ENGINE and UVHTTP_BUILD_DIR are set by ./dev test."""
import collections
import functools
import re

import pytest

import harness
from harness import EXAMPLES, HOST, free_port, make_serve, stop_all
from load_program import stubs
from pki import one_site, openssl
from site_h2 import Site


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


# Those that wait most in real time: started last, one of them would keep a run waiting for it alone.
FIRST = ("timeouts", "http2", "static", "websocket", "tls", "events", "drain", "http2_frames", "tls_abuse", "limits", "load", "load_results",
         "coroutine_many")  # fmt: skip


def place_of(path, count):
    name = path.stem.removeprefix("test_")
    return FIRST.index(name) if name in FIRST else len(FIRST), -count, name


# What the text of a file has whose tests may have the marker; the fixture `site` gives one, too.
TEXT_OF_MARKER = {"serial": r"\bmark\.serial\b", "threads": r"\bmark\.threads\b", "tls": r"\bmark\.tls\b|\bsite\b"}


@functools.cache
def may_have(path, marker):
    return re.search(TEXT_OF_MARKER[marker], path.read_text()) is not None


def wanted_markers(expression):
    """Those that each selected test has, of an expression with "and" and "not" alone: -m "threads and not serial"."""
    if re.search(r"[()]|\bor\b", expression):
        return []
    return [name for negated, name in re.findall(r"\b(not )?(?!and\b|not\b)(\w+)", expression) if not negated and name in TEXT_OF_MARKER]


def pytest_ignore_collect(collection_path, config):
    """Each worker would import all files, and make their tests, to select few of them."""
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        if not all(may_have(collection_path, marker) for marker in wanted_markers(config.option.markexpr)):
            return True
    return None


def pytest_collection_modifyitems(items):
    """Files in the order in which workers take them; the tests of a file stay together and in their order."""
    for item in items:
        for marker in TEXT_OF_MARKER:
            if item.get_closest_marker(marker) and not may_have(item.path, marker):
                raise pytest.UsageError(f"{item.nodeid} is marked {marker}, which the text of its file does not show: TEXT_OF_MARKER")
    counts = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: place_of(item.path, counts[item.path]))


def pytest_generate_tests(metafunc):
    of = metafunc.definition.get_closest_marker
    if of("neutral") and not of("http1"):
        metafunc.parametrize("protocol", harness.protocols(), indirect=True)


@pytest.fixture(autouse=True)
def protocol(request):
    """The one that clients of servers speak in this test."""
    harness.Server.protocol = getattr(request, "param", "http1")
    yield harness.Server.protocol
    harness.Server.protocol = "http1"


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


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Certificates of one site, for tests that need no others."""
    return one_site(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def stub():
    """Servers that send what no good server would, for uvhttp-load."""
    with stubs() as start:
        yield start


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A server for uvhttp-load."""
    servers = []
    yield make_serve(tmp_path_factory.mktemp("target"), servers)("performance_test")
    stop_all(servers)


@pytest.fixture(params=["http", pytest.param("https", marks=pytest.mark.tls)])
def make_site(request, serve, pki):
    """Starts a server that is asked over HTTP/2, in clear or over TLS."""
    return lambda *args, **options: Site(serve, pki, request.param, *args, **options)


@pytest.fixture
def site(make_site):
    return make_site()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Of the server, and of somebody else: each its own authority, for the address of the tests."""
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("server", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", "/CN=load",
                "-addext", f"subjectAltName=IP:{HOST}", "-keyout", directory / f"{name}.key",
                "-out", directory / f"{name}.pem")  # fmt: skip
    return directory


@pytest.fixture(scope="module")
def secure(tmp_path_factory, certificates):
    servers, port = [], free_port()
    files = ["--certificate", certificates / "server.pem", "--key", certificates / "server.key"]
    make_serve(tmp_path_factory.mktemp("secure"), servers)("performance_test", "--https-port", port, *files)
    yield f"https://{HOST}:{port}"
    stop_all(servers)
