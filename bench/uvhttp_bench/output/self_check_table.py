"""Owns: the self-check in words: how often it was wrong about a build compared with itself, and how often it found one that is slower."""

from uvhttp_bench.model.self_check import Comparison, SelfCheck, judged, outcome
from uvhttp_bench.stats.rates import Rate

HEADS = ("B is", "threshold", "comparisons", "regressed", "improved", "rate of regressed", "95 % interval", "median B/A")


def _part(rate: Rate) -> tuple[str, str]:
    return (f"{rate.found / rate.of:.0%}" if rate.of else "", f"{rate.low:.0%}..{rate.high:.0%}" if rate.of else "")


def rows(check: SelfCheck) -> list[tuple[str, ...]]:
    """At the threshold that was asked for, and by the noise alone."""
    made: list[tuple[str, ...]] = []
    for slowed, name in ((False, "A"), (True, f"A, {check.slower_percent:g} % slower")):
        for threshold in dict.fromkeys((check.threshold_percent, 0.0)):
            found = outcome(check, slowed, threshold)
            ratio = "" if found.median_ratio is None else f"{found.median_ratio:.4f}"
            said = (str(found.regressed.of), str(found.regressed.found), str(found.improved.found))
            made.append((name, f"{threshold:g} %", *said, *_part(found.regressed), ratio))
    return made


def line(check: SelfCheck, comparison: Comparison) -> str:
    """Of one comparison, as it ends."""
    v = judged(check, comparison, check.threshold_percent)
    interval = f"{v.ratio:.4f} ({v.ratio_low:.4f}..{v.ratio_high:.4f})"
    return f"{v.rounds} rounds: {interval}, noise {100 * v.noise:.1f} %: {v.verdict}"


def _how(check: SelfCheck) -> list[str]:
    if not check.together:
        return [
            f"Each comparison is {check.rounds} rounds of A B B A with {check.seconds:g} s of {check.scenario} ({check.tool}) on "
            "fresh processes, judged by CPU time per request.",
            f"A request costs {check.cpu_us:.2f} us; the slower server burns {check.slow_ns} ns more at each.",
        ]
    counts = [len(c.rounds) for c in check.comparisons]
    burnt = [c.slow_ns for c in check.comparisons if c.slowed]
    lines = [
        f"Each comparison is {min(counts)} to {max(counts)} rounds (at most {check.rounds}: until it is precise enough) of two A "
        f"and two B, fresh processes under the load of {check.scenario} ({check.tool}) for {check.seconds:g} s at the same moment, "
        "judged by CPU time per request.",
    ]
    if burnt:
        lines.append(f"The slower server burns {min(burnt)} to {max(burnt)} ns more at each request than the other.")
    return lines


def notes(check: SelfCheck) -> list[str]:
    noisy = sum(c.restless for c in check.comparisons)
    lines = _how(check)
    if noisy:
        lines.append(f"During {noisy} {'rounds' if check.together else 'runs'} the machine was noisy.")
    return lines
