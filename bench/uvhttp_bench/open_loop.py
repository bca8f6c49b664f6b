"""Owns: what is different about the record of an open loop: what its rate was, and which checks it can not pass or has to."""

from dataclasses import replace

from uvhttp_bench.model.record import BUSY, Check, Record

# Closed loops obey the law; and the requests that wait when the time is up have a latency here, but no answer.
CLOSED_CHECKS = ("Little's law", BUSY, "samples")
KEPT_UP_MIN = 0.95


def kept_up(record: Record, rate: float) -> Check:
    """An open loop that was not served at its rate says nothing about latency at that rate."""
    reached = record.results.requests_per_second / rate
    detail = f"{reached:.0%} of {rate:,.0f} requests/s were served"
    return Check("rate", reached > KEPT_UP_MIN, detail, "throughput")


def at_rate(record: Record, rate: float) -> Record:
    run = replace(record.test_scenario, loop="open", rate_per_second=rate)
    checks = (*(check for check in record.checks if check.name not in CLOSED_CHECKS), kept_up(record, rate))
    return replace(record, test_scenario=run, checks=checks)
