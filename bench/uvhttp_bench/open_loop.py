"""Owns: what is different about the record of an open loop: its rate, and which checks apply to it."""

import math
from dataclasses import replace

from uvhttp_bench.model.record import BUSY, LITTLE, Check, Record, Results

# Closed loops obey the law; and the requests that wait when the time is up have a latency here, but no response.
CLOSED_CHECKS = (LITTLE, BUSY, "samples")
SERVED_MIN = 0.95
SIGMAS = 3  # of the number of Poisson arrivals
CHANCE_MAX = 0.5


def was_served(results: Results, rate: float) -> bool:
    """Poisson arrivals are random in number too: the fewest that chance makes of the rate are asked for, so that a short run
    at a low rate does not fail without a reason."""
    due = rate * results.seconds
    chance = min(CHANCE_MAX, SIGMAS / math.sqrt(due)) if due else 0.0
    return results.requests_per_second > SERVED_MIN * rate * (1 - chance)


def rate_served(record: Record, rate: float) -> Check:
    """A run whose server did not keep up says nothing about the latency at that rate."""
    detail = f"{record.results.requests_per_second / rate:.0%} of {rate:,.0f} requests/s were served"
    return Check("rate", was_served(record.results, rate), detail, "throughput")


def at_rate(record: Record, rate: float) -> Record:
    run = replace(record.test_scenario, loop="open", rate_per_second=rate)
    checks = (*(check for check in record.checks if check.name not in CLOSED_CHECKS), rate_served(record, rate))
    return replace(record, test_scenario=run, checks=checks)
