"""Owns: the self-check in words: how often it was wrong about a build beside itself, and how often it found one that is slower."""

from uvhttp_bench.model.self_check import SelfCheck, outcome
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


def notes(check: SelfCheck) -> list[str]:
    restless = sum(c.restless for c in check.comparisons)
    lines = [
        f"Each comparison is {check.rounds} rounds of A B B A with {check.seconds:g} s of {check.scenario} ({check.tool}) on fresh "
        "processes, judged by CPU time per request.",
        f"A request costs {check.cpu_us:.2f} us; the slower server burns {check.slow_ns} ns more at each.",
    ]
    if restless:
        lines.append(f"During {restless} runs the machine did other things.")
    return lines
