"""Owns: performance_test as one server among others."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.targets.adapter import ROOT, Adapter, Place

SERVER_DEFAULT = ROOT / "build" / "dist" / "bin" / "performance_test"


class Ours(Adapter):
    package = ""
    serves = frozenset({"hello", "body-100kb", "static-10kb", "static-1mb", "https", "https-100kb", "websocket"})
    tls = True

    def __init__(self, engine: str, server: Path = SERVER_DEFAULT, options: Sequence[str] = ()) -> None:
        self.name = f"uvhttp-{engine}"
        self._engine, self._server, self._options = engine, server, tuple(options)

    def missing(self) -> str | None:
        return None if self._server.exists() else f"{self.name}: {self._server} is not there: ./dev build"

    def version(self) -> str:
        run = subprocess.run([str(self._server), "--version"], capture_output=True, text=True, timeout=10)
        return "; ".join(run.stdout.split("\n")).strip("; ")

    def command(self, place: Place) -> list[str]:
        return [
            str(self._server),
            *("--port", str(place.port), "--https-port", str(place.tls_port), "--io-threads", "1"),
            *("--engine", self._engine, "--static", str(place.files)),
            *("--certificate", str(place.certificate), "--key", str(place.key)),
            *self._options,
        ]
