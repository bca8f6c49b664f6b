"""The gateway: routes that ask other servers, against servers that other people have written."""
import http.server
import re
import socket
import threading
import time

import pytest

import harness
from wire import request

pytestmark = [
    pytest.mark.threads,
    pytest.mark.skipif(harness.build_option("BUILD_WITH_COROUTINES") != "ON", reason="built without coroutines"),
]


class Handler(http.server.BaseHTTPRequestHandler):
    """Python's own server: HTTP/1.0 up to the end of the connection, HTTP/1.1 with a length, or chunked."""

    def do_GET(self):
        if self.path == "/chunked":
            self.protocol_version = "HTTP/1.1"
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"in ", b"chunks\n"):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"to the end\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    server = http.server.ThreadingHTTPServer((harness.HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://{harness.HOST}:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(server, target, **options):
    """The example gives others two seconds, for which the machine may stand still."""
    responses = []
    harness.poll(lambda: responses.append(server.get(target, **options)) or responses[-1].status != 504)
    return responses[-1]


def test_the_example_does_what_its_comment_says(serve):
    server = serve("gateway")
    began = time.monotonic()
    assert ask(server, "/both").body == b"200 slow\n200 slow\n"
    assert time.monotonic() - began >= 0.1
    response = ask(server, "/first", method="POST", body=b"text")
    assert (response.status, response.body) == (200, b"text")


def test_python_is_asked(serve, other):
    server = serve("gateway", f"{other}/chunked", f"{other}/none")
    assert ask(server, "/both").body == b"200 in chunks\n404 to the end\n"
    response = ask(server, "/first", method="POST", body=b"drawer" * 1000)
    assert (response.status, response.body) == (201, b"reward" * 1000)


def test_names_and_other_families_are_asked(serve, other):
    port = other.rsplit(":", 1)[1]
    server = serve("gateway", f"{other}/chunked", "http://[::1]:1/")
    assert server.get("/both").text == "connecting to another server failed"
    short = re.sub(r"\.0\.0\.(\d+)$", r".\1", harness.HOST) # a name, for getaddrinfo
    server = serve("gateway", f"{other}/chunked", f"http://{short}:{port}/")
    assert ask(server, "/both").body == b"200 in chunks\n404 to the end\n"


def test_a_server_that_says_nothing_is_given_up(serve, other):
    with socket.create_server((harness.HOST, 0)) as silent:
        server = serve("gateway", f"http://{harness.HOST}:{silent.getsockname()[1]}/", other)
        for reset in (False, True):
            with server.connect() as client:
                client.send(request(target="/both"))
                asked, _ = silent.accept()
                with asked:
                    asked.settimeout(20)
                    while b"\r\n\r\n" not in asked.recv(4096):
                        pass
                    if reset:
                        client.reset()
                    else:
                        client.close()
                    assert asked.recv(1) == b"" # aborted at once, long before its deadline
        assert server.get("/slow").text == "slow\n"
