"""Real clients: curl, http.client, httpx, h11 and node."""
import concurrent.futures
import http.client
import json
import shutil
import socket
import subprocess

import h11
import httpx
import pytest

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


def curl(*args, data=None):
    result = subprocess.run(["curl", "-sS", "--max-time", "20", *args], input=data, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@needs_curl
class TestCurl:
    def test_get(self, server):
        assert curl(server.url("/")) == b"Hello, World!"
        assert curl("-0", "-i", server.url("/")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert curl("-w", "%{http_version} %{http_code}", "-o", "/dev/null", server.url("/missing")) == b"1.1 404"

    def test_keep_alive(self, server):
        out = curl("-w", "%{num_connects} ", server.url("/n/1"), server.url("/n/2"), server.url("/n/3"))
        assert out == b"11 20 30 "

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    def test_methods_with_a_body(self, server, method):
        assert curl("-X", method, "-d", "hello", server.url("/body")) == b"hello"
        assert json.loads(curl("-X", method, server.url("/echo")))["method"] == method

    def test_head_and_options(self, server):
        out = curl("-I", server.url("/static?size=5000"))
        assert b"Content-Length: 5000\r\n" in out and out.endswith(b"\r\n\r\n")
        assert b"\r\nAllow: " in curl("-i", "-X", "OPTIONS", server.url("/"))

    def test_large_upload_waits_for_100_continue(self, server):
        body = b"x" * 1_000_000
        out = curl("-v", "--stderr", "-", "-H", "Expect: 100-continue", "-H", "Content-Type: text/plain", "--data-binary", "@-", server.url("/sum"), data=body)
        assert b"HTTP/1.1 100 Continue" in out and b"\n1000000 " in out.replace(b"\r", b"\n")

    def test_upload_that_is_too_large(self, server):
        out = curl("-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect: 100-continue", "--data-binary", "@-", server.url("/sum"), data=b"x" * 3_000_000)
        assert out == b"413"

    def test_chunked_upload(self, server):
        assert curl("-T", "-", server.url("/body"), data=b"piece by piece" * 1000) == b"piece by piece" * 1000

    def test_form_and_compressed_and_redirect(self, server):
        assert json.loads(curl("--compressed", "-G", "-d", "a=b", "--data-urlencode", "d=e&f g", server.url("/echo")))["query_params"][1] == ["d", "e&f g"]
        assert curl("-L", server.url("/redirect?to=/n/9")) == b"9"

    def test_parallel(self, server):
        out = curl("-Z", "--parallel-max", "20", *[server.url(f"/static?size={i}00") for i in range(50)])
        assert len(out) == sum(i * 100 for i in range(50))

    def test_download_of_pieces_and_files(self, server, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(b"y" * 3_000_000)
        assert curl(server.url(f"/file?path={path}")) == path.read_bytes()
        assert len(curl(server.url("/pieces?n=50&size=1000"))) == 50_000


def test_http_client(server):
    client = http.client.HTTPConnection(*server.address[:2], timeout=20)
    for i in range(10):
        client.request("POST", "/body", body=iter([b"a" * 100, b"b" * i]), headers={"Content-Type": "text/plain"}, encode_chunked=True)
        assert client.getresponse().read() == b"a" * 100 + b"b" * i
        client.request("GET", f"/n/{i}")
        assert client.getresponse().read() == b"%d" % i
        client.request("GET", "/pieces?n=4")
        assert len(client.getresponse().read()) == 20
    client.request("HEAD", "/static?size=12345")
    response = client.getresponse()
    assert response.getheader("Content-Length") == "12345" and response.read() == b""
    client.close()


def test_httpx(server):
    with httpx.Client(base_url=server.url(""), timeout=20) as client:
        response = client.get("/echo/a b", params={"q": "ä&"}, headers={"X-Repeated": "1"})
        seen = response.json()
        assert seen["query_params"] == [["q", "ä&".encode().decode("latin-1")]] and seen["x_first"] == "1" and seen["path"] == "/echo/a b"
        assert client.post("/body", content=b"x" * 100_000).content == b"x" * 100_000
        assert client.put("/body", content=iter([b"1", b"22", b"333"])).content == b"122333"
        assert client.get("/redirect", params={"to": "/n/5"}, follow_redirects=True).text == "5"
        assert client.request("DELETE", "/echo").json()["method"] == "DELETE"
        with client.stream("GET", "/pieces?n=100&size=100") as stream:
            assert sum(len(part) for part in stream.iter_raw()) == 10_000
        assert client.get("/nothing").status_code == 500


def test_httpx_in_parallel(server):
    limits = httpx.Limits(max_connections=16, max_keepalive_connections=16)
    with httpx.Client(base_url=server.url(""), timeout=20, limits=limits) as client, concurrent.futures.ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(lambda i: client.get(f"/later?how=request&ms={i % 5}&i={i}").text, range(200)))
    assert responses == [f"/later?how=request&ms={i % 5}&i={i}" for i in range(200)]


@pytest.mark.parametrize("target", ["/", "/pieces?n=3&size=7", "/static?size=100000", "/empty/204", "/missing", "/nothing", "/redirect", "/later?ms=1"])
def test_h11_finds_nothing_to_complain_about(server, target):
    client = h11.Connection(h11.CLIENT)
    with socket.create_connection(server.address[:2], timeout=20) as one:
        for _ in range(3):
            one.sendall(client.send(h11.Request(method="GET", target=target, headers=[("Host", "a")])))
            one.sendall(client.send(h11.EndOfMessage()))
            while True:
                event = client.next_event()
                if event is h11.NEED_DATA:
                    client.receive_data(one.recv(65536))
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    assert isinstance(event, (h11.Response, h11.Data, h11.InformationalResponse)), event
            client.start_next_cycle()


NODE = """
const http = require('http');
const [host, port] = process.argv.slice(1);
const agent = new http.Agent({keepAlive: true, maxSockets: 4});
function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({host, port, method, path, agent}, response => {
      const parts = [], port = response.socket.localPort;
      response.on('data', part => parts.push(part));
      response.on('end', () => resolve({status: response.statusCode, body: Buffer.concat(parts).toString(), port}));
    });
    request.on('error', reject);
    if (body) { request.write(body); request.write(body); }
    request.end();
  });
}
(async () => {
  const all = await Promise.all(Array.from({length: 40}, (_, i) => ask('GET', '/n/' + i)));
  all.forEach((one, i) => { if (one.body !== String(i)) throw new Error('mixed up ' + i); });
  if (new Set(all.map(one => one.port)).size > 4) throw new Error('no connection was used again');
  const posted = await ask('POST', '/body', 'piece');
  if (posted.body !== 'piecepiece') throw new Error(posted.body);
  if ((await ask('GET', '/missing')).status !== 404) throw new Error('404');
  if ((await ask('GET', '/pieces?n=9&size=9')).body.length !== 81) throw new Error('pieces');
  if (typeof fetch === 'function') {
    const response = await fetch(`http://${host}:${port}/echo/x?y=z`, {method: 'PUT', body: 'hello'});
    const seen = await response.json();
    if (seen.method !== 'PUT' || seen.body !== 'hello' || seen.query !== 'y=z') throw new Error(JSON.stringify(seen));
  }
  agent.destroy();
  console.log('fine');
  process.exit(0);
})().catch(error => { console.error(error); process.exit(1); });
"""


@needs_node
def test_node(server):
    result = subprocess.run(["node", "-e", NODE, server.address[0], str(server.address[1])], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0 and result.stdout == "fine\n", result.stderr
