#!/usr/bin/env python3
"""Owns: `./dev upgrade`: performance_test is replaced and reloaded again and again under load, and no request fails.

Each client process sends numbered requests and checks that each response has its number. Upgrades (SIGUSR2) and reloads
(SIGHUP) alternate. Every process of it has to end with status 0."""
import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import upgrade_clients as clients

PR_SET_CHILD_SUBREAPER = 36
STEP_SECONDS = 60  # within which a new process is ready, or a reload done
DEFAULT_PROTOCOLS = list(clients.KINDS)


def free_ports(count):
    """Each is held until all are found: they differ."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def wait_for(what, seconds, message):
    deadline = time.monotonic() + seconds
    while not (result := what()):
        if time.monotonic() > deadline:
            raise RuntimeError(message)
        time.sleep(0.01)
    return result


class Service:
    """performance_test with a PID file. The processes that replace the first become children of this one when theirs ends."""

    def __init__(self, program, directory, io_threads, engine, drain_idle_ms):
        self.directory = directory
        self.program = directory / "performance_test"
        shutil.copy(program, self.program)
        self.pid_file, self.log = directory / "pid", directory / "log"
        self.http, self.https = (("127.0.0.1", port) for port in free_ports(2))
        self.certificate, self.key = directory / "cert.pem", directory / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
            + ["-keyout", self.key, "-out", self.certificate],
            check=True,
            capture_output=True,
        )
        command = [self.program, "--address", "127.0.0.1", "--port", self.http[1], "--https-port", self.https[1], "--certificate", self.certificate]
        command += ["--key", self.key, "--pid-file", self.pid_file, "--io-threads", io_threads, "--engine", engine, "--drain-idle-ms", drain_idle_ms]
        with open(self.log, "wb") as log:
            self.first = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ended = {}
        wait_for(lambda: self.starts() or self.first.poll() is not None, STEP_SECONDS, "no start")
        if self.first.poll() is not None:
            raise RuntimeError(f"it did not start: {self.log.read_text()}")

    def starts(self):
        return self.log.read_text(errors="replace").count("listening on")

    def pid(self):
        return int(self.pid_file.read_text() or 0)

    def reap(self):
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in self.clients:
                    return
                os.waitpid(ended.si_pid, 0)
                self.ended[ended.si_pid] = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    clients = frozenset()

    def upgrade(self):
        """As a deployment does it: another file at the path, then the signal. Returns how long the new process took, in s."""
        old, at = self.pid(), time.monotonic()
        copy = self.directory / "next"
        shutil.copy(self.program, copy)
        copy.rename(self.program)
        os.kill(old, signal.SIGUSR2)
        wait_for(lambda: self.pid() != old, STEP_SECONDS, f"not upgraded: {self.tail()}")
        return time.monotonic() - at

    def reload(self):
        before = self.log.read_text(errors="replace").count("were read again")
        os.kill(self.pid(), signal.SIGHUP)
        wait_for(lambda: self.log.read_text(errors="replace").count("were read again") > before, STEP_SECONDS, f"not reloaded: {self.tail()}")

    def tail(self):
        return self.log.read_text(errors="replace")[-2000:]

    def ends(self, pid):
        """Whether the process has ended."""
        self.reap()
        return not pathlib.Path(f"/proc/{pid}").exists()

    def stop(self):
        pid = self.pid()
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: self.ends(pid), STEP_SECONDS, "still running")


def client_main(kind, address, first, options, ending, counter, pipe):
    def report(done):
        counter.value = done

    pipe.send(clients.run(kind, address, first, options.connections, options.depth, options.batches, ending.is_set, report))
    pipe.close()


class Load:
    def __init__(self, service, options):
        context = multiprocessing.get_context("fork")
        self.ending, self.options, self.parts = context.Event(), options, []
        for index, kind in enumerate(options.protocols):
            address = service.https if clients.KINDS[kind][1] else service.http
            mine, theirs = context.Pipe(duplex=False)
            counter = context.Value("Q", 0, lock=False)
            process = context.Process(target=client_main, args=(kind, address, (index + 1) * 10 ** (clients.DIGITS - 2), options, self.ending, counter, theirs))
            process.start()
            theirs.close()
            self.parts.append((kind, process, counter, mine))
        service.clients = {process.pid for _, process, _, _ in self.parts}

    def done(self):
        return sum(counter.value for _, _, counter, _ in self.parts)

    def failed(self):
        """Whether a client has reported already: then something went wrong."""
        return bool(select.select([pipe for *_, pipe in self.parts], [], [], 0)[0])

    def finish(self):
        self.ending.set()
        results = {}
        for kind, process, _, pipe in self.parts:
            try:
                done, repeated, connections, failure = pipe.recv()
            except EOFError:
                done, repeated, connections, failure = 0, 0, 0, f"{kind}: the client ended without a report"
            process.join()
            results[kind] = {"requests": done, "repeated": repeated, "connections": connections, "failure": failure}
        return results


def pause(load, seconds, requests):
    """Until so many requests were responded to, and for so long at least."""
    deadline, before = time.monotonic() + seconds, load.done()
    while not load.failed() and (time.monotonic() < deadline or load.done() < before + requests):
        time.sleep(0.02)


def measure(options, directory):
    service = Service(options.program, directory, options.io_threads, options.engine, options.drain_idle_ms)
    load, took, upgrades, reloads = Load(service, options), [], 0, 0
    share = options.requests // (options.upgrades + options.reloads + 1)
    problems = []
    try:
        pause(load, options.interval, share)
        while not load.failed() and (upgrades < options.upgrades or reloads < options.reloads):
            if upgrades < options.upgrades:
                took.append(service.upgrade())
                upgrades += 1
                pause(load, options.interval, share)
            if reloads < options.reloads and not load.failed():
                service.reload()
                reloads += 1
                pause(load, options.interval, share)
            if options.progress:
                print(f"\r{upgrades} upgrades, {reloads} reloads, {load.done():,} requests ", end="", file=sys.stderr, flush=True)
        while not load.failed() and load.done() < options.requests:
            pause(load, 0.1, 1)
    except RuntimeError as error:
        problems.append(str(error))
    results = load.finish()
    if options.progress:
        print(file=sys.stderr)
    service.clients = frozenset()
    try:
        service.stop()
        wait_for(lambda: service.reap() or len(service.ended) > upgrades, STEP_SECONDS, f"{len(service.ended)} of {upgrades + 1} processes have ended")
    except (RuntimeError, OSError) as error:
        problems.append(str(error))
    problems += [f"process {pid} ended with {status}" for pid, status in service.ended.items() if status]
    problems += [result["failure"] for result in results.values() if result["failure"]]
    if problems:
        problems.append(service.tail())
    took.sort()
    return {
        "upgrades": upgrades,
        "reloads": reloads,
        "requests": sum(result["requests"] for result in results.values()),
        "repeated": sum(result["repeated"] for result in results.values()),
        "connections": sum(result["connections"] for result in results.values()),
        "failed": sum(bool(result["failure"]) for result in results.values()),
        "processes": len(service.ended),
        "upgrade_seconds_median": round(took[len(took) // 2], 3) if took else 0,
        "upgrade_seconds_max": round(took[-1], 3) if took else 0,
        "protocols": results,
        "problems": problems,
    }


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev upgrade", description=__doc__.split("\n")[0].partition(": ")[2])
    parser.add_argument("--program", type=pathlib.Path, default=pathlib.Path("build/dist/bin/performance_test"))
    parser.add_argument("--upgrades", type=int, default=100)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000_000, help="at least (default 10,000,000)")
    parser.add_argument("--protocols", type=lambda text: text.split(","), default=DEFAULT_PROTOCOLS, help=",".join(DEFAULT_PROTOCOLS))
    parser.add_argument("--connections", type=int, default=4, help="of each protocol (default 4)")
    parser.add_argument("--depth", type=int, default=32, help="requests on the wire of each connection (default 32)")
    parser.add_argument("--batches", type=int, default=200, help="of a connection, before its client opens another one (default 200)")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between two steps, at least (default 0.2)")
    parser.add_argument("--io-threads", type=int, default=2)
    parser.add_argument("--drain-idle-ms", type=int, default=10000, help="more than the server's default: clients may have to wait for a CPU (default 10000)")
    parser.add_argument("--engine", default="auto", choices=["auto", "uring", "epoll"])
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--no-progress", dest="progress", action="store_false")
    options = parser.parse_args(arguments)
    unknown = set(options.protocols) - set(clients.KINDS)
    if unknown:
        parser.error(f"unknown protocols: {', '.join(sorted(unknown))}")
    return options


def main(arguments=None):
    options = parse(arguments)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, pathlib.Path(directory))
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for kind, of in result["protocols"].items():
            print(f"{kind:<14} {of['requests']:>12,} requests {of['connections']:>8,} connections {of['repeated']:>6,} repeated {of['failure'] or '0 failed'}")
        print(f"{result['upgrades']} upgrades (median {result['upgrade_seconds_median']} s, longest {result['upgrade_seconds_max']} s), {result['reloads']} reloads")
        print(f"{result['requests']:,} requests on {result['connections']:,} connections, {result['repeated']:,} repeated, {result['failed']} failed")
        print(*result["problems"], sep="\n", end="", file=sys.stderr)
    return 1 if result["problems"] or result["requests"] < options.requests else 0


if __name__ == "__main__":
    sys.exit(main())
