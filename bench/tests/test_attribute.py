"""What each layer costs: differences within rounds, the picture, and what is said when the program is not built."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from test_peers import record

from uvhttp_bench import attribution, cli
from uvhttp_bench.attribution import costs
from uvhttp_bench.model.record import Check, Record
from uvhttp_bench.output import layers_picture
from uvhttp_bench.targets import layers
from uvhttp_bench.targets.base import Ports, Workspace


def rounds(name: str, figures: list[float]) -> list[Record]:
    return [record(name, cpu, number) for number, cpu in enumerate(figures, 1)]


KEPT = {
    "kernel": rounds("kernel", [10.0, 20.0, 30.0]),
    "tcp": rounds("tcp", [11.0, 21.0, 31.0]),
    "parse": rounds("parse", [11.5, 21.5, 31.5]),
}


def test_a_cost_is_the_difference_within_the_rounds() -> None:
    kernel, tcp, parse = costs(KEPT)
    assert kernel.added_us is None
    assert tcp.added_us is not None and (tcp.added_us.low, tcp.added_us.high) == (1, 1)
    assert parse.added_us is not None and parse.added_us.middle == 0.5
    assert (parse.beneath, parse.total_us) == ("tcp", 21.5)


def test_void_runs_are_left_out_with_their_round() -> None:
    void = Check("errors", False, "5 status")
    broken = [record("tcp", 99, 1, checks=(void,)), *KEPT["tcp"][1:]]
    found = {cost.layer: cost for cost in costs({**KEPT, "tcp": broken})}
    assert found["tcp"].added_us is not None and found["tcp"].added_us.middle == 1
    assert len(found["tcp"].records) == 2
    assert "tcp" not in {cost.layer for cost in costs({"tcp": [record("tcp", 99, 1, checks=(void,))]})}


def test_picture_is_xml_and_names_each_layer() -> None:
    text = layers_picture.svg(costs(KEPT))
    ET.fromstring(text)
    assert "parse (on tcp)" in text
    assert "+0.50 us" in text


def test_every_layer_stands_on_another_and_serves_what_it_is_asked() -> None:
    known = {layers.FLOOR} | {layer.name for layer in layers.LAYERS}
    assert all(layer.beneath in known for layer in layers.LAYERS)
    for engine in ("uring", "epoll"):
        found = attribution.targets(engine)
        assert all(target.serves(scenario) for _, target, scenario in found)
        assert {name for name, _, _ in found} == known


def test_static_layer_has_a_file_to_serve(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    name, target, scenario = attribution.targets("uring")[-1]
    command = [str(word) for word in target.command(scenario, Ports(1, 2), Workspace(tmp_path))]
    assert name == "static"
    assert command[1:4] == ["static", "1", "2"]
    assert (tmp_path / "static" / "hello.txt").read_bytes() == b"Hello, World!"


@pytest.mark.parametrize(("failed", "code"), [("errors", 1), ("machine", 4), ("", 0)])
def test_a_run_that_measured_nothing_is_worse_than_a_noisy_machine(
    failed: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check = Check(failed, False, "5 status", "all" if failed == "errors" else "throughput", unstable=failed == "machine")
    names = [name for name, _, _ in attribution.targets("uring")]

    def measure(options: object, store: object, say: object, keep: Callable[[str, Record], None]) -> None:
        for name in names:
            for number in range(1, 4):
                wrong = failed and name == names[-1] and number == 2
                keep(name, record(name, 10, number, checks=(check,) if wrong else ()))

    monkeypatch.setattr(attribution, "run", measure)
    monkeypatch.setattr(attribution, "targets", lambda engine: [(name, Present(), None) for name in names])
    assert cli.dispatch(["attribute", "--database", str(tmp_path / "db")]) == code


class Present:
    def missing(self) -> None:
        return None


def test_a_program_that_is_not_built_ends_with_77(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(layers, "PROGRAM", tmp_path / "layers")
    assert cli.dispatch(["attribute"]) == 77
    assert cli.dispatch(["attribute", "--rounds", "0"]) == 2
