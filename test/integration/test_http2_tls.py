"""HTTP/2 over TLS 1.2 (RFC 9113 section 9.2), with either TLS library: ALPN, cipher suites, resumption, sizes of records, the
end."""
import ssl

import pytest

import wire_h2
from harness import HOST, free_port
from pki import Pki, TlsConnection
from wire import Closed

pytestmark = pytest.mark.tls

# All that the server accepts. RFC 9113 appendix A prohibits those without forward secrecy or without AEAD; TLS 1.2 wants the
# first of them (section 9.2.2).
SUITES = [
    f"ECDHE-{key}-{cipher}"
    for key in ("RSA", "ECDSA")
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
]
PROHIBITED = ["AES128-GCM-SHA256", "AES256-SHA", "ECDHE-RSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA", "DHE-RSA-AES256-SHA256"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.issue("a-ec", "/CN=a.test", ["a.test"])
    made.issue("a-rsa", "/CN=a.test", ["a.test"], kind="rsa")
    return made


@pytest.fixture
def https(serve, pki):
    address = (HOST, free_port())
    server = serve("http_test_server", "--tls-listen", "%s:%d" % address, *pki.use("a-ec"), *pki.use("a-rsa"))
    server.tls = address
    return server


def tls_1_2(pki, suites, alpn=("h2", "http/1.1")):
    """seclevel: OpenSSL would not offer the weak ones."""
    ciphers = ":".join([*suites, "@SECLEVEL=0"])
    return pki.context(version=ssl.TLSVersion.TLSv1_2, ciphers=ciphers, alpn=list(alpn))


@pytest.mark.parametrize("suite", SUITES)
def test_each_suite_that_is_accepted_carries_http2(https, pki, suite):
    with wire_h2.Client(https.tls, tls_1_2(pki, [suite])) as client:
        assert client.socket.cipher()[0] == suite
        assert client.get("/n/7").text == "7"


@pytest.mark.parametrize("suite", PROHIBITED)
def test_no_connection_has_a_prohibited_suite(https, pki, suite):
    with pytest.raises(ssl.SSLError, match="(?i)handshake.failure"):
        wire_h2.Client(https.tls, tls_1_2(pki, [suite]))
    https.wait_counter("rejected_tls_cipher", 1)


def test_a_client_that_prefers_prohibited_suites_gets_another(https, pki):
    with wire_h2.Client(https.tls, tls_1_2(pki, [*PROHIBITED, SUITES[-1]])) as client:
        assert client.socket.cipher()[0] == SUITES[-1]
        assert client.get("/n/7").text == "7"


def test_a_resumed_session_speaks_what_alpn_chooses_now(https, pki):
    context = tls_1_2(pki, SUITES, alpn=["http/1.1"])
    with TlsConnection(https.tls, context) as connection:
        assert connection.get("/n/1").body == b"1"
        session = connection.socket.session
    context.set_alpn_protocols(["h2"])
    with wire_h2.Client(https.tls, context, session=session) as client:
        assert client.socket.session_reused
        assert client.get("/n/2").text == "2"
    assert https.counter("tls_resumed") == 1


def test_bodies_of_many_records_go_both_ways(https, pki):
    body = bytes(range(256)) * 2000
    with wire_h2.Client(https.tls, tls_1_2(pki, SUITES)) as client:
        upload = client.start("POST", "/body", [("content-length", len(body))], end=False)
        download = client.start("GET", "/static?size=1000000")
        client.send(upload, body, end=True)
        response = client.finish(upload)
        assert (response.status, response.reset) == (200, None), response.fields
        assert response.body == body
        assert len(client.finish(download).body) == 1_000_000


def test_the_end_is_goaway_and_close_notify(https, pki):
    with wire_h2.Client(https.tls, tls_1_2(pki, SUITES), ragged_eof=False) as client:
        assert client.get("/n/7").text == "7"
        https.signal()
        with pytest.raises(Closed):  # SSLEOFError: it was not announced
            client.until(lambda: False)
        assert client.goaway.error_code == 0 and client.goaway.last_stream_id == 1
    assert https.wait() == 0
