"""Static files: what is sent, what never is, and what happens when files, clients and the machine misbehave."""
import base64
import collections
import concurrent.futures
import ctypes
import email.utils
import gzip
import hashlib
import html.parser
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.parse

import pytest

import harness
import wire

pytestmark = pytest.mark.neutral
PROGRAM = harness.TEST_PROGRAMS / "static_test_server"
SECRET = "out of bounds"


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def write(path, data, age=60):
    """A file that was modified a while ago, as most are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    then = time.time() - age
    os.utime(path, (then, then))
    return path


@pytest.fixture
def root(tmp_path):
    """A tree with a secret next to it."""
    (tmp_path / "secret.txt").write_text(SECRET)
    at = tmp_path / "public"
    write(at / "index.html", "<h1>home</h1>")
    write(at / "text.txt", "".join(f"line {i}\n" for i in range(2000)))
    write(at / "small.bin", noise(10240))
    write(at / "large.bin", noise(1_500_000))
    write(at / "empty.txt", b"")
    write(at / "sub" / "index.html", "sub home")
    write(at / "sub" / "page.html", "page")
    write(at / "bare" / "one.txt", "1")
    write(at / ".hidden", "hidden")
    write(at / ".git" / "config", "hidden")
    return at


@pytest.fixture
def start(tmp_path, root):
    servers = []

    def go(*options, wait=True, where=None, **more):
        address = (harness.HOST, harness.free_port())
        command = [PROGRAM, "%s:%d" % address, where or root, f"config.rate_grace={harness.RATE_GRACE}", *options]
        one = harness.Server(command, address, tmp_path / f"static-{len(servers)}.stderr", **more)
        servers.append(one)
        return one.wait_ready() if wait else one

    yield go
    for one in servers:
        one.stop()


@pytest.fixture
def server(start):
    return start()


def get(server, target, method="GET", headers=(), **options):
    return server.get(target, method=method, headers=list(headers), **options)


# --- what is sent ---


def test_files_are_sent_whole_with_type_and_validators(server, root):
    for name, kind in [("text.txt", "text/plain; charset=utf-8"), ("small.bin", "application/octet-stream"), ("large.bin", "application/octet-stream"), ("empty.txt", "text/plain; charset=utf-8")]:
        for _ in range(3):  # looked up, then from the cache
            response = get(server, "/" + name)
            assert response.status == 200 and response.body == (root / name).read_bytes()
            assert response.header("Content-Type") == kind
            assert response.header("Accept-Ranges") == "bytes" and response.header("X-Content-Type-Options") == "nosniff"
            assert re.fullmatch(r'"[^"]+"', response.header("ETag"))
            assert response.header("Last-Modified") == time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime((root / name).stat().st_mtime))
    assert server.counter("static_hits") == 8 and server.counter("static_misses") == 4


def test_head_is_get_without_a_body(server):
    for target in ["/text.txt", "/large.bin", "/", "/nothing", "/sub"]:
        for _ in range(2):
            full, head = get(server, target), get(server, target, method="HEAD")
            assert head.body == b"" and head.status == full.status
            fields = lambda response: [(k, v) for k, v in response.headers if k.lower() != "date"]
            assert fields(head) == fields(full)


def test_other_methods_get_405_with_allow(server):
    for method in ["POST", "PUT", "DELETE", "PATCH"]:
        response = get(server, "/text.txt", method=method)
        assert response.status == 405
        assert {"GET", "HEAD"} <= set(response.header("Allow").split(", "))


def test_directories_have_an_index_and_end_with_a_slash(server):
    assert get(server, "/").body == b"<h1>home</h1>"
    assert get(server, "/sub/").body == b"sub home"
    for _ in range(2):
        moved = get(server, "/sub?a=b&c=%2F")
        assert moved.status == 301 and moved.header("Location") == "/sub/?a=b&c=%2F"
    assert get(server, "/bare/").status == 404
    assert get(server, "/text.txt/").status == 404


def test_a_redirect_never_leads_to_another_host(server, root):
    (root / "evil.example").mkdir()
    (root / "a b\u00e9").mkdir()
    assert get(server, "/a%20b%C3%A9").header("Location") == "/a%20b%C3%A9/"
    assert get(server, "//evil.example").status == 404
    assert get(server, "/%5cevil.example").status == 404
    response = get(server, "/./evil.example")
    assert response.header("Location") == "/evil.example/"


def test_a_redirect_cannot_be_split_by_the_name_of_a_directory(server, root):
    (root / "x\r\nX-Evil: 1").mkdir()
    response = get(server, "/x%0d%0aX-Evil:%201")
    assert response.status in (301, 404) and response.header("X-Evil") is None
    assert "\n" not in (response.header("Location") or "")


def test_a_prefix_and_a_group(start):
    for server in [start("prefix=/assets"), start("prefix=/assets/"), start("group=/assets", "prefix=/")]:
        assert get(server, "/assets/text.txt").status == 200
        assert get(server, "/assets/").body == b"<h1>home</h1>"
        assert get(server, "/assets").header("Location") == "/assets/"
        assert get(server, "/assets/sub").header("Location") == "/assets/sub/"
        assert get(server, "/text.txt").status == 404
        assert get(server, "/assetstext.txt").status == 404


def test_a_mount_behind_parameters(start):
    for server in [start("group=/t/:tenant", "prefix=/files"), start("prefix=/t/:tenant/files")]:
        for tenant in ["a", "a-long-name", "%20", "a%2Fb"]:
            base = f"/t/{tenant}/files"
            assert get(server, f"{base}/text.txt").status == 200
            assert get(server, f"{base}/").body == b"<h1>home</h1>"
            assert get(server, base).header("Location") == f"{base}/"
            assert get(server, f"{base}/sub").header("Location") == f"{base}/sub/"
            assert get(server, f"{base}/sub%2Fx.txt").status == 404
            assert get(server, f"{base}/%2Ftext.txt").status == 404
            assert get(server, f"{base}/none.txt").status == 404
        assert get(server, "/t/a/filestext.txt").status == 404


def test_types_and_rules_of_the_options(start, root):
    write(root / "app.3f2a9c81.js", "1")
    write(root / "defaced1.js", "2")
    write(root / "readme.MD", "3")
    write(root / "thing.xyz", "4")
    server = start("type=md:text/x-own", "default_type=text/x-unknown", "immutable_hashed=1", "rule=*.js:max-age=5", "rule=sub/*:private", "rule=*.txt:")
    of = lambda target: get(server, target)
    assert of("/readme.MD").header("Content-Type") == "text/x-own"
    assert of("/thing.xyz").header("Content-Type") == "text/x-unknown"
    assert of("/app.3f2a9c81.js").header("Cache-Control") == "max-age=31536000, immutable"
    assert of("/defaced1.js").header("Cache-Control") == "max-age=5"
    assert of("/sub/page.html").header("Cache-Control") == "private"
    assert of("/text.txt").header("Cache-Control") is None
    assert of("/sub/page.html").header("Content-Type") == "text/html; charset=utf-8"


def test_the_page_of_a_directory_has_the_rule_of_its_path(start, root):
    """Not that of an index file, which it is not: a page that is an hour old does not show what has come since."""
    write(root / "v1.2" / "deep" / "file", "x")
    (root / "index.html").unlink()
    server = start("list_directories=1", "type=html:text/x-own", "rule=*.html:max-age=3600", "rule=bare/*:no-store", "rule=v1.2/*:private", "rule=*/:max-age=7", "rule=*:max-age=8")
    for target, rule in (("/bare/", "no-store"), ("/bare/?sort=-size", "no-store"), ("/v1.2/", "private"), ("/v1.2/deep/", "private"), ("/", "max-age=7")):
        response = get(server, target)
        assert response.status == 200 and response.header("Content-Type") == "text/html; charset=utf-8", target
        assert response.header("Cache-Control") == rule, target


def test_single_page_applications_fall_back(start):
    server = start("fallback=index.html")
    for _ in range(2):
        response = get(server, "/users/17")
        assert response.status == 200 and response.body == b"<h1>home</h1>"
        assert get(server, "/missing.js").status == 404
        assert get(server, "/bare/").status == 200
    assert get(server, "/users/17", headers=[("If-None-Match", response.header("ETag"))]).status == 304


def test_fields_that_middleware_has_set_are_not_repeated(start):
    server = start("middleware=1", "rule=*:max-age=9")
    for target in ["/text.txt", "/small.bin"]:
        response = get(server, target)
        assert response.all("X-Content-Type-Options") == ["nosniff"] and response.header("X-Own") == "1"
        assert response.header("Cache-Control") == "max-age=9" and response.all("Vary") == ["Origin"]


# --- what is never sent ---

TRAVERSAL = [
    "/../secret.txt", "/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt", "/..%2fsecret.txt", "/..%2Fsecret.txt", "/sub/../../secret.txt",
    "/sub/..%2f..%2fsecret.txt", "/%252e%252e/secret.txt", "/..%252fsecret.txt", "/..%5csecret.txt", "/..\\secret.txt",
    "/%2e%2e%5csecret.txt", "/sub/%2e%2e/%2e%2e/secret.txt", "/....//secret.txt", "/..;/secret.txt", "/.%00./secret.txt",
    "/text.txt%00", "/%00", "/text.txt%00.html", "/%c0%ae%c0%ae/secret.txt", "/%c0%ae%c0%ae%c0%afsecret.txt", "/%uff0e%uff0e/secret.txt",
    "//secret.txt", "///secret.txt", "/sub//page.html", "/.", "/..", "/./", "/sub/.", "/sub/..", "/%2e", "/%2e%2e", "/proc/self/environ",
    "/sub%2fpage.html", "/" + "../" * 40 + "etc/passwd", "/" + "%2e%2e/" * 40 + "etc/passwd", "/" + "a" * 256, "/" + "a/" * 2100, "/file:///etc/passwd",
    "/~root/", "/.hidden", "/.git/config", "/%2ehidden", "/sub/../.hidden", "/dev", "/\x7f", "/%0d%0aSet-Cookie:a=b",
]


@pytest.mark.http1("bytes of targets")
def test_nothing_outside_the_root_is_reached(start):
    for server in [start(), start("list_directories=1"), start("fallback=index.html")]:
        for target in TRAVERSAL:
            for _ in range(2):
                with server.connect() as connection:
                    connection.send(b"GET " + target.encode("latin-1") + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    response = connection.response()
                assert SECRET.encode() not in response.body and b"root:" not in response.body and b"hidden" not in response.body, target
                assert "Set-Cookie" not in dict(response.headers)
                assert response.status in (200, 301, 400, 404), (target, response.status)
                if response.status == 200:
                    assert response.body in (b"<h1>home</h1>", b"sub home") or b"one.txt" in response.body or b"<table>" in response.body, target
        assert get(server, "/text.txt").status == 200


def test_links_may_not_lead_out(start, root, tmp_path):
    (root / "in.txt").symlink_to("text.txt")
    (root / "up.txt").symlink_to("sub/../text.txt")
    (root / "out.txt").symlink_to("../secret.txt")
    (root / "absolute.txt").symlink_to(tmp_path / "secret.txt")
    (root / "self").symlink_to(".")
    (root / "parent").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to("/proc/self/root")
    server, strict = start(), start("no_symlinks=1")
    for name in ["in.txt", "up.txt", "self/text.txt", "self/self/text.txt"]:
        assert get(server, "/" + name).status == 200 and get(strict, "/" + name).status == 404
    for name in ["out.txt", "absolute.txt", "parent/secret.txt", "parent/", "loop", "proc/etc/passwd", "self/parent/secret.txt"]:
        for one in (server, strict):
            assert get(one, "/" + name).status == 404, name


def test_only_regular_files_are_opened(start, root):
    os.mkfifo(root / "fifo.txt")
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(root, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{here}/socket.txt")
    os.close(here)
    devices = []
    if os.geteuid() == 0:
        try:
            os.mknod(root / "null.txt", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            devices = ["/null.txt"]
        except PermissionError:
            pass
    server = start()
    for target in ["/fifo.txt", "/socket.txt", *devices]:
        assert get(server, target).status == 404, target
    listener.close()


def test_dot_files_are_an_option(start):
    server = start("dot_files=1")
    assert get(server, "/.hidden").body == b"hidden" and get(server, "/.git/config").status == 200
    assert get(server, "/%2e%2e/secret.txt").status == 400


def as_everybody():
    """Root reads and searches what it likes; without these two capabilities it does not (capabilities(7))."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def test_what_may_not_be_read_is_forbidden(start, root):
    (root / "locked.txt").write_text("x")
    (root / "locked.txt").chmod(0)
    assert get(start(preexec_fn=as_everybody), "/locked.txt").status == 403


def test_the_index_of_a_directory_that_cannot_be_read_is_sent(start, root):
    """It may be searched, as a directory whose files nobody is to list often is (chmod 711)."""
    closed = {root / "sub": 0o311, root / "bare": 0o311, root / "locked": 0}
    (root / "locked").mkdir()
    try:
        for directory, mode in closed.items():
            directory.chmod(mode)
        server = start("list_directories=1", preexec_fn=as_everybody)
        for _ in range(2):
            assert get(server, "/sub/").body == b"sub home" and get(server, "/sub/page.html").body == b"page"
            assert get(server, "/sub").header("Location") == "/sub/"
            assert get(server, "/bare/one.txt").body == b"1" and get(server, "/bare/").status == 403
            assert get(server, "/locked/").status == 403 and get(server, "/locked/file").status == 403
    finally:
        for directory in closed:
            directory.chmod(0o755)


# --- conditions ---


def test_a_date_in_the_future_is_replaced_by_that_of_the_response(start, root):
    """RFC 9110 section 8.8.2.1; the date itself is sent as soon as it has passed."""
    server = start("revalidate_ms=4294967295")
    write(root / "ahead.txt", "from tomorrow", age=-86400)
    write(root / "ahead.bin", noise(100_000))
    os.utime(root / "ahead.bin", (10**10, 10**10))  # more nanoseconds than 64 bits hold: the year 2286
    soon = write(root / "soon.txt", "from soon", age=-5)
    for target, headers, status in [("/ahead.bin", [], 200), ("/ahead.txt", [], 200), ("/ahead.txt", [("Range", "bytes=0-3")], 206)]:
        response = get(server, target, headers=headers)
        assert response.status == status
        sent = email.utils.parsedate_to_datetime(response.header("Date"))
        assert 0 <= (sent - email.utils.parsedate_to_datetime(response.header("Last-Modified"))).total_seconds() <= 2
    again = get(server, "/ahead.txt", headers=[("If-Modified-Since", response.header("Last-Modified"))])
    assert again.status == 200 and again.body == b"from tomorrow"
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(soon.stat().st_mtime))
    assert get(server, "/soon.txt").header("Last-Modified") not in (None, date)
    harness.poll(lambda: get(server, "/soon.txt").header("Last-Modified") == date)
    time.sleep(1.1)
    assert get(server, "/soon.txt").header("Last-Modified") == date


def test_conditional_requests(server, root):
    for name in ["/text.txt", "/large.bin"]:
        first = get(server, name)
        etag, date = first.header("ETag"), first.header("Last-Modified")
        older, newer = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
        cases = [
            (304, [("If-None-Match", etag)]), (304, [("If-None-Match", "W/" + etag)]), (304, [("If-None-Match", "*")]),
            (304, [("If-None-Match", f'"x", {etag}')]), (200, [("If-None-Match", '"x"')]), (304, [("If-Modified-Since", date)]),
            (304, [("If-Modified-Since", newer)]), (200, [("If-Modified-Since", older)]), (200, [("If-Modified-Since", "rubbish")]),
            (200, [("If-None-Match", '"x"'), ("If-Modified-Since", newer)]), (304, [("If-None-Match", etag), ("If-Modified-Since", older)]),
            (200, [("If-Match", etag)]), (412, [("If-Match", '"x"')]), (412, [("If-Match", "W/" + etag)]), (200, [("If-Match", "*")]),
            (412, [("If-Unmodified-Since", older)]), (200, [("If-Unmodified-Since", date)]),
            (200, [("If-Match", etag), ("If-Unmodified-Since", older)]), (412, [("If-Match", '"x"'), ("If-None-Match", etag)]),
            (304, [("If-Match", etag), ("If-None-Match", etag)]),
            (304, [("If-None-Match", '"x"'), ("If-None-Match", etag)]), (200, [("If-Match", '"x"'), ("If-Match", etag)]),
            (200, [("If-None-Match", '"x"'), ("If-None-Match", '"y"')]), (412, [("If-Match", '"x"'), ("If-Match", '"y"')]),
        ]
        for status, headers in cases:
            response = get(server, name, headers=headers)
            assert response.status == status, headers
            if status == 304:
                assert response.header("ETag") == etag and response.body == b"" and response.header("Content-Length") is None


# --- ranges ---


def reference(spec, size):
    """None: the header is ignored; []: 416; else (first, last) pairs."""
    if not spec.lower().startswith("bytes="):
        return None
    found, seen = [], 0
    for one in (part.strip() for part in spec[6:].split(",")):
        if not one:
            continue
        seen += 1
        match = re.fullmatch(r"(\d*)-(\d*)", one)
        if not match or one == "-":
            return None
        first, last = match.groups()
        if first and last and int(last) < int(first):
            return None
        if not first:
            pair = (max(0, size - int(last)), size - 1) if int(last) else None
        else:
            pair = (int(first), min(int(last), size - 1) if last else size - 1)
        if pair and pair[0] < size and pair[0] <= pair[1]:
            found.append(pair)
    if seen == 0 or seen > 16:
        return None
    for i, a in enumerate(found):
        if any(a[0] <= b[1] and b[0] <= a[1] for b in found[:i]):
            return None
    return found if found or size else None


def check_range(response, spec, data):
    expected = reference(spec, len(data))
    if expected is None:
        assert response.status == 200 and response.body == data, spec
    elif not expected:
        assert response.status == 416 and response.header("Content-Range") == f"bytes */{len(data)}", spec
    elif len(expected) == 1:
        first, last = expected[0]
        assert response.status == 206 and response.body == data[first : last + 1], spec
        assert response.header("Content-Range") == f"bytes {first}-{last}/{len(data)}"
    else:
        assert response.status == 206, spec
        boundary = re.fullmatch(r"multipart/byteranges; boundary=(\S+)", response.header("Content-Type"))[1].encode()
        rest = b"\r\n" + response.body
        for first, last in expected:
            head = b"\r\n--" + boundary + b"\r\n"
            assert rest.startswith(head), spec
            fields, _, rest = rest[len(head) :].partition(b"\r\n\r\n")
            assert f"Content-Range: bytes {first}-{last}/{len(data)}".encode() in fields.split(b"\r\n")
            assert rest[: last - first + 1] == data[first : last + 1], spec
            rest = rest[last - first + 1 :]
        assert rest == b"\r\n--" + boundary + b"--\r\n", spec


EDGES = ["bytes=0-0", "bytes=-1", "bytes=-0", "bytes=0-", "bytes=5-4", "bytes=", "bytes=,", "bytes=-", "bytes=abc", "bytes=0-4,2-6", "bytes=0-4,5-9",
         "bytes=10-,0-4", "bytes=0-18446744073709551616", "bytes=99999999999999999999-", "bytes=-99999999999999999999", "items=0-1", "bytes 0-1",
         "BYTES=0-1", "bytes=0-1, ,2-3", "bytes= 0-1 , 4-5 ", "bytes=" + ",".join(f"{i * 4}-{i * 4}" for i in range(16)),
         "bytes=" + ",".join(f"{i * 4}-{i * 4}" for i in range(17)), "bytes=0-1,9999999-", "bytes=9999999-,99999999-", "bytes=0-0,-0", "bytes=0-1-2", "bytes=+1-2", "bytes=0x1-2"]


@pytest.mark.parametrize("options", [(), ("sendfile_min=1",), ("sendfile_min=1", "no_sendfile=1")], ids=["memory", "sendfile", "streamed"])
def test_ranges_are_those_of_a_reference(start, root, options):
    server = start(*options)
    choose = random.Random(7)
    for name in ["text.txt", "large.bin", "empty.txt", "sub/page.html"]:
        data = (root / name).read_bytes()
        size = len(data)
        with server.connect() as connection:
            for i in range(120):
                if i < len(EDGES):
                    spec = EDGES[i]
                else:
                    point = lambda: choose.choice(["", str(choose.randrange(max(1, size + size // 8))), str(choose.randrange(20))])
                    spec = "bytes=" + ",".join(f"{point()}-{point()}" for _ in range(choose.randrange(1, 5)))
                check_range(connection.get("/" + name, headers=[("Range", spec)]), spec, data)


def test_if_range(server):
    first = get(server, "/text.txt")
    etag, date = first.header("ETag"), first.header("Last-Modified")
    part = ("Range", "bytes=0-3")
    for value, status in [(etag, 206), ("W/" + etag, 200), ('"x"', 200), (date, 206), ("Mon, 01 Jan 2001 00:00:00 GMT", 200), ("Fri, 01 Jan 2100 00:00:00 GMT", 200), ("rubbish", 200)]:
        assert get(server, "/text.txt", headers=[part, ("If-Range", value)]).status == status, value
    assert get(server, "/text.txt", headers=[part], method="HEAD").status == 200
    assert get(server, "/text.txt", headers=[part, ("If-None-Match", etag)]).status == 304
    assert get(server, "/text.txt", headers=[part, ("If-Match", '"x"')]).status == 412


def test_absurd_ranges_are_counted(server):
    get(server, "/text.txt", headers=[("Range", "bytes=0-10,5-15")])
    get(server, "/text.txt", headers=[("Range", "bytes=99999999-")])
    assert server.counter("rejected_static_ranges_absurd") == 1 and server.counter("rejected_static_range") == 1


# --- codings ---


def test_precompressed_variants(start, root):
    data = (root / "text.txt").read_bytes()
    write(root / "text.txt.gz", gzip.compress(data))
    write(root / "text.txt.br", b"pretend")
    write(root / "small.bin.gz", b"old", age=4000)
    server = start("compression=1")
    of = lambda accept, target="/text.txt", **more: get(server, target, headers=[("Accept-Encoding", accept)], **more)
    etags = set()
    for accept, coding in [("gzip", "gzip"), ("br", "br"), ("gzip, br", "br"), ("br;q=0.5, gzip", "gzip"), ("*", "br"), ("gzip;q=0, *", "br")]:
        response = of(accept)
        assert response.header("Content-Encoding") == coding, accept
        assert response.all("Vary") == ["Accept-Encoding"] and response.header("Content-Type") == "text/plain; charset=utf-8"
        assert response.body == (b"pretend" if coding == "br" else (root / "text.txt.gz").read_bytes())
        assert not response.header("ETag").startswith("W/")
        etags.add(response.header("ETag"))
        assert of(accept, method="HEAD").header("Content-Encoding") == coding
    plain = of("identity")
    assert plain.header("Content-Encoding") is None and plain.body == data and plain.header("Vary") == "Accept-Encoding"
    etags.add(plain.header("ETag"))
    assert len(etags) == 3
    assert of("gzip", "/small.bin").body == (root / "small.bin").read_bytes(), "one that is older than the file"
    part = get(server, "/text.txt", headers=[("Accept-Encoding", "gzip"), ("Range", "bytes=0-9")])
    assert part.status == 206 and part.header("Content-Encoding") == "gzip" and part.body == (root / "text.txt.gz").read_bytes()[:10]
    rest = [("Accept-Encoding", "gzip"), ("Range", "bytes=10-")]
    for validator, status in [(part.header("ETag"), 206), (plain.header("ETag"), 200), (part.header("Last-Modified"), 200)]:
        assert get(server, "/text.txt", headers=[*rest, ("If-Range", validator)]).status == status, "several may have the date"
    without = start("no_precompressed=1")
    assert get(without, "/text.txt", headers=[("Accept-Encoding", "gzip, br")]).body == data


def test_the_compression_middleware_still_compresses_the_rest(start, root):
    server = start("compression=1")
    response = get(server, "/text.txt", headers=[("Accept-Encoding", "gzip")])
    assert gzip.decompress(response.body) == (root / "text.txt").read_bytes() and response.header("ETag").startswith("W/")
    for tag in (response.header("ETag"), response.header("ETag").removeprefix("W/")):
        again = get(server, "/text.txt", headers=[("Accept-Encoding", "gzip"), ("If-None-Match", tag)])
        assert again.status == 304 and again.header("ETag") == tag
        assert again.all("Vary") == response.all("Vary") == ["Accept-Encoding"], "as the 200 (RFC 9110 section 15.4.5)"


# --- directories' pages ---


class Page(html.parser.HTMLParser):
    """What a person sees: rows of (link, name, size), crumbs, columns; and the text of the style."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.crumbs, self.columns, self.style, self.summary, self.fields = [], [], {}, "", "", {}
        self.inside, self.link, self.text = [], None, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "input":
            self.fields[attributes["name"]] = attributes["value"]
        if tag in ("meta", "input"):
            return
        self.inside.append(tag)
        if tag == "a":
            self.link, self.text = attributes["href"], ""
        if tag == "tr":
            self.cells = []
        if tag == "td":
            self.text = ""
        if tag == "th":
            self.sort = attributes.get("aria-sort")

    def handle_data(self, data):
        self.text += data
        if self.inside and self.inside[-1] == "style":
            self.style += data
        if "p" in self.inside:
            self.summary += data

    def handle_endtag(self, tag):
        while self.inside.pop() != tag:
            pass
        if tag == "a" and "nav" in self.inside:
            self.crumbs.append((self.link, self.text))
        if tag == "th":
            self.columns[self.text.replace("\xa0", " ")] = (self.link, self.sort)
        if tag == "td":
            self.cells.append(self.text)
        if tag == "tr" and "tbody" in self.inside:
            self.rows.append((self.link, self.cells[0], self.cells[1]))

    def names(self):
        return [name for _, name, _ in self.rows if name != "Parent directory"]


def page(server, target):
    return Page(get(server, target).text)


NASTY = """<script>alert(1)</script>&"'.txt""".replace("/", "_")


def test_a_directory_page_is_escaped_sorted_and_bounded(start, root):
    write(root / "bare" / NASTY, "x")
    write(root / "bare" / "a:b.txt", "x" * 2000)
    (root / "bare" / "zdir").mkdir()
    write(root / "bare" / ".secret", "x")
    server = start("list_directories=1", "list_entries_max=4", "revalidate_ms=1")
    response = get(server, "/bare/")
    assert response.status == 200 and response.header("Content-Type") == "text/html; charset=utf-8"
    assert "<script>" not in response.text and "&lt;script&gt;" in response.text and ".secret" not in response.text
    shown = Page(response.text)
    assert shown.names() == ["zdir/", NASTY, "a:b.txt", "one.txt"]
    assert shown.rows[0][0] == "../" and shown.rows[3] == ("./a%3Ab.txt", "a:b.txt", "2.0 KB")
    assert shown.summary == "1 directory, 3 files, 2.0 KB"
    for link, _, _ in shown.rows[1:]:
        assert get(server, "/bare/" + link.removeprefix("./")).status in (200, 301)
    write(root / "bare" / "fifth.txt", "x")
    harness.poll(lambda: "more names" in page(server, "/bare/").summary)
    assert page(server, "/bare/?filter=FIFTH").names() == ["fifth.txt"]  # the filter finds what the page does not show
    assert get(server, "/").body == b"<h1>home</h1>"


def test_a_directory_page_is_sorted_by_links(start, root):
    for name, size, age in (("file10", 5, 300), ("File2", 7000, 200), ("file1", 90, 100), ("b", 90, 400), ("file02", 1, 50)):
        write(root / "many" / name, "x" * size, age)
    (root / "many" / "dir").mkdir()
    server = start("list_directories=1")
    by_name = ["dir/", "b", "file1", "File2", "file02", "file10"]
    shown = page(server, "/many/")
    assert shown.names() == by_name
    expected = {"Name": ["dir/", *by_name[:0:-1]], "Size": ["dir/", "File2", "b", "file1", "file10", "file02"],
                "Modified (UTC)": ["dir/", "file02", "file1", "File2", "file10", "b"]}
    assert list(shown.columns) == list(expected) and shown.columns["Name"][1] == "ascending"
    for column, names in expected.items():
        sorted_page = page(server, "/many/" + shown.columns[column][0].removeprefix("./"))
        assert sorted_page.names() == names, column
        assert sorted_page.columns[column][1] == "descending"
        other_way = page(server, "/many/" + sorted_page.columns[column][0].removeprefix("./"))
        assert other_way.columns[column][1] == "ascending" and other_way.names() != names
    for nonsense in ("?sort=", "?sort=-date", "?sort=%00", "?other=1", "?sort", "?&&=", "?filter=", "?filter=%00"):
        assert page(server, "/many/" + nonsense).names() == by_name, nonsense


def test_a_directory_page_is_filtered_by_a_form(start, root):
    write(root / "bare" / NASTY, "x")
    write(root / "bare" / "two.txt", "xx")
    server = start("list_directories=1")
    shown = page(server, "/bare/?filter=TW")
    assert shown.names() == ["two.txt"] and shown.fields == {"filter": "TW"}
    assert shown.columns["Size"][0] == "./?sort=-size&filter=TW"
    shown = page(server, "/bare/?sort=-size&filter=o")
    assert shown.names() == ["two.txt", "one.txt"] and shown.fields == {"filter": "o", "sort": "-size"}
    assert shown.columns["Name"][0] == "./?filter=o"
    response = get(server, "/bare/?filter=" + urllib.parse.quote_plus('"><script>&\'', safe=""))
    assert "<script>" not in response.text and Page(response.text).fields["filter"] == '"><script>&\''
    assert page(server, "/bare/?filter=" + urllib.parse.quote_plus(NASTY)).names() == [NASTY]
    assert page(server, "/bare/?filter=" + "o" * 300).names() == []
    assert "No name contains" in page(server, "/bare/?filter=zzz").summary
    write(root / "nothing" / "x", "").unlink()
    assert page(server, "/nothing/").summary == "This directory is empty."


def test_crumbs_lead_up(start, root):
    write(root / "a&b" / "c d" / "e" / "x.txt", "x")
    server = start("list_directories=1")
    crumbs = page(server, "/a%26b/c%20d/e/").crumbs
    assert crumbs == [("./../../../", "\u2302"), ("./../../", "a&b"), ("./../", "c d"), ("./", "e")]


def test_a_directory_page_may_load_nothing_but_its_style(start):
    """The policy has the hash of the style: after a change of the style this shows what the header has to say."""
    server = start("list_directories=1")
    response = get(server, "/bare/")
    digest = base64.b64encode(hashlib.sha256(Page(response.text).style.encode()).digest()).decode()
    policy = response.header("Content-Security-Policy")
    assert f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self';" in policy
    assert "<script" not in response.text and "style=" not in response.text and "onload" not in response.text
    assert get(server, "/text.txt").header("Content-Security-Policy") is None


def test_views_of_a_page_do_not_fill_the_cache(start, root):
    write(root / "plain.txt", "x")
    server = start("list_directories=1", "cache_entries_max=8", "config.io_threads=1", "revalidate_ms=100000")
    get(server, "/plain.txt")
    get(server, "/bare/?sort=-size")
    before = server.counters()
    for i in range(40):
        get(server, f"/bare/?filter={i}")
    get(server, "/plain.txt")
    get(server, "/bare/?sort=-size")
    after = server.counters()
    assert after["static_evictions"] == before["static_evictions"]
    assert after["static_hits"] - before["static_hits"] == 2
    assert get(server, "/bare/%00sd").status in (400, 404)  # a view's key in the cache is no path


def test_the_query_is_the_index_files_own_matter(start, root):
    server = start("list_directories=1", "config.io_threads=1")
    assert get(server, "/").body == b"<h1>home</h1>"
    before = server.counters()
    for query in ("?sort=-size", "?filter=x", "?sort=-name&filter=y"):
        assert get(server, "/" + query).body == b"<h1>home</h1>"
    assert server.counters()["static_misses"] == before["static_misses"]


def test_a_directory_page_shows_what_has_become_of_a_file(start, root):
    write(root / "bare" / "one.txt", "x" * 10)
    then = time.time() - 60
    os.utime(root / "bare", (then, then))
    server = start("list_directories=1", "revalidate_ms=1")
    first = get(server, "/bare/")
    assert Page(first.text).rows[1][2] == "10 B"
    write(root / "bare" / "one.txt", "x" * 20, age=30)  # the directory itself is not modified
    harness.poll(lambda: page(server, "/bare/").rows[1][2] == "20 B")
    assert get(server, "/bare/", headers=[("If-None-Match", first.header("ETag"))]).status == 200
    assert get(server, "/bare/", headers=[("If-Modified-Since", first.header("Last-Modified"))]).status == 200


def test_a_page_that_is_larger_than_the_cache_evicts_nothing(start, root):
    for i in range(300):
        write(root / "many" / f"file{i}", "x")
    server = start("list_directories=1", "config.io_threads=1", "cache_size_max=40000", "revalidate_ms=100000")
    get(server, "/bare/one.txt")
    before = server.counters()
    for _ in range(3):
        shown = get(server, "/many/")
        assert len(shown.body) > 40000 and shown.status == 200
    get(server, "/bare/one.txt")
    after = server.counters()
    assert after["static_hits"] - before["static_hits"] == 1 and after["static_evictions"] == 0


def test_a_filtered_page_evicts_nothing_from_a_full_cache(start, root):
    for i in range(4):
        write(root / f"kept{i}.txt", noise(1000, seed=i))
    server = start("list_directories=1", "cache_entries_max=4", "cache_size_max=4000", "config.io_threads=1", "revalidate_ms=100000")
    for i in range(4):
        assert get(server, f"/kept{i}.txt").status == 200
    before = server.counters()
    assert before["static_cache_bytes"] == 4000
    for i in range(10):
        assert page(server, f"/bare/?filter=o{i}").names() == []
    after = server.counters()
    assert after["static_evictions"] == before["static_evictions"]
    assert after["static_cache_bytes"] == 4000


# --- single-page applications ---


def test_the_fallback_can_be_for_navigation_only(start):
    server = start("fallback=index.html", "fallback_for_html=1")
    browser = [("Accept", "application/xhtml+xml, Text/HTML;q=0.9, */*;q=0.8")]
    for target in ("/some/page", "/users/john.doe"):
        response = get(server, target, headers=browser)
        assert response.body == b"<h1>home</h1>" and "Accept" in response.all("Vary"), target
        for accept in ([], [("Accept", "*/*")], [("Accept", "application/json")], [("Accept", "text/html2, xtext/html")],
                       [("Accept", "text/html;q=0, application/json")], [("Accept", "text/html; charset=utf-8 ;Q=0.000")]):
            refused = get(server, target, headers=accept)
            assert refused.status == 404, accept
            # A cache that keeps it must not send it to a browser (RFC 9110 section 12.5.5).
            assert "Accept" in refused.all("Vary"), accept
    assert get(server, "/text.txt", headers=browser).header("Vary") is None


# --- who sends FIN behind the request ---


@pytest.mark.parametrize("target", ["/text.txt", "/large.bin", "/none", "/bare/"])
@pytest.mark.http1("half-closed connections")
def test_a_file_that_has_to_be_looked_up_is_sent_to_who_has_sent_fin(start, target):
    """That it is not in the cache yet is nothing that a client could know."""
    server = start("list_directories=1")
    for _ in range(2):
        with server.connect() as connection:
            connection.send(wire.head(target=target, headers=[("Connection", "close")]))
            connection.half_close()
            assert connection.response().status == (404 if target == "/none" else 200)


# --- what a hit costs ---


def system_calls(server, target, requests, directory):
    """Names and numbers of the calls of the loop's thread while so many requests get responses one after the other. Others
    start, wait and end when they like, and what they are asked to do shows here, too: it takes a call to wake them."""
    with server.connect() as connection:
        connection.get(target)
        path = directory / "calls"
        strace = subprocess.Popen(["strace", "-f", "-o", path, "-p", str(server.pid())], stderr=subprocess.PIPE, text=True)
        line = strace.stderr.readline()
        if "attached" not in line:
            strace.wait()
            pytest.skip(f"strace cannot attach: {line.strip()}")
        for _ in range(requests):
            connection.get(target)
        strace.send_signal(signal.SIGINT)
        strace.wait()
    threads = {}
    for thread, name in re.findall(r"^(\d+) +(\w+)\(", path.read_text(), re.M):
        threads.setdefault(thread, collections.Counter())[name] += 1
    return max(threads.values(), key=lambda calls: calls.total())


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
@pytest.mark.http1("system calls of HTTP/1")
def test_a_hit_needs_the_calls_of_a_plain_response_and_no_others(start, root, tmp_path):
    write(root / "tiny.txt", "x" * 1000)
    # A machine that stands still would be reported, in a line on stderr: more calls.
    server = start("revalidate_ms=4294967295", "config.handler_warn_ms=never")
    for target in ["/plain", "/tiny.txt", "/small.bin", "/missing", "/sub"]:
        calls = system_calls(server, target, 200, tmp_path)
        waits = sum(calls.pop(name, 0) for name in ("epoll_wait", "epoll_pwait", "epoll_pwait2"))
        received, enters = calls.pop("recvfrom", 0), calls.pop("io_uring_enter", 0)
        sent = calls.pop("sendto", 0) + calls.pop("sendmsg", 0)
        assert sum(calls.values()) <= 2, (target, calls)  # strace comes and goes
        if enters:  # a body that is not copied is settled by a call of its own
            assert enters <= (450 if target == "/small.bin" else 250), (target, enters)
        else:
            assert received <= 210 and sent <= 210 and waits <= 450, (target, received, sent, waits)


# --- files that change ---


def test_a_changed_file_is_seen_with_a_new_etag(start, root):
    server = start("revalidate_ms=20")
    for name in ["text.txt", "large.bin"]:
        before = get(server, "/" + name)
        new = b"new" + before.body[3:]
        os.replace(write(root / "next", new, age=30), root / name)
        harness.poll(lambda: get(server, "/" + name).body == new)
        after = get(server, "/" + name)
        assert after.header("ETag") != before.header("ETag") and after.header("Last-Modified") != before.header("Last-Modified")
        (root / name).unlink()
        harness.poll(lambda: get(server, "/" + name).status == 404)
        write(root / name, new)
        harness.poll(lambda: get(server, "/" + name).status == 200)


@pytest.mark.parametrize("options", [(), ("warm_up=1",)], ids=["asked", "warm"])
def test_who_comes_first_after_a_while_does_not_get_the_old_file(start, root, options):
    """A cache in front of the server may be the only client, and keep what it gets for a day."""
    server = start("revalidate_ms=50", "list_directories=1", *options)
    targets = {"/text.txt": root / "text.txt", "/large.bin": root / "large.bin", "/sub/": root / "sub" / "index.html"}
    for target, path in targets.items():
        if not options:
            assert get(server, target).status == 200 and "new.txt" not in get(server, "/bare/").text
        for new in (b"new" + path.read_bytes()[3:], path.read_bytes()):
            os.replace(write(root / "next", new, age=30), path)
            time.sleep(0.15)
            assert get(server, target).body == new, target
    write(root / "bare" / "new.txt", "x")
    (root / "text.txt").unlink()
    time.sleep(0.15)
    assert get(server, "/text.txt").status == 404 and "new.txt" in get(server, "/bare/").text
    write(root / "text.txt", "again")
    time.sleep(0.15)
    assert get(server, "/text.txt").body == b"again"


def test_never_looked_at_again_if_so_wanted(start, root):
    server = start("revalidate_ms=4294967295")
    before = get(server, "/text.txt").body
    write(root / "text.txt", "new")
    assert get(server, "/text.txt").body == before


def slow_start(server, target):
    """A request whose client has read the head and nothing else yet."""
    asked = server.connect(receive_buffer=4096).start(target)
    asked.wait_head()
    return asked


def test_a_replaced_file_is_still_sent_whole(start, root):
    data = noise(30_000_000, seed=3)
    write(root / "huge.bin", data)
    server = start("revalidate_ms=10")
    assert get(server, "/huge.bin").body == data
    asked = slow_start(server, "/huge.bin")
    with asked.connection:
        write(root / "other.bin", noise(1000))
        os.replace(root / "other.bin", root / "huge.bin")
        harness.poll(lambda: get(server, "/huge.bin", method="HEAD").header("Content-Length") == "1000")
        assert asked.response().body == data


@pytest.mark.parametrize("options", [(), ("no_sendfile=1",)], ids=["sendfile", "streamed"])
def test_a_file_that_becomes_shorter_cuts_the_connection(start, root, options):
    write(root / "huge.bin", noise(30_000_000, seed=4))
    server = start(*options)
    asked = slow_start(server, "/huge.bin")
    with asked.connection:
        os.truncate(root / "huge.bin", 1_000_000)
        with pytest.raises((wire.Closed, ConnectionError)):
            asked.response()
    assert get(server, "/text.txt").status == 200


def test_a_file_that_grows_is_sent_as_large_as_it_was(start, root):
    write(root / "huge.bin", noise(20_000_000, seed=5))
    server = start()
    asked = slow_start(server, "/huge.bin")
    with asked.connection:
        with open(root / "huge.bin", "ab") as file:
            file.write(b"more")
        assert len(asked.response().body) == 20_000_000
        assert asked.connection.get("/text.txt").status == 200


# --- the cache and its limits ---


def test_the_cache_keeps_its_budget(start, root):
    for i in range(40):
        write(root / f"file{i}.bin", noise(10_000, seed=i))
    server = start("cache_size_max=100000", "cache_entries_max=1000")
    for number in range(2):
        for i in range(40):
            assert get(server, f"/file{i}.bin").body == noise(10_000, seed=i)
    counters = server.counters()
    assert counters["static_cache_bytes"] == 100_000 and counters["static_evictions"] == 70 and counters["static_misses"] == 80
    assert get(server, "/file39.bin").status == 200 and server.counter("static_hits") == 1


def test_entries_descriptors_and_missing_paths_are_bounded(start, root):
    for i in range(50):
        write(root / f"file{i}.bin", noise(5000, seed=i))
    server = start("cache_entries_max=20", "open_files_max=5", "sendfile_min=1", "cache_missing_max=3")
    before = server.descriptors()
    for i in range(50):
        assert get(server, f"/file{i}.bin").body == noise(5000, seed=i)
        assert get(server, f"/missing{i}").status == 404
    harness.poll(lambda: server.descriptors() <= before + 8)  # when those of the connections are closed
    assert server.counter("static_evictions") >= 90
    hits = server.counter("static_hits")
    for i in (47, 48, 49):
        assert get(server, f"/missing{i}").status == 404
    assert server.counter("static_hits") == hits + 3


def test_content_in_use_outlives_its_eviction(start, root):
    for i in range(20):
        write(root / f"file{i}.bin", noise(4_000_000, seed=i))
    server = start("sendfile_min=8000000", "cache_size_max=9000000")
    slow = []
    for i in range(4):
        slow.append(slow_start(server, f"/file{i}.bin"))
    for i in range(20):
        assert get(server, f"/file{i}.bin").body == noise(4_000_000, seed=i)
    for i, asked in enumerate(slow):
        assert asked.response().body == noise(4_000_000, seed=i)
        asked.connection.close()


def test_warmed_up_files_need_no_look_up(start, root):
    server = start("warm_up=1", "sendfile_min=100000")
    for name in ["text.txt", "small.bin", "large.bin", "sub/page.html", "bare/one.txt"]:
        assert get(server, "/" + name).body == (root / name).read_bytes()
    assert get(server, "/").body == b"<h1>home</h1>" and get(server, "/sub/").body == b"sub home"
    assert server.counter("static_misses") == 0 and server.counter("static_hits") == 7
    assert get(server, "/.hidden").status == 404


def test_a_crowd_asks_once(start, root):
    server = start()
    crowd = [server.connect().start("/large.bin") for _ in range(50)]
    data = (root / "large.bin").read_bytes()
    for asked in crowd:
        assert asked.response().body == data
        asked.connection.close()
    counters = server.counters()
    assert counters["static_hits"] + counters["static_misses"] == 50


def test_out_of_descriptors_is_503_and_passes(start, root):
    for i in range(60):
        write(root / f"file{i}.bin", noise(2000, seed=i))
    server = start("sendfile_min=1", "open_files_max=1000", "no_precompressed=1")
    used = server.descriptors()
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (used + 12, used + 12))
    with server.connect() as connection:
        statuses = [connection.get(f"/file{i}.bin").status for i in range(60)]
        assert set(statuses) == {200, 503} and statuses[0] == 200
        refused = connection.get("/counters")
        assert json.loads(refused.body)["rejected_no_descriptors"] == statuses.count(503)
        # Each 503 gave a descriptor back: the next look-up works.
        assert statuses.count(200) > 20
        response = connection.get("/text.txt")
        if response.status == 503:
            assert response.header("Retry-After") == "1"
            response = connection.get("/text.txt")
        assert response.status == 200


def test_the_last_descriptor_is_for_the_file_and_not_for_its_variants(start, root):
    for i in range(60):
        write(root / f"file{i}.bin", noise(2000, seed=i))
    server = start("sendfile_min=1", "open_files_max=1000")
    used = server.descriptors()
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (used + 12, used + 12))
    with server.connect() as connection:
        responses = [connection.get(f"/file{i}.bin") for i in range(60)]
    assert [response.body for response in responses] == [noise(2000, seed=i) for i in range(60)]


def test_each_refusal_for_want_of_a_descriptor_is_counted(start, root):
    """Of all who wait for the same file."""
    server = start()
    connections = [server.connect() for _ in range(10)]
    assert {connection.get("/plain").status for connection in connections} == {200}
    before = server.descriptors()
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (before - 3, 1024))
    with server.standing_still():  # so that they come together
        asked = [connection.start("/text.txt") for connection in connections]
    statuses = [one.response().status for one in asked]
    resource.prlimit(server.pid(), resource.RLIMIT_NOFILE, (1024, 1024))
    for connection in connections:
        connection.close()
    assert statuses == [503] * 10 and server.counter("rejected_no_descriptors") == 10


def test_too_many_look_ups_are_503(start, root):
    server = start("helper_threads=1", "backlog_max=2")
    names = [f"/no{i}" for i in range(3000)]
    with server.connect() as connection:
        for name in names[:100]:
            connection.get(name)
    connections = [server.connect() for _ in range(60)]
    busy = 0
    for number in range(40):
        with server.standing_still():  # so that they come together
            asked = [connection.start(f"/none/{number}/{i}") for i, connection in enumerate(connections)]
        statuses = [one.response().status for one in asked]
        assert set(statuses) <= {404, 503}
        busy += statuses.count(503)
        if busy:
            break
    assert busy > 0 and server.counter("rejected_static_busy") == busy
    for connection in connections:
        connection.close()
    harness.poll(lambda: get(server, "/text.txt").status == 200)


def test_a_file_that_is_not_looked_at_again_is_no_refusal(start, root):
    """Its request is served with what the cache has, whether there was a thread or not."""
    names = [f"/file{i}.txt" for i in range(60)]
    for name in names:
        write(root / name[1:], name)
    server = start("helper_threads=1", "backlog_max=1", "revalidate_ms=1")
    with server.connect() as connection:
        for name in names:
            assert connection.get(name).body == name.encode()
    connections = [server.connect() for _ in names]
    with server.standing_still():  # so that they come together
        asked = [connection.start(name) for connection, name in zip(connections, names)]
    assert [one.response().body for one in asked] == [name.encode() for name in names]
    for connection in connections:
        connection.close()
    counters = server.counters()
    assert 0 < counters["static_revalidated"] < 60 and counters["rejected_static_busy"] == 0


# --- clients that misbehave ---


@pytest.mark.parametrize("options", [(), ("no_sendfile=1",), ("sendfile_min=20000000",)], ids=["sendfile", "streamed", "memory"])
def test_clients_that_go_in_the_middle(start, root, options):
    write(root / "huge.bin", noise(10_000_000, seed=6))
    server = start(*options)
    get(server, "/huge.bin")
    before = server.descriptors()
    for i in range(30):
        connection = slow_start(server, "/huge.bin").connection
        if i % 3:
            connection.socket.recv(1 if i % 2 else 100_000)
        connection.reset() if i % 2 else connection.close()
    harness.poll(lambda: server.descriptors() <= before + 1)
    assert get(server, "/huge.bin").body == noise(10_000_000, seed=6)


def test_slow_readers_do_not_hold_the_others(start, root):
    data = write(root / "huge.bin", noise(12_000_000, seed=8)).read_bytes()
    server = start("no_sendfile=1")
    slow = [slow_start(server, "/huge.bin") for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for body in pool.map(lambda _: get(server, "/huge.bin").body, range(8)):
            assert body == data
    for asked in slow:
        assert asked.response().body == data
        asked.connection.close()


def drop_from_memory(path):
    with open(path, "rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_file_that_is_not_in_memory_is_brought_by_helpers(start, root, protocol):
    data = write(root / "huge.bin", noise(5_000_000, seed=10)).read_bytes()
    server = start("revalidate_ms=4294967295")
    with server.connect() as connection:
        assert connection.get("/huge.bin").body == data
        before = server.counter("file_pieces_brought")
        for i in range(5):
            drop_from_memory(root / "huge.bin")
            headers = [("Range", f"bytes={i * 1_000_000}-{i * 1_000_000 + 999_999}")] if i else []
            assert connection.get("/huge.bin", headers=headers).body == (data[i * 1_000_000 : (i + 1) * 1_000_000] if i else data)
        assert protocol == "http2" or server.counter("file_pieces_brought") > before  # there helpers read all of it


def test_pipelined_requests_are_served_in_order(server, root):
    names = ["/text.txt", "/small.bin", "/nothing", "/large.bin", "/", "/sub", "/empty.txt"] * 4
    with server.connect() as connection:
        asked = [connection.start(name) for name in names]
        for name, one in zip(names, asked, strict=True):
            response = one.response()
            if response.status == 200:
                assert response.body == (root / (name[1:] or "index.html")).read_bytes()
            else:
                assert (name, response.status) in [("/nothing", 404), ("/sub", 301)]


def test_a_stop_waits_for_downloads_and_not_for_look_ups(start, root):
    write(root / "huge.bin", noise(8_000_000, seed=9))
    server = start()
    asked = slow_start(server, "/huge.bin")
    server.signal()
    assert asked.response().body == noise(8_000_000, seed=9)
    asked.connection.close()
    assert server.wait() == 0


# --- registration ---


def test_an_unreadable_root_is_refused_with_its_name(start, tmp_path):
    for where, why in [(tmp_path / "nowhere", "No such file"), (tmp_path / "secret.txt", "Not a directory")]:
        server = start(where=where, wait=False)
        assert server.wait() == 3
        assert str(where) in server.stderr() and why in server.stderr()


def test_wrong_options_are_refused(start):
    for option, text in [("sendfile_min=99999999", "sendfile_min is 99999999, allowed are 1..67108864 bytes"), ("fallback=../x", "fallback has \"../x\""),
                         ("type=a.b:text/plain", "types has \"a.b\""), ("index=a/b", "index_files has \"a/b\""), ("helper_threads=65", "helper_threads is 65")]:
        server = start(option, wait=False)
        assert server.wait() == 3
        assert text in server.stderr(), server.stderr()


# --- other people's clients ---


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_curl_downloads_resumes_and_asks_conditionally(server, root, tmp_path):
    data = (root / "large.bin").read_bytes()
    out = tmp_path / "out.bin"
    curl = lambda *words: subprocess.run(server.curl(*map(str, words)), check=True, capture_output=True, text=True, timeout=20).stdout
    curl("-o", out, server.url("/large.bin"))
    assert out.read_bytes() == data
    out.write_bytes(data[:700_000])
    curl("-C", "-", "-o", out, server.url("/large.bin"))
    assert out.read_bytes() == data
    assert curl("-z", root / "large.bin", "-o", "/dev/null", "-w", "%{http_code}", server.url("/large.bin")) == "304"


def test_httpx_and_http_client(server, root):
    with server.httpx() as client:
        for name in ["text.txt", "small.bin", "large.bin"]:
            assert client.get("/" + name).content == (root / name).read_bytes()
    client = http.client.HTTPConnection(*server.address)
    client.request("GET", "/text.txt", headers={"Range": "bytes=-10"})
    assert client.getresponse().read() == (root / "text.txt").read_bytes()[-10:]
    client.close()


# --- several loops ---


@pytest.mark.threads
def test_several_loops_serve_the_same(start, root):
    server = start("config.io_threads=3", "revalidate_ms=5", "warm_up=1", "sendfile_min=20000")
    stop = time.monotonic() + 2

    def ask(seed):
        choose = random.Random(seed)
        while time.monotonic() < stop:
            name = choose.choice(["text.txt", "small.bin", "large.bin", "missing"])
            response = get(server, "/" + name)
            assert response.status == 404 or response.body in (root / name).read_bytes() or name == "text.txt"

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(ask, seed) for seed in range(6)]
        while time.monotonic() < stop:
            replacement = write(root / "next.txt", f"now {time.monotonic()}\n" * 100)
            os.replace(replacement, root / "text.txt")
            time.sleep(0.01)
        for future in futures:
            future.result()


