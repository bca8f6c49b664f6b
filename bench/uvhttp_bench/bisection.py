"""Owns: which of the commits between A and B changed a figure. Pure but for what it is given: the search knows no git and no
server.

Each step compares a commit with A. The change from A to B is known by then, so that the question is whether the commit lies
nearer to A or to B: the middle of that change, not a threshold near zero, decides. A commit that cannot be built or decided is
left out, as `git bisect skip` does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uvhttp_bench.stats.verdict import Verdict

AS_A, AS_B, LEFT_OUT = "as A", "as B", "left out"


@dataclass(frozen=True)
class Step:
    """`place`: of the commit in the list that is searched."""

    place: int
    commit: str
    outcome: str
    ratio: float | None = None  # to A
    ratio_low: float | None = None
    ratio_high: float | None = None
    rounds: int = 0
    why: str = ""  # it was left out


@dataclass(frozen=True)
class Found:
    """`commits` has one, or those between which nothing could be decided; `before` is the last that is as A (A itself: None)."""

    commits: tuple[str, ...]
    before: str | None
    steps: tuple[Step, ...]
    complete: bool  # else the time ended


def side(verdict: Verdict, change: float) -> str:
    """`change`: the logarithm of B over A. Left out where the interval reaches across its middle."""
    low, high = math.log(verdict.ratio_low), math.log(verdict.ratio_high)
    if change < 0:
        low, high, change = -high, -low, -change
    return AS_B if low > change / 2 else AS_A if high < change / 2 else LEFT_OUT


def steps_most(count: int) -> int:
    """Without commits that are left out."""
    return max(0, math.ceil(math.log2(count))) if count else 0


def search(commits: Sequence[str], look: Callable[[int, str], Step], in_time: Callable[[], bool]) -> Found:
    """`commits`: those after A up to B, oldest first; the last one is as B. Halves what is left, starting from its middle."""
    good, bad = -1, len(commits) - 1
    left_out: set[int] = set()
    steps: list[Step] = []
    complete = True
    while True:
        open_ones = [place for place in range(good + 1, bad) if place not in left_out]
        if not open_ones:
            break
        if not in_time():
            complete = False
            break
        middle = (good + bad) // 2
        place = min(open_ones, key=lambda one: abs(one - middle))
        step = look(place, commits[place])
        steps.append(step)
        if step.outcome == AS_A:
            good = place
        elif step.outcome == AS_B:
            bad = place
        else:
            left_out.add(place)
    return Found(tuple(commits[good + 1 : bad + 1]), commits[good] if good >= 0 else None, tuple(steps), complete)
