"""Owns: a test server that speaks HTTP/2 in clear and over TLS, and clients of one of both."""
import wire_h2
from harness import HOST, free_port


class Site:
    def __init__(self, serve, pki, scheme, *args, **options):
        self.tls_address = (HOST, free_port())
        self.server = serve("http_test_server", "--tls-listen", "%s:%d" % self.tls_address, *pki.use("a"), *args, **options)
        self.scheme = scheme
        self.context = pki.context(alpn=["h2"]) if scheme == "https" else None
        self.pki = pki

    @property
    def address(self):
        return self.tls_address if self.context else self.server.address

    def url(self, target="/"):
        """By its address, which is not what the certificate is for."""
        return "%s://%s:%d%s" % (self.scheme, *self.address, target)

    def client(self, **options):
        return wire_h2.Client(self.address, self.context, **options)
