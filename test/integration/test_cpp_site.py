"""The C++ interface: groups, static files, TLS, WebSocket, cookies, forms, and several waits at once."""
import asyncio
import ssl
import time
import urllib.request

import harness
import pytest
from harness import HOST, free_port, poll

PROGRAM = harness.TEST_PROGRAMS / "cpp_site_server"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without C++")


@pytest.fixture
def server(serve, tmp_path):
    (tmp_path / "a.txt").write_text("a file")
    port = free_port()
    one = serve(PROGRAM, f"{HOST}:{port}", tmp_path)
    one.tls_port = port
    return one


def text(server, target, **options):
    response = server.get(target, **options)
    return response.status, response.text


def live(server):
    return int(server.get("/live").text)


def test_groups_have_defaults_and_middleware(server):
    assert text(server, "/api/mode") == (200, "worker")
    assert text(server, "/api/loop") == (200, "loop")
    assert text(server, "/api/task") == (200, "loop")  # whatever the group says
    inner = server.get("/api/v1/mode")
    assert (inner.text, inner.all("X-Group")) == ("worker", ["api", "v1"])
    assert text(server, "/api/size", method="POST", body=b"1234567890") == (200, "10")
    assert server.get("/api/size", method="POST", body=b"12345678901").status == 413


def test_files_are_served_by_the_server_and_in_a_group(server):
    assert text(server, "/files/a.txt") == (200, "a file")
    inner = server.get("/api/v1/files/a.txt")
    assert (inner.text, inner.all("X-Group")) == ("a file", ["api", "v1"])


def test_a_server_listens_with_and_without_tls(server):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://{HOST}:{server.tls_port}/files/a.txt", context=context, timeout=10) as response:
        assert response.read() == b"a file"


def test_cookies_are_read_and_set(server):
    response = server.get("/cookies", headers=[("Cookie", "other=1; seen=before")])
    assert (response.text, response.header("Set-Cookie")) == ("before", "seen=yes; Path=/; Max-Age=60; SameSite=Lax; HttpOnly")
    assert server.get("/cookies").text == "no"
    assert server.get("/cookies/reply").header("Set-Cookie") == "a=; Path=/p; SameSite=Lax"


def test_a_content_type_may_be_a_variable_of_the_handler(server):
    for target, body in (("/type", "typed"), ("/type/later", "typed later")):
        response = server.get(target)
        assert (response.status, response.text, response.header("Content-Type")) == (200, body, "application/vnd.uvhttp-test.type")


def test_a_text_with_a_nul_is_not_cut_off(server):
    assert text(server, "/nul") == (200, "sent")
    for what in ("name", "value", "cookie", "path"):
        assert server.get(f"/nul?{what}").status == 500, what


def test_forms_are_read(server):
    urlencoded = [("Content-Type", "application/x-www-form-urlencoded")]
    assert text(server, "/form", method="POST", headers=urlencoded, body=b"a=1&b=x%20y&a=2") == (200, "a=1;b=x y;a=2;")
    body = b'--b\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\n\r\ndata\r\n--b--\r\n'
    multipart = [("Content-Type", "multipart/form-data; boundary=b")]
    assert text(server, "/form", method="POST", headers=multipart, body=body) == (200, "f:n.txt:data;")
    assert text(server, "/form", method="POST", body=b"x") == (415, "UVHTTP_E_FORM_TYPE")


def test_websocket_handlers_are_called(server):
    websockets = pytest.importorskip("websockets")
    url = server.url("/ws").replace("http", "ws", 1)

    async def talk():
        async with websockets.connect(url) as one, websockets.connect(url) as two:
            assert await one.recv() == await two.recv() == "welcome"
            for message in ("echo", b"\0bytes"):
                await one.send(message)
                assert await one.recv() == message
            await one.send("thread")
            assert await one.recv() == "from a thread"
            await one.send("publish")
            assert await two.recv() == "published"
            assert (await asyncio.to_thread(server.get, "/publish", method="POST", body=b"to all")).status == 204
            assert await one.recv() == await two.recv() == "to all"
            await one.send("close")
            await one.wait_closed()
            assert (one.close_code, one.close_reason) == (4000, "asked for")
            await two.send("throw")
            await two.wait_closed()
            assert two.close_code == 1011

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert server.get("/exceptions").text == "1"
    handshake = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                 ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]  # fmt: skip
    assert text(server, "/ws?refuse", headers=handshake) == (403, "refused")
    assert server.get("/ws?throw", headers=handshake).status == 500
    assert server.get("/exceptions").text == "2"


def test_all_are_waited_for_at_once(server):
    assert text(server, "/all") == (200, "37 at once")
    assert live(server) == 0


def test_the_first_cancels_the_others(server):
    assert text(server, "/any") == (200, "1 2 live 0 0 live 0 1")


def test_a_branch_that_throws_cancels_the_others(server):
    assert text(server, "/branches/fail") == (200, "thrown by a branch live 0; any live 0; " * 2)


def test_spawned_tasks_are_joined_cancelled_or_left(server):
    outcome = "5 begun; 15; thrown by a branch; UVHTTP_E_ABORTED; UVHTTP_E_ABORTED; UVHTTP_E_STATE; 1 left"
    assert text(server, "/spawn") == (200, outcome)
    assert live(server) == 0


def test_who_cancels_is_not_destroyed_in_the_call(server):
    assert text(server, "/cancel") == (200, "cancelled destroyed UVHTTP_E_ABORTED cancelled destroyed ")
    assert live(server) == 0


def test_a_cancelled_wait_for_the_body_takes_nothing(server):
    with server.connect() as connection:
        connection.send(b"POST /body/late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
        for byte in (b"a", b"b", b"c", b"d"):
            time.sleep(0.05)  # in the time in which nobody waits for it
            connection.send(byte)
        response = connection.response()
        assert (response.status, response.text.replace(".", "")) == (200, "abcd")
        assert "." in response.text
    assert live(server) == 0


def test_two_coroutines_do_not_wait_for_one_body(server):
    with server.connect() as connection:
        connection.send(b"POST /body/twice HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
        time.sleep(0.05)
        connection.send(b"a")
        assert connection.response().text == "UVHTTP_E_STATE a"
    assert live(server) == 0


def test_a_task_that_nobody_awaits_any_more_is_destroyed(server):
    assert text(server, "/held") == (200, "1 live 0 UVHTTP_E_STATE")
    assert live(server) == 0


def test_a_client_that_goes_cancels_all_branches(server):
    with server.connect() as connection:
        connection.start("/long")
        poll(lambda: live(server) == 3)
    poll(lambda: live(server) == 0)
