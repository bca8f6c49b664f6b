"""Owns: certificates for the tests, made by the openssl command, and clients that speak TLS."""
import contextlib
import pathlib
import ssl
import subprocess
import time

import pytest

import harness
import wire

# mbedTLS 2.28 speaks TLS 1.2 only.
IS_MBEDTLS = harness.build_option("UVHTTP_TLS") == "mbedtls"
VERSIONS = [ssl.TLSVersion.TLSv1_2] if IS_MBEDTLS else [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
OPTIONS = ["-tls1_2"] if IS_MBEDTLS else ["-tls1_2", "-tls1_3"]  # the same for openssl s_client
needs_openssl = pytest.mark.skipif(IS_MBEDTLS, reason="mbedTLS cannot do it")
needs_mbedtls = pytest.mark.skipif(not IS_MBEDTLS, reason="about mbedTLS")


def openssl(*arguments, data=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Pki:
    """A CA, and what it signs: files <name>.pem (chain) and <name>.key in a directory."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.serial = 100
        self.ca = self.authority("ca")

    def path(self, name):
        return self.directory / name

    def _key(self, name, kind):
        options = {
            "ec": ("EC", "ec_paramgen_curve:P-256"), "rsa": ("RSA", "rsa_keygen_bits:2048"), "rsa1024": ("RSA", "rsa_keygen_bits:1024"),
        }[kind]  # fmt: skip
        openssl("genpkey", "-algorithm", options[0], "-pkeyopt", options[1], "-out", self.path(f"{name}.key"))
        self.path(f"{name}.key").chmod(0o600)

    def authority(self, name):
        self._key(name, "ec")
        openssl("req", "-x509", "-new", "-key", self.path(f"{name}.key"), "-days", 30, "-subj", f"/CN=test {name}",
                "-addext", "basicConstraints=critical,CA:TRUE", "-out", self.path(f"{name}.pem"))  # fmt: skip
        return self.path(f"{name}.pem")

    def issue(self, name, subject, names=(), kind="ec", ca="ca", usage="serverAuth", days=30):
        self._key(name, kind)
        self.serial += 1
        extensions = f"extendedKeyUsage={usage}\n"
        if names:
            extensions += "subjectAltName=" + ",".join(f"DNS:{one}" for one in names) + "\n"
        self.path(f"{name}.ext").write_text(extensions)
        request = openssl("req", "-new", "-utf8", "-multivalue-rdn", "-key", self.path(f"{name}.key"), "-subj", subject)
        certificate = openssl(
            "x509", "-req", "-CA", self.path(f"{ca}.pem"), "-CAkey", self.path(f"{ca}.key"), "-set_serial", self.serial,
            "-days", days, "-extfile", self.path(f"{name}.ext"), data=request,
        )  # fmt: skip
        self.path(f"{name}.pem").write_bytes(certificate)
        return self.serial

    def _ca(self, ca, *arguments, data=None):
        """openssl ca, which knows exact times and revocation: its database is in the directory."""
        settings = self.path(f"{ca}.cnf")
        if not settings.exists():
            self.path(f"{ca}.db").write_text("")
            self.path(f"{ca}.db.attr").write_text("unique_subject = no\n")
            settings.write_text(
                f"[ca]\ndefault_ca=a\n[a]\ndatabase={self.path(ca)}.db\nnew_certs_dir={self.directory}\nrand_serial=yes\ndefault_md=sha256\n"
                "policy=p\n[p]\ncommonName=supplied\n[crl]\nauthorityKeyIdentifier=keyid\n[x]\nextendedKeyUsage=clientAuth\n"
            )
        return openssl("ca", "-batch", "-config", settings, "-cert", self.path(f"{ca}.pem"), "-keyfile", self.path(f"{ca}.key"), *arguments, data=data)

    def issue_until(self, name, until, ca="ca"):
        """A client's certificate, valid until a time (seconds of time.time())."""
        self._key(name, "ec")
        self.path(f"{name}.csr").write_bytes(openssl("req", "-new", "-key", self.path(f"{name}.key"), "-subj", f"/CN={name}"))
        start, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at)) for at in (time.time() - 86400, until))
        self._ca(ca, "-notext", "-in", self.path(f"{name}.csr"), "-out", self.path(f"{name}.pem"), "-startdate", start, "-enddate", end, "-extensions", "x")

    def revoke(self, *names, ca="ca"):
        for name in names:
            self._ca(ca, "-revoke", self.path(f"{name}.pem"))

    def list_revoked(self, name, ca="ca", until=None):
        """Writes <name>.crl, of what was revoked by now."""
        end = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(until or time.time() + 86400))
        self._ca(ca, "-gencrl", "-crlexts", "crl", "-crl_nextupdate", end, "-out", self.path(f"{name}.crl"))
        return self.path(f"{name}.crl")

    def use(self, name):
        return ["--cert", self.path(f"{name}.pem"), "--key", self.path(f"{name}.key")]

    def context(self, client=None, check=True, version=None, ciphers=None, alpn=None):
        context = ssl.create_default_context(cafile=self.ca)
        if not check:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if version:
            context.minimum_version = context.maximum_version = version
        if ciphers:
            context.set_ciphers(ciphers)
        if alpn:
            context.set_alpn_protocols(alpn)
        if client:
            context.load_cert_chain(self.path(f"{client}.pem"), self.path(f"{client}.key"))
        return context


def one_site(directory):
    """With the certificate "a", for a.test."""
    made = Pki(directory)
    made.issue("a", "/CN=a.test", ["a.test"])
    return made


def root_with_large_file(folder, data):
    root = folder / "root"
    root.mkdir()
    (root / "large.bin").write_bytes(data)
    return root


def serve_root(serve, pki, root, kernel):
    """The test server with `root` mounted, by TLS; kernel: on or off, of --kernel-tls."""
    address = (harness.HOST, harness.free_port())
    options = ["--tls-listen", "%s:%d" % address, *pki.use("a"), "--tls-static", root, "--kernel-tls", kernel]
    server = serve("http_test_server", *options)
    server.tls, server.root = address, root
    return server


class TlsConnection(wire.Connection):
    def __init__(self, address, context, name="a.test", session=None, **options):
        super().__init__(address, **options)
        try:
            self.socket = context.wrap_socket(
                self.socket, server_hostname=name, session=session, suppress_ragged_eofs=False
            )
        except BaseException:
            self.socket.close()
            raise

    def ended_with_notify(self):
        """Reads to the end. Whether it was announced by close_notify."""
        try:
            while self.socket.recv(1 << 16):
                pass
            return True
        except ssl.SSLEOFError:
            return False


class ByHand:
    """A client whose ciphertext the test moves itself, byte by byte if it likes."""

    def __init__(self, address, context, name="a.test", receive_buffer=None):
        self.raw = wire.Connection(address, receive_buffer=receive_buffer)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def flush(self, step=None):
        data = self.outgoing.read()
        step = step or max(1, len(data))
        for at in range(0, len(data), step):
            self.raw.send(data[at : at + step])

    def pull(self):
        data = self.raw.socket.recv(1 << 16)
        if data:
            self.incoming.write(data)
        return data

    def handshake(self, step=None):
        while True:
            try:
                self.tls.do_handshake()
                self.flush(step)
                return self
            except ssl.SSLWantReadError:
                self.flush(step)
                assert self.pull(), "ended in the handshake"

    def read_some(self):
        """What has been pulled already."""
        data = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while part := self.tls.read(1 << 16):
                data += part
        return data

    def read_until(self, end):
        data = b""
        while end not in data:
            one = self.read(1)
            assert one, data
            data += one
        return data

    def read(self, size):
        data = b""
        while len(data) < size:
            try:
                data += self.tls.read(size - len(data))
            except ssl.SSLWantReadError:
                if not self.pull():
                    return data
        return data


def records(ciphertext):
    """(type, size) of each record."""
    found = []
    while ciphertext:
        size = int.from_bytes(ciphertext[3:5], "big")
        found.append((ciphertext[0], size))
        assert len(ciphertext) >= 5 + size, "a record is cut"
        ciphertext = ciphertext[5 + size :]
    return found
