"""Owns: lighttpd from Debian's package, one process; HTTPS with the package of its module."""

import resource
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import HELLO, LARGE, STATIC, Peer, fill, make_hello, make_large, program, said

MODULE = Path("/usr/lib/lighttpd/mod_openssl.so")  # lighttpd-mod-openssl

TLS = """server.modules += ( "mod_openssl" )
$SERVER["socket"] == "127.0.0.1:{port}" {{
    ssl.engine = "enable"
    ssl.pemfile = "{certificate}"
    ssl.privkey = "{key}"
}}"""


class Lighttpd(Peer):
    name = "lighttpd"
    package = "lighttpd lighttpd-mod-openssl"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    note = "serves / and 100 KB from files"

    def __init__(self) -> None:
        if MODULE.exists():
            self.schemes = frozenset({"http", "https"})

    def found(self) -> bool:
        return program("lighttpd") is not None

    def version(self) -> str:
        return said(program("lighttpd") or "lighttpd", "-v")

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_hello(workspace)
        make_large(workspace)
        tls = ""
        if scenario.scheme == "https":
            make_certificate(workspace)
            tls = TLS.format(port=ports.https, certificate=workspace.certificate, key=workspace.key)
        directory = workspace.path
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # else it sets a limit of its own
        names = {"DIR": directory, "PORT": ports.http, "TLS": tls, "DESCRIPTORS": files}
        made = fill("lighttpd.conf.in", directory / "lighttpd.conf", **names)
        return [program("lighttpd") or "lighttpd", "-D", "-f", made]
