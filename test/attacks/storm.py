"""Owns: a storm of resets next to connections that are served: what those get, what the log says, and whether every reset was
counted, exactly once."""
import concurrent.futures
import multiprocessing
import os
import socket
import struct

from servers import Server, measure

RESETS = 100_000
SHARE = 0.05  # of the calm throughput that the others may lose
LOG_BYTES_MAX = 4096
LINGER = struct.pack("ii", 1, 0)
REQUEST = b"GET /n/1 HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENT = {"log_level": "info", "connection_timeout": 60}  # attackers get the CPU when nobody else wants it
PHASES = ("resets_idle", "resets_reading", "resets_writing", "resets_closing")


def rage(address, count):
    """Connections that are reset: a third each without a byte, in mid head, and behind a response."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for index in range(count):
        with socket.create_connection(address, timeout=60) as one:
            if index % 3 == 1:
                one.sendall(REQUEST[:20])
            elif index % 3 == 2:
                one.sendall(REQUEST)
                assert one.recv(4096).startswith(b"HTTP/1.1 200 ")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)


def raging(address, count, attackers):
    """Until all are done. Returns whether they are, as a function."""
    context = multiprocessing.get_context("fork")
    shares = [count // attackers + (index < count % attackers) for index in range(attackers)]
    processes = [context.Process(target=rage, args=(address, share)) for share in shares]
    for process in processes:
        process.start()
    return processes


def settled(server, accepted):
    """The counters, when all connections but that which asks are closed; each question is one more connection."""
    for questions in range(1, 1000):
        counters = server.counters()
        if counters["connections_accepted"] - counters.get("connections_closed", 0) == 1:
            return counters, counters["connections_accepted"] - accepted - questions
    raise AssertionError(f"connections stay open: {counters}")


def differences(before, after, connections, count, log_bytes, left):
    """What is not exact. `connections` were accepted from the attackers and the generator, of which `left` are the latter's."""
    resets = sum(after.get(name, 0) - before.get(name, 0) for name in PHASES)
    if resets != count:
        yield f"{resets} resets were counted"
    if connections != count + left:
        yield f"{connections} connections were accepted"
    if log_bytes > LOG_BYTES_MAX:
        yield f"{log_bytes} bytes of log"


def count_exactly(build, backend, count, attackers=4):
    """Without others: what is counted and logged. Returns what was wrong."""
    with Server(build, backend, PATIENT) as server:
        before, _ = settled(server, 0)
        for process in raging(server.addresses["plain"], count, attackers):
            process.join()
            assert process.exitcode == 0
        after, connections = settled(server, before["connections_accepted"])
        return list(differences(before, after, connections, count, os.fstat(server.log.fileno()).st_size, 0))


def suffer(build, backend, count, attackers=4):
    """Calm and storm on one server, a second each time, until all resets are done. Returns a row and what was wrong."""
    with Server(build, backend, PATIENT) as server, concurrent.futures.ThreadPoolExecutor() as pool:
        before, _ = settled(server, 0)
        calm = [measure(build, server, "http1", 2) for _ in range(3)]
        processes, storm = raging(server.addresses["plain"], count, attackers), []
        joined = pool.submit(lambda: [process.join() for process in processes])
        while not joined.done():
            storm.append(measure(build, server, "http1", 2))
        assert all(process.exitcode == 0 for process in processes)
        if len(storm) > 1:
            storm.pop()  # in its course the storm ended
        after, _ = settled(server, before["connections_accepted"])
        resets = sum(after.get(name, 0) - before.get(name, 0) for name in PHASES)
        log_bytes = os.fstat(server.log.fileno()).st_size

    def median(rounds, name):
        return sorted(one[name] for one in rounds)[len(rounds) // 2]

    ratio = median(storm, "rate") / median(calm, "rate")
    wrong = [f"throughput {ratio:.1%} of calm"] * (ratio < 1 - SHARE) + [f"{resets} resets were counted"] * (resets != count)
    wrong += [f"{log_bytes} bytes of log"] * (log_bytes > LOG_BYTES_MAX) + ["requests failed"] * any(one["failed"] for one in storm)
    figures = [f"{median(calm, 'rate'):.0f}", f"{median(storm, 'rate'):.0f}", f"{ratio:.1%}", f"{median(calm, 'p99'):.2f}", f"{median(storm, 'p99'):.2f}"]
    return [f"{resets:,} of {count:,}", len(storm), *figures, sum(one["failed"] for one in storm), log_bytes], wrong


def table(options, backend):
    """Returns whether all was well."""
    print(f"reset storm on {backend}\n\n| resets counted | rounds | calm requests/s | requests/s | | calm P99 ms | P99 ms | failed | log bytes | |")
    print("|---" * 10 + "|")
    row, wrong = suffer(options.build.absolute(), backend, RESETS)
    print("| " + " | ".join(map(str, row)) + f" | {', '.join(wrong) or 'ok'} |\n", flush=True)
    return not wrong
