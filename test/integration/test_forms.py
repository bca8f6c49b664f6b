"""Forms and uploads through examples/upload.c: curl, httpx, and bodies that no client would send."""
import json
import os
import shutil
import stat
import subprocess

import pytest

from harness import HOST

pytestmark = pytest.mark.neutral
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "uploads"
    path.mkdir()
    return path


@pytest.fixture
def upload(serve, directory):
    return serve("upload", directory)


def curl(server, *args, path="/upload"):
    result = subprocess.run(server.curl(*args, server.url(path)), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def post(server, body, content_type=MULTIPART):
    headers = [("Content-Type", content_type)] if content_type else []
    return server.get("/upload", method="POST", body=body, headers=headers)


def part(disposition, content=b"x"):
    return b"--b\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + content + b"\r\n"


def test_page_has_a_form(upload):
    response = upload.get("/")
    assert response.header("Content-Type") == "text/html; charset=utf-8"
    assert 'enctype="multipart/form-data"' in response.text


def test_what_is_no_utf8_is_served_as_json_all_the_same(upload):
    response = post(upload, part(b'name="a"', b"\xff\xc3(\xe2\x82\xac\xe2\x82") + b"--b--\r\n")
    assert json.loads(response.text)["fields"] == [{"name": "a", "value": "\ufffd\ufffd(€\ufffd\ufffd"}]


@needs_curl
def test_curl_sends_fields_and_files(upload, directory, tmp_path):
    data = os.urandom(300_000)
    (tmp_path / "photo 1.jpg").write_bytes(data)
    (tmp_path / "é.txt").write_bytes(b"")
    response = curl(
        upload,
        *("-F", "title=a \"b\" é", "-F", "note=1\r\n--2", "-F", f"file=@{tmp_path}/photo 1.jpg;type=image/jpeg"),
        *("-F", f"file=@{tmp_path}/é.txt;type=text/plain"),
    )
    assert response["fields"] == [{"name": "title", "value": 'a "b" é'}, {"name": "note", "value": "1\r\n--2"}]
    assert response["files"] == [
        {"field": "file", "name": "photo 1.jpg", "type": "image/jpeg", "size": 300_000, "saved": "photo 1.jpg"},
        {"field": "file", "name": "é.txt", "type": "text/plain", "size": 0, "saved": "é.txt"},
    ]
    assert (directory / "photo 1.jpg").read_bytes() == data
    assert (directory / "é.txt").read_bytes() == b""
    assert stat.S_IMODE((directory / "photo 1.jpg").stat().st_mode) == 0o600


@needs_curl
def test_curl_sends_urlencoded_fields(upload):
    response = curl(upload, "--data-urlencode", "title=a+b & c=é", "--data-urlencode", "x=", "-d", "title=2+3")
    assert response["files"] == []
    assert response["fields"] == [
        {"name": "title", "value": "a+b & c=é"},
        {"name": "x", "value": ""},
        {"name": "title", "value": "2 3"},
    ]


@needs_curl
def test_curl_sends_names_with_quotes_and_waits_for_100_continue(upload, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 200_000)
    args = ["-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked"]
    for escape in ([], ["--form-escape"]):
        response = curl(upload, *args, *escape, "-F", f'file=@{tmp_path}/f;filename="a\\"b.txt"')
        assert response["files"][0]["size"] == 200_000
        assert response["files"][0]["name"] in ('a"b.txt', "a%22b.txt")


def test_httpx_sends_files(upload, directory):
    files = [("file", ("a.bin", bytes(range(256)) * 100, "application/x-a")), ("file", ("a.bin", b"two"))]
    with upload.httpx() as client:
        response = client.post("/upload", data={"title": "x", "many": ["1", "2"]}, files=files)
        plain = client.post("/upload", data={"a": "1 2+3&é"}).json()
    form = response.json()
    assert response.status_code == 200
    assert [(field["name"], field["value"]) for field in form["fields"]] == [("title", "x"), ("many", "1"), ("many", "2")]
    assert [file["saved"] for file in form["files"]] == ["a.bin", "a-1.bin"]
    assert (directory / "a.bin").read_bytes() == bytes(range(256)) * 100
    assert (directory / "a-1.bin").read_bytes() == b"two"
    assert plain["fields"] == [{"name": "a", "value": "1 2+3&é"}]


def test_a_browsers_empty_input_is_no_file(upload, directory):
    body = part(b'name="title"', "tea".encode()) + part(b'name="file"; filename=""\r\nContent-Type: application/octet-stream', b"") + b"--b--\r\n"
    assert json.loads(post(upload, body).body) == {"uploads": 1, "fields": [{"name": "title", "value": "tea"}], "files": []}
    assert list(directory.iterdir()) == []


def test_body_may_come_in_any_pieces(upload):
    body = part(b'name="t"', b"\r\n--\r\n") + part(b'name="f"; filename="n"', b"data") + b"--b--"
    with upload.connect() as connection:
        asked = connection.start("/upload", [("Content-Type", MULTIPART)], method="POST", more=True)
        for i in range(len(body)):
            asked.send(body[i : i + 1])
        asked.end()
        response = asked.response()
    form = json.loads(response.body)
    assert form["fields"] == [{"name": "t", "value": "\r\n--\r\n"}] and form["files"][0]["size"] == 4


@pytest.mark.parametrize(
    "name",
    [b"../../up", b"/etc/up", b"..\\\\..\\\\up", b".up", b"up. ", b"\xe2\x80\xaeup", b"dir/up"],
)
def test_no_name_leaves_the_directory(upload, directory, name):
    response = post(upload, part(b'name="f"; filename="' + name + b'"', b"data") + b"--b--")
    assert json.loads(response.body)["files"][0]["saved"] == "up"
    assert [path.name for path in directory.iterdir()] == ["up"]


def test_names_that_come_to_nothing_get_one(upload, directory):
    for name in (b"..", b".", b"a/", b"...  "):
        assert post(upload, part(b'name="f"; filename="' + name + b'"') + b"--b--").status == 200
    assert sorted(path.name for path in directory.iterdir()) == ["upload", "upload-1", "upload-2", "upload-3"]


def test_nothing_is_overwritten_and_no_link_followed(upload, directory, tmp_path):
    (directory / "n.txt").write_bytes(b"old")
    (directory / "l").symlink_to(tmp_path / "outside")
    body = part(b'name="f"; filename="n.txt"') + part(b'name="f"; filename="l"') + b"--b--"
    assert [file["saved"] for file in json.loads(post(upload, body).body)["files"]] == ["n-1.txt", "l-1"]
    assert (directory / "n.txt").read_bytes() == b"old"
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (415, None, b"a=1"),
        (415, "application/json", b"{}"),
        (415, "multipart/mixed; boundary=b", b"--b--"),
        (415, MULTIPART, part(b'name="a"\r\nContent-Transfer-Encoding: base64', b"eA==") + b"--b--"),
        (400, "multipart/form-data", b"--b--"),
        (400, "multipart/form-data; boundary=" + "b" * 71, b"--b--"),
        (400, MULTIPART, b""),
        (400, MULTIPART, part(b'name="a"')),
        (400, MULTIPART, part(b'name="a"') + b"--bx--"),
        (400, MULTIPART, part(b'filename="a"') + b"--b--"),
        (400, MULTIPART, part(b'name="a"; name="b"') + b"--b--"),
        (400, MULTIPART, part(b'name="a"; filename*=utf-8\'\'b') + b"--b--"),
        (400, MULTIPART, part(b'name="a\x00b"') + b"--b--"),
        (400, MULTIPART, part(b'name="a"\nX: y') + b"--b--"),
        (400, URLENCODED, b"a=%zz"),
        (400, URLENCODED, b"a%00=1"),
        (413, URLENCODED, b"a&" * 1001),
        (413, MULTIPART, part(b'name="a"') * 1001 + b"--b--"),
        (413, MULTIPART, part(b'name="' + b"a" * 4100 + b'"') + b"--b--"),
        (413, MULTIPART, b"-" * (1 << 21)),
    ],
)
def test_malformed_forms_get_their_status(upload, directory, status, content_type, body):
    assert post(upload, body, content_type).status == status
    assert list(directory.iterdir()) == []
    assert upload.get("/").status == 200
    assert upload.new_stderr() == ""


def test_many_near_delimiters_do_not_hold_up_the_loop(upload):
    boundary = "-" * 69 + "b"
    body = b"--" + boundary.encode() + b'\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    body += (b"\r\n--" + b"-" * 68) * ((1_000_000 - len(body)) // 72) + b"\r\n--" + boundary.encode() + b"--"
    assert post(upload, body, f"multipart/form-data; boundary={boundary}").status == 200


def test_directory_that_is_none_ends_the_example(serve, tmp_path):
    server = serve("upload", tmp_path / "missing", wait=False)
    assert server.wait() == 1
    assert "missing" in server.stderr()


# --- cookies ---


@needs_curl
def test_clients_send_back_the_cookie(upload, tmp_path):
    jar = str(tmp_path / "jar")
    assert [curl(upload, "-b", jar, "-c", jar, "-d", "a=1")["uploads"] for _ in range(3)] == [1, 2, 3]
    with upload.httpx() as client:
        assert [client.post("/upload", data={"a": "1"}).json()["uploads"] for _ in range(3)] == [1, 2, 3]


def test_cookie_is_found_among_others(upload):
    headers = [("Content-Type", URLENCODED), ("Cookie", "x; Uploads=5; =; uploads=41; uploads=7")]
    response = upload.get("/upload", method="POST", body=b"", headers=headers)
    assert json.loads(response.body)["uploads"] == 42
    assert response.header("Set-Cookie") == "uploads=42; Path=/; Max-Age=2592000; SameSite=Strict; HttpOnly"
