"""CORS, security headers, request ids and authentication, asked by real clients."""
import base64
import http.client
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.neutral
ORIGIN = "https://app.example"
OTHER = "https://other.example"
OWN_ID = re.compile(r"[0-9a-f]{32}")
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


@pytest.fixture
def example(serve):
    return serve("middleware")


def names(response, field):
    """The items of a list over all fields of that name."""
    return [item.strip() for value in response.all(field) for item in value.split(",")]


def preflight(server, target, origin=ORIGIN, method="PUT", **more):
    fields = [("Origin", origin), ("Access-Control-Request-Method", method)]
    fields += [(name.replace("_", "-"), value) for name, value in more.items()]
    return server.get(target, method="OPTIONS", headers=fields)


# --- CORS ---


@pytest.mark.parametrize("target, status", [("/", 200), ("/missing", 404), ("/admin/name", 401), ("/admin/missing", 404)])
def test_every_response_can_be_read_by_the_allowed_origin(example, target, status):
    response = example.get(target, headers=[("Origin", ORIGIN)])
    assert response.status == status
    assert response.header("Access-Control-Allow-Origin") == ORIGIN
    assert response.header("Access-Control-Allow-Credentials") == "true"
    assert response.header("Access-Control-Expose-Headers") == "X-Request-Id"
    assert names(response, "Vary") == ["Origin"]
    for fields in ([("Origin", OTHER)], [("Origin", ORIGIN), ("Origin", ORIGIN)], []):
        response = example.get(target, headers=fields)
        assert response.status == status
        assert not [name for name, _ in response.headers if name.lower().startswith("access-control-")]
        assert names(response, "Vary") == ["Origin"]


def test_wrong_method_and_no_response_can_be_read(server):
    for target, method, status in (("/guarded/own", "PUT", 405), ("/guarded/nothing", "GET", 500), ("/guarded/own", "OPTIONS", 204)):
        response = server.get(target, method=method, headers=[("Origin", ORIGIN)])
        assert response.status == status
        assert response.header("Access-Control-Allow-Origin") == ORIGIN
        assert "Origin" in names(response, "Vary")
        assert OWN_ID.fullmatch(response.header("X-Request-Id"))
        assert response.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("target", ["/", "/admin/name", "/machines/name", "/missing"])
def test_preflight_is_served_before_authentication(example, target):
    response = preflight(example, target)
    assert response.status == 204
    assert response.header("Access-Control-Allow-Origin") == ORIGIN
    assert response.header("Access-Control-Allow-Credentials") == "true"
    assert names(response, "Access-Control-Allow-Methods") == ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    assert names(response, "Access-Control-Allow-Headers") == ["Content-Type", "Authorization"]
    assert response.header("Access-Control-Max-Age") == "600"
    assert names(response, "Vary") == ["Origin", "Access-Control-Request-Method"]
    assert response.header("Allow") is None
    assert OWN_ID.fullmatch(response.header("X-Request-Id"))


def test_preflight_of_another_origin_is_refused(example):
    response = preflight(example, "/", OTHER)
    assert response.status == 403 and response.body == b""
    assert not [name for name, _ in response.headers if name.lower().startswith("access-control-")]
    assert "Origin" in names(response, "Vary")


def test_options_that_is_no_preflight_is_the_routers(server):
    response = server.get("/guarded/own", method="OPTIONS", headers=[("Origin", ORIGIN)])
    assert response.status == 204 and names(response, "Allow") == ["GET", "HEAD", "OPTIONS"]
    response = server.get("/guarded/own", method="OPTIONS", headers=[("Access-Control-Request-Method", "GET")])
    assert response.status == 204 and response.header("Allow")


def test_private_network(server):
    response = preflight(server, "/guarded/own", Access_Control_Request_Private_Network="true")
    assert response.status == 204 and response.header("Access-Control-Allow-Private-Network") == "true"
    assert preflight(server, "/guarded/own").header("Access-Control-Allow-Private-Network") is None


def test_the_handlers_own_fields_stay(server):
    response = server.get("/guarded/own", headers=[("Origin", ORIGIN)])
    assert response.header("X-Frame-Options") == "SAMEORIGIN"
    assert names(response, "Vary") == ["Accept-Language", "Origin"]
    assert response.header("Referrer-Policy") == "strict-origin-when-cross-origin"


# --- request ids and security headers ---


@pytest.mark.http1("malformed requests")
def test_what_cannot_be_read_has_an_id_and_the_security_headers(example):
    for data, status in ((b"GET /x y z HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/2.0\r\n\r\n", 505), (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501)):
        with example.connect() as connection:
            connection.send_anyway(data)
            response = connection.response()
            assert response.status == status
            assert OWN_ID.fullmatch(response.header("X-Request-Id"))
            assert response.header("X-Content-Type-Options") == "nosniff"


def test_ids_differ_and_reach_the_handler(example):
    seen = set()
    for _ in range(3):
        with example.connect() as connection:
            for _ in range(20):
                response = connection.get("/")
                identity = response.header("X-Request-Id")
                assert response.text == f"You are request {identity}\n" and OWN_ID.fullmatch(identity)
                seen.add(identity)
    assert len(seen) == 60
    assert example.get("/", headers=[("X-Request-Id", "mine")]).header("X-Request-Id") != "mine"


def test_ids_differ_after_a_restart(serve):
    first, second = ({serve("middleware").get("/").header("X-Request-Id")[:16]} for _ in range(2))
    assert not first & second


@pytest.mark.parametrize("target", ["/guarded/pieces", "/guarded/later"])
def test_a_trusted_id_is_kept_until_the_response(server, target):
    response = server.get(target, headers=[("X-Request-Id", "from-proxy.1"), ("Origin", ORIGIN)])
    assert response.header("X-Request-Id") == response.text == "from-proxy.1"
    assert response.header("Access-Control-Allow-Origin") == ORIGIN
    response = server.get(target, headers=[("X-Request-Id", "not valid")])
    assert OWN_ID.fullmatch(response.text) and response.text == response.header("X-Request-Id")


@pytest.mark.parametrize("target", ["/", "/missing", "/admin/name"])
def test_security_headers_are_on_every_response(example, target):
    response = example.get(target)
    assert response.header("X-Content-Type-Options") == "nosniff"
    assert response.header("X-Frame-Options") is None  # frame-ancestors says it
    assert response.header("Content-Security-Policy") == "default-src 'none'; frame-ancestors 'none'"
    assert response.header("Referrer-Policy") == "strict-origin-when-cross-origin"
    assert response.header("Strict-Transport-Security") is None


# --- authentication ---


def basic(pair):
    return "Basic " + base64.b64encode(pair.encode()).decode()


def test_unknown_user_and_wrong_password_get_the_same_response(example):
    responses = []
    for value in (basic("alice:wrong"), basic("nobody:wonderland"), basic("nobody:x"), "Basic !", None):
        response = example.get("/admin/name", headers=[("Authorization", value)] if value else [])
        assert response.status == 401
        assert response.header("WWW-Authenticate") == 'Basic realm="Administration", charset="UTF-8"'
        responses.append((response.body, [field for field in response.headers if field[0].lower() not in ("date", "x-request-id")]))
    assert all(one == responses[0] for one in responses)


def test_connection_is_kept_after_401(example):
    with example.connect() as connection:
        assert connection.get("/admin/name").status == 401
        assert connection.get("/admin/name", headers=[("Authorization", basic("bob:builder"))]).text == "bob"
        assert connection.get("/machines/name", headers=[("Authorization", basic("bob:builder"))]).status == 401
        response = connection.get("/machines/name", headers=[("Authorization", "Bearer wrong")])
        assert response.header("WWW-Authenticate") == 'Bearer realm="Restricted", error="invalid_token"'
        assert connection.get("/machines/name", headers=[("Authorization", "bearer key-of-ci")]).text == "ci"


@needs_curl
def test_curl(example, protocol):
    def curl(*args):
        return subprocess.run(example.curl(*args), capture_output=True, check=True).stdout

    assert curl("-u", "alice:wonderland", example.url("/admin/name")) == b"alice"
    if protocol == "http1":  # over HTTP/2 curl 7.88 repeats its preface before a second request
        assert curl("--anyauth", "-u", "alice:wonderland", example.url("/admin/name")) == b"alice"
    assert curl("--oauth2-bearer", "key-of-ci", example.url("/machines/name")) == b"ci"
    assert curl("-u", "alice:wrong", "-o", "/dev/null", "-w", "%{http_code}", example.url("/admin/name")) == b"401"


def test_httpx(example):
    with example.httpx() as client:
        assert client.get("/admin/name", auth=("bob", "builder")).text == "bob"
        assert client.get("/admin/name", auth=("bob", "wonderland")).status_code == 401
        response = client.options("/admin/name", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "GET"})
        assert response.status_code == 204 and response.headers["Access-Control-Allow-Origin"] == ORIGIN


@pytest.mark.http1("a client without HTTP/2")
def test_urllib_meets_the_challenge(example):
    manager = urllib.request.HTTPPasswordMgr()
    manager.add_password("Administration", example.url("/"), "alice", "wonderland")
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager), urllib.request.ProxyHandler({}))
    assert opener.open(example.url("/admin/name"), timeout=20).read() == b"alice"
    manager.add_password("Administration", example.url("/"), "alice", "wrong")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        opener.open(example.url("/admin/name"), timeout=20)


@pytest.mark.http1("a client without HTTP/2")
def test_http_client(example):
    client = http.client.HTTPConnection(*example.address[:2], timeout=20)
    client.request("GET", "/machines/name", headers={"Authorization": "Bearer key-of-ci", "Origin": ORIGIN})
    response = client.getresponse()
    assert response.read() == b"ci" and response.getheader("Access-Control-Allow-Origin") == ORIGIN


@needs_node
@pytest.mark.http1("a client without HTTP/2")
def test_node_fetch(example):
    script = """
        const [url, origin] = process.argv.slice(1);
        const flight = {method: 'OPTIONS', headers: {Origin: origin, 'Access-Control-Request-Method': 'GET'}};
        const asked = await fetch(url, flight);
        const answer = await fetch(url, {headers: {Authorization: 'Basic ' + btoa('alice:wonderland'), Origin: origin}});
        console.log(JSON.stringify([asked.status, asked.headers.get('access-control-allow-origin'), await answer.text()]));
    """
    command = ["node", "--input-type=module", "-e", script, example.url("/admin/name"), ORIGIN]
    out = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(out) == [204, ORIGIN, "alice"]


def test_what_middleware_refuses_is_counted_by_reason(serve):
    server = serve()
    assert server.get("/private/page").status == 401
    assert server.get("/private/page", headers=[("Authorization", "Basic YTpi")]).status == 401
    preflight = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "PUT")]
    assert server.get("/guarded/own", method="OPTIONS", headers=preflight).status == 403
    counters = server.counters()
    assert counters["refused_auth"] == 2 and counters["refused_cors"] == 1 and counters["rate_limited"] == 0
