"""Owns: what rounds of A B B A say about B. Within a round the machine's drift cancels: the effect is the mean of the two
B less that of the two A, in logarithms. The same four figures hold a difference that the two builds cannot have made,
(A1 - A2 + B1 - B2) / 2, which has the variance of the effect: the noise of the machine, measured in the same minutes.

Two questions are kept apart: whether there is a difference (the interval leaves out 1), and whether it matters (the interval
lies beyond the threshold)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.paired import Interval, hodges_lehmann, holm, wilcoxon

REGRESSED, IMPROVED, EQUIVALENT, INCONCLUSIVE = "regressed", "improved", "equivalent", "inconclusive"
SIGNIFICANCE = 0.05
ROUNDS_MIN = 6  # below, no outcome of Wilcoxon's test is significant
LOSS_MAX = 0.99  # of a throughput, as a threshold
PRECISION = 0.6  # of the threshold: so far the interval may reach from its middle for rounds to be enough


@dataclass(frozen=True)
class Metric:
    """warn and fail: how much worse, as parts of one (the contract's regression thresholds)."""

    name: str
    figure: str  # what Record.holds() is asked
    higher_is_better: bool
    warn: float
    fail: float


THROUGHPUT = Metric("requests_per_second", "throughput", True, 0.05, 0.10)
LATENCY = Metric("latency_p99_ms", "latency", False, 0.10, 0.20)
CPU = Metric("cpu_us_per_request", "cpu", False, 0.10, 0.20)
METRICS = (CPU, THROUGHPUT, LATENCY)


@dataclass(frozen=True)
class Round:
    """One figure in the order A B B A, in fresh processes."""

    a1: float
    b1: float
    b2: float
    a2: float

    def effect(self) -> float:
        return (math.log(self.b1) + math.log(self.b2) - math.log(self.a1) - math.log(self.a2)) / 2

    def noise(self) -> float:
        return (math.log(self.a1) - math.log(self.a2) + math.log(self.b1) - math.log(self.b2)) / 2


@dataclass(frozen=True)
class Verdict:
    scenario: str
    metric: str
    verdict: str
    grade: str  # "fail" or "warn" of a regression by the contract's thresholds, else ""
    ratio: float  # B over A, as Hodges and Lehmann estimate it
    ratio_low: float
    ratio_high: float
    p: float  # Wilcoxon, two-sided
    p_holm: float
    noise: float  # how far from equal the machine alone goes, as a part of one
    tolerance: float  # within which two builds are equivalent: the contract's warning threshold, or what was asked for
    threshold: float  # beyond which a difference counts: the tolerance, or the noise where that is larger
    rounds: int
    median_a: float
    median_b: float

    @property
    def differs(self) -> bool:
        """B from A at all, whether or not it matters."""
        return self.p_holm < SIGNIFICANCE and not self.ratio_low <= 1 <= self.ratio_high

    @property
    def precise(self) -> bool:
        """As much as the question needs: the interval and the machine's noise are small next to the threshold. Neither says
        where the difference lies: to continue until this is true does not favour a verdict."""
        reach = math.log(self.ratio_high / self.ratio_low) / 2
        return (
            self.rounds >= ROUNDS_MIN
            and reach <= PRECISION * math.log1p(self.tolerance)
            and math.log1p(self.noise) <= math.log1p(self.tolerance)
        )


def noise_floor(rounds: Sequence[Round]) -> float:
    """The far end of the interval of a difference that is none."""
    interval = hodges_lehmann([r.noise() for r in rounds])
    return math.expm1(max(abs(interval.low), abs(interval.high)))


def worsening(metric: Metric, effect: Interval) -> Interval:
    """As a logarithm above zero when B is worse."""
    if metric.higher_is_better:
        return Interval(-effect.high, -effect.middle, -effect.low)
    return effect


def worse_by(metric: Metric, part: float) -> float:
    """A threshold as a logarithm: throughput less 10 % is 0.9, latency and 10 % is 1.1. No throughput loses more than all."""
    return -math.log(1 - min(part, LOSS_MAX)) if metric.higher_is_better else math.log(1 + part)


def judge(scenario: str, metric: Metric, rounds: Sequence[Round], threshold: float | None = None) -> Verdict:
    """Of one figure of one scenario; correct() then looks at all that were judged together. `threshold` (a part of one)
    takes the place of the contract's; the noise raises either."""
    effect = hodges_lehmann([r.effect() for r in rounds])
    p = wilcoxon([r.effect() for r in rounds])
    noise = noise_floor(rounds)
    tolerance = metric.warn if threshold is None else threshold
    a = sorted(v for r in rounds for v in (r.a1, r.a2))
    b = sorted(v for r in rounds for v in (r.b1, r.b2))
    verdict = Verdict(
        scenario=scenario,
        metric=metric.name,
        verdict=INCONCLUSIVE,
        grade="",
        ratio=math.exp(effect.middle),
        ratio_low=math.exp(effect.low),
        ratio_high=math.exp(effect.high),
        p=p,
        p_holm=p,
        noise=noise,
        tolerance=tolerance,
        threshold=max(tolerance, noise),
        rounds=len(rounds),
        median_a=(a[len(a) // 2] + a[(len(a) - 1) // 2]) / 2,
        median_b=(b[len(b) // 2] + b[(len(b) - 1) // 2]) / 2,
    )
    return decide(metric, verdict)


def decide(metric: Metric, verdict: Verdict) -> Verdict:
    """The whole interval has to lie beyond the threshold, and the test has to agree."""
    ratio = Interval(math.log(verdict.ratio_low), math.log(verdict.ratio), math.log(verdict.ratio_high))
    worse = worsening(metric, ratio)
    limit = worse_by(metric, verdict.threshold)
    if verdict.differs and worse.low > limit:
        failed = worse.low > worse_by(metric, max(metric.fail, verdict.noise))
        return replace(verdict, verdict=REGRESSED, grade="fail" if failed else "warn")
    if verdict.differs and worse.high < -limit:
        return replace(verdict, verdict=IMPROVED, grade="")
    within = worse_by(metric, verdict.tolerance)
    if verdict.rounds >= ROUNDS_MIN and -within < worse.low and worse.high < within:
        return replace(verdict, verdict=EQUIVALENT, grade="")
    return replace(verdict, verdict=INCONCLUSIVE, grade="")


def correct(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Holm over everything that was judged together, and the verdicts that follow."""
    metrics = {metric.name: metric for metric in METRICS}
    adjusted = holm([verdict.p for verdict in verdicts])
    return [
        decide(metrics[verdict.metric], replace(verdict, p_holm=p)) for verdict, p in zip(verdicts, adjusted, strict=True)
    ]


def difference(v: Verdict) -> str:
    """Whether there is one at all, for the table and the sentence; whether it matters is the verdict's."""
    decided = v.verdict in (REGRESSED, IMPROVED)
    if not decided and (not v.differs or ratio.finding(Interval(v.ratio_low, v.ratio, v.ratio_high)) == ratio.TIE):
        return ratio.TIE
    higher_is_better = v.metric == THROUGHPUT.name
    return "better" if (v.ratio > 1) == higher_is_better else "worse"
