"""Owns: uWebSockets, one loop, compiled from the source that the crate libuwebsockets-sys carries."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets import crates
from uvhttp_bench.targets.base import Ports, Workspace, make_certificate
from uvhttp_bench.targets.peer import BUILT, ECHO, HELLO, LARGE, SOURCES, Peer, build, package_version, program

CRATE = "libuwebsockets-sys"
# As its own build does it; UWS_HTTPRESPONSE_NO_WRITEMARK leaves out a header field that only advertises.
FLAGS = ("-O3", "-flto=auto", "-march=native", "-DLIBUS_USE_OPENSSL", "-DUWS_NO_ZLIB", "-DUWS_HTTPRESPONSE_NO_WRITEMARK")


class Uwebsockets(Peer):
    name = "uwebsockets"
    package = "cargo g++ libssl-dev"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, ECHO})
    schemes = frozenset({"http", "https", "ws"})
    note = "it has no file server of its own"

    def found(self) -> bool:
        return bool(crates.has_cargo() and program("g++") and Path("/usr/include/openssl/ssl.h").exists())

    def version(self) -> str:
        return f"of {crates.versions(crates.CARRIED, CRATE)}, OpenSSL {package_version('libssl3')}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        make_certificate(workspace)
        where = [workspace.certificate, workspace.key]
        return [self._server(), str(ports.http), str(ports.https), *where]

    def _server(self) -> Path:
        folder = crates.crate_folder(CRATE) / "uWebSockets"
        sockets = folder / "uSockets" / "src"
        source, result = SOURCES / "uws_server.cpp", BUILT / "uws_server"
        c_sources = [*sorted(sockets.glob("*.c")), sockets / "eventing" / "epoll_kqueue.c", sockets / "crypto" / "openssl.c"]
        # The driver is that of C: the one of C++ would compile C as C++.
        command: list[str | Path] = ["gcc", *FLAGS, f"-I{folder / 'src'}", f"-I{sockets}", "-x", "c", *c_sources]
        command += ["-x", "c++", "-std=c++20", sockets / "crypto" / "sni_tree.cpp", source]
        command += ["-x", "none", "-lstdc++", "-lssl", "-lcrypto", "-o", result]
        return build(self.name, command, [source, crates.CARRIED / "Cargo.lock"], result)
