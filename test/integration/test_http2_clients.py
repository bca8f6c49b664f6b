"""HTTP/2 as programs of others speak it: curl, nghttp, httpx, Node, Go, and nginx and haproxy in front of the server. Those
that are not installed are skipped."""
import hashlib
import json
import os
import re
import shutil
import subprocess

import httpx
import pytest

from neutral import Http1, Http2
from proxies import CHECK, haproxy, needs, nginx

LARGE = 64 << 20
WINDOW_SETTINGS = {"http2_stream_window": 65535, "http2_connection_window": 262144}


def run(*command, seconds=60, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=seconds, **options)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    return done.stdout


# --- curl ---


def curl(site, *arguments):
    host = "a.test:%d" % site.address[1]
    protocol = ["--http2", "--cacert", site.pki.ca] if site.context else ["--http2-prior-knowledge"]
    words = [str(one).replace("URL", f"{site.scheme}://{host}") for one in arguments]
    return run("curl", "-sS", "--max-time", 30, "--resolve", f"{host}:{site.address[0]}", *protocol, *words)


@needs("curl")
def test_curl(site, tmp_path):
    assert curl(site, "-w", "%{http_version}", "URL/") == b"Hello, World!2"
    content = os.urandom(800000)
    (tmp_path / "body").write_bytes(content)
    assert curl(site, "--data-binary", f"@{tmp_path}/body", "URL/body") == content
    if site.context:  # in clear curl 7.88 sends its preface again for the second transfer
        numbers = curl(site, "--parallel", "--no-progress-meter", *[f"URL/n/{i % 10}" for i in range(20)])
        assert sorted(numbers) == sorted(b"01234567890123456789")


@needs("curl")
def test_curl_gets_a_response_before_its_request_is_whole(site, tmp_path):
    """curl 7.88 and haproxy 2.6 drop one that RST_STREAM follows while they send."""
    (tmp_path / "body").write_bytes(os.urandom(3 << 20))
    for _ in range(5):
        status = ["-o", "/dev/null", "-w", "%{http_code}", "--data-binary", f"@{tmp_path}/body"]
        assert curl(site, *status, "URL/no-such-route") == b"404"
        assert curl(site, *status, "URL/body") == b"413"


# --- nghttp ---


@needs("nghttp")
def test_nghttp(site, tmp_path):
    assert run("nghttp", site.url("/n/7")) == b"7"
    statistics = run("nghttp", "-ns", "-m", 100, site.url("/static?size=10000")).decode()
    assert len(re.findall(r" 200 +9K /static", statistics)) == 100
    (tmp_path / "body").write_bytes(bytes(200000))
    shown = run("nghttp", "-v", "-d", tmp_path / "body", "-H", "expect: 100-continue", "-t", 20, "--expect-continue", site.url("/body")).decode()
    assert ":status: 100" in shown and ":status: 200" in shown and "GOAWAY" not in shown.partition("send GOAWAY")[0]
    trailers = run("nghttp", "-d", tmp_path / "body", "--trailer", "x-check: 1", site.url("/body"))
    assert trailers == bytes(200000)


# --- httpx ---


def test_httpx(site):
    verify = site.pki.context(alpn=["h2"]) if site.context else True
    with httpx.Client(http1=False, http2=True, verify=verify) as client:
        extensions = {"sni_hostname": "a.test"}
        response = client.get(site.url("/n/9"), extensions=extensions)
        assert response.http_version == "HTTP/2" and response.text == "9"
        body = os.urandom(200000)
        assert client.post(site.url("/body"), content=body, extensions=extensions).content == body


# --- Node ---

NODE = """
const http2 = require('http2'), fs = require('fs');
const [url, ca] = process.argv.slice(1);
const session = http2.connect(url, ca ? {ca: fs.readFileSync(ca), servername: 'a.test'} : {});
function ask(headers, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers, {endStream: body === undefined}), parts = [];
    let head;
    stream.on('response', found => head = found);
    stream.on('data', part => parts.push(part));
    stream.on('end', () => resolve({status: head[':status'], body: Buffer.concat(parts)}));
    stream.on('error', reject);
    if (body !== undefined) stream.end(body);
  });
}
function check(what, name) { if (!what) throw new Error(name); }
(async () => {
  const all = await Promise.all(Array.from({length: 90}, (_, i) => ask({':path': '/n/' + i})));
  all.forEach((one, i) => check(one.status === 200 && String(one.body) === String(i), 'mixed up ' + i));
  const body = Buffer.alloc(700000, 'body');
  check((await ask({':path': '/body', ':method': 'POST'}, body)).body.equals(body), 'echo');
  check((await ask({':path': '/missing'})).status === 404, '404');
  check((await ask({':path': '/pieces?n=90&size=900'})).body.length === 81000, 'pieces');
  check((await ask({':path': '/static?size=3000000'})).body.length === 3000000, 'large');
  const cancelled = session.request({':path': '/later?key=node'});
  cancelled.on('error', () => {});
  await new Promise(resolve => session.ping(resolve));
  cancelled.close(http2.constants.NGHTTP2_CANCEL);
  check((await ask({':path': '/n/5'})).status === 200, 'after a reset');
  session.close(() => console.log('fine'));
})().catch(error => { console.error(error); process.exit(1); });
"""


@needs("node")
def test_node(site):
    assert run("node", "-e", NODE, site.url(""), *([site.pki.ca] if site.context else [])) == b"fine\n"
    site.server.ask("/release?key=node")


# --- Go ---

GO = """
package main

import ("bytes"; "crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "os"; "sync")

func ask(client *http.Client, method, url string, body []byte) (*http.Response, []byte) {
	request, _ := http.NewRequest(method, url, bytes.NewReader(body))
	response, err := client.Do(request)
	if err != nil { panic(err) }
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil { panic(err) }
	if response.ProtoMajor != 2 { panic(response.Proto) }
	return response, text
}

func main() {
	base := os.Args[1]
	pool := x509.NewCertPool()
	if len(os.Args) > 2 { pem, _ := os.ReadFile(os.Args[2]); pool.AppendCertsFromPEM(pem) }
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "a.test"}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for i := 0; i < 300; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, text := ask(client, "GET", fmt.Sprint(base, "/n/", i), nil); string(text) != fmt.Sprint(i) { panic(string(text)) }
		}()
	}
	group.Wait()
	body := bytes.Repeat([]byte("body"), 200000)
	if _, text := ask(client, "POST", base+"/body", body); !bytes.Equal(text, body) { panic("echo") }
	if response, _ := ask(client, "GET", base+"/missing", nil); response.StatusCode != 404 { panic("404") }
	if _, text := ask(client, "GET", base+"/static?size=3000000", nil); len(text) != 3000000 { panic("large") }
	if response, _ := ask(client, "POST", base+"/sum", make([]byte, 3000000)); response.StatusCode != 413 { panic("413") }
	fmt.Println("fine")
}
"""


@pytest.fixture(scope="session")
def go_client(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    version = re.search(rb"go1\.(\d+)", run("go", "version"))
    if int(version[1]) < 24:
        pytest.skip("Go speaks HTTP/2 in clear since 1.24")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(GO)
    run("go", "build", "-o", folder / "client", folder / "main.go", seconds=80, env={**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"})
    return folder / "client"


def test_go(go_client, site):
    assert run(go_client, site.url(""), *([site.pki.ca] if site.context else [])) == b"fine\n"


# --- proxies in front ---


def visit(connection):
    """What a client sees through a proxy is what it sees without."""
    for i in range(50):
        assert connection.get(f"/n/{i}").text == str(i)
    body = os.urandom(300_000)
    assert connection.get("/body", method="POST", body=body).body == body
    assert len(connection.get("/static?size=3000000").body) == 3_000_000
    assert len(connection.get("/pieces?n=50&size=1000").body) == 50_000
    assert connection.get("/empty/204").status == 204 and connection.get("/missing").status == 404
    assert connection.get("/static?size=10", method="HEAD").header("Content-Length") == "10"
    seen = json.loads(connection.get("/echo/a?b=c", headers=[("Cookie", "a=1; b=2"), ("X-Repeated", "x")]).body)
    assert seen["path"] == "/echo/a" and seen["query"] == "b=c" and seen["x_first"] == "x"


@needs("nginx")
def test_nginx_in_front(serve, tmp_path):
    """HTTP/2 of its clients, HTTP/1.1 to us."""
    server = serve()
    options = 'proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;'
    with nginx(server.address, tmp_path, options) as address, Http2(address) as client:
        visit(client)
    assert server.counter("http2_connections") == 0


@needs("haproxy")
def test_haproxy_in_front(site, tmp_path):
    """HTTP/1.1 of its clients, HTTP/2 to us: by prior knowledge, or by ALPN."""
    options = f"ssl alpn h2 ca-file {site.pki.ca} verifyhost a.test check check-alpn h2" if site.context else "proto h2 check"
    with haproxy(site.address, tmp_path, options, check=CHECK) as address, Http1(address) as client:
        visit(client)
    assert site.server.counter("http2_connections") > 0 and site.server.counter("http2_connection_errors") == 0


# --- large bodies through small windows ---


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    block = os.urandom(1 << 20)
    with open(folder / "file", "wb") as file:
        for i in range(LARGE >> 20):
            file.write(i.to_bytes(8, "big") + block[8:])
    yield folder / "file"
    (folder / "file").unlink()


@needs("nghttp")
def test_a_large_download_through_a_window_of_64_kib(make_site, large, tmp_path):
    site = make_site("--tls-static", large.parent)
    with subprocess.Popen(["nghttp", "-w16", "-W16", site.url("/tls/files/file")], stdout=subprocess.PIPE) as client:
        found = hashlib.file_digest(client.stdout, "sha256").digest()
    assert client.returncode == 0
    with open(large, "rb") as file:
        assert found == hashlib.file_digest(file, "sha256").digest()


@needs("nghttp")
def test_a_large_upload_through_a_window_of_64_kib(make_site, large):
    site = make_site(settings=WINDOW_SETTINGS)
    growth = site.server.memory_growth(highest=True)
    shown = json.loads(run("nghttp", "-H:method: PUT", "-d", large, site.url("/tls/sum")))
    assert shown["bytes"] == LARGE
    with open(large, "rb") as file:
        assert shown["sum"] == sum(sum(block) for block in iter(lambda: file.read(1 << 20), b""))
    growth.stays_below(8 << 20)
