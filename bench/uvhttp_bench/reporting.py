"""Owns: what a report says, as blocks that output/ writes as Markdown and as HTML. First the finding: three sentences and a chart.
Then the results scenario by scenario, what they mean, and last how they were made: the six sections of the standard in the order
in which they are read. Every figure leads to its records."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench import findings, report_peers, versus
from uvhttp_bench.history import Series
from uvhttp_bench.model import collection, floors
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import VALID, VOID, Record, worst
from uvhttp_bench.model.self_check import SelfCheck
from uvhttp_bench.output import charts, floors_table, self_check_table, words
from uvhttp_bench.output.tables import number
from uvhttp_bench.report_blocks import Block, Bullets, Facts, Heading, Picture, Report, Section, Table, Text
from uvhttp_bench.report_peers import filled, marks
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.standings import fields_of
from uvhttp_bench.stats import ratio
from uvhttp_bench.stats.paired import Interval
from uvhttp_bench.stats.verdict import Verdict
from uvhttp_bench.summary import ScenarioSummary, by_scenario

BASIC = ("low", "medium", "high")
SHOWN = (*BASIC, "post", "https", "body-100kb", "static-10kb", "static-1mb", "pipeline", "websocket", "count")  # at the head
GROUPS = {"https": "HTTPS", "tcp": "TCP", "websocket": "WebSocket"}
KERNEL_PART = 0.7
TAIL = 20.0
BUSY_PERCENT = 90.0


def file_name(records: Sequence[Record], name: str) -> str:
    """Of the report that would be built of them."""
    return f"PERF-{records[0].timestamp[:10]}-v{version_of(records)}-{name}"


def version_of(records: Sequence[Record]) -> str:
    return next((r.configuration.version for r in records if _ours(r)), records[0].configuration.version) or "unknown"


@dataclass(frozen=True)
class Material:
    records: tuple[Record, ...]
    name: str
    verdicts: tuple[Verdict, ...] = ()
    history: tuple[Series, ...] = ()
    self_check: SelfCheck | None = None


def ids(records: Sequence[Record]) -> str:
    """Test IDs of a day share their head: PERF-2026-01-09-001..005, 009."""
    days: dict[str, list[int]] = {}
    for record in sorted(records, key=lambda r: r.test_id):
        head, _, last = record.test_id.rpartition("-")
        days.setdefault(head, []).append(int(last))
    parts = []
    for head, numbers in days.items():
        runs: list[list[int]] = []
        for one in sorted(set(numbers)):
            if runs and one == runs[-1][1] + 1:
                runs[-1][1] = one
            else:
                runs.append([one, one])
        parts.append(f"{head}-" + ", ".join(f"{a:03}" if a == b else f"{a:03}..{b:03}" for a, b in runs))
    return "; ".join(parts)


TITLES = {"baseline": "Performance", "regression": "Two builds compared", "peers": "Compared with other servers"}


def build(material: Material) -> Report:
    """Of at least one record."""
    records = tuple(collection.gathered(material.records))
    material = Material(records, material.name, material.verdicts, material.history, material.self_check)
    first, version, status = records[0], version_of(records), worst(records)
    summaries = by_scenario([r for r in records if not _at_part_of_capacity(r)])
    return Report(
        title=f"{TITLES.get(material.name, material.name)}: uvhttp {version}, {first.timestamp[:10]}",
        date=first.timestamp[:10],
        version=version,
        name=material.name,
        status=status,
        finding=_finding(material, summaries),
        chart=_chart(material, summaries),
        sections=(
            Section("Results", tuple(_results(material, summaries))),
            _analysis(material, summaries),
            _conclusion(material, summaries),
            _overview(material, version),
            _environment(first),
            _configuration(records),
        ),
        file_name=file_name(records, material.name),
    )


def _ours(record: Record) -> bool:
    return bool(record.configuration.revision) or record.test_scenario.target.startswith("uvhttp")


def _of(records: Sequence[Record], summary: ScenarioSummary) -> list[Record]:
    runs = [(r, r.test_scenario) for r in records]
    return [r for r, run in runs if (run.name, run.target) == (summary.scenario, summary.target)]


def _several(records: Sequence[Record]) -> bool:
    return len({record.test_scenario.target for record in records}) > 1


# --- the first screen ---


def _finding(material: Material, summaries: Sequence[ScenarioSummary]) -> tuple[str, ...]:
    if material.verdicts:
        return findings.of_comparison(material.verdicts)
    if _several(material.records):
        return findings.of_peers(fields_of(material.records))
    return findings.of_run(material.records, summaries)


def _chart(material: Material, summaries: Sequence[ScenarioSummary]) -> Picture | None:
    if material.verdicts:
        rows = [
            charts.Row(f"{v.scenario}, {v.metric}", Interval(v.ratio_low, v.ratio, v.ratio_high)) for v in material.verdicts
        ]
        svg = charts.ratios([charts.Panel("", tuple(rows))], "ratio of B to A, with its 95 % interval")
        return Picture("Ratio of B to A, with its 95 % interval", "ratios", svg) if svg else None
    if _several(material.records):
        wide, narrow = report_peers.headline(fields_of(material.records))
        return (
            Picture("The five other servers that need the least CPU time per request", "ratios", wide, narrow)
            if wide
            else None
        )
    svg = _latencies(material.records, [s for s in summaries if s.scenario in BASIC])
    if svg:
        return Picture("Latency by percentile", "latency", svg)
    svg = _costs(material.records, summaries)
    return Picture("CPU time per request", "cpu", svg) if svg else None


def _latencies(records: Sequence[Record], chosen: Sequence[ScenarioSummary]) -> str:
    kept = {s.scenario: [r for r in _of(records, s) if r.holds("latency")] for s in chosen}
    return charts.percentiles({name: Histogram.merge(r.results.histogram for r in own) for name, own in kept.items() if own})


def _costs(records: Sequence[Record], summaries: Sequence[ScenarioSummary]) -> str:
    rows = []
    for s in summaries:
        if s.scenario in SHOWN and s.cpu_us_per_request:
            own = [r.resources for r in _of(records, s) if r.holds("cpu")]
            parts = (_median([r.cpu_user_us_per_request for r in own]), _median([r.cpu_system_us_per_request for r in own]))
            rows.append(charts.Bar(s.scenario, tuple(part or 0.0 for part in parts), number(s.cpu_us_per_request.median)))
    return charts.bars(rows, ("program", "kernel"), "us of CPU time per request, median of the runs")


# --- results ---


def _results(material: Material, summaries: Sequence[ScenarioSummary]) -> list[Block]:
    records = material.records
    if material.verdicts:
        return [_verdicts(material.verdicts), *_trends(material.history)]
    if _several(records):
        return report_peers.results(fields_of(records), records)
    group_of = {scenario.name: scenario.group for scenario in catalog.everything()}
    groups: dict[str, list[ScenarioSummary]] = {}
    for s in summaries:
        groups.setdefault(group_of.get(s.scenario, "others"), []).append(s)
    blocks: list[Block] = []
    for group, chosen in groups.items():
        blocks += [Heading(GROUPS.get(group, group.capitalize())), *_figures(chosen, records)]
        svg = _latencies(records, chosen)
        if svg and group != "basic":
            blocks.append(Picture(f"Latency by percentile, {group}", f"latency-{group}", svg))
    blocks += [Heading("All scenarios"), _resources(summaries, records)]
    if _latencies(records, [s for s in summaries if s.scenario in BASIC]):  # else it is the chart at the head
        svg = _costs(records, summaries)
        blocks += [Picture("CPU time per request", "cpu", svg)] if svg else []
    blocks += [_repeats(summaries), *_concurrency(records), *_trends(material.history)]
    if material.self_check:
        check = material.self_check
        rows = tuple(self_check_table.rows(check))
        blocks += [Heading("Can a comparison be believed"), Table("", self_check_table.HEADS, rows)]
        blocks.append(Text(" ".join(self_check_table.notes(check))))
    return blocks


def _figures(chosen: Sequence[ScenarioSummary], records: Sequence[Record]) -> list[Block]:
    n = number
    places = [collection.fragment(records, _of(records, s)) for s in chosen]
    rates = [
        (
            s.scenario, str(s.runs), s.rate_text(), n(s.cpu_us_per_request.median if s.cpu_us_per_request else None),
            n(100 * s.error_rate, 3) if s.error_rate else "", s.grade,
        )
        for s in chosen
    ]  # fmt: skip
    blocks: list[Block] = [filled("", ("scenario", "runs", "req/s", "us CPU/req", "errors %", "grade"), rates, places)]
    timed = [(s, place) for s, place in zip(chosen, places, strict=True) if s.latency_p50_ms is not None]
    if timed:
        latencies = [
            (
                s.scenario, n(s.latency_avg_ms, 3), n(s.latency_p50_ms, 3), n(s.latency_p95_ms, 3), n(s.latency_p99_ms, 3),
                n(s.latency_p999_ms, 3),
            )
            for s, _ in timed
        ]  # fmt: skip
        heads = ("latency, ms", "mean", "P50", "P95", "P99", "P99.9")
        blocks.append(filled("", heads, latencies, [place for _, place in timed]))
    return [*blocks, *marks({s.scenario: s.status for s in chosen})]


def _resources(summaries: Sequence[ScenarioSummary], records: Sequence[Record]) -> Table:
    heads = ("scenario", "kernel %", "calls/req", "server CPU %", "generator CPU %", "MB/s", "memory MB", "switches/s")
    rows, n = [], number
    for s in summaries:
        found = [r.resources for r in _of(records, s)]
        user, system, server, generator = (
            _median([getattr(r, name) for r in found])
            for name in (
                "cpu_user_us_per_request", "cpu_system_us_per_request", "cpu_usage_percent", "generator_cpu_percent",
            )
        )  # fmt: skip
        kernel = 100 * system / (user + system) if user is not None and system is not None and user + system else None
        rows.append((
            s.scenario, n(kernel, 0), n(s.system_calls_per_request, 3), n(server, 0), n(generator, 0), s.transfer_text(1),
            n(s.memory_usage_mb, 1), n(s.context_switches_per_sec, 0),
        ))  # fmt: skip
    return filled("Resources of the server", heads, rows)


def _repeats(summaries: Sequence[ScenarioSummary]) -> Table:
    heads = ("scenario", "runs", "mean req/s", "stdev", "stdev %", "quartiles", "beyond 1.5 IQR", "beyond 3 sigma")
    rows = []
    for s in [s for s in summaries if s.status != VOID and s.runs > 1]:
        r, n = s.requests_per_second, number
        variation = None if r.variation is None else 100 * r.variation
        rows.append((
            s.scenario, str(r.count), n(r.mean, 0), n(r.stdev, 0), n(variation, 1),
            f"{n(r.quartile1, 0)}..{n(r.quartile3, 0)}", str(len(r.outliers_iqr)), str(len(r.outliers_sigma)),
        ))  # fmt: skip
    return Table("Repeats, as the standard counts them (outliers are marked, not removed)", heads, tuple(rows))


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    heads = ("scenario", "figure", "A", "B", "B/A", "95 % interval", "p (Holm)", "noise %", "rounds", "verdict")
    n = number
    rows = tuple(
        (
            v.scenario, v.metric, n(v.median_a), n(v.median_b), n(v.ratio, 4), f"{v.ratio_low:.4f}..{v.ratio_high:.4f}",
            n(v.p_holm, 4), n(100 * v.noise, 1), str(v.rounds), f"{v.verdict} ({v.grade})" if v.grade else v.verdict,
        )
        for v in verdicts
    )  # fmt: skip
    return Table("Two builds, in turn", heads, rows)


def _concurrency(records: Sequence[Record]) -> list[Block]:
    """The same request at different numbers of connections: the ladder, and low, medium and high."""
    same = [
        r
        for r in records
        if (r.test_scenario.name in BASIC or r.test_scenario.name.startswith("ladder-")) and r.holds("throughput")
    ]
    rates: dict[int, list[float]] = {}
    for record in same:
        rates.setdefault(record.test_scenario.connections, []).append(record.results.requests_per_second)
    svg = charts.concurrency([(count, min(v), statistics.median(v), max(v)) for count, v in rates.items()])
    return [Picture("Requests per second against connections", "concurrency", svg)] if svg else []


def _trends(history: Sequence[Series]) -> list[Block]:
    pictures: list[Block] = []
    for metric in dict.fromkeys(series.metric for series in history):
        chosen = [s for s in history if s.metric == metric and s.scenario in BASIC]
        svg = charts.trend([(s.scenario, [p.value for p in s.points], [c.index for c in s.changes]) for s in chosen], metric)
        if svg:
            pictures.append(Picture(f"{metric}, median of each session", f"trend-{metric}", svg))
    return pictures


# --- what it means ---


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def bottleneck(records: Sequence[Record]) -> str:
    """Who was busy: of one scenario and server."""
    server = _median([_part(r.resources.cpu_usage_percent, len(r.test_scenario.server_cpus)) for r in records])
    generator = _median([r.resources.generator_cpu_percent for r in records])
    if server is not None and server >= BUSY_PERCENT:
        return "the server's CPU"
    if generator is not None and generator >= BUSY_PERCENT:
        return "the load generator, so that the rate is a lower bound"
    others = _median([r.resources.other_cpu_percent for r in records])
    if others is not None and others >= 5:
        return "other processes, which used 5 % of the CPUs or more"
    if any(r.test_scenario.loop == "open" for r in records):
        return "the rate that was asked for"
    return "waiting, or another limit: neither server nor generator was busy"


def _part(percent: float | None, cpus: int) -> float | None:
    return None if percent is None else percent / max(1, cpus)


def advice(records: Sequence[Record], summary: ScenarioSummary) -> list[str]:
    """Only what follows from the figures."""
    found = []
    user = _median([r.resources.cpu_user_us_per_request for r in records])
    system = _median([r.resources.cpu_system_us_per_request for r in records])
    if user is not None and system and system / (user + system) >= KERNEL_PART:
        part = system / (user + system)
        found.append(f"{part:.0%} of the CPU time is the kernel's: the program itself can save at most {1 - part:.0%}")
    calls = summary.system_calls_per_request
    if calls is not None and calls > 2.5:
        found.append(f"{calls:.1f} system calls a request: batch them, or remove those that are not needed")
    p50, p99 = summary.latency_p50_ms, summary.latency_p99_ms
    if summary.status == VALID and p50 and p99 and p99 / p50 >= TAIL:  # a noisy machine has a tail of its own
        found.append(f"P99 is {p99 / p50:.0f} times P50: look for what blocks the loop")
    return found


def _listed(by_line: dict[str, dict[str, list[str]]]) -> tuple[str, ...]:
    """A line for each statement, with the scenarios, and in brackets the servers, that it is about."""
    lines = []
    for line, scenarios in by_line.items():
        where = [name + (f" ({', '.join(servers)})" if any(servers) else "") for name, servers in scenarios.items()]
        lines.append(f"{line}: {', '.join(where)}")
    return tuple(lines)


def _analysis(material: Material, summaries: Sequence[ScenarioSummary]) -> Section:
    records = [r for r in material.records if not _at_part_of_capacity(r)]
    several = _several(records)
    limits: dict[str, dict[str, list[str]]] = {}
    failed: dict[str, dict[str, list[str]]] = {}
    for s in summaries:
        server = s.target if several else ""
        limits.setdefault(bottleneck(_of(records, s)), {}).setdefault(s.scenario, []).append(server)
        for check in dict.fromkeys(reason.partition(":")[0] for reason in s.reasons):
            failed.setdefault(check, {}).setdefault(s.scenario, []).append(server)
    first = {
        reason.partition(": ")[0]: reason.partition(": ")[2] for s in reversed(summaries) for reason in reversed(s.reasons)
    }
    explained = {f"{check} ({first[check]})": where for check, where in failed.items()}
    mine = [s for s in summaries if _ours(_of(records, s)[0])]
    advised = tuple(
        f"{s.scenario}{f', {s.target}' if several else ''}: {line}" for s in mine for line in advice(_of(records, s), s)
    )
    blocks: list[Block] = [Text("**What was the limit**"), Bullets(_listed(limits))]
    blocks += [Text("**Checks that failed**, with the first detail of each"), Bullets(_listed(explained) or ("none",))]
    if material.history:
        blocks += [Text("**Trend**"), Bullets(tuple(_trend_lines(material.history)))]
    blocks += [Text("**Advice**"), Bullets(advised or ("none that follows from these figures",))]
    return Section("Analysis", tuple(blocks))


def _trend_lines(history: Sequence[Series]) -> list[str]:
    lines = [
        f"{s.scenario}, {s.metric}: {100 * (c.ratio - 1):+.1f} % between {c.revision_before[:9]} and {c.revision[:9]} "
        f"({c.timestamp})"
        for s in history
        for c in s.changes
    ]
    longest = max((len(s.points) for s in history), default=0)
    return lines or [f"no change of level in {longest} sessions" if longest > 1 else "no earlier session to compare with"]


def _conclusion(material: Material, summaries: Sequence[ScenarioSummary]) -> Section:
    graded = (
        [s for s in summaries if s.grade and _ours(_of(material.records, s)[0])] if not _several(material.records) else []
    )
    rows = floors_table.rows(graded)
    blocks: list[Block] = [Text(findings.states(material.records))]
    explained = [
        f"{words.STATUS[status]}: {text}"
        for status, text in words.EXPLAINED.items()
        if any(s.status == status for s in summaries)
    ]
    if explained:
        blocks.append(Bullets(tuple(explained)))
    if rows:
        blocks.append(Table("Against the standard's floors", floors_table.HEADS, tuple(rows)))
        blocks += [Text(f"{note}.") for note in floors_table.notes(graded)]
    below = [s.scenario for s in graded if s.grade == floors.BELOW]
    if below:
        blocks.append(Text(f"Below the standard's minimum: {', '.join(below)}."))
    elif graded:
        blocks.append(Text("Every graded scenario is above the standard's minimum."))
    return Section("Conclusion", tuple(blocks))


# --- how it was made ---


def _overview(material: Material, version: str) -> Section:
    records = material.records
    purpose = {
        "baseline": "what this version does on this machine: the reference for later versions",
        "regression": "whether a change has made it slower",
        "peers": "how it compares with other servers, in the same rounds on the same machine",
    }
    scenarios = list(dict.fromkeys(record.test_scenario.name for record in records))
    configuration = next((r.configuration for r in records if _ours(r)), records[0].configuration)
    revision = configuration.revision[:12] + (", with changes that are not committed" if configuration.dirty else "")
    less = _less(records) if not _several(records) else ""
    times = sorted(record.timestamp for record in records)
    pairs = (
        ("purpose", purpose.get(material.name, material.name)),
        ("scope", f"{len(scenarios)} scenarios, {len(records)} runs: {', '.join(scenarios)}"),
        ("date", f"{times[0]} to {times[-1]}"),
        ("measured by", "uvhttp-bench, session " + ", ".join(sorted({r.session for r in records}))),
        ("version", f"{version}, revision {revision or 'unknown'}"),
        ("records", ids(records)),
        *((("less than the standard", less),) if less else ()),
    )
    notes = [
        "Percentiles come from merged histograms; percentiles are never averaged.",
        "An empty cell was not measured, or failed a check.",
    ]
    if _several(records) or material.verdicts:
        notes.append(
            "A ratio is a tie when its 95 % interval holds 1, or is wider than "
            f"±{ratio.SPREAD_MAX:.0%} and not beyond a factor of {ratio.FAR:g} (then its nearer end is given as a bound)."
        )
        notes.append("Servers that cannot be told apart stand in alphabetical order.")
    return Section("Overview", (Facts(pairs), Bullets(tuple(notes))))


def _less(records: Sequence[Record]) -> str:
    """Scenarios that ran fewer times, or for a shorter time, than the standard says; alike ones together."""
    standard = {s.name: s for s in catalog.everything()}
    found: dict[str, list[str]] = {}
    for name, run in {r.test_scenario.name: r.test_scenario for r in records}.items():
        asked = standard.get(name)
        if asked and (run.repeats < asked.repeats or run.duration < asked.seconds):
            what = f"{run.repeats} x {run.duration:g} s instead of {asked.repeats} x {asked.seconds:g} s"
            found.setdefault(what, []).append(name)
    return "; ".join(f"{', '.join(names)}: {what}" for what, names in found.items())


def _environment(record: Record) -> Section:
    e = record.environment
    pairs = (
        ("CPU", f"{e.cpu}, {e.cores} cores" + (f", {e.virtualization}" if e.virtualization else "")),
        ("memory", e.memory + (f", {e.swap_mb:.0f} MB of swap in use" if e.swap_mb else "")),
        ("governor", e.governor or "not visible"),
        ("system", f"{e.os}, kernel {e.kernel}"),
        ("network", "loopback: generator and server on one machine"),
        ("tools", ", ".join(f"{name} {version}" for name, version in sorted(e.tools.items()) if version)),
        ("hash", f"{e.hash}: figures are comparable with those of the same hash"),
    )
    return Section("Environment", (Facts(pairs),))


def _configuration(records: Sequence[Record]) -> Section:
    ours = next((record for record in records if _ours(record)), records[0])
    c, run = ours.configuration, ours.test_scenario
    switches = {
        "mimalloc": c.build_with_mimalloc,
        "WebSocket": c.build_with_websocket,
        "debug": c.debug,
        "coverage": c.coverage,
    }
    build = ", ".join(f"{name} {'on' if on else 'off'}" for name, on in switches.items())
    pairs = [
        (
            "compiler",
            f"{ours.environment.compiler} {ours.environment.compiler_version}, {c.build_type} {c.optimization}".strip(),
        ),
        ("build", f"{build}; as the measured program reports it"),
        (
            "server",
            f"engine {c.engine or 'auto'}, {c.io_threads or 'default'} loop threads, log level {c.log_level or 'default'}",
        ),
        ("CPUs", f"server on {_cpus(run.server_cpus)}, load generator on {_cpus(run.generator_cpus)}"),
        (
            "load",
            f"{run.tool} {run.tool_version.removeprefix(run.tool).strip()}; a warm-up before each run; a fresh server for each run",
        ),
    ]
    others = {r.test_scenario.target: r for r in records if not _ours(r)}
    pairs += [(name, "; ".join([r.configuration.version, *r.notes])) for name, r in others.items()]
    commands = {_shown(record): None for record in records}
    return Section("Configuration", (Facts(tuple(pairs)), Bullets(tuple(f"`{command}`" for command in commands))))


def _at_part_of_capacity(record: Record) -> bool:
    """The open loops of `peers` belong to closed ones; one of `run` is a scenario for itself."""
    return record.kind == versus.KIND and record.test_scenario.loop == "open"


def _shown(record: Record) -> str:
    """A command as anybody can type it: no paths, no script, no port of the day."""
    run = record.test_scenario
    path = "/" + run.url.split("/", 3)[-1] if run.url.count("/") > 2 else "/"
    line = f"{run.tool} -t{run.threads} -c{run.connections} -d{run.duration:g}s"
    if run.loop == "open":
        line += " --rate N" if _at_part_of_capacity(record) else f" --rate {run.rate_per_second:.0f}"
    return f"{line} {run.method} {run.url.split(':', 1)[0]}://...{path}"


def _cpus(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus)) or "any"
