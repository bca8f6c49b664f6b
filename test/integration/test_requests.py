"""What the library says about a request, and the routes it takes."""
import json

import pytest

from wire import chunked, head, request

pytestmark = pytest.mark.neutral


def described(connection, target, **options):
    response = connection.get(target, **options)
    assert response.status == 200, response
    return json.loads(response.body)


def test_request_parts_are_what_was_sent(connection):
    seen = described(connection, "/echo/a%20b/c?x=1&y=a%2Bb+c&x=2&flag", headers=[("X-A", "b"), ("x-repeated", "1"), ("X-Repeated", " 2 ")])
    assert seen["method"] == "GET" and seen["version"] == connection.version and seen["host"] == "test"
    assert seen["target"] == "/echo/a%20b/c?x=1&y=a%2Bb+c&x=2&flag"
    assert seen["path"] == "/echo/a b/c" and seen["query"] == "x=1&y=a%2Bb+c&x=2&flag"
    assert seen["query_params"] == [["x", "1"], ["y", "a+b c"], ["x", "2"], ["flag", ""]]
    assert seen["params"]["rest"] == "a b/c"
    assert [value for name, value in seen["headers"] if name.lower() == "host"] == ["test"]  # its place is the protocol's
    others = [(name.lower(), value) for name, value in seen["headers"] if name.lower() != "host"]
    assert others == [("x-a", "b"), ("x-repeated", "1"), ("x-repeated", "2")]
    assert seen["x_all"] == ["1", "2"] and seen["x_first"] == "1" and seen["header_count"] == 4
    local, port = connection.socket.getsockname()[:2]
    assert seen["peer"] == f"{local}:{port}" and seen["peer_address"] == local


def test_parameters_of_a_pattern_are_decoded(connection):
    seen = described(connection, "/users/4%32/files/a%2Fb%25")
    assert seen["params"]["id"] == "42"
    assert seen["params"]["name"] in ("a/b%", "a%2Fb%"), "a slash in a segment does not split it"
    assert seen["params"]["rest"] is None


def test_wildcard_matches_the_rest_also_if_it_is_empty(connection):
    assert described(connection, "/assets/css/a.css")["params"]["path"] == "css/a.css"
    assert described(connection, "/assets/")["params"]["path"] == ""


def test_dot_segments_do_not_leave_the_root(connection):
    assert described(connection, "/echo/x/../y/./z")["path"] == "/echo/y/z"
    assert described(connection, "/echo/x/%2e%2E/.")["path"] == "/echo/"


@pytest.mark.parametrize("target", ["/..", "/../echo", "/echo/../../echo", "/echo/%2e%2e/%2e%2e/etc/passwd"])
def test_paths_that_climb_above_the_root_are_refused(connection, target):
    assert connection.get(target).status == 400


def test_bytes_outside_of_ascii_survive(connection):
    seen = described(connection, "/echo/%ffa%C3%A9?%ff=%fe")
    assert seen["params"]["rest"] == "\xffa\xc3\xa9"
    assert seen["query_params"] == [["\xff", "\xfe"]]


def test_nul_in_a_path_is_refused(server):
    with server.connect() as connection:
        assert connection.get("/echo/a%00b").status == 400


@pytest.mark.parametrize("form", ["announced", "streamed"])
@pytest.mark.parametrize("size", [0, 1, 100, 16384, 65536, 1_000_000])
def test_bodies_are_whole(connection, form, size):
    body = bytes(i % 251 for i in range(size))
    if form == "announced":
        response = connection.get("/body", method="POST", body=body)
    else:
        asked = connection.start("/body", method="POST", more=True)
        for at in range(0, size, 7001):
            asked.send(body[at : at + 7001])
        asked.end()
        response = asked.response()
    assert response.status == 200 and response.body == body


@pytest.mark.http1("chunked coding")
def test_trailers_are_not_merged_into_the_headers(connection):
    connection.send(head("POST", "/echo", [("Transfer-Encoding", "chunked")]) + chunked(b"abc", trailer=b"X-Repeated: evil\r\n"))
    seen = json.loads(connection.response().body)
    assert seen["body"] == "abc" and seen["x_all"] == [] and seen["x_first"] is None


@pytest.mark.http1("forms of the request line")
def test_absolute_form_wins_over_host(connection):
    seen = described(connection, "http://other.example:81/echo/x?q")
    assert seen["host"] == "other.example:81" and seen["path"] == "/echo/x" and seen["query"] == "q"


@pytest.mark.http1("CONNECT with bytes for the tunnel")
def test_bytes_for_a_refused_tunnel_are_no_requests(server):
    """RFC 9931 section 8."""
    with server.connect() as connection:
        connection.send_anyway(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" + b"GET /n/7 HTTP/1.1\r\nHost: a\r\n\r\n")
        response = connection.response()
        assert response.status == 501 and response.header("Connection") == "close"
        connection.assert_closed()


@pytest.mark.http1("HTTP/1.0")
def test_http_1_0_closes_unless_keep_alive_was_asked_for(server):
    with server.connect() as connection:
        response = connection.get("/", version="HTTP/1.0", host=None)
        assert response.status == 200 and response.body == b"Hello, World!"
        connection.assert_closed()
    with server.connect() as connection:
        for _ in range(2):
            response = connection.get("/", headers=[("Connection", "keep-alive")], version="HTTP/1.0")
            assert response.status == 200 and response.header("Connection").lower() == "keep-alive"


@pytest.mark.http1("the Connection field")
def test_connection_close_is_acknowledged_and_done(server):
    with server.connect() as connection:
        response = connection.get("/", headers=[("Connection", "close")])
        assert response.header("Connection") == "close" and response.body == b"Hello, World!"
        connection.assert_closed()


def test_unknown_path_is_404_and_the_connection_stays(connection):
    assert connection.get("/no/such/path").status == 404
    assert connection.get("/").status == 200


def test_known_path_with_another_method_is_405_with_allow(connection):
    response = connection.get("/sum")
    assert response.status == 405
    assert {method.strip() for method in response.header("Allow").split(",")} >= {"POST", "PUT"}
    assert "GET" not in response.header("Allow")
    unknown = connection.get("/", method="PROPFIND")
    assert unknown.status == 501, "a method that the server does not know"
    assert "GET" in unknown.header("Allow")
    assert connection.get("/echo", method="PROPFIND").status == 200, "any method"


def test_options_is_served_by_the_router_or_by_a_route(connection):
    response = connection.get("/", method="OPTIONS")
    assert response.status in (200, 204)
    assert {method.strip() for method in response.header("Allow").split(",")} >= {"GET", "HEAD", "OPTIONS"}
    assert connection.get("/own-options", method="OPTIONS").header("Allow") == "OPTIONS, PROPFIND"
    assert connection.get("*", method="OPTIONS").status in (200, 204)


@pytest.mark.parametrize("target", ["/", "/static?size=100000", "/copy?size=50", "/ref?size=1000", "/pieces", "/later?ms=1", "/own-head"])
def test_head_is_get_without_the_body(connection, target):
    expected = connection.get(target)
    response = connection.get(target, method="HEAD")
    assert response.status == 200 and response.body == b""
    if target == "/own-head":
        assert response.header("X-Head") == "own"
    else:
        assert response.header("Content-Length") == expected.header("Content-Length")
        assert response.header("Transfer-Encoding") == expected.header("Transfer-Encoding")
    assert connection.get("/n/7").body == b"7", "nothing of the body follows"


@pytest.mark.http1("test_http2.py has this")
def test_expect_continue_gets_an_interim_response_before_the_body(connection):
    connection.send(head("POST", "/body", [("Content-Length", 5), ("Expect", "100-continue")]))
    assert connection.response().status == 100
    connection.send(b"hello")
    response = connection.response()
    assert response.status == 200 and response.body == b"hello"


@pytest.mark.http1("test_http2.py has this")
def test_expect_continue_is_not_sent_when_the_body_is_there_already(connection):
    connection.send(request("POST", "/body", [("Expect", "100-continue")], b"hello"))
    response = connection.response()
    if response.status == 100:  # allowed, RFC 9110 section 10.1.1
        response = connection.response()
    assert response.body == b"hello"


@pytest.mark.http1("test_http2.py has this")
def test_expect_continue_for_too_large_a_body_is_refused_before_it_is_sent(server):
    with server.connect() as connection:
        connection.send(head("POST", "/body", [("Content-Length", 10**9), ("Expect", "100-continue")]))
        assert connection.response().status == 413
        connection.assert_closed()


def test_middleware_runs_outside_in_and_back(connection):
    for target, order in [("/mw/outer", "AB"), ("/mw/inner/x", "ABC"), ("/mw-route", "AD"), ("/mw-none", "A")]:
        response = connection.get(target)
        assert response.text == order
        assert response.all("X-Back") == list(reversed(order)), target


def test_middleware_can_respond_in_place_of_the_handler(connection):
    response = connection.get("/mw/inner/x", headers=[("X-Deny", "B")])
    assert response.status == 403 and response.text == "denied" and response.all("X-Back") == ["B", "A"]


def test_middleware_of_the_server_sees_requests_without_a_route(connection):
    response = connection.get("/no/such/path")
    assert response.status == 404 and response.all("X-Back") == ["A"]


def test_a_hook_can_replace_the_response(connection):
    response = connection.get("/replaced")
    assert response.status == 299 and response.body == b"replaced" and response.header("Content-Length") == "8"
