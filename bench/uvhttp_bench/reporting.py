"""Owns: what a report says: the six sections of the standard, as blocks that output/ writes as Markdown and as HTML. Every
figure names its records."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from uvhttp_bench import versus
from uvhttp_bench.history import Series
from uvhttp_bench.model import floors
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import BOUNDED, UNSTABLE, VALID, VOID, Record, worst
from uvhttp_bench.model.self_check import SelfCheck
from uvhttp_bench.output import peers_table, plots, self_check_table
from uvhttp_bench.output.tables import number
from uvhttp_bench.scenarios import catalog
from uvhttp_bench.stats.verdict import Verdict
from uvhttp_bench.summary import ScenarioSummary, by_scenario

BASIC = ("low", "medium", "high")
CURVES_MAX = 8
KERNEL_PART = 0.7
TAIL = 20.0
BUSY_PERCENT = 90.0


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    title: str
    svg: str
    records: str  # that it is drawn from


Block = Text | Bullets | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    title: str
    date: str
    version: str
    name: str  # baseline, regression, peers
    status: str
    sections: tuple[Section, ...]
    file_name: str


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
    for record in records:
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


def build(material: Material) -> Report:
    """Of at least one record."""
    records = material.records
    first = records[0]
    version = version_of(records)
    status = worst(records)
    title = {"baseline": "Performance", "regression": "Regression", "peers": "Beside other servers"}
    return Report(
        title=f"{title.get(material.name, material.name)}, uvhttp {version}, {first.timestamp[:10]}",
        date=first.timestamp[:10],
        version=version,
        name=material.name,
        status=status,
        file_name=file_name(records, material.name),
        sections=(
            _overview(material, version, status),
            _environment(first),
            _configuration(records),
            _results(material),
            _analysis(material),
            _conclusion(material, status),
        ),
    )


def _ours(record: Record) -> bool:
    return bool(record.configuration.revision) or record.test_scenario.target.startswith("uvhttp")


def _of(records: Sequence[Record], summary: ScenarioSummary) -> list[Record]:
    runs = [(r, r.test_scenario) for r in records]
    return [r for r, run in runs if (run.name, run.target) == (summary.scenario, summary.target)]


def _label(summary: ScenarioSummary, several: bool) -> str:
    return f"{summary.scenario}, {summary.target}" if several else summary.scenario


def _several(records: Sequence[Record]) -> bool:
    return len({record.test_scenario.target for record in records}) > 1


# --- the sections ---


def _overview(material: Material, version: str, status: str) -> Section:
    records = material.records
    purpose = {
        "baseline": "what this version does on this machine: the yardstick for later ones",
        "regression": "whether a change has made it slower",
        "peers": "how it stands to other servers, in the same rounds on the same machine",
    }
    scenarios = list(dict.fromkeys(record.test_scenario.name for record in records))
    configuration = next((r.configuration for r in records if _ours(r)), records[0].configuration)
    revision = configuration.revision[:12] + (", with changes that are not committed" if configuration.dirty else "")
    less = _less(records) if not _several(records) else ""
    pairs = (
        ("purpose", purpose.get(material.name, material.name)),
        ("scope", f"{len(scenarios)} scenarios, {len(records)} runs: {', '.join(scenarios)}"),
        ("date", f"{records[0].timestamp} to {records[-1].timestamp}"),
        ("measured by", "uvhttp-bench, session " + ", ".join(dict.fromkeys(r.session for r in records))),
        ("version", f"{version}, revision {revision or 'unknown'}"),
        ("status", status),
        ("records", ids(records)),
        *((("less than the standard", less),) if less else ()),
    )
    return Section("1. Overview", (Facts(pairs),))


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
        ("network", "loopback: client and server on one machine"),
        ("tools", ", ".join(f"{name} {version}" for name, version in sorted(e.tools.items()) if version)),
        ("hash", f"{e.hash}: figures compare with those of the same hash"),
    )
    return Section("2. Environment", (Facts(pairs),))


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
        ("build", f"{build}; as the measured program says of itself"),
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
    return Section("3. Configuration", (Facts(tuple(pairs)), Bullets(tuple(f"`{command}`" for command in commands))))


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


def _results(material: Material) -> Section:
    records = material.records
    closed = [r for r in records if not _at_part_of_capacity(r)]
    summaries, several = by_scenario(closed), _several(records)
    basic = [s for s in summaries if s.scenario in BASIC]
    extended = [s for s in summaries if s.scenario not in BASIC]
    blocks: list[Block] = []
    if several:
        blocks.append(_standings(records))
    for title, chosen in (("Basic scenarios", basic), ("Extended scenarios", extended)):
        if chosen:
            blocks.append(_figures(title, chosen, records, several))
    blocks.append(_resources(summaries, records, several))
    blocks.append(_repeats(summaries, several))
    if material.verdicts:
        blocks.append(_verdicts(material.verdicts))
    if material.self_check:
        check = material.self_check
        blocks.append(
            Table(
                "What compare says of one build, beside itself and slowed",
                self_check_table.HEADS,
                tuple(self_check_table.rows(check)),
            )
        )
        blocks.append(Text(" ".join(self_check_table.notes(check))))
    blocks += _pictures(material, closed, summaries, several)
    return Section("4. Results", tuple(blocks))


def holds(own: Sequence[Record]) -> bool:
    return all(record.holds("throughput") for record in own)


def bounded(own: Sequence[Record], value: float, digits: int) -> str:
    """A rate that the load generator has set is one that the server can go beyond; one of a void run is none."""
    if holds(own):
        return number(value, digits)
    return f">= {number(value, digits)}" if worst(own) in (BOUNDED, UNSTABLE) else ""


def _figures(title: str, chosen: Sequence[ScenarioSummary], records: Sequence[Record], several: bool) -> Table:
    heads = (
        "scenario", "runs", "req/s", "mean ms", "P50", "P95", "P99", "P99.9", "MB/s", "errors %", "grade", "status", "records",
    )  # fmt: skip
    rows = []
    for s in chosen:
        own, n = _of(records, s), number
        latencies = (s.latency_avg_ms, s.latency_p50_ms, s.latency_p95_ms, s.latency_p99_ms, s.latency_p999_ms)
        rate, transfer = bounded(own, s.requests_per_second.median, 0), bounded(own, s.transfer_rate_mbps, 2)
        held = [n(value, 3) if holds(own) else "" for value in latencies]
        grade = "" if several else s.grade  # the floors are for this server
        rows.append((
            _label(s, several), str(s.runs), rate, *held, transfer, n(100 * s.error_rate, 3), grade, s.status, ids(own),
        ))  # fmt: skip
    return Table(title, heads, tuple(rows))


def _resources(summaries: Sequence[ScenarioSummary], records: Sequence[Record], several: bool) -> Table:
    heads = (
        "scenario",
        "us CPU/req",
        "user",
        "system",
        "server CPU %",
        "generator CPU %",
        "memory MB",
        "switches/s",
        "calls/req",
    )
    rows = []
    for s in summaries:
        found = [r.resources for r in _of(records, s)]
        user, system, server, generator = (
            _median([getattr(r, name) for r in found])
            for name in (
                "cpu_user_us_per_request",
                "cpu_system_us_per_request",
                "cpu_usage_percent",
                "generator_cpu_percent",
            )
        )
        cpu = s.cpu_us_per_request
        n = number
        rows.append((
            _label(s, several), n(cpu.median if cpu else None), n(user), n(system), n(server, 0), n(generator, 0),
            n(s.memory_usage_mb, 1), n(s.context_switches_per_sec, 0), n(s.system_calls_per_request, 3),
        ))  # fmt: skip
    return Table("Resources of the server", heads, tuple(rows))


def _repeats(summaries: Sequence[ScenarioSummary], several: bool) -> Table:
    heads = ("scenario", "runs", "mean req/s", "stdev", "stdev %", "quartiles", "beyond 1.5 IQR", "beyond 3 sigma")
    rows = []
    for s in [s for s in summaries if s.status != VOID]:
        r, n = s.requests_per_second, number
        variation = None if r.variation is None else 100 * r.variation
        rows.append((
            _label(s, several), str(r.count), n(r.mean, 0), n(r.stdev, 0), n(variation, 1),
            f"{n(r.quartile1, 0)}..{n(r.quartile3, 0)}", str(len(r.outliers_iqr)), str(len(r.outliers_sigma)),
        ))  # fmt: skip
    return Table("Repeats, as the standard counts them (outliers are marked, not taken out)", heads, tuple(rows))


def standings_of(records: Sequence[Record]) -> list[versus.Standing]:
    """By scenario, the first server of the session as the yardstick; closed loops, then rates."""
    groups: dict[tuple[str, float], dict[str, list[Record]]] = {}
    for record in records:
        run = record.test_scenario
        percent = versus.percent_of_capacity(record, records)
        if percent is None:  # a rate that is no known part of a capacity is not shown as one
            continue
        groups.setdefault((run.name, percent), {}).setdefault(run.target, []).append(record)
    yardstick = records[0].test_scenario.target
    return [
        versus.standing(own, targets.get(yardstick, []), target, percent=percent)
        for (_, percent), targets in groups.items()
        for target, own in targets.items()
    ]


def _standings(records: Sequence[Record]) -> Table:
    rows = tuple(
        (*peers_table.row(standing), ids([r for r in records if r.test_id in standing.records]))
        for standing in standings_of(records)
    )
    return Table("Servers side by side", (*peers_table.HEADS, "records"), rows)


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


# --- pictures ---


def _pictures(
    material: Material, closed: Sequence[Record], summaries: Sequence[ScenarioSummary], several: bool
) -> list[Block]:
    found = [
        *_percentile_pictures(closed, summaries, several),
        _concurrency_picture(closed),
        *_interval_pictures(material),
        *_trend_pictures(material.history),
    ]
    return [picture for picture in found if picture and picture.svg]


def _percentile_pictures(closed: Sequence[Record], summaries: Sequence[ScenarioSummary], several: bool) -> list[Picture]:
    groups: dict[str, list[Record]] = {}
    if several:  # a picture for each scenario, a curve for each server
        for record in closed:
            groups.setdefault(record.test_scenario.name, []).append(record)
    else:
        chosen = ([s for s in summaries if s.scenario in BASIC] or list(summaries))[:CURVES_MAX]
        groups["latency"] = [record for s in chosen for record in _of(closed, s)]
    pictures = []
    for name, kept in groups.items():
        good = [record for record in kept if record.holds("latency")]
        curves: dict[str, list[Record]] = {}
        for record in good:
            run = record.test_scenario
            curves.setdefault(run.target if several else run.name, []).append(record)
        merged = {key: Histogram.merge(r.results.histogram for r in same) for key, same in curves.items()}
        title = f"Latency by percentile: {name}" if several else "Latency by percentile"
        pictures.append(Picture(title, plots.percentiles(merged), ids(good)))
    return pictures


def _concurrency_picture(closed: Sequence[Record]) -> Picture | None:
    """The same request at different numbers of connections: the ladder, and low, medium and high."""
    same = [
        r
        for r in closed
        if r.test_scenario.target == closed[0].test_scenario.target
        and (r.test_scenario.name in BASIC or r.test_scenario.name.startswith("ladder-"))
        and r.holds("throughput")
    ]
    rates: dict[int, list[float]] = {}
    for record in same:
        rates.setdefault(record.test_scenario.connections, []).append(record.results.requests_per_second)
    points = [(count, min(v), statistics.median(v), max(v)) for count, v in rates.items()]
    return Picture("Throughput against concurrency", plots.concurrency(points), ids(same)) if points else None


def _interval_pictures(material: Material) -> list[Picture]:
    bars = [plots.Bar(f"{v.scenario}, {v.metric}", v.ratio_low, v.ratio, v.ratio_high) for v in material.verdicts]
    found = [Picture("Ratio of B to A, with its 95 % interval", plots.intervals(bars, "B / A"), ids(material.records))]
    if not _several(material.records) or material.verdicts:
        return found
    closed = [s for s in standings_of(material.records) if not s.rate_percent and s.cpu_ratio]
    for scenario in dict.fromkeys(s.scenario for s in closed):
        shown = [(s.target, s.cpu_ratio) for s in closed if s.scenario == scenario]
        bars = [plots.Bar(name, ratio.low, ratio.middle, ratio.high) for name, ratio in shown if ratio]
        kept = [r for r in material.records if r.test_scenario.name == scenario and r.test_scenario.loop == "closed"]
        yardstick = material.records[0].test_scenario.target
        title = f"CPU time per request: {scenario}"
        found.append(Picture(title, plots.intervals(bars, f"ratio to {yardstick}, with its 95 % interval"), ids(kept)))
    return found


def _trend_pictures(history: Sequence[Series]) -> list[Picture]:
    pictures = []
    for metric in dict.fromkeys(series.metric for series in history):
        chosen = [s for s in history if s.metric == metric and s.scenario in BASIC]
        lines = [(s.scenario, [p.value for p in s.points], [c.index for c in s.changes]) for s in chosen]
        text = plots.trend(lines, metric)
        named = "; ".join(dict.fromkeys(record for s in chosen for p in s.points for record in p.records[:1]))
        pictures.append(Picture(f"Trend: {metric} (median of each session)", text, f"{named} and their sessions"))
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
        return f"the server's CPU ({server:.0f} %)"
    if generator is not None and generator >= BUSY_PERCENT:
        return (
            f"the load generator ({generator:.0f} % of its CPUs; the server {server or 0:.0f} %): the rate is a lower bound"
        )
    others = _median([r.resources.other_cpu_percent for r in records])
    if others is not None and others >= 5:
        return f"other processes, which had {others:.0f} % of the CPUs"
    if any(r.test_scenario.loop == "open" for r in records):
        return "the rate that was asked for"
    return "neither server nor generator was busy: waiting, or another limit"


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
        found.append(f"{calls:.1f} system calls a request: batch them, or find out which are not needed")
    p50, p99 = summary.latency_p50_ms, summary.latency_p99_ms
    if summary.status == VALID and p50 and p99 and p99 / p50 >= TAIL:  # a restless machine has a tail of its own
        found.append(f"P99 is {p99 / p50:.0f} times P50: look for what stops the loop now and then")
    return found


def _analysis(material: Material) -> Section:
    closed = [r for r in material.records if not _at_part_of_capacity(r)]
    summaries, several = by_scenario(closed), _several(closed)
    where = tuple(f"{_label(s, several)}: {bottleneck(_of(closed, s))}" for s in summaries)
    failed: dict[str, str] = {}  # the first of each check is enough
    for s in summaries:
        for reason in s.reasons:
            failed.setdefault(f"{_label(s, several)}: {reason.split(':', 1)[0]}", reason.partition(": ")[2])
    reasons = tuple(f"{head}: {detail}" for head, detail in failed.items())
    mine = [s for s in summaries if _ours(_of(closed, s)[0])]
    advised = tuple(f"{_label(s, several)}: {line}" for s in mine for line in advice(_of(closed, s), s))
    blocks: list[Block] = [Text("**What was the limit**"), Bullets(where)]
    blocks += [Text("**Checks that failed**"), Bullets(reasons or ("none",))]
    blocks += [Text("**Trend**"), Bullets(tuple(_trend_lines(material.history)))]
    blocks += [Text("**Advice**"), Bullets(advised or ("none that follows from these figures",))]
    return Section("5. Analysis", tuple(blocks))


def _trend_lines(history: Sequence[Series]) -> list[str]:
    lines = [
        f"{s.scenario}, {s.metric}: {100 * (c.ratio - 1):+.1f} % between {c.revision_before[:9]} and {c.revision[:9]} "
        f"({c.timestamp})"
        for s in history
        for c in s.changes
    ]
    longest = max((len(s.points) for s in history), default=0)
    return lines or [f"no change of level in {longest} sessions" if longest > 1 else "no earlier session to compare with"]


def _conclusion(material: Material, status: str) -> Section:
    closed = [r for r in material.records if not _at_part_of_capacity(r)]
    graded = [s for s in by_scenario(closed) if s.grade and _ours(_of(closed, s)[0])]
    heads = ("scenario", "figure", "minimum", "recommended", "standard's own", "measured", "grade")
    rows: list[tuple[str, ...]] = []
    for s in graded:
        floor, n = floors.FLOORS[s.scenario], number
        for name, levels, value, digits in (
            ("req/s", floor.requests_per_second, s.requests_per_second.median, 0),
            ("mean ms", floor.latency_avg_ms, s.latency_avg_ms, 3),
            ("P99 ms", floor.latency_p99_ms, s.latency_p99_ms, 3),
        ):
            rows.append((s.scenario, name, *(n(level, digits) for level in levels), n(value, digits), s.grade))
    words = {
        VALID: "All checks passed: the figures hold.",
        BOUNDED: "The load generator was the bottleneck of some runs: CPU time per request holds, and their rates are bounds.",
        UNSTABLE: "The machine was restless: CPU time per request holds, rates and latencies are to be measured again.",
        VOID: "Some runs are void: figures that their checks take away are blank or bounds, and say nothing more.",
    }
    blocks: list[Block] = [Text(words[status])]
    if rows:
        blocks.append(Table("Against the standard's floors", heads, tuple(rows)))
    regressed = [v for v in material.verdicts if v.verdict == "regressed"]
    if material.verdicts:
        names = ", ".join(f"{v.scenario} {v.metric}" for v in regressed)
        blocks.append(Text(f"Regressed: {names}." if regressed else "No figure has regressed."))
    worst = [s.scenario for s in graded if s.grade == floors.BELOW]
    blocks.append(Text(f"Below the standard's minimum: {', '.join(worst)}." if worst else _floor_words(graded)))
    return Section("6. Conclusion", tuple(blocks))


def _floor_words(graded: Sequence[ScenarioSummary]) -> str:
    if not graded:
        return "None of these scenarios has a floor in the standard, or its figures do not hold."
    return "Every graded scenario is above the standard's minimum."
