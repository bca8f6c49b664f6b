"""Owns: Rust's hyper on tokio's single-threaded runtime. Cargo fetches the crates that Cargo.lock names, once."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import BUILT, HELLO, LARGE, SOURCES, Peer, build, program, said


class Hyper(Peer):
    name = "hyper"
    package = "cargo"
    pipelines = True
    kinds = frozenset({HELLO, LARGE})
    note = "hyper and tokio of the versions in bench/peers/hyper_server/Cargo.lock"

    def found(self) -> bool:
        return program("cargo") is not None

    def version(self) -> str:
        lines = (SOURCES / "hyper_server" / "Cargo.lock").read_text().split("[[package]]")
        package = next((text for text in lines if 'name = "hyper"' in text), "")
        number = package.partition('version = "')[2].partition('"')[0]
        return f"hyper {number}, {said('rustc', '--version')}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        source = SOURCES / "hyper_server"
        folder = BUILT / "hyper"
        cargo: list[str | Path] = ["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", folder]
        server = build(self.name, cargo, source / "src" / "main.rs", folder / "release" / "hyper_server", source)
        return [server, str(ports.http)]
