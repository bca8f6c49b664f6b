"""Every test that does not speak of bytes runs over both protocols; the files of the others are listed here, each with its
reason."""
import ast
import pathlib

import pytest

import harness

HERE = pathlib.Path(__file__).parent

OTHERS = {
    "test_admin": "the admin listener, a server of its own; its HTTP is the library's",
    "test_abuse": "bytes of hostile clients of HTTP/1; for HTTP/2 test_http2_abuse",
    "test_attacks": "the machinery of attacks, of each protocol its own",
    "test_cli": "the program uvhttp; its HTTP is the library's",
    "test_cli_about": "what the program uvhttp says, without a server",
    "test_cli_serve": "the program uvhttp; its HTTP is the library's",
    "test_client": "the library's own client, of HTTP/1",
    "test_clients": "clients of HTTP/1; for HTTP/2 test_http2_clients",
    "test_coroutine_many": "the number of coroutines, by a generator of HTTP/1",
    "test_cpp": "the C++ header",
    "test_cpp_site": "the C++ headers",
    "test_disasters": "what surrounds a server fails, whatever it speaks",
    "test_drain": "bytes that were sent before the end; for HTTP/2 test_http2",
    "test_engines": "system calls and descriptors of connections",
    "test_examples": "programs, each with what it is about",
    "test_fairness": "pipelined requests; for HTTP/2 test_http2_frames",
    "test_faults": "failing system calls under bytes of HTTP/1",
    "test_framing": "bytes of requests; for HTTP/2 test_http2_frames",
    "test_grpc": "the example of gRPC, which is HTTP/2",
    "test_hpack_stories": "header compression without a server",
    "test_http1_oracle": "requests of HTTP/1 without a server",
    "test_http2": "HTTP/2 itself",
    "test_http2_abuse": "HTTP/2 itself",
    "test_http2_clients": "HTTP/2 itself",
    "test_http2_frames": "HTTP/2 itself",
    "test_http2_oracle": "frames without a server",
    "test_http2_tls": "HTTP/2 itself",
    "test_http2_websocket": "HTTP/2 itself",
    "test_interim": "interim responses of both protocols, whose clients show them differently",
    "test_limits": "connections and bytes of heads; for HTTP/2 test_http2_frames",
    "test_listen": "addresses",
    "test_load": "uvhttp-load",
    "test_load_h2": "uvhttp-load",
    "test_load_results": "uvhttp-load",
    "test_log": "lines of the log",
    "test_malformed": "bytes of malformed requests; for HTTP/2 test_http2_frames",
    "test_prometheus": "Prometheus, which speaks HTTP/1",
    "test_protocols": "no server",
    "test_proxy": "the PROXY protocol, and nginx and haproxy that speak HTTP/1 to their backends",
    "test_redis": "the store of rate limits; test_rate_limit runs over both",
    "test_service": "the process around a server",
    "test_tcp_echo": "raw TCP",
    "test_threads": "connections among loops",
    "test_timeouts": "slow bytes of HTTP/1; for HTTP/2 test_http2_frames",
    "test_tls": "TLS and ALPN; HTTP/2 over TLS is in test_http2",
    "test_tls_abuse": "TLS records",
    "test_tls_bodies": "TLS records; HTTP/2 over TLS is in test_http2",
    "test_tls_kernel": "kernel TLS",
    "test_torture": "failing system calls; its scenarios have both",
    "test_upgrade": "the process around a server; its load has both",
    "test_websocket": "runs over both; its clients begin with bytes of either",
    "test_websocket_deflate": "runs over both; its clients begin with bytes of either",
    "test_websocket_fairness": "runs over both; its clients begin with bytes of either",
    "test_websocket_topics": "runs over both; its clients begin with bytes of either",
}


def is_neutral(path):
    """Whether it says so in its pytestmark."""
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return any("mark.neutral" in ast.unparse(node.value) for node in nodes if ast.unparse(node.targets[0]) == "pytestmark")


@pytest.mark.parametrize("path", sorted(HERE.glob("test_*.py")), ids=lambda path: path.stem)
def test_a_file_is_neutral_or_listed(path):
    assert is_neutral(path) != (path.stem in OTHERS)


def test_the_list_has_no_file_that_is_gone():
    assert not [name for name in OTHERS if not (HERE / f"{name}.py").exists()]


def test_a_test_that_is_not_neutral_in_a_neutral_file_says_why():
    for path in filter(is_neutral, HERE.glob("test_*.py")):
        marks = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.http1")]
        assert all(len(mark.args) == 1 and mark.args[0].value for mark in marks), path.stem
        assert len(marks) == path.read_text().count("mark.http1"), path.stem


def test_both_protocols_are_run(request):
    """Of this run's tests, whatever was chosen."""
    seen = {}
    for item in request.session.items:
        if item.get_closest_marker("neutral") and not item.get_closest_marker("http1"):
            seen.setdefault(item.nodeid.partition("[")[0], set()).add(item.callspec.params["protocol"])
    assert all(protocols == set(harness.protocols()) for protocols in seen.values())
