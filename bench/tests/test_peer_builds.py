"""The servers that are built or fetched by a package manager: what is run, what is said when it fails, what each one serves.
Each package manager is a stand-in; no test needs the network."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from uvhttp_bench.exits import BenchError
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.targets import bun, crates, fasthttp, peer, peers, picohttpparser, uwebsockets
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import Peer

PORTS = Ports(1001, 1002)
PLAIN, FILES, TLS, WEBSOCKET = "medium", "static-1mb", "https-100kb", "websocket"


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    (tmp_path / "static").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """tools(name, script) puts a program on the path that does this and notes its words in the file that is returned."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for module in (peer, crates, uwebsockets, picohttpparser, fasthttp, bun):
        if hasattr(module, "BUILT"):
            monkeypatch.setattr(module, "BUILT", tmp_path / "built")
    crates.crate_folder.cache_clear()

    def put(name: str, script: str) -> Path:
        words = tmp_path / f"{name}.words"
        path = folder / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {words}\n{script}\n')
        path.chmod(0o755)
        return words

    return put


def scenario(name: str) -> Scenario:
    return choose([name])[0]


def words_of(command: Sequence[str | Path]) -> list[str]:
    return [str(word) for word in command]


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("uwebsockets", {PLAIN, TLS, WEBSOCKET}),
        ("picohttpparser", {PLAIN}),
        ("may-minihttp", {PLAIN}),
        ("hyper", {PLAIN}),
        ("axum", {PLAIN, FILES, TLS, WEBSOCKET}),
        ("actix-web", {PLAIN, FILES, TLS, WEBSOCKET}),
        ("fasthttp", {PLAIN, FILES, TLS}),
        ("bun", {PLAIN, FILES, TLS, WEBSOCKET}),
    ],
)
def test_a_peer_serves_what_its_program_has(name: str, served: set[str]) -> None:
    target = peers.known()[name]
    assert {one for one in (PLAIN, FILES, TLS, WEBSOCKET) if target.serves(scenario(one))} == served
    assert target.serves(scenario("pipeline"))


@pytest.mark.parametrize(("name", "package"), [("axum", "cargo"), ("fasthttp", "golang-go"), ("bun", "npm")])
def test_a_missing_tool_names_its_package(name: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert peers.known()[name].missing() == f"{name} is not installed: apt-get install {package}"


def test_a_rust_that_is_too_old_is_named(tools: Callable[[str, str], Path]) -> None:
    tools("cargo", "echo cargo 1.63.0")
    assert peers.known()["axum"].missing() == "axum needs Rust 1.89 or later, not 1.63.0: https://rustup.rs"
    tools("cargo", "echo 'cargo 1.89.1 (c24e10642 2026-06-23)'")
    assert peers.known()["axum"].missing() is None
    assert "1.95 or later" in (peers.known()["may-minihttp"].missing() or "")


def test_cargo_builds_one_locked_package_once(tools: Callable[[str, str], Path], made: Workspace) -> None:
    words = tools(
        "cargo", 'while [ "$1" != --target-dir ]; do shift; done; mkdir -p $2/release; touch $2/release/may_server'
    )
    target = peers.known()["may-minihttp"]
    command = words_of(target.command(scenario(PLAIN), PORTS, made))
    assert command == [str(made.path / "built/rust/release/may_server"), "1001"]
    asked = words.read_text().splitlines()
    assert asked[:2] == ["build", "--release"] and "--locked" in asked
    assert asked[asked.index("--package") + 1] == "may_server"
    words.unlink()
    target.command(scenario(PLAIN), PORTS, made)
    assert not words.exists()


def test_a_failed_build_says_why_in_a_line(tools: Callable[[str, str], Path], made: Workspace) -> None:
    tools("cargo", "echo 'warning: old' >&2; echo 'error: no network' >&2; echo '  more' >&2; exit 101")
    with pytest.raises(BenchError, match=r"^hyper .*cannot be built: error: no network$"):
        peers.known()["hyper"].command(scenario(PLAIN), PORTS, made)
    with pytest.raises(BenchError, match=r"^the source of picohttpparser-sys cannot be fetched: error: no network$"):
        peers.known()["picohttpparser"].command(scenario(PLAIN), PORTS, made)


def test_a_failed_build_without_the_word_error_says_its_last_line() -> None:
    assert peer.reason("one\ntwo\n\n") == "two"
    assert peer.reason("") == "its compiler does not say why"


def test_a_changed_lock_file_builds_again(tmp_path: Path) -> None:
    source, lock, result = tmp_path / "a", tmp_path / "lock", tmp_path / "out"
    for path in (source, lock):
        path.write_text("")
    peer.build("it", ["cp", str(source), str(result)], [source, lock], result)
    later = result.stat().st_mtime + 10
    source.write_text("new")
    for path, time in ((source, later - 20), (lock, later)):
        os.utime(path, (time, time))
    peer.build("it", ["cp", str(source), str(result)], [source, lock], result)
    assert result.read_text() == "new"


def test_c_is_compiled_against_the_source_that_a_crate_carries(tools: Callable[[str, str], Path], made: Workspace) -> None:
    folder = made.path / "crate"
    packages = [
        {"name": name, "manifest_path": str(folder / "Cargo.toml")} for name in ("picohttpparser-sys", "libuwebsockets-sys")
    ]
    (made.path / "metadata").write_text(json.dumps({"packages": packages}))
    fetched = tools("cargo", f"cat {made.path}/metadata")
    compiler = 'while [ "$1" != -o ]; do shift; done; touch $2'
    parser, server = tools("cc", compiler), tools("gcc", compiler)
    command = words_of(peers.known()["picohttpparser"].command(scenario(PLAIN), PORTS, made))
    assert command == [str(made.path / "built/pico_server"), "1001"]
    assert "--locked" in fetched.read_text().splitlines()
    asked = parser.read_text().splitlines()
    assert f"-I{folder}/deps/picohttpparser" in asked and f"{folder}/deps/picohttpparser/picohttpparser.c" in asked
    command = words_of(peers.known()["uwebsockets"].command(scenario(TLS), PORTS, made))
    assert command == [str(made.path / "built/uws_server"), "1001", "1002", str(made.certificate), str(made.key)]
    asked = server.read_text().splitlines()
    assert f"{folder}/uWebSockets/uSockets/src/eventing/epoll_kqueue.c" in asked and "-lssl" in asked


def test_bun_is_fetched_without_running_its_scripts(
    tools: Callable[[str, str], Path], made: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bun.platform, "machine", lambda: "x86_64")
    program = "node_modules/@oven/bun-linux-x64/bin/bun"
    words = tools("npm", f"test -f package-lock.json && mkdir -p $(dirname {program}) && touch {program}")
    command = words_of(peers.known()["bun"].command(scenario(PLAIN), PORTS, made))
    assert command[0] == str(made.path / "built/bun" / program) and command[1].endswith("bun_server/server.js")
    assert command[2:] == ["1001", "1002", str(made.static), str(made.certificate), str(made.key)]
    assert words.read_text().splitlines()[:2] == ["ci", "--ignore-scripts"]


def test_go_takes_the_module_of_its_folder(tools: Callable[[str, str], Path], made: Workspace) -> None:
    words = tools("go", 'test "$1" = version || { test -f go.sum && touch $3; }')
    command = words_of(peers.known()["fasthttp"].command(scenario(FILES), PORTS, made))
    assert command[1:] == ["1001", "1002", str(made.static), str(made.certificate), str(made.key)]
    assert words.read_text().splitlines()[:2] == ["build", "-o"]


def test_versions_are_those_of_the_lock_files() -> None:
    for name in ("hyper", "axum", "actix-web", "may-minihttp", "uwebsockets", "picohttpparser", "fasthttp", "bun"):
        target = peers.known()[name]
        assert isinstance(target, Peer)
        assert any(character.isdigit() for character in target.version()), name


def test_lock_files_name_no_address_but_the_registries() -> None:
    for path in peer.SOURCES.glob("**/*.lock"):
        sources = {line for line in path.read_text().splitlines() if line.startswith("source")}
        assert sources <= {'source = "registry+https://github.com/rust-lang/crates.io-index"'}, path
    assert "resolved" not in (peer.SOURCES / "bun_server" / "package-lock.json").read_text()
