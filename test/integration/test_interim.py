"""Interim responses (RFC 9110 section 15.2, RFC 8297) over HTTP/1.1 and HTTP/2, from each kind of handler."""
import pytest

import harness
import wire
from wire_h2 import Client

pytestmark = pytest.mark.threads

LINKS = ["</a.css>; rel=preload; as=style", "</a.js>; rel=preload; as=script"]
TWICE = [(102, []), (103, LINKS)]
HINTS = [(103, LINKS)]


class Http1:
    def __init__(self, server):
        self.connection = server.connect()

    def start(self, target, method="GET", body=None, headers=()):
        self.connection.send(wire.request(method, target, headers, body))

    def interim(self):
        response = self.connection.response_head()
        assert {name for name, _ in response.headers} <= {"Link"}
        return response.status, response.all("Link")

    def final(self, count):
        found = [self.interim() for _ in range(count)]
        return found, self.connection.response()

    def close(self):
        self.connection.close()


class Http2:
    def __init__(self, server):
        self.client = Client(server.address)
        self.seen = 0

    def start(self, target, method="GET", body=None, headers=()):
        self.number = self.client.start(method, target, headers, end=body is None)
        self.seen = 0
        if body is not None:
            self.client.send(self.number, body, end=True)

    def interim(self):
        response = self.client.responses[self.number]
        self.client.until(lambda: len(response.interim) > self.seen)
        self.seen += 1
        fields = response.interim[self.seen - 1]
        return int(dict(fields)[":status"]), [value for name, value in fields if name == "link"]

    def final(self, count):
        found = [self.interim() for _ in range(count)]
        response = self.client.finish(self.number)
        assert len(response.interim) == self.seen
        return found, response

    def close(self):
        self.client.close()


@pytest.fixture(params=[Http1, Http2], ids=["http1", "http2"])
def open_client(request):
    opened = []

    def make(server):
        opened.append(request.param(server))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_they_come_before_the_response_which_has_none_of_their_fields(server, open_client):
    client = open_client(server)
    for _ in range(3):
        client.start("/interim")
        found, response = client.final(2)
        assert found == TWICE
        assert (response.status, response.text, response.header("Link")) == (200, "0", None)


def test_head_and_post_get_them_as_well(server, open_client):
    client = open_client(server)
    client.start("/interim", "POST", b"x" * 100000)
    found, response = client.final(1)
    assert (found, response.body) == (HINTS, b"x" * 100000)
    client.start("/interim")
    assert client.final(2)[0] == TWICE


@pytest.mark.parametrize("kind", ["thread", "coroutine", "later"])
def test_they_arrive_while_the_response_is_being_made(server, open_client, kind):
    if kind == "coroutine" and harness.build_option("BUILD_WITH_COROUTINES") != "ON":
        pytest.skip("built without coroutines")
    client = open_client(server)
    for _ in range(3):
        client.start(f"/interim/{kind}")
        assert client.interim() == HINTS[0]
        with server.connect() as other:
            assert other.get("/interim/respond" if kind == "later" else "/interim/go", method="POST", body=b"").text == "go"
        assert client.final(0)[1].text == "0"


def test_what_is_refused_is_not_sent(server, open_client):
    client = open_client(server)
    client.start("/interim/refused")
    found, response = client.final(0)
    assert response.text == "UVHTTP_E_INVALID UVHTTP_E_INVALID UVHTTP_E_STATE"
    harness.poll(lambda: "http: interim response 101 refused" in server.stderr())


def test_a_client_of_http_1_0_gets_only_the_response(server):
    with server.connect() as connection:
        connection.send(wire.request("GET", "/interim", version="HTTP/1.0"))
        response = connection.response()
        assert (response.status, response.text) == (200, "0")


def test_pipelined_requests_have_theirs_in_order(server):
    with server.connect() as connection:
        connection.send(wire.request("GET", "/interim") * 3 + wire.request("GET", "/n/7"))
        for _ in range(3):
            assert [connection.response_head().status for _ in range(2)] == [102, 103]
            assert connection.response().text == "0"
        assert connection.response().text == "7"


def test_many_streams_have_their_own(server):
    with Client(server.address) as client:
        numbers = [client.start("GET", "/interim", flush=False) for _ in range(50)]
        client.flush()
        for number in numbers:
            response = client.finish(number)
            assert [int(dict(fields)[":status"]) for fields in response.interim] == [102, 103]
            assert response.text == "0"


def test_more_than_the_queue_holds_is_refused(serve, open_client):
    server = serve(settings={"write_queue_max": 200000})
    client = open_client(server)
    client.start("/interim/flood")
    if isinstance(client, Http1):
        while (response := client.connection.response()).status == 103:
            pass
    else:
        response = client.client.finish(client.number)
    assert response.text == "UVHTTP_E_LIMIT"
    assert server.counter("responses_1xx") < 20
