"""Owns: what cargo does for the peers: it builds those written in Rust, and fetches the C sources that a crate carries. Cargo
takes the versions of the lock files, over the network the first time."""

import functools
import json
import re
import subprocess
import tomllib
from pathlib import Path

from uvhttp_bench import network
from uvhttp_bench.exits import BenchError
from uvhttp_bench.targets.peer import BUILT, SOURCES, Peer, build, program, reason, said

RUST = SOURCES / "rust"
CARRIED = SOURCES / "crate_sources"


def has_cargo() -> bool:
    return program("cargo") is not None


class RustPeer(Peer):
    """A server of bench/peers/rust."""

    package = "cargo"
    rust_needed = (1, 89)  # by the crates of the lock file

    def found(self) -> bool:
        return has_cargo()

    def missing(self) -> str | None:
        if not self.found():
            return super().missing()
        number = said("cargo", "--version").removeprefix("cargo ").split(" ")[0]
        if tuple(int(part) for part in re.findall(r"\d+", number)[:2]) >= self.rust_needed:
            return None
        return f"{self.name} needs Rust {'.'.join(map(str, self.rust_needed))} or later, not {number or 'this one'}: https://rustup.rs"


def versions(workspace: Path, *crates: str) -> str:
    """As in "tokio 1.54.1, hyper 1.12.0", from the lock file."""
    packages = tomllib.loads((workspace / "Cargo.lock").read_text())["package"]
    found = {package["name"]: package["version"] for package in packages}
    return ", ".join(f"{crate} {found[crate]}" for crate in crates)


def rust_versions(*crates: str) -> str:
    return f"{versions(RUST, *crates)}, {said('rustc', '--version')}"


def rust_server(name: str, package: str) -> Path:
    """Builds one package of bench/peers/rust, for this machine's CPU as the authors' own benchmark entries are."""
    target = BUILT / "rust"
    command: list[str | Path] = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--package",
        package,
        "--target-dir",
        target,
    ]
    command += ["--config", 'build.rustflags=["-Ctarget-cpu=native"]']
    sources = [RUST / package / "src" / "main.rs", RUST / package / "Cargo.toml", RUST / "Cargo.toml", RUST / "Cargo.lock"]
    return build(f"{name} (cargo, a few minutes the first time)", command, sources, target / "release" / package, RUST)


@functools.cache
def crate_folder(crate: str) -> Path:
    """Where cargo keeps the source of a crate of bench/peers/crate_sources; it fetches it if need be."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", str(CARRIED / "Cargo.toml")]
    try:
        with network.outside():
            run = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BenchError(f"the source of {crate} cannot be fetched: {error}") from error
    if run.returncode != 0:
        raise BenchError(f"the source of {crate} cannot be fetched: {reason(run.stderr)}")
    packages = json.loads(run.stdout)["packages"]
    return next(Path(package["manifest_path"]).parent for package in packages if package["name"] == crate)
