#!/usr/bin/env python3
"""Owns: the command line, the table of attacks and its verdicts: ten attackers attack next to fifty connections that are served, and
what those notice of it. By hand, on a machine that does nothing else; what CI asserts is in test/integration (docs/internals/attacks.md
says where). Fails if an attack is not met as its row of attacks.py says, if it costs more memory than it may, if a request of the
others fails, or if their P99 is above twice what it was in calm just before, and above 5 ms, in two rounds of at most three. Such a row
gets its control at once (see below): if the others of a server that nobody attacks wait as long, the row is inconclusive.
Exit status: 1 if an attack was not met, 4 if none of these but a row is inconclusive.

    ./dev attacks [--protocol http1|tls|websocket|http2|relief|storm] [--backend uring] [--seconds 2] [--only WORD] [--control WORD]

The first CPU is the server's alone. Generator and attackers share the next, on which the attackers run only when nobody else
wants to (SCHED_IDLE): their own need of CPU, which a real attacker has on a machine of their own, is not in the P99 of the others.
--control shows what is left of it: the attack goes to another server, which runs next to the attackers as they do, and the
others are served by one that nobody attacks; then the same with attackers that do not yield, as a comparison."""
import argparse
import os
import pathlib
import resource
import sys

import relief
import storm
from attack import PROTOCOLS
from attackers import ATTACKERS, attacked
from attacks import ATTACKS
from servers import CLIENT_CPU, SERVER_CPU, Gone, Server, measure

OTHER_TABLES = {"relief": relief.table, "storm": storm.table}
P99_MS = 5
INCONCLUSIVE = "inconclusive"
# Of a loop: buffers of its own; and what it had received of all connections together before it could stop reading them
# (read_buffer_count * read_buffer_size), which is kept, twice while it grows.
OWN_KIB = 4096 + 2 * 1024


def row(name, cve, limit, calm, p99, late, cpu, failed, memory, connections, reported, verdict):
    print(f"| {name} | {cve} | {limit} | {calm} | {p99:.2f} | {late:.2f} | {cpu:.0%} | {failed} | {memory} | {connections} | {reported} | {verdict} |", flush=True)


def memory_max(attack):
    return ATTACKERS * attack.width * attack.each_kib + OWN_KIB


def is_slow(p99, calm):
    return p99 > max(2 * calm, P99_MS)


def faults(attack, found):
    """What no repetition excuses."""
    if found["failed"]:
        yield "requests failed"
    if found["memory"] > memory_max(attack):
        yield f"memory above {memory_max(attack)} KiB"
    yield from (f"no {codes}" for codes in attack.expects if not any(found["seen"].get(code) for code in codes.split("|")))
    yield from (code for code in found["seen"] if code.endswith("INTERNAL_ERROR"))


def suffer_once(build, backend, attack, seconds, compete=False):
    """Calm, then the attack, on one server."""
    with Server(build, backend, attack.settings, attack.arguments) as server:
        calm = measure(build, server, attack.protocol, 1)
        before = server.resident("VmRSS")
        with attacked(server.addresses, attack, compete) as results:
            found = measure(build, server, attack.protocol, seconds)
        counters = server.counters()
        found["memory"] = server.resident("VmHWM") - before
    found["connections"], found["codes"] = results
    return {**found, "calm": calm["p99"], "seen": {**counters, **found["codes"]}, "slow": is_slow(found["p99"], calm["p99"])}


def judge(attack, rounds):
    """What was wrong, and the round that shows it."""
    slow = sum(found["slow"] for found in rounds) > 1
    shown = next(found for found in rounds if found["slow"] == slow)
    return ["P99"] * slow + sorted({fault for found in rounds for fault in faults(attack, found)}), shown


def compare(wrong, p99, control):
    """What was wrong, with the P99 of those whose server nobody attacks."""
    if "P99" not in wrong or is_slow(p99, control):
        return wrong
    return [INCONCLUSIVE if fault == "P99" else fault for fault in wrong]


def suffer(build, backend, attack, seconds, compete=False):
    """Returns what was wrong."""
    rounds, control = [], None
    try:
        rounds.append(suffer_once(build, backend, attack, seconds, compete))
        # A P99 that is too high may be a disturbance of the machine: it counts when a second round shows it too.
        while rounds[0]["slow"] and sum(found["slow"] for found in rounds) < 2 and len(rounds) < 3:
            rounds.append(suffer_once(build, backend, attack, seconds, compete))
        wrong, shown = judge(attack, rounds)
        if "P99" in wrong:
            control = suffer_elsewhere(build, backend, attack, seconds, compete)
            wrong = compare(wrong, shown["p99"], control["p99"])
    except Gone as gone:
        print(f"| {attack.name} | {attack.cve} | {attack.limit} |" + " |" * 8 + f" {gone} |", flush=True)
        return [str(gone)]
    reported = [f"{code} {count}" for code, count in shown["codes"].most_common(3)]
    expected = [name for names in attack.expects for name in names.split("|")]
    reported += [f"{name} {shown['seen'][name]}" for name in expected if name in shown["seen"] and name not in shown["codes"]]
    verdict = (", ".join(wrong) or "ok") + f", {len(rounds)} rounds" * (len(rounds) > 1) + (f", control {control['p99']:.2f} ms" if control else "")
    row(attack.name, attack.cve, attack.limit, f"{shown['calm']:.2f}", shown["p99"], shown["late"], shown["cpu"], shown["failed"],
        f"{shown['memory']} of {memory_max(attack)}", shown["connections"], ", ".join(reported) or "-", verdict)  # fmt: skip
    return wrong


def suffer_elsewhere(build, backend, attack, seconds, compete):
    """What the others see of a server that nobody attacks, while the attackers attack another."""
    with Server(build, backend) as server, Server(build, backend, attack.settings, attack.arguments, with_attackers=True) as other:
        with attacked(other.addresses, attack, compete) as results:
            under = measure(build, server, attack.protocol, seconds)
    return {**under, "connections": results[0]}


def show_control(build, backend, attack, seconds, compete):
    under = suffer_elsewhere(build, backend, attack, seconds, compete)
    name = f"control{', attackers compete with the generator' * compete}: {attack.name}"
    row(name, "", "", "", under["p99"], under["late"], under["cpu"], under["failed"], "", under["connections"], "", "")


def status(wrong):
    return 1 if set(wrong) - {INCONCLUSIVE} else 4 if wrong else 0


def table(options, backend, protocol):
    """Returns the exit status."""
    build, wrong = options.build.absolute(), []
    print(f"{protocol} on {backend}. The server has CPU {SERVER_CPU}, generator and attackers (SCHED_IDLE) CPU {CLIENT_CPU}.\n")
    print("| attack | | limit | calm P99 ms | P99 ms | generator late ms | server CPU | failed | memory KiB | connections | reported | |")
    print("|---" * 12 + "|")
    for attack in (attack for attack in ATTACKS if attack.protocol == protocol):
        if options.only in attack.name:
            wrong += suffer(build, backend, attack, options.seconds)
        if any(word in attack.name for word in options.control):
            for compete in (False, True):
                show_control(build, backend, attack, options.seconds, compete)
    print()
    return status(wrong)


def parse():
    parser = argparse.ArgumentParser(prog="./dev attacks", description="Ten attackers attack next to fifty connections that are served. Prints what those notice, the memory it costs, and whether each attack is met as its row of attacks.py says.")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--backend", choices=("uring", "epoll"), help="one backend only")
    parser.add_argument("--protocol", choices=(*PROTOCOLS, *OTHER_TABLES), action="append", help="these only; each takes three minutes a backend at most")
    parser.add_argument("--seconds", type=int, default=2, help="of each attack")
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    parser.add_argument("--control", action="append", default=[], metavar="WORD", help="controls of attacks whose name has this in it")
    return parser.parse_args()


def main():
    options = parse()
    os.sched_setaffinity(0, {CLIENT_CPU})  # and all that is started from here, but for the server
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    results = []
    for backend in [options.backend] if options.backend else ["uring", "epoll"]:
        for protocol in options.protocol or (*PROTOCOLS, *OTHER_TABLES):
            show = OTHER_TABLES.get(protocol)
            results.append(int(not show(options, backend)) if show else table(options, backend, protocol))
    sys.exit(1 if 1 in results else max(results))


if __name__ == "__main__":
    os.environ.setdefault("UVHTTP_LOG_LEVEL", "error")
    main()
