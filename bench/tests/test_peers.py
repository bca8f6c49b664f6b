"""Servers side by side: their options, what their rounds say, and the whole command against a stand-in."""

import contextlib
import json
import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import cli, measure, network, open_loop, versus
from uvhttp_bench.exits import BenchError, UsageError
from uvhttp_bench.loads.at_rate import AtRate
from uvhttp_bench.loads.base import Job
from uvhttp_bench.measure import Cpus
from uvhttp_bench.model import database
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Check, Configuration, Environment, Record, Resources, Results, ScenarioRun, read
from uvhttp_bench.output import peers_table
from uvhttp_bench.scenarios.catalog import Scenario, choose
from uvhttp_bench.standings import fields_of
from uvhttp_bench.targets import crates, lighttpd, limits, peer, peers, tomcat
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.nginx import Nginx
from uvhttp_bench.targets.uvhttp import Uvhttp

HERE = Path(__file__).parent
PORTS = Ports(1001, 1002)


@pytest.fixture
def made(tmp_path: Path) -> Workspace:
    (tmp_path / "static").mkdir()
    return Workspace(tmp_path)


def scenario(name: str) -> Scenario:
    return choose([name])[0]


def record(target: str, cpu: float, repeat: int = 1, rate: float = 1000, checks: tuple[Check, ...] = ()) -> Record:
    return Record(
        test_id=f"PERF-2026-01-01-{repeat:03}",
        timestamp="2026-01-01T00:00:00Z",
        environment=Environment("Linux", "CPU", 2, "8 GB", "GCC", "12"),
        configuration=Configuration(True, True, True, "-O0"),
        test_scenario=ScenarioRun("medium", 4, 50, 1, "GET", "http://127.0.0.1:1/", target=target, repeat=repeat),
        results=Results(1000, rate, 50, 50, None, None, None, 1, histogram=Histogram.of([(50000, 1000)])),
        resources=Resources(50, 10, 1, 1, cpu_user_us_per_request=cpu, cpu_system_us_per_request=0),
        checks=checks,
    )


def test_a_server_serves_what_it_can_and_nothing_else() -> None:
    nginx = Nginx()
    for name in ("medium", "https", "body-100kb", "static-1mb", "pipeline"):
        assert nginx.serves(scenario(name))
    for name in ("websocket", "post", "static-1mb-copy", "body-100kb-copy", "sleep200"):
        assert not nginx.serves(scenario(name))
    assert peers.known()["libevent"].serves(scenario("https-100kb")) and not peers.known()["civetweb"].serves(
        scenario("https")
    )
    assert peers.known()["libwebsockets"].serves(scenario("websocket"))
    assert not peers.known()["libwebsockets"].serves(scenario("pipeline"))
    assert not peers.known()["bare-epoll"].serves(scenario("body-100kb"))
    assert peers.known()["bare-file"].serves(scenario("static-1mb"))
    assert not peers.known()["bare-file"].serves(scenario("medium"))


def test_the_bare_loop_of_files_gets_the_file_to_send(monkeypatch: pytest.MonkeyPatch, made: Workspace) -> None:
    monkeypatch.setattr(limits, "build_c", lambda source: source)
    command = [str(word) for word in peers.known()["bare-file"].command(scenario("static-1mb"), PORTS, made)]
    assert command[0].endswith("bench/limits/file_limit.c")
    assert command[1:] == [str(PORTS.http), f"{made.static}/1mb.bin"]


def test_no_name_is_left_in_a_configuration(made: Workspace) -> None:
    Nginx().command(scenario("medium"), PORTS, made)
    text = (made.path / "nginx.conf").read_text()
    assert "@" not in text
    assert "127.0.0.1:1001" in text
    lighttpd.Lighttpd().command(scenario("https"), PORTS, made)
    assert "127.0.0.1:1002" in (made.path / "lighttpd.conf").read_text()
    assert (made.static / "100kb.bin").stat().st_size == 102400


def test_a_server_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tomcat, "HOME", tmp_path)
    assert tomcat.Tomcat().missing() == "tomcat is not installed: apt-get install tomcat10 openjdk-17-jdk-headless"


def test_a_program_that_cannot_be_built_says_why_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "BUILT", tmp_path)
    source = tmp_path / "broken.c"
    source.write_text("int main(void) { return nothing; }\n")
    with pytest.raises(BenchError, match=r"broken cannot be built: .*nothing") as failed:
        peer.build_c(source)
    assert "\n" not in str(failed.value)


def test_servers_are_chosen_by_name_in_addition_to_ours() -> None:
    assert [target.name for target in peers.choose(["nginx"])] == ["uvhttp-uring", "nginx"]
    with pytest.raises(UsageError, match="no server 'apache'"):
        peers.choose(["apache"])


def test_copying_files_is_measured_when_it_is_named(made: Workspace) -> None:
    assert not any(target.name.endswith("-copy") for target in peers.choose([]))
    chosen = peers.choose(["uvhttp-libuv-copy"])
    assert [target.name for target in chosen] == ["uvhttp-uring", "uvhttp-libuv-copy"]
    zero_copy, copying = ([str(word) for word in target.command(scenario("static-1mb"), PORTS, made)] for target in chosen)
    assert copying[copying.index("--sendfile") + 1] == "off" and "epoll" in copying
    assert "--sendfile" not in zero_copy
    assert chosen[1].serves(scenario("static-10mb")) and chosen[1].serves(scenario("body-100kb"))
    assert not chosen[1].serves(scenario("medium"))


def test_ratio_is_computed_within_the_rounds() -> None:
    first = [record("uvhttp-uring", cpu, number) for number, cpu in enumerate((1.0, 2.0, 4.0), 1)]
    own = [record("nginx", cpu, number) for number, cpu in enumerate((2.0, 4.0, 8.0), 1)]
    interval = versus.ratio(own, first)
    assert interval is not None
    assert math.isclose(interval.low, 2) and math.isclose(interval.high, 2)
    void = Check("errors", False, "404")
    assert versus.ratio([record("nginx", 2, checks=(void,))], first) is None


def test_what_the_kernel_does_in_the_clients_time_is_in_the_ratio_of_both() -> None:
    def pair(name: str, server: float, client: float) -> list[Record]:
        made = [record(name, server, number) for number in range(1, 7)]
        return [replace(r, resources=replace(r.resources, generator_cpu_us_per_request=client)) for r in made]

    first, own = pair("uvhttp-uring", 100.0, 150.0), pair("nginx", 75.0, 200.0)
    found = versus.standing(own, first, "nginx")
    assert found.cpu_ratio is not None and math.isclose(found.cpu_ratio.middle, 0.75)
    assert found.both_ratio is not None and math.isclose(found.both_ratio.middle, 1.1)
    assert peers_table.with_client(found) == "1.10 (1.10..1.10)"
    assert peers_table.with_client(versus.standing(first, first, "uvhttp-uring")) == ""
    unknown = [record("nginx", 2, number) for number in range(1, 7)]
    assert versus.standing(unknown, first, "nginx").both_ratio is None


def test_the_table_has_ratios_one_reference_and_does_not_rank_ties() -> None:
    costs = {"uvhttp-uring": 10.0, "zeta": 9.99, "alpha": 10.01, "far": 20.0, "fast": 5.0}
    kept = [
        record(name, cost * 1.01 ** ((-1) ** number if name in ("zeta", "alpha") else 0), number)
        for name, cost in costs.items() for number in range(1, 7)
    ]  # fmt: skip
    rows = peers_table.rows(fields_of(kept))
    assert [row[1] for row in rows] == ["uvhttp-uring", "fast", "alpha", "zeta", "far"]
    column = peers_table.HEADS.index
    assert [row[column("ratio")] for row in rows] == ["1", "0.50", "tie", "tie", "2.00"]
    assert [row[column("us CPU/req")] for row in rows] == ["10.00", "", "", "", ""]


def test_a_void_run_leaves_no_figure_and_says_why() -> None:
    void = record("nginx", 2, checks=(Check("errors", False, "1000 status of 1000 requests"),))
    found = versus.standing([void], [], "nginx")
    assert (found.status, found.cpu_us, found.requests_per_second, found.latency_p50_ms) == ("void", None, None, None)
    assert found.reasons == ("errors: 1000 status of 1000 requests",)
    fields = fields_of([void])
    assert peers_table.rows(fields)[0][3:14] == ("",) * 11
    assert peers_table.notes(fields) == ["medium, nginx: errors: 1000 status of 1000 requests"]


def test_a_saturated_generator_leaves_the_cpu_time_and_a_lower_bound_of_the_rate() -> None:
    weak = record("nginx", 2, checks=(Check("generator", False, "it was the bottleneck", "throughput"),))
    found = versus.standing([weak], [], "nginx")
    assert (found.cpu_us, found.throughput_holds, found.latency_p99_ms) == (2, False, None)
    assert peers_table.rate(found) == ">= 1,000"


def test_checks_of_our_build_are_not_asked_of_others() -> None:
    checks = (Check("build", False, "debug"), Check("errors", True, "none"))
    other = versus.adapted(record("nginx", 1, checks=checks), Nginx(), 5.0)
    assert [check.name for check in other.checks] == ["errors"]
    assert not other.configuration.debug
    ours = versus.adapted(record("uvhttp-uring", 1, checks=checks), Uvhttp("uring", name="uvhttp-uring"), 5.0)
    assert [check.name for check in ours.checks] == ["build", "errors"]


def test_an_open_loop_that_was_not_served_at_its_rate_does_not_hold() -> None:
    slow = open_loop.at_rate(record("nginx", 1, rate=500), 1000.0)
    assert slow.test_scenario.loop == "open"
    assert not slow.holds("latency")
    assert open_loop.at_rate(record("nginx", 1, rate=990), 1000.0).holds("latency")


def test_a_rate_that_the_generator_has_set_is_no_capacity() -> None:
    """Neither what the rates of an open loop are a part of, nor what such a record is shown as."""
    weak = Check("generator", False, "the generator used 99% of its CPUs", "throughput")
    bounded, valid = record("nginx", 1, 1, rate=500, checks=(weak,)), record("nginx", 1, 2, rate=1000)
    assert versus.capacity([bounded]) is None and versus.capacity([]) is None
    assert versus.capacity([bounded, valid]) == 1000
    half = open_loop.at_rate(record("nginx", 1, rate=500), 500.0)
    assert versus.percent_of_capacity(half, [bounded, valid, half]) == 50
    assert versus.percent_of_capacity(half, [bounded, half]) is None
    assert [s.rate_percent for s in fields_of([bounded, half])] == [0.0]
    assert [s.rate_percent for s in fields_of([bounded, valid, half])] == [0.0, 50.0]


def test_rounds_after_the_rates_do_not_change_which_rates_they_were() -> None:
    """The rates are measured after the sixth round. The rounds that follow move the median of the capacity."""
    early = [record(name, 1, number) for name in ("uvhttp-uring", "nginx") for number in range(1, 7)]
    rates = [open_loop.at_rate(record(name, 1, rate=500), 500.0) for name in ("uvhttp-uring", "nginx")]
    late = [record("nginx", 1, number, rate=1200) for number in range(7, 21)]
    assert [f.rate_percent for f in fields_of([*early, *rates, *late])] == [0.0, 50.0]


def test_no_round_is_added_for_ratios_to_a_server_that_has_failed(tmp_path: Path) -> None:
    options = versus.Options(20, 1, measure.Cpus((0,), (1,)), 1.0, "session", tmp_path)
    ours, nginx = Uvhttp("uring", name="uvhttp-uring"), peers.known()["nginx"]
    with database.opened(tmp_path / "db.sqlite") as store:
        one = versus.Versus(options, lambda scenario: AtRate(1), store, lambda text: None)
        one.kept = [record(name, 1 + number / 10, number) for name in ("uvhttp-uring", "nginx") for number in (1, 2)]
        assert one._imprecise(scenario("medium"), [ours, nginx]) == [ours, nginx]
        one._failed.add(("medium", "uvhttp-uring"))
        assert one._imprecise(scenario("medium"), [ours, nginx]) == []


def test_no_rate_is_asked_of_a_server_whose_capacity_is_not_known(tmp_path: Path, made: Workspace) -> None:
    said: list[str] = []
    cpus = measure.Cpus((0,), (1,))
    options = versus.Options(1, 1, cpus, 1.0, "session", tmp_path, rates_percent=(50,))
    with database.opened(tmp_path / "db.sqlite") as store:
        one = versus.Versus(options, lambda scenario: AtRate(1), store, said.append)
        weak = Check("generator", False, "the generator used 99% of its CPUs", "throughput")
        one.kept.append(record("nginx", 1, rate=500, checks=(weak,)))
        one._at_rate(scenario("medium"), [peers.known()["nginx"]], made, 50)
    assert (
        len(one.kept) == 1
        and "the load generator was the bottleneck" in said[0]
        and said[0].startswith("medium: nginx at 50 %")
    )
    assert one.left_out


def test_a_rate_is_asked_for_before_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UVHTTP_BENCH_LOAD", __file__)
    command = AtRate(500).command(Job("http://127.0.0.1:1/", 1, 10, 1, ()))
    assert command[-7:] == ["--rate", "500.000", "--arrivals", "poisson", "--seed", "1", "http://127.0.0.1:1/"]


def test_whole_command_on_a_stand_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--results", str(tmp_path)]
    server = ["--server", str(HERE / "stub_server.py"), "--rounds", "1", "--seconds", "1", "--rates", ""]
    code = cli.dispatch(["peers", "medium", "--servers", "bare-epoll", *server, *where])
    assert code in (1, 4)  # the stand-in does not say how it was built
    out = capsys.readouterr().out
    assert "bare-epoll" in out
    assert "build: the server does not say how it was built" in out
    kept = sorted(path.name for path in (tmp_path / "peers").iterdir())
    assert kept == [f"medium_{name}_1.{end}" for name in ("bare-epoll", "uvhttp-uring") for end in ("json", "txt")]


def test_a_file_is_compared_by_every_generator_of_a_round(tmp_path: Path) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--results", str(tmp_path)]
    server = ["--server", str(HERE / "stub_server.py"), "--servers", "uvhttp-uring,uvhttp-libuv"]
    cli.dispatch(["peers", "static-10kb", *server, "--rounds", "1", "--seconds", "1", "--rates", "", *where])
    for name in ("uvhttp-uring", "uvhttp-libuv"):
        record = read(tmp_path / "peers" / f"static-10kb_{name}_1.json")
        assert all(check.passed for check in record.checks if check.name in ("errors", "answer before", "answer after"))


def test_a_cross_check_measures_the_peers_too(tmp_path: Path) -> None:
    where = ["--database", str(tmp_path / "db.sqlite"), "--results", str(tmp_path)]
    server = ["--server", str(HERE / "stub_server.py"), "--servers", "uvhttp-uring"]
    cli.dispatch(["peers", "medium", "--tool", "wrk", *server, "--rounds", "1", "--seconds", "1", "--rates", "", *where])
    assert read(tmp_path / "peers" / "medium_uvhttp-uring_1.json").test_scenario.tool == "wrk"


def test_the_jvm_is_warmed_up_for_the_given_time() -> None:
    made = peers.known(jvm_warmup_seconds=4)["tomcat"]
    assert isinstance(made, tomcat.Tomcat) and made.warmup_seconds == 4 and "for 4 s" in made.note
    assert cli.dispatch(["peers", "--jvm-warmup", "0"]) == 2


Done = list[tuple[str, int, tuple[str, ...]]]


def measured(monkeypatch: pytest.MonkeyPatch, scatter: float, rounds: int, deadline: float = math.inf) -> Done:
    """The rounds of three servers of which b scatters; a round takes a second of a clock of its own."""
    done: Done = []

    def one_round(owner: versus.Versus, what: Scenario, able: list[Uvhttp], made: Workspace, number: int) -> None:
        done.append((what.name, number, tuple(target.name for target in able)))
        for target in able:
            one = record(target.name, 10 * (1 + scatter * (-1) ** number * (target.name == "b")), number)
            owner.kept.append(replace(one, test_scenario=replace(one.test_scenario, name=what.name)))

    monkeypatch.setattr(versus.time, "monotonic", lambda: float(len(done)))
    monkeypatch.setattr(versus.Versus, "_round", one_round)
    options = versus.Options(rounds, 1, Cpus((0,), (1,)), 1, "s", Path("/nowhere"), deadline=deadline)
    targets = [Uvhttp(name=name) for name in ("a", "b", "c")]
    versus.Versus(options, lambda _: None, None, lambda _: None).run([scenario("medium"), scenario("https")], targets)  # type: ignore[arg-type,return-value]
    return done


def test_rounds_end_when_every_ratio_is_known_well_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measured(monkeypatch, scatter=0.0, rounds=20)
    assert [(name, number) for name, number, _ in done] == [(n, r) for r in range(1, 7) for n in ("medium", "https")]


def test_more_rounds_are_for_those_that_are_not_known_and_for_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measured(monkeypatch, scatter=0.3, rounds=9)
    assert {who for _, number, who in done if number > 6} == {("a", "b")}
    assert max(number for _, number, _ in done) == 9


def test_no_round_starts_after_the_time_budget_and_all_scenarios_have_had_their_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = measured(monkeypatch, scatter=0.3, rounds=9, deadline=5)
    assert [(name, number) for name, number, _ in done] == [
        ("medium", 1), ("https", 1), ("medium", 2), ("https", 2), ("medium", 3)
    ]  # fmt: skip
    assert cli.dispatch(["peers", "--minutes", "0"]) == 2


def test_rates_are_checked() -> None:
    assert cli.dispatch(["peers", "--rates", "50,x"]) == 2
    assert cli.dispatch(["peers", "--rates", "120"]) == 2


def test_what_cargo_fetches_comes_from_the_network_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Servers are measured in a network of their own, where nothing can be fetched."""
    places: list[str] = []

    @contextlib.contextmanager
    def outside() -> Iterator[None]:
        places.append("outside")
        yield
        places.append("inside")

    def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        places.append(command[0])
        packages = [{"name": "parser-sys", "manifest_path": str(tmp_path / "Cargo.toml")}]
        return subprocess.CompletedProcess(command, 0, json.dumps({"packages": packages}), "")

    monkeypatch.setattr(network, "outside", outside)
    monkeypatch.setattr(subprocess, "run", run)
    assert crates.crate_folder("parser-sys") == tmp_path
    with pytest.raises(BenchError, match="cannot be built"):
        peer.build("one", ["cargo", "build"], [], tmp_path / "one")
    assert places == ["outside", "cargo", "inside"] * 2
