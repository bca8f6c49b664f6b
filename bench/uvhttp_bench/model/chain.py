"""Owns: the chain of records. The store gives each record the hash of the record before, so that none can be changed, taken
away or put in between without breaking every later one.

A record is hashed in two steps. `body` is the record as it is committed: without its full histograms, which would fill the
repository; `whole` is the hash of those. An entry is what everybody should see of a record even if it is not published: when,
what, its status and two figures, with body and whole; its hash is the record's place in the chain. So the entries of runs that
are left out can be committed, and checked, without the runs."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from uvhttp_bench import repository
from uvhttp_bench.model.codec import from_json, to_json
from uvhttp_bench.model.evidence import Chain
from uvhttp_bench.model.histogram import Histogram
from uvhttp_bench.model.record import Record


@dataclass(frozen=True)
class Entry:
    previous: str
    test_id: str
    timestamp: str
    session: str
    kind: str
    scenario: str
    target: str
    revision: str
    status: str
    requests_per_second: float | None  # None: a check took it away
    cpu_us_per_request: float | None
    failed: tuple[str, ...]  # checks
    body: str
    whole: str


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def _anywhere(value: dict[str, Any]) -> dict[str, Any]:
    """Without where the repository is on this machine."""
    run = value["test_scenario"]
    return {**value, "test_scenario": {**run, "command": run.get("command", "").replace(f"{repository.ROOT}/", "")}}


def slim(value: dict[str, Any]) -> dict[str, Any]:
    """JSON of a record as it is committed: its histogram with a resolution of 0.8 %, and without the corrected one, which
    follows from the other. The database has them whole, and the record's percentiles are those of the whole ones. Slimming
    twice changes nothing."""
    value = _anywhere(value)
    results = dict(value["results"])
    given = results.get("histogram") or {"values_us": [], "counts": []}
    coarse = Histogram(tuple(given["values_us"]), tuple(given["counts"])).coarse()
    results["histogram"] = to_json(coarse)
    results["histogram_corrected"] = to_json(Histogram())
    return {**value, "results": results}


def _body(value: dict[str, Any]) -> str:
    return digest({name: item for name, item in slim(value).items() if name != "chain"})


def entry(value: dict[str, Any]) -> Entry:
    """Of the JSON of a record, slim or whole, that has its `chain` but for the hash."""
    record = from_json(Record, value)
    run, cpu = record.test_scenario, record.resources.cpu_us_per_request
    return Entry(
        previous=record.chain.previous,
        test_id=record.test_id,
        timestamp=record.timestamp,
        session=record.session,
        kind=record.kind,
        scenario=run.name,
        target=run.target,
        revision=record.configuration.revision,
        status=record.status,
        requests_per_second=record.results.requests_per_second if record.holds("throughput") else None,
        cpu_us_per_request=cpu if record.holds("cpu") else None,
        failed=tuple(check.name for check in record.checks if not check.passed),
        body=_body(value),
        whole=record.chain.whole,
    )


def hash_of(one: Entry) -> str:
    return digest(to_json(one))


def linked(record: Record, previous: str) -> Record:
    """The record with its place after `previous`, as it arrives back from JSON: 1 and 1.0 are the same to the hash."""
    value = to_json(from_json(Record, json.loads(canonical(_anywhere(to_json(record))))))
    histograms = {name: value["results"][name] for name in ("histogram", "histogram_corrected")}
    value["chain"] = asdict(Chain(previous, digest(histograms), ""))
    value["chain"]["hash"] = hash_of(entry(value))
    return from_json(Record, value)


def changed(value: dict[str, Any]) -> bool:
    """Whether the JSON of a record, slim or whole, is not what was hashed."""
    return bool(hash_of(entry(value)) != value["chain"]["hash"])


def whole_changed(record: Record) -> bool:
    """Whether the full histograms are not those that were recorded; of a record of the database."""
    histograms = {"histogram": record.results.histogram, "histogram_corrected": record.results.histogram_corrected}
    return digest(to_json(histograms)) != record.chain.whole


def break_in(entries: Sequence[Entry]) -> str:
    """The id of the first record that does not follow the one before; "" for an unbroken chain."""
    for one, following in itertools.pairwise(entries):
        if following.previous != hash_of(one):
            return following.test_id
    return ""
