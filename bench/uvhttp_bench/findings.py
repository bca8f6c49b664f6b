"""Owns: the three sentences at the head of a report and of a README's section, in English and Chinese. They are made from records
and claim no more than those."""

import statistics
from collections.abc import Sequence

from uvhttp_bench.model import floors
from uvhttp_bench.model.record import BOUNDED, UNSTABLE, VOID, Record
from uvhttp_bench.output.tables import number
from uvhttp_bench.standings import Field, count, same_conditions
from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.verdict import IMPROVED, INCONCLUSIVE, REGRESSED, Verdict
from uvhttp_bench.summary import ScenarioSummary

NAMED_MAX = 6

PEERS = {
    "en": {
        "count": "In {comparisons} ({servers}, {scenarios}) uvhttp used less CPU time per request in "
        "{less}, tied in {tie} and used more in {more}.",
        "ahead": "Servers that used less than uvhttp: {names}.",
        "none": "No other server used less than uvhttp by more than the noise.",
        "rule": "{conditions}; a ratio is a tie when its 95 % interval holds 1, or is wider than ±5 % and not beyond a factor of 1.5.",
        "conditions": "The servers of a round run under equal conditions (one CPU, congestion control {name})",
        "cpu": "Each server has one CPU, but TCP's congestion control was not set alike, which matters for bodies and files",
        "in": "{server} in {scenario} ({ratio})",
        "rest": " and {count} more",
        "comma": ", ",
    },
    "zh": {
        "count": "在 {total} 项对比中({servers} 种其他服务器,{scenarios} 个场景),uvhttp 每个请求消耗的 CPU 时间有 {less} 项更少,"
        "{tie} 项持平,{more} 项更多。",
        "ahead": "比 uvhttp 消耗更少的有:{names}。",
        "none": "没有其他服务器的消耗比 uvhttp 少到超出噪声的程度。",
        "rule": "{conditions};比值的 95 % 区间包含 1,或宽于 ±5 % 且未超出 1.5 倍时,记为持平。",
        "conditions": "同一轮中各服务器条件相同(各用一个 CPU,拥塞控制为 {name})",
        "cpu": "各服务器各用一个 CPU,但未统一 TCP 拥塞控制,这会影响大响应体和文件的结果",
        "in": "{scenario} 中的 {server}({ratio})",
        "rest": "等共 {all} 项",
        "comma": "、",
    },
}


def of_peers(fields: Sequence[Field], language: str = "en") -> tuple[str, ...]:
    fields = same_conditions(fields)
    words, found = PEERS[language], count(fields)
    names = [
        words["in"].format(server=s.target, scenario=scenario, ratio=ratio.text(s.cpu_ratio)) for scenario, s in found.ahead
    ]
    listed = words["comma"].join(names[:NAMED_MAX])
    if len(names) > NAMED_MAX:
        listed += words["rest"].format(count=len(names) - NAMED_MAX, all=len(names))
    conditions = sorted({field.conditions for field in fields if field.conditions})
    text = words["conditions"].format(name=words["comma"].join(conditions)) if conditions else words["cpu"]
    numbers: dict[str, object] = {k: getattr(found, k) for k in ("total", "servers", "scenarios", "less", "tie", "more")}
    if language == "en":
        numbers["comparisons"] = _counted("comparison", found.total)
        numbers["servers"], numbers["scenarios"] = (
            _counted("other server", found.servers),
            _counted("scenario", found.scenarios),
        )
    return (
        words["count"].format(**numbers),
        words["ahead"].format(names=listed) if names else words["none"],
        words["rule"].format(conditions=text),
    )


def _counted(noun: str, many: int) -> str:
    return f"{many} {noun}" + ("" if many == 1 else "s")


def of_run(records: Sequence[Record], summaries: Sequence[ScenarioSummary]) -> tuple[str, ...]:
    graded = [s for s in summaries if s.grade]
    if graded:
        steps = (floors.BELOW, floors.MINIMUM, floors.RECOMMENDED, floors.REACHED)
        words = {
            floors.BELOW: "below the standard's minimum",
            floors.MINIMUM: "at the standard's minimum",
            floors.RECOMMENDED: "at the standard's recommendation",
            floors.REACHED: "at the standard's own figures or better",
        }
        parts = [
            f"{', '.join(s.scenario for s in graded if s.grade == step)} {words[step]}"
            for step in steps
            if any(s.grade == step for s in graded)
        ]
        first = f"Graded by rate, mean and P99: {'; '.join(parts)}."
    else:
        first = "No scenario is graded: none has a floor in the standard together with a rate and a latency that hold."
    costs = {s.scenario: s.cpu_us_per_request.median for s in summaries if s.cpu_us_per_request and s.status != VOID}
    second = "No CPU time per request was measured."
    if costs:
        least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        second = f"A request costs {number(costs[least])} us of CPU time in {least}"
        second += f" and {number(costs[most])} us in {most}." if most != least else "."
        if "medium" in costs and "medium" not in (least, most):
            second = f"{second[:-1]}; {number(costs['medium'])} us in medium."
    return first, second, states(records)


def states(records: Sequence[Record]) -> str:
    """How many runs hold, and what the others lack."""
    said = [record.status for record in records]
    parts = [
        f"{said.count(status)} {words}"
        for status, words in (
            (BOUNDED, "give a lower bound of the rate, because the load generator was the limit"),
            (UNSTABLE, "ran on a noisy machine"),
            (VOID, "are discarded"),
        )
        if status in said
    ]
    if not parts:
        return f"All checks of {_counted('run', len(said))} passed."
    return f"Of {_counted('run', len(said))}, {', '.join(parts)}; every other check passed."


def of_comparison(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    def named(kind: str) -> str:
        return ", ".join(f"{v.scenario} {v.metric} ({v.ratio:.3f})" for v in verdicts if v.verdict == kind)

    regressed, improved = named(REGRESSED), named(IMPROVED)
    undecided = sum(v.verdict == INCONCLUSIVE for v in verdicts)
    noise = statistics.median(v.noise for v in verdicts) if verdicts else 0.0
    return (
        f"Regressed: {regressed}." if regressed else "No figure has regressed.",
        f"Improved: {improved}." if improved else "No figure has improved.",
        f"Two equal builds would differ by up to {noise:.1%} here; {_counted('figure', undecided)} of {len(verdicts)} "
        f"{'is' if undecided == 1 else 'are'} undecided.",
    )
