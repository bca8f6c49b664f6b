"""Owns: tests that every server of a comparison is measured under the same: network, congestion control, CPUs, descriptors."""

import argparse
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from test_program import bench, needs_load, server

from uvhttp_bench import cli, environment, gates, network
from uvhttp_bench.commands import peers as peers_verb
from uvhttp_bench.model.record import VOID, Environment, read
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.uvhttp import Uvhttp

__all__ = ["server"]  # a fixture
STUB = Path(__file__).with_name("stub_server.py")
MACHINES = network.congestion_control()
needs_other = pytest.mark.skipif(MACHINES == "reno", reason="the machine's congestion control is reno, too")


@pytest.fixture
def own_network() -> Iterator[None]:
    with network.entered() as why:
        if why:
            pytest.skip(why)
        yield


@pytest.fixture
def no_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: str, *_: int) -> None:
        raise PermissionError(1, f"{function}: Operation not permitted")

    monkeypatch.setattr(network, "_call", refuse)


# --- the network ---


def test_a_network_of_its_own_has_its_sysctls_and_the_machines_stay() -> None:
    before = {name: network.sysctl(name) for name in (*network.SYSCTLS, network.CONGESTION_CONTROL)}
    with network.entered() as why:
        if why:
            pytest.skip(why)
        assert network.private() and network.different() == []
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
        network.use("reno")
        assert network.congestion_control() == "reno" and network.machines_congestion_control() == MACHINES
    assert not network.private()
    assert {name: network.sysctl(name) for name in before} == before


def test_what_is_outside_can_be_reached_from_outside_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, network.entered() as why:
        if why:
            pytest.skip(why)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listener.getsockname(), 5)
        with network.outside():
            opened = socket.create_connection(listener.getsockname(), 5)
        accepted, _ = listener.accept()
        with opened, accepted:  # a connection stays where it was opened
            opened.sendall(b"x")
            assert accepted.recv(1) == b"x"
        assert network.private()


def test_the_block_may_fail_and_the_thread_is_back() -> None:
    own = Path("/proc/thread-self/ns/net").readlink()
    with pytest.raises(ValueError), network.entered():
        raise ValueError
    assert Path("/proc/thread-self/ns/net").readlink() == own


def arguments(**more: object) -> argparse.Namespace:
    return argparse.Namespace(verb="run", **{"congestion_control": (), **more})


def test_without_the_right_the_machines_network_is_used_and_said(no_right: None, capsys: pytest.CaptureFixture[str]) -> None:
    with network.of(arguments()):
        assert not network.private()
        assert environment.capture("GCC", "12").network == "shared"
    line = capsys.readouterr().err
    assert line.startswith(f"uvhttp-bench run: in the machine's network, with its {MACHINES}") and "unshare" in line
    assert len(line.splitlines()) == 1


def test_workers_of_other_machines_reach_the_server_in_the_machines_network(capsys: pytest.CaptureFixture[str]) -> None:
    with network.of(arguments(scheduler="tcp://10.0.0.1:8786")):
        assert not network.private()
    assert "workers of other machines" in capsys.readouterr().err


@needs_other
def test_a_congestion_control_that_cannot_be_set_is_an_error_and_not_another_one(
    no_right: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch(["run", "low", "--congestion-control", "reno"]) == 77
    assert "--congestion-control reno: the machine uses" in capsys.readouterr().err
    with network.of(arguments(congestion_control=(MACHINES,))):
        pass


def test_an_unknown_congestion_control_names_those_of_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.dispatch(["run", "low", "--congestion-control", "carrier-pigeon"])
    assert ended.value.code == 2 and "system, " in capsys.readouterr().err


def test_a_verb_that_measures_nothing_stays_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with network.of(argparse.Namespace(verb="list")):
        assert not network.private()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", ["run", "compare", "peers", "soak", "self-check", "agree", "attribute", "experiment"])
def test_every_verb_that_measures_asks_for_a_network(verb: str) -> None:
    words = {"compare": ["."], "experiment": ["tomcat"]}
    args = cli.parser_of(cli.verbs()).parse_args([verb, *words.get(verb, [])])
    assert args.congestion_control == ()


# --- what the server's sockets use ---


def test_the_kernel_says_what_accepted_sockets_use() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        socket.create_server(("127.0.0.1", 0)) as chosen,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both,
    ):
        chosen.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        for listener, expected in ((plain, MACHINES), (chosen, "reno"), (both, MACHINES)):
            port = listener.getsockname()[1]
            assert network.congestion_controls(port) == set()
            with socket.create_connection(("127.0.0.1", port)), network.Observer(port) as seen:
                accepted, _ = listener.accept()
                with closing(accepted):
                    for _ in range(1000):
                        if seen.names:
                            break
                        seen._done.wait(0.01)
            assert seen.names == {expected}


def test_sockets_with_another_congestion_control_than_asked_void_the_run() -> None:
    assert gates.congestion_control("bbr", {"bbr"}).passed
    for seen in ({"reno"}, {"bbr", "reno"}):
        check = gates.congestion_control("bbr", seen)
        assert not check.passed and check.takes == "all" and "asked was bbr" in check.detail
    unknown = gates.congestion_control("bbr", set())
    assert not unknown.passed and unknown.takes == ""


def test_other_cpus_or_descriptors_than_given_void_the_run() -> None:
    assert gates.placement((1, 0), {(0, 1)}, 20000, {20000}).passed
    wrong = gates.placement((0,), {(0,), (0, 1)}, 20000, {20000, 4096})
    assert not wrong.passed and wrong.takes == "all"
    assert "has CPUs 0,1, 4096 descriptors, asked was CPUs 0 and 20000 descriptors" in wrong.detail


def test_the_machines_network_is_a_warning() -> None:
    made = Environment("Linux", "CPU", 2, "8 GB", "GCC", "12", network="private")
    assert gates.private_network(made, []).passed
    for check in (gates.private_network(replace(made, network="shared"), []), gates.private_network(made, ["x is 1"])):
        assert not check.passed and check.takes == ""


@needs_load
@needs_other
def test_a_server_that_chooses_its_own_congestion_control_is_void(server: Path) -> None:
    done = bench(
        server, "reno", "run", "low", "--seconds", "1", "--repeats", "1", "--allow-dirty", "--congestion-control", "system"
    )
    assert done.code == 1 and f"the server's sockets use reno, asked was {MACHINES}" in done.stdout
    record = read(server.parent / "results" / f"low_concurrent-{MACHINES}_1.json")
    assert record.status == VOID and record.environment.congestion_control == MACHINES


@needs_load
@pytest.mark.parametrize("fault, word", [("cpus", "the server has CPUs 0,1"), ("files", "1000 descriptors")])
def test_a_server_that_changes_what_it_was_given_is_void(server: Path, fault: str, word: str) -> None:
    done = bench(server, fault, "run", "low", "--seconds", "1", "--repeats", "1", "--allow-dirty")
    assert done.code == 1 and word in done.stdout


# --- two columns ---


def test_another_congestion_control_is_another_scenario() -> None:
    (large,) = catalog.choose(["static-1mb"])
    (medium,) = catalog.choose(["medium"])
    assert [s.name for s in catalog.under_each([large, medium], ["reno", "bbr"])] == [
        "static-1mb", "static-1mb-bbr", "medium", "medium-bbr",
    ]  # fmt: skip
    assert catalog.under_each([large], ()) == [large]
    assert [s.name for s in catalog.where_it_matters([large, medium], "bbr")] == ["static-1mb", "static-1mb-bbr", "medium"]
    assert [s.name for s in catalog.where_it_matters([large, medium], "reno")] == ["static-1mb", "medium"]


@needs_other
def test_peers_measure_large_bodies_as_the_machine_would_too(own_network: None) -> None:
    chosen = peers_verb.scenarios_of(argparse.Namespace(scenario=["body-100kb", "low"], congestion_control=()))
    assert [s.name for s in chosen] == ["body-100kb", f"body-100kb-{MACHINES}", "low"]


@needs_load
@needs_other
def test_peers_keep_both_columns_apart(own_network: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--results", str(tmp_path)]
    only = ["--server", str(STUB), "--servers", "uvhttp-uring", "--rounds", "1", "--seconds", "1", "--rates", ""]
    cli.dispatch(["peers", "medium", "--congestion-control", f"reno,{MACHINES}", *only, *where])
    out = capsys.readouterr().out
    assert f"medium-{MACHINES}" in out
    records = [read(tmp_path / "peers" / f"{name}_uvhttp-uring_1.json") for name in ("medium", f"medium-{MACHINES}")]
    assert [r.environment.congestion_control for r in records] == ["reno", MACHINES]
    for record in records:
        check = next(c for c in record.checks if c.name == "congestion control")
        assert check.passed and record.environment.congestion_control in check.detail
    assert records[0].environment.hash != records[1].environment.hash


# --- what is recorded, what is reported ---


def test_what_every_server_has_alike_is_part_of_the_hash() -> None:
    made = Environment(
        "Linux", "CPU", 2, "8 GB", "GCC", "12", network="private", congestion_control="reno", descriptors=20000
    )
    changed = [
        replace(made, network="shared"), replace(made, congestion_control="bbr"), replace(made, sysctls={"a": "1"}),
        replace(made, descriptors=1024), replace(made, server_cpus=(1,)), replace(made, generator_cpus=(1,)),
    ]  # fmt: skip
    assert len({environment.digest(one) for one in (made, *changed)}) == 7
    assert environment.digest(replace(made, swap_mb=5)) == environment.digest(made)


@pytest.mark.parametrize("knows", [True, False])
def test_uvhttp_leaves_the_congestion_control_alone_where_an_option_says_so(tmp_path: Path, knows: bool) -> None:
    program = tmp_path / "performance_test"
    program.write_text(f"#!/bin/sh\necho {'--tcp-congestion-control' if knows else '--port'}\n")
    program.chmod(0o755)
    (scenario,) = catalog.choose(["medium"])
    command = [str(word) for word in Uvhttp(program=program).command(scenario, Ports(1, 2), Workspace(tmp_path))]
    assert (command[-2:] == ["--tcp-congestion-control", "system"]) is knows


def test_the_environment_says_what_is_in_force(own_network: None) -> None:
    network.use("reno")
    captured = json.loads(json.dumps(environment.capture("GCC", "12", (0,), (1,)).__dict__))
    assert captured["network"] == "private" and captured["congestion_control"] == "reno"
    assert captured["sysctls"].items() >= network.SYSCTLS.items() and captured["sysctls"]["net.ipv4.tcp_rmem"]
    assert captured["descriptors"] > 0
    assert captured["server_cpus"] == [0] and captured["generator_cpus"] == [1]
