"""Owns: whether records may be believed: they are the ones that were measured, by the harness and from the sources of their
revision, and everything in them follows from what was recorded. What is refused names the record and why."""

from collections.abc import Sequence

from uvhttp_bench import identity, recheck, sources
from uvhttp_bench.exits import BenchError
from uvhttp_bench.model import chain
from uvhttp_bench.model.chain import Entry
from uvhttp_bench.model.codec import to_json
from uvhttp_bench.model.collection import Kept
from uvhttp_bench.model.database import Database
from uvhttp_bench.model.record import Record

CHAINED = 2  # schema version from which records are in a chain


def _name(record: Record) -> str:
    return f"{record.test_id} ({record.test_scenario.name}, {record.test_scenario.target})"


# --- before publishing ---


def recomputed(records: Sequence[Record]) -> None:
    """Figures and checks follow from the records, with the checks of this program."""
    for record in records:
        wrong = [*recheck.figures(record), *recheck.checks(record)]
        if wrong:
            raise BenchError(f"{_name(record)}: edited, or measured by another version: {wrong[0]}: measure it again")


def of_revision(records: Sequence[Record]) -> None:
    """Harness and sources are those of the commit that the records name: an edited gate is a different harness."""
    known: dict[str, tuple[str, str]] = {}
    revision = next((r.configuration.revision for r in records if r.configuration.revision), "")
    for record in records:
        commit = record.configuration.revision or revision
        built, harness = known.setdefault(commit, sources.of_commit(commit)) if commit else ("", "")
        seen = record.identity
        if not commit or seen.harness != harness:
            raise BenchError(
                f"{_name(record)}: not measured by the harness of its revision {commit[:9]}: bench/ was edited; measure again"
            )
        if seen.ours and seen.sources != built:
            raise BenchError(f"{_name(record)}: the server was not built from its revision {commit[:9]}: measure again")


def unbroken(entries: Sequence[Entry], where: str) -> None:
    broken = chain.break_in(entries)
    if broken:
        raise BenchError(f"{where}: the chain is broken at {broken}: a record before it was changed or taken away")


def of_store(everything: Sequence[Record]) -> list[Entry]:
    """The entries of a part of the store, each of which is what was hashed when it was added."""
    entries = []
    older = [number for number, record in enumerate(everything) if record.schema_version < CHAINED]
    for record in everything[1:] if older == [0] else everything:
        if record.schema_version < CHAINED or not record.chain.hash:
            raise BenchError(f"{_name(record)}: of an older version, in no chain: measure again, into a new --database")
        value = to_json(record)
        if chain.changed(value) or chain.whole_changed(record):
            raise BenchError(f"{_name(record)}: edited: it is not what was recorded; measure it again")
        entries.append(chain.entry(value))
    unbroken(entries, "the database")
    return entries


def left_in(store: Database, records: Sequence[Record]) -> list[Entry]:
    """What the store holds since the first record of their revision, and is not among `records`."""
    revision = next((r.configuration.revision for r in records if r.configuration.revision), "")
    return left_out(of_store(store.since(revision)), records)


def left_out(entries: Sequence[Entry], records: Sequence[Record]) -> list[Entry]:
    """What was measured and is not among `records`."""
    used = {record.test_id for record in records}
    return [entry for entry in entries if entry.test_id not in used]


def rivals(left: Sequence[Entry], records: Sequence[Record]) -> list[Entry]:
    """Those of them that measured the same, or were made in the same session (--without): somebody chose."""
    same = {(r.kind, r.test_scenario.name, r.test_scenario.target) for r in records}
    sessions = {r.session for r in records}
    return [entry for entry in left if (entry.kind, entry.scenario, entry.target) in same or entry.session in sessions]


def chosen_because(left: Sequence[Entry], records: Sequence[Record], because: str) -> None:
    others = rivals(left, records)
    if others and not because.strip():
        first = others[0]
        raise BenchError(
            f"{first.test_id} ({first.scenario}, {first.status}) and {len(others) - 1} more runs of the same are left out: "
            "say why with --because TEXT, which is published"
        )


# --- what is kept ---


def verify(kept: Kept, where: str) -> list[str]:
    """Refuses a file that was edited. Returns what could not be checked."""
    if kept.records[0].schema_version < CHAINED:
        return [
            f"{where}: schema version {kept.records[0].schema_version}, which had no chain: only its figures are checked"
        ]
    for value, record in zip(kept.values, kept.records, strict=True):
        if record.schema_version < CHAINED or chain.changed(value):
            raise BenchError(f"{where}: {_name(record)}: edited: it is not what was recorded")
        wrong = recheck.figures(record)
        if wrong:
            raise BenchError(f"{where}: {_name(record)}: {wrong[0]}")
    entries = [*(chain.entry(value) for value in kept.values), *kept.left]
    ordered = _in_order(entries, where)
    unbroken(ordered, where)
    start, revision = (
        ordered[0],
        {entry.revision for entry in ordered[1:]} & {r.configuration.revision for r in kept.records},
    )
    if start.previous and start.revision in ("", *revision):
        raise BenchError(
            f"{where}: the chain starts at {start.test_id} in the middle of a revision: records were taken away"
        )
    chosen_because(kept.left, kept.records, kept.because)
    if any(record.identity.harness != identity.harness_hash() for record in kept.records):
        return [f"{where}: checks were made by another harness: check out {kept.records[0].configuration.revision[:9]}"]
    recomputed(kept.records)
    return []


def _in_order(entries: Sequence[Entry], where: str) -> list[Entry]:
    """By their links."""
    following = {entry.previous: entry for entry in entries}
    hashes = {chain.hash_of(entry) for entry in entries}
    starts = [entry for entry in entries if entry.previous not in hashes]
    if len(starts) != 1 or len(following) != len(entries):
        ids = ", ".join(sorted(entry.test_id for entry in starts)[1:3])
        raise BenchError(
            f"{where}: the chain is broken at {ids or 'its start'}: a record before it was changed or taken away"
        )
    ordered = [starts[0]]
    while (after := following.get(chain.hash_of(ordered[-1]))) is not None:
        ordered.append(after)
    return ordered


def left_lines(kept: Kept) -> list[str]:
    """For a report: each run of the same scenarios or sessions that is not published, with its figures and its status."""
    lines = []
    for entry in rivals(kept.left, kept.records):
        rate = "" if entry.requests_per_second is None else f", {entry.requests_per_second:,.0f} requests/s"
        cpu = "" if entry.cpu_us_per_request is None else f", {entry.cpu_us_per_request:.2f} us of CPU per request"
        failed = f" ({', '.join(entry.failed)})" if entry.failed else ""
        lines.append(f"{entry.test_id}: {entry.scenario}, {entry.target}, {entry.status}{failed}{rate}{cpu}")
    return lines
