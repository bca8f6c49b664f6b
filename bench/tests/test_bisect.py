"""Finding the commit that changed a figure: the search, the commits of a repository, and the command, without a server."""

import math
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from uvhttp_bench import bisection, cli, repository, revisions
from uvhttp_bench.bisection import AS_A, AS_B, LEFT_OUT, Found, Step
from uvhttp_bench.commands import bisect
from uvhttp_bench.exits import BenchError, UsageError
from uvhttp_bench.stats import verdict
from uvhttp_bench.stats.verdict import Round, Verdict


def judged(ratio: float, spread: float = 0.005, threshold: float = 0.1) -> Verdict:
    rounds = [Round(10, 10 * ratio * (1 + sign * spread), 10 * ratio, 10) for sign in (-1, 1) * 6]
    return verdict.judge("low", verdict.CPU, rounds, threshold)


# --- the search ---


def searched(count: int, culprit: int, left_out: Sequence[int] = (), seconds: int = 1000) -> tuple[Found, list[int]]:
    asked: list[int] = []

    def look(place: int, commit: str) -> Step:
        asked.append(place)
        outcome = LEFT_OUT if place in left_out else AS_B if place >= culprit else AS_A
        return Step(place, commit, outcome)

    return bisection.search([f"c{n}" for n in range(count)], look, lambda: len(asked) < seconds), asked


@pytest.mark.parametrize("count", [1, 2, 3, 8, 33])
def test_every_culprit_is_found_in_as_few_steps_as_halving_takes(count: int) -> None:
    for culprit in range(count):
        found, asked = searched(count, culprit)
        assert found.commits == (f"c{culprit}",) and found.complete
        assert found.before == (f"c{culprit - 1}" if culprit else None)
        assert len(asked) <= bisection.steps_most(count)


def test_commits_that_cannot_be_decided_are_left_out_and_named_where_they_hide_the_culprit() -> None:
    found, asked = searched(16, 10, left_out=[7, 8])
    assert found.commits == ("c10",) and len(set(asked)) == len(asked)
    hidden, _ = searched(16, 8, left_out=[7, 8])
    assert hidden.commits == ("c7", "c8", "c9") and hidden.before == "c6" and hidden.complete


def test_the_time_ends_the_search_with_what_is_known() -> None:
    found, asked = searched(64, 20, seconds=2)
    assert len(asked) == 2 and not found.complete
    assert "c20" in found.commits and len(found.commits) == 16


@pytest.mark.parametrize("change", [1.2, 0.8])
def test_the_middle_of_the_change_tells_the_sides_apart(change: float) -> None:
    log = math.log(change)
    assert bisection.side(judged(1.0), log) == AS_A
    assert bisection.side(judged(change), log) == AS_B
    assert bisection.side(judged(math.exp(log / 2)), log) == LEFT_OUT


# --- the commits ---


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(directory), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """v0, then five commits to src/ with one to docs/ among them."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for number, name in enumerate(("src", "src", "src", "docs", "src", "src", "src")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "file").write_text(str(number))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "--quiet", "-m", f"{name} {number}")
        if number == 0:
            git(tmp_path, "tag", "v0")
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    monkeypatch.setattr(repository, "BUILD", tmp_path / "build")
    return tmp_path


def test_only_commits_that_can_change_the_server_are_searched_oldest_first(history: Path) -> None:
    found = [git(history, "log", "-1", "--format=%s", commit) for commit in bisect.candidates("v0", "HEAD")]
    assert found == ["src 1", "src 2", "src 4", "src 5", "src 6"]
    with pytest.raises(UsageError, match="is not before"):
        bisect.candidates("HEAD", "v0")
    with pytest.raises(UsageError, match="is not before"):
        bisect.candidates("HEAD", "HEAD")
    with pytest.raises(UsageError, match="no commit between"):
        bisect.candidates("HEAD~4", "HEAD~3")


# --- the command ---


class Machine:
    """Says of two builds what their commits' numbers say; where the culprit is, and which commit does not build."""

    def __init__(self, culprit: int, broken: Sequence[int] = (), change: float = 1.2) -> None:
        self.culprit, self.broken, self.change = culprit, broken, change
        self.compared: list[tuple[int, int]] = []

    def build(self, commit: str) -> revisions.Built:
        if number(commit) in self.broken:
            raise BenchError("cmake failed: it does not build")
        return revisions.Built(commit, commit, False, Path(__file__))

    def compare(self, _: object, a: revisions.Built, b: revisions.Built, threshold: float, rounds: int) -> Verdict:
        pair = number(a.revision), number(b.revision)
        self.compared.append(pair)
        slow = [one >= self.culprit for one in pair]
        return judged(self.change if slow == [False, True] else 1.0, threshold=threshold)


def number(commit: str) -> int:
    return int(bisect.subject(commit).split()[1])


def bisected(history: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine, *more: str) -> int:
    monkeypatch.setattr(revisions, "program_of", machine.build)
    monkeypatch.setattr(bisect.Comparer, "compare", lambda self, *what: machine.compare(self, *what))
    monkeypatch.setattr("uvhttp_bench.session.load_for", lambda *_: None)
    monkeypatch.setattr("uvhttp_bench.measure.plan_for", lambda *_: None)
    return cli.dispatch(["bisect", "v0", "HEAD", "--scenario", "low", *more])


def test_the_command_names_the_commit_and_confirms_it_alone(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(culprit=4)
    assert bisected(history, monkeypatch, machine) == 0
    out = capsys.readouterr().out
    assert f"the commit: {git(history, 'rev-parse', 'HEAD~2')[:12]} src 4" in out
    assert machine.compared[0] == (0, 6) and machine.compared[-1] == (2, 4)
    assert list((history / "build" / "bench" / "bisect").glob("*.json"))


def test_a_commit_that_does_not_build_is_left_out(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisected(history, monkeypatch, Machine(culprit=4, broken=[4])) == 4
    out = capsys.readouterr().out
    assert "left out: cmake failed" in out and "one of these 2 (the others were left out)" in out


@pytest.mark.parametrize(("change", "code", "words"), [(1.0, 1, "do not differ"), (1.12, 4, "more --rounds")])
def test_nothing_is_searched_where_a_and_b_do_not_differ(
    change: float, code: int, words: str, history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(culprit=4, change=change)
    if code == 4:
        monkeypatch.setattr(verdict, "decide", lambda _, v: replace(v, verdict=verdict.INCONCLUSIVE))
    assert bisected(history, monkeypatch, machine) == code
    assert words in capsys.readouterr().out and len(machine.compared) == 1


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--minutes", "0"], ["--threshold", "100"]])
def test_wrong_options_are_usage_errors(wrong: list[str], history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bisected(history, monkeypatch, Machine(4), *wrong) == 2
    assert cli.dispatch(["bisect", "v0", "HEAD", "--scenario", "basic"]) == 2
