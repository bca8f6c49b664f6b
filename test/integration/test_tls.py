"""HTTPS as clients meet it: curl, openssl s_client, Python; certificates by name, versions, ALPN, resumption, client
certificates, reload, wss. What peers that misbehave get is in test_tls_abuse.py."""
import asyncio
import contextlib
import hashlib
import json
import os
import re
import ssl
import subprocess
import threading
import time

import httpx
import pytest

from harness import HOST, free_port, poll
from pki import OPTIONS, VERSIONS, ByHand, Pki, TlsConnection, needs_mbedtls, needs_openssl, openssl, records
from wire import request

pytestmark = pytest.mark.tls


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.issue("a-ec", "/CN=a.test", ["a.test", "www.a.test"])
    made.issue("a-rsa", "/CN=a.test", ["a.test", "www.a.test"], kind="rsa")
    made.issue("b", "/CN=b.test", ["b.test", "*.b.test"])
    made.issue("alice", "/O=Example/CN=alice", usage="clientAuth")
    made.authority("other")
    made.issue("mallory", "/CN=mallory", ca="other", usage="clientAuth")
    return made


@pytest.fixture
def https(serve):
    """Starts the test server with a plain port and a TLS port; `.tls` is the address of the latter."""

    def start(*arguments, **options):
        port = free_port()
        server = serve("http_test_server", "--tls-listen", f"{HOST}:{port}", *arguments, **options)
        server.tls = (HOST, port)
        return server

    return start


@pytest.fixture
def site(https, pki):
    return https(*pki.use("a-ec"), *pki.use("a-rsa"), *pki.use("b"))


def connect(server, pki, name="a.test", session=None, **options):
    return TlsConnection(server.tls, pki.context(**options), name, session)


def curl(server, pki, *arguments, name="a.test"):
    command = ["curl", "-sS", "--max-time", "30", "--cacert", pki.ca, "--connect-to", f"::{HOST}:{server.tls[1]}", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def s_client(server, *arguments, data=b"", name="a.test"):
    command = ["openssl", "s_client", "-connect", f"{HOST}:{server.tls[1]}", "-servername", name, *map(str, arguments)]
    done = subprocess.run(command, input=data, capture_output=True, timeout=30, check=False)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def serial(connection):
    return int(connection.socket.getpeercert()["serialNumber"], 16)


# --- plain use ---


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_gets_and_posts(site, pki, version):
    options = ["--tlsv1.2", "--tls-max", version]
    status, body, errors = curl(site, pki, *options, "https://a.test/")
    assert (status, body) == (0, b"Hello, World!"), errors
    data = bytes(range(256)) * 3000
    status, body, errors = curl(site, pki, *options, "--data-binary", "@-", "https://a.test/sum", "-X", "PUT", "-d", "x")
    assert status == 0, errors
    with connect(site, pki) as connection:
        assert connection.get("/body", method="POST", body=data).body == data


def test_httpx_and_http_client_keep_a_connection(site, pki):
    transport = httpx.Client(verify=pki.context(check=False))
    with transport as client:
        for _ in range(3):
            response = client.get(f"https://{HOST}:{site.tls[1]}/")
            assert response.status_code == 200 and response.text == "Hello, World!"
    assert site.counter("tls_handshakes") == 1


def test_a_request_knows_whether_it_came_by_tls(site, pki):
    with connect(site, pki) as connection:
        assert json.loads(connection.get("/tls").body) == {"tls": 1, "subject": None}
    assert json.loads(site.get("/tls").body) == {"tls": 0, "subject": None}


def test_the_start_line_names_the_tls_address(site):
    assert f"{HOST}:{site.tls[1]} (TLS)" in site.stderr()


def test_a_certificate_for_development_is_made(https):
    server = https("--development", "yes")
    text = s_client(server, name="localhost")
    pem = re.search(r"-----BEGIN CERT.*END CERTIFICATE-----", text, re.S)[0]
    shown = openssl("x509", "-noout", "-text", data=pem.encode()).decode()
    assert "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1" in shown
    assert "prime256v1" in shown and "CA:FALSE" in shown
    context = ssl.create_default_context(cadata=pem)
    with TlsConnection(server.tls, context, "localhost") as connection:
        assert connection.get("/").status == 200


# --- certificates by name ---


@pytest.mark.parametrize(
    ("name", "common_name"),
    [("a.test", "a.test"), ("www.a.test", "a.test"), ("B.test", "b.test"), ("x.b.test", "b.test"), ("x.y.b.test", "a.test"),
     ("unknown.test", "a.test"), (None, "a.test")],
)  # fmt: skip
@pytest.mark.parametrize("version", VERSIONS)
def test_the_name_chooses_the_certificate(site, pki, name, common_name, version):
    context = pki.context(version=version)
    context.check_hostname = False
    with TlsConnection(site.tls, context, name) as connection:
        subject = dict(pair[0] for pair in connection.socket.getpeercert()["subject"])
        assert subject["commonName"] == common_name


@pytest.mark.parametrize("kind", ["ECDSA", "RSA"])
def test_the_client_chooses_the_kind_of_key(site, pki, kind):
    ciphers = f"ECDHE-{kind}-AES128-GCM-SHA256"
    with connect(site, pki, version=ssl.TLSVersion.TLSv1_2, ciphers=ciphers) as connection:
        assert connection.socket.cipher()[0] == ciphers
        assert connection.get("/").status == 200


@needs_openssl
def test_both_kinds_of_key_in_tls_1_3(site):
    assert "Peer signature type: RSA-PSS" in s_client(site, "-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256")
    assert "Peer signature type: ECDSA" in s_client(site, "-tls1_3")


# --- versions, ciphers, ALPN ---


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_are_refused(site, version):
    text = s_client(site, version, "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in text, text
    site.wait_counter("rejected_tls_version", 1)


@needs_openssl
def test_the_minimum_version_is_kept(https, pki):
    server = https(*pki.use("a-ec"), "--tls-min", "1.3")
    assert "alert protocol version" in s_client(server, "-tls1_2")
    with connect(server, pki) as connection:
        assert connection.socket.version() == "TLSv1.3"
    server = https(*pki.use("a-ec"), "--tls-max", "1.2")
    with connect(server, pki) as connection:
        assert connection.socket.version() == "TLSv1.2"


@needs_mbedtls
def test_a_client_of_tls_1_3_alone_is_refused(site):
    assert "handshake failure" in s_client(site, "-tls1_3")
    site.wait_counter("rejected_tls_cipher", 1)


@pytest.mark.parametrize("cipher", ["AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA"])
def test_weak_ciphers_are_refused(site, cipher):
    text = s_client(site, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
    assert "handshake failure" in text, text
    site.wait_counter("rejected_tls_cipher", 1)


def test_alpn_overlap_is_chosen_and_none_is_refused(site, pki):
    with connect(site, pki, alpn=["x", "http/1.1"]) as connection:
        assert connection.socket.selected_alpn_protocol() == "http/1.1"
    with connect(site, pki, alpn=["http/1.1", "h2"]) as connection:
        assert connection.socket.selected_alpn_protocol() == "h2"
    with connect(site, pki) as connection:
        assert connection.socket.selected_alpn_protocol() is None
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        connect(site, pki, alpn=["spdy/3"])
    site.wait_counter("rejected_tls_alpn", 1)


def test_alpn_can_be_ignored_or_another(https, pki):
    server = https(*pki.use("a-ec"), "--alpn", "none")
    with connect(server, pki, alpn=["h2"]) as connection:
        assert connection.socket.selected_alpn_protocol() is None
    server = https(*pki.use("a-ec"), "--alpn", "x, http/1.1")
    with connect(server, pki, alpn=["http/1.1", "x"]) as connection:
        assert connection.socket.selected_alpn_protocol() == "x"


def test_renegotiation_and_compression_are_off(site):
    text = s_client(site, "-tls1_2", data=b"R\n")
    assert "RENEGOTIATING" in text and "no renegotiation" in text, text
    assert "Compression: NONE" in text


@needs_openssl
def test_ocsp_response_is_stapled(https, pki):
    index = pki.path("index.txt")
    number = openssl("x509", "-in", pki.path("a-ec.pem"), "-noout", "-serial").decode().strip().split("=")[1]
    index.write_text(f"V\t350101000000Z\t\t{number}\tunknown\t/CN=a.test\n")
    openssl("ocsp", "-index", index, "-rsigner", pki.ca, "-rkey", pki.path("ca.key"), "-CA", pki.ca, "-issuer", pki.ca,
            "-cert", pki.path("a-ec.pem"), "-respout", pki.path("a.ocsp"), "-ndays", "1")  # fmt: skip
    server = https(*pki.use("a-ec"), "--ocsp", pki.path("a.ocsp"), *pki.use("a-rsa"))
    for version in OPTIONS:
        text = s_client(server, version, "-status")
        assert "OCSP Response Status: successful" in text and "Cert Status: good" in text
        assert "OCSP response: no response sent" in s_client(server, version, "-status", "-sigalgs", "rsa_pss_rsae_sha256")


# --- resumption ---


@pytest.mark.parametrize("version", OPTIONS)
def test_a_session_is_resumed_for_its_name_only(site, tmp_path, version):
    saved = tmp_path / "session"
    # A request, because the tickets of TLS 1.3 come behind the handshake.
    ask = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    first = s_client(site, version, "-sess_out", saved, "-ign_eof", data=ask)
    assert "New, " in first and "Hello, World!" in first
    again = s_client(site, version, "-sess_in", saved, "-ign_eof", data=ask)
    assert "Reused, " in again and "Hello, World!" in again
    assert site.counter("tls_resumed") == 1
    for name in ("b.test", "www.a.test", "x.b.test"):
        other = s_client(site, version, "-sess_in", saved, "-ign_eof", data=ask, name=name)
        assert "Reused, " not in other, name
    assert site.counter("tls_resumed") == 1
    versions = {one: site.counter(f"tls_version_1_{one}") for one in (2, 3)}
    assert versions == {one: 5 if version == f"-tls1_{one}" else 0 for one in (2, 3)}


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_survive_a_reload_and_any_loop_knows_them(https, pki, version):
    server = https(*pki.use("a-ec"), settings={"io_threads": 4})
    context = pki.context(version=version)
    with TlsConnection(server.tls, context) as connection:
        assert connection.get("/").status == 200
        session = connection.socket.session
    assert server.get("/tls/reload", method="POST").text == "reloaded"
    for _ in range(8):
        with TlsConnection(server.tls, context, session=session) as connection:
            assert connection.socket.session_reused and connection.get("/").status == 200
            session = connection.socket.session


def test_tickets_can_be_off(https, pki):
    server = https(*pki.use("a-ec"), "--tickets", "off")
    for version in OPTIONS:
        text = s_client(server, version, "-ign_eof", data=b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert "Hello, World!" in text and "TLS session ticket:" not in text


# --- client certificates ---


def test_clients_may_show_a_certificate(https, pki):
    server = https(*pki.use("a-ec"), "--client-ca", pki.ca, "--clients", "verify")
    with connect(server, pki, client="alice") as connection:
        assert json.loads(connection.get("/tls").body) == {"tls": 1, "subject": "CN=alice,O=Example"}
    with connect(server, pki) as connection:
        assert json.loads(connection.get("/tls").body)["subject"] is None
    with pytest.raises((ssl.SSLError, ConnectionError)), connect(server, pki, client="mallory") as connection:
        connection.get("/tls")
    server.wait_counter("rejected_tls_client_certificate", 1)


@pytest.mark.parametrize("clients", ["verify", "require"])
def test_a_certificate_for_servers_is_none_for_clients(https, pki, clients):
    server = https(*pki.use("a-ec"), "--client-ca", pki.ca, "--clients", clients)
    with pytest.raises((ssl.SSLError, ConnectionError)), connect(server, pki, client="b") as connection:
        connection.get("/tls")
    server.wait_counter("rejected_tls_client_certificate", 1)


SUBJECTS = {  # as openssl's -subj: as in RFC 4514
    r'/C=DE/O=Example\, "x"/CN=Jürgen': r'CN=Jürgen,O=Example\, \"x\",C=DE',
    "/O=a+OU=b+CN=c/CN=d;<e>": r"CN=d\;\<e\>,OU=b+O=a+CN=c",
    r"/O= #a /CN=#b\\\+c=d": r"CN=\#b\\\+c=d,O=\ #a\ ",
    "/CN=tab\tx/CN=CN=alice,O=Example": r"CN=CN=alice\,O=Example,CN=tab\09x",
    "/2.5.4.15=unknown/CN=x": None,
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_subjects_are_written_without_ambiguity(https, pki, subject):
    pki.issue("odd", subject, usage="clientAuth")
    server = https(*pki.use("a-ec"), "--client-ca", pki.ca, "--clients", "require")
    with connect(server, pki, client="odd") as connection:
        shown = json.loads(connection.get("/tls").body)["subject"].encode("latin-1").decode()
    expected = SUBJECTS[subject]
    assert shown == expected if expected else shown.startswith("CN=x,"), shown


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_must_show_a_certificate(https, pki, version):
    server = https(*pki.use("a-ec"), "--client-ca", pki.ca, "--clients", "require")
    for wrong, count in ((None, 1), ("mallory", 2)):
        with pytest.raises((ssl.SSLError, ConnectionError)), connect(server, pki, client=wrong, version=version) as connection:
            connection.get("/tls")
        server.wait_counter("rejected_tls_client_certificate", count)
    context = pki.context(client="alice", version=version)
    with TlsConnection(server.tls, context) as connection:
        assert json.loads(connection.get("/tls").body)["subject"] == "CN=alice,O=Example"
        session = connection.socket.session
    with TlsConnection(server.tls, context, session=session) as connection:
        assert connection.socket.session_reused
        assert json.loads(connection.get("/tls").body)["subject"] == "CN=alice,O=Example"


def test_a_session_of_other_demands_on_clients_is_not_resumed(https, pki, tmp_path):
    """The ticket keys survive a reload, the trust in an old authority does not."""
    authority = tmp_path / "authority.pem"
    authority.write_bytes(pki.ca.read_bytes())
    server = https(*pki.use("a-ec"), "--client-ca", authority, "--clients", "verify")
    context = pki.context(client="alice", version=ssl.TLSVersion.TLSv1_2)
    with TlsConnection(server.tls, context) as connection:
        session = connection.socket.session
    authority.write_bytes(pki.path("other.pem").read_bytes())
    assert server.get("/tls/reload", method="POST").text == "reloaded"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsConnection(server.tls, context, session=session)


def ask_for_subject(server, context, session=None):
    """(the subject that the server sees, whether the session was resumed, the session to resume next)"""
    with TlsConnection(server.tls, context, session=session) as connection:
        subject = json.loads(connection.get("/tls").body)["subject"]
        return subject, connection.socket.session_reused, connection.socket.session


@pytest.mark.parametrize("version", VERSIONS)
def test_an_expired_client_certificate_does_not_resume(https, pki, version):
    server = https(*pki.use("a-ec"), "--client-ca", pki.ca, "--clients", "require")

    def resumed_in_time(seconds):
        """When the certificate expires, its context and a session; None if the machine was too slow to use them before."""
        until = int(time.time()) + seconds
        pki.issue_until("brief", until)
        context = pki.context(client="brief", version=version)
        try:
            subject, _, session = ask_for_subject(server, context)
            assert subject == "CN=brief"
            assert ask_for_subject(server, context, session)[:2] == ("CN=brief", True)
        except (ssl.SSLError, ConnectionError):
            assert time.time() > until - 1
            return None
        return until, context, session

    until, context, session = resumed_in_time(4) or resumed_in_time(12) or resumed_in_time(36)
    before = {name: server.counter(name) for name in ("tls_resumption_refused", "rejected_tls_client_certificate")}
    poll(lambda: time.time() > until + 2, seconds=60)  # mbedTLS: not expired in that second; time(NULL) may be a tick behind
    with pytest.raises((ssl.SSLError, ConnectionError)):
        pytest.fail(str(ask_for_subject(server, context, session)))
    for name, count in before.items():
        server.wait_counter(name, count + 1)


@pytest.fixture
def revoking(tmp_path):
    """An authority of the test's own, with two clients."""
    made = Pki(tmp_path)
    made.issue("site", "/CN=a.test", ["a.test"])
    for name in ("alice", "bob"):
        made.issue_until(name, time.time() + 86400)
    return made


def expect_no_client(server, context, session=None):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask_for_subject(server, context, session)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_revoked_client_certificate_neither_connects_nor_resumes(https, revoking, version):
    lists = revoking.list_revoked("ca")
    server = https(*revoking.use("site"), "--client-ca", revoking.ca, "--client-crl", lists, "--clients", "require")
    alice, bob = (revoking.context(client=name, version=version) for name in ("alice", "bob"))
    sessions = {}
    for name, context in (("alice", alice), ("bob", bob)):
        subject, _, sessions[name] = ask_for_subject(server, context)
        assert subject == f"CN={name}"
    revoking.revoke("alice")
    revoking.list_revoked("ca")
    assert ask_for_subject(server, alice, sessions["alice"])[:2] == ("CN=alice", True)  # the old list is in force
    assert server.get("/tls/reload", method="POST").text == "reloaded"
    expect_no_client(server, alice, sessions["alice"])
    expect_no_client(server, alice)
    assert ask_for_subject(server, bob, sessions["bob"])[:2] == ("CN=bob", True)
    assert ask_for_subject(server, bob)[:2] == ("CN=bob", False)
    assert server.counter("tls_resumption_refused") == 1
    lists.write_text("nothing")
    refused = server.get("/tls/reload", method="POST")
    assert refused.status == 500 and "ca.crl: revocation list" in refused.text, refused.text
    expect_no_client(server, alice)


def test_without_a_valid_list_of_its_authority_nobody_is_trusted(https, revoking):
    revoking.authority("other")
    options = [*revoking.use("site"), "--client-ca", revoking.ca, "--client-crl", "{crl}", "--clients", "require"]
    bob = revoking.context(client="bob")
    for name, arguments in (("other", {"ca": "other"}), ("old", {"until": time.time() - 60})):
        if name == "old":
            revoking.directory.joinpath("old.pem").write_bytes(revoking.ca.read_bytes())
        lists = revoking.list_revoked(name, **arguments)
        server = https(*[lists if one == "{crl}" else one for one in options])
        expect_no_client(server, bob)
        server.wait_counter("rejected_tls_client_certificate", 1)
        assert ("the revocation list has expired" in server.stderr()) == (name == "old")


@needs_openssl
def test_a_resumed_session_gets_the_next_ticket(site, tmp_path):
    """RFC 8446 section C.4: a ticket is for one connection. The response comes behind the tickets."""
    saved = tmp_path / "session"
    ask = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    s_client(site, "-tls1_3", "-sess_out", saved, "-ign_eof", data=ask)
    seen = {saved.read_bytes()}
    for _ in range(3):
        text = s_client(site, "-tls1_3", "-sess_in", saved, "-sess_out", saved, "-ign_eof", data=ask)
        assert "Reused, " in text and text.count("Post-Handshake New Session Ticket arrived") == 1
        seen.add(saved.read_bytes())
    assert len(seen) == 4 and site.counter("tls_resumed") == 3


# --- bodies ---


@pytest.mark.parametrize("size", [1, 4096, 4097, 16383, 16384, 16385, 131072, 1000003, 20000000])
def test_bodies_by_reference_by_copy_and_from_files(site, pki, tmp_path, size):
    path = tmp_path / "file"
    data = os.urandom(size)
    path.write_bytes(data)
    with connect(site, pki) as connection:
        assert connection.get(f"/file?path={path}").body == data
        expected = bytes(97 + i % 26 for i in range(26)) * (size // 26 + 1)
        assert connection.get(f"/static?size={size}").body == expected[:size]
        assert connection.get(f"/content?size={size}").body == expected[:size]
        if size <= 1000003:
            assert connection.get(f"/copy?size={size}").body == expected[:size]
            assert connection.get("/body", method="POST", body=data).body == data
        assert connection.get(f"/file?path={path}&offset={size // 3}&size={size // 2}").body == data[size // 3 :][: size // 2]


def test_a_file_that_shrinks_ends_the_connection(site, pki, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(64 << 20))
    with connect(site, pki) as connection:
        connection.send(request(target=f"/file?path={path}"))
        assert connection.response_head().status == 200
        os.truncate(path, 1000)
        assert not connection.ended_with_notify()
    assert site.get("/").status == 200


def test_responses_of_a_batch_are_one_record(site, pki):
    with ByHand(site.tls, pki.context(version=ssl.TLSVersion.TLSv1_2)).handshake() as client:
        client.tls.write(request() * 16)
        client.flush()
        while client.incoming.pending == 0:
            data = client.raw.socket.recv(1 << 16)
            client.incoming.write(data)
        assert [kind for kind, _ in records(data)] == [23], records(data)
        assert client.read_some().count(b"Hello, World!") == 16


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_right_behind_the_handshake_is_served(site, pki, version):
    with ByHand(site.tls, pki.context(version=version)) as client:
        done = False
        while not done:
            try:
                client.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                client.flush()
                assert client.pull()
        client.tls.write(request())  # TLS 1.3: behind Finished, in one segment with it
        client.flush()
        client.read_until(b"Hello, World!")


def test_large_responses_use_full_records(site, pki):
    with ByHand(site.tls, pki.context(version=ssl.TLSVersion.TLSv1_2)).handshake() as client:
        client.tls.write(request(target="/static?size=1000000", headers=[("Connection", "close")]))
        client.flush()
        data = b""
        while part := client.raw.socket.recv(1 << 20):
            data += part
        sizes = [size for kind, size in records(data) if kind == 23]
        assert len(sizes) == 1000000 // 16384 + 1 and sizes.count(16384 + 24) >= len(sizes) - 1, sizes
        assert records(data)[-1][0] == 21  # close_notify


def test_long_pipelines(site, pki):
    with connect(site, pki) as connection:
        # No thread: an ssl.SSLSocket is for one at a time. The responses fit into the server's write queue meanwhile.
        connection.send(request(target="/n/1") * 3000)
        assert all(connection.response().status == 200 for _ in range(3000))


def test_deferred_and_streamed_responses(site, pki):
    with connect(site, pki) as connection:
        assert connection.get("/later").text == "later"
        assert connection.get("/later?how=pieces").text == "later"
        assert connection.get("/pieces?count=50&size=30000").status == 200


# --- ends ---


def test_every_regular_end_is_announced(https, pki):
    server = https(*pki.use("a-ec"), settings={"keepalive_timeout": 1})
    with connect(server, pki) as connection:
        assert connection.get("/close").status == 200
        assert connection.ended_with_notify()
    with connect(server, pki) as connection:
        connection.get("/")
        assert connection.ended_with_notify()  # idle
    server.wait_counter("timeouts_keepalive", 1)


def test_a_drain_serves_what_runs_and_says_goodbye(https, pki):
    server = https(*pki.use("a-ec"))
    with connect(server, pki) as idle, connect(server, pki) as busy:
        idle.get("/")
        busy.send(request(target="/later?ms=300"))
        poll(lambda: server.counter("deferred") == 1)
        server.close_control()
        server.signal()
        assert idle.ended_with_notify()
        response = busy.response()
        assert response.text == "later" and response.header("Connection") == "close"
        assert busy.ended_with_notify()
    assert server.wait() == 0


def test_the_peers_close_notify_is_acknowledged(site, pki):
    with connect(site, pki) as connection:
        connection.get("/")
        connection.socket.unwrap()
    with connect(site, pki) as connection:  # behind a request whose response is in flight
        connection.send(request(target="/static?size=3000000"))
        assert len(connection.response().body) == 3000000
        connection.socket.unwrap()
    assert site.counter("rejected_tls_truncated") == 0


# --- reload ---


def test_reload_takes_new_connections_to_the_new_certificate(https, pki, tmp_path):
    live = Pki(tmp_path)
    first = live.issue("live", "/CN=a.test", ["a.test"])
    server = https(*live.use("live"))
    with connect(server, live) as before:
        assert serial(before) == first and before.get("/").status == 200
        second = live.issue("live", "/CN=a.test", ["a.test"])
        with connect(server, live) as unchanged:
            assert serial(unchanged) == first
        assert server.get("/tls/reload", method="POST").text == "reloaded"
        assert before.get("/").status == 200
        with connect(server, live) as after:
            assert serial(after) == second
    key = live.path("live.key").read_bytes()
    live.path("live.key").write_bytes(pki.path("b.key").read_bytes())
    refused = server.get("/tls/reload", method="POST")
    assert refused.status == 500 and "live.key" in refused.text and "not the key of" in refused.text, refused.text
    with connect(server, live) as after:
        assert serial(after) == second and after.get("/").status == 200
    live.path("live.key").write_bytes(key)
    assert server.get("/tls/reload", method="POST").status == 200


@pytest.mark.parametrize("name", ["live.pem", "live.key"])
def test_a_reload_without_its_file_keeps_what_there_was(https, tmp_path, name):
    live = Pki(tmp_path)
    first = live.issue("live", "/CN=a.test", ["a.test"])
    server = https(*live.use("live"))
    path = live.path(name)
    data = path.read_bytes()
    path.unlink()
    refused = server.get("/tls/reload", method="POST")
    assert refused.status == 500 and name in refused.text and "No such file" in refused.text, refused.text
    with connect(server, live) as after:
        assert serial(after) == first and after.get("/").status == 200
    path.write_bytes(data)
    assert server.get("/tls/reload", method="POST").status == 200
    with connect(server, live) as after:
        assert serial(after) == first


def test_no_connection_is_dropped_by_reloads_under_load(https, pki):
    server = https(*pki.use("a-ec"), *pki.use("b"), settings={"io_threads": 2})
    stop, errors, counts = threading.Event(), [], []

    def work(fresh):
        context, count = pki.context(), 0
        try:
            while not stop.is_set():
                with TlsConnection(server.tls, context) as connection:
                    for _ in range(1 if fresh else 50):
                        assert connection.get("/").body == b"Hello, World!"
                        count += 1
        except Exception as error:  # whatever it is, it is the result
            errors.append(error)
        counts.append(count)

    workers = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(30):
        assert server.get("/tls/reload", method="POST").status == 200
    stop.set()
    for worker in workers:
        worker.join()
    assert not errors and min(counts) > 0


# --- other protocols ---


def test_websocket_over_tls(site, pki):
    websockets = pytest.importorskip("websockets.asyncio.client")

    async def talk():
        url = f"wss://a.test:{site.tls[1]}/tls/ws"
        async with websockets.connect(url, ssl=pki.context(), host=HOST, port=site.tls[1], max_size=None) as ws:
            for message in ("hello", b"x" * 100000, "y" * 70000):
                await ws.send(message)
                assert await ws.recv() == message

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_example_https(serve, pki, tmp_path):
    live = Pki(tmp_path)
    first = live.issue("live", "/CN=localhost", ["localhost"])
    server = serve("https", live.path("live.pem"), live.path("live.key"))
    server.tls = server.address
    with connect(server, live, name="localhost") as connection:
        assert connection.get("/").text == "Hello, privately!" and serial(connection) == first
    second = live.issue("live", "/CN=localhost", ["localhost"])
    server.signal(1)
    poll(lambda: "certificates read again" in server.stderr())
    with connect(server, live, name="localhost") as connection:
        assert serial(connection) == second


def test_example_https_says_what_to_do_without_a_certificate(tmp_path):
    from harness import EXAMPLES

    done = subprocess.run([EXAMPLES / "https", "127.0.0.1:0", tmp_path / "none.pem", tmp_path / "none.key"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "none.pem: No such file or directory" in done.stderr and "openssl req" in done.stderr
