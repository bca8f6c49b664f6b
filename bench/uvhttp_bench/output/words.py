"""Owns: the words that a reader sees for what a record calls `valid`, `bounded`, `unstable` and `void`."""

from uvhttp_bench.model.record import BOUNDED, UNSTABLE, VALID, VOID

STATUS = {VALID: "valid", BOUNDED: "lower bound", UNSTABLE: "noisy machine", VOID: "discarded"}
EXPLAINED = {
    BOUNDED: "the load generator was busier than the server: CPU time per request holds, the rate is a lower bound",
    UNSTABLE: "other work ran on the machine: CPU time per request holds, rate and latency are only indications",
    VOID: "a check failed: none of its figures is used",
}
