#!/usr/bin/env python3
"""Owns: long runs of the fuzz targets, and their record, docs/internals/fuzzing.json.

    ./dev fuzz --hours 3                   all targets, as many at once as there are CPUs, at the lowest priority
    ./dev fuzz fuzz_hpack fuzz_config      these, for an hour
    ./dev fuzz --keep                      the inputs found so far that reach new code go to test/fuzz/corpus/, the smallest of them
    ./dev fuzz --table                     what docs/internals/fuzzing.md shows: hours, inputs, branches that the kept inputs reach

A run goes in slices. The target with the least CPU time on record has the next one, with new random numbers, and starts from what its
earlier slices found (build/fuzz/corpus/). Time counts when its slice has ended. A target that has found something is not run again: its
input and its log stay in build/fuzz/, the others continue, and the exit status is 1."""
import argparse
import collections
import concurrent.futures
import datetime
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/tools"))
import coverage  # noqa: E402

RECORD = ROOT / "docs/internals/fuzzing.json"
PROGRAMS = ROOT / "build/fuzz/test/fuzz"
REPLAY = ROOT / "build/fuzz-replay"
CORPUS = ROOT / "test/fuzz/corpus"
FOUND = ROOT / "build/fuzz/corpus"
LONGEST_INPUT = 4096  # of those that are kept
LONGEST_RUN = 100  # seconds of the clock that one input may use: at the lowest priority another process may have most of them

# The code that a target is about, below src/: of its branches the table says how many are reached.
ABOUT = {
    "fuzz_config": ("config/config.c", "config/config_file.c", "config/config_message.c"),
    "fuzz_connection": ("protocol/http1_*", "exchange/body.c", "exchange/incoming.c", "exchange/outgoing.c", "exchange/own_response.c",
                        "exchange/multipart.c", "exchange/respond.c", "exchange/run.c"),
    "fuzz_form": ("message/form*", "message/multipart*"),
    "fuzz_hpack": ("http2/hpack_*", "http2/head_response.c"),
    "fuzz_http1_chunked": ("http1/chunked.c",),
    "fuzz_http1_request": ("http1/request.c", "http1/scan*"),
    "fuzz_http2_connection": ("protocol/http2_*",),
    "fuzz_http2_frames": ("http2/read.c", "http2/frames.c", "http2/data.c", "http2/control.c", "http2/settings.c", "http2/flow.c", "http2/streams.c"),
    "fuzz_http2_head": ("http2/head_any.c", "http2/head_request.c", "http2/head_trailer.c", "http2/field.c"),
    "fuzz_http2_nghttp2": ("http2/*",),
    "fuzz_multipart": ("message/multipart*",),
    "fuzz_proxy": ("conn/proxy_protocol.c", "message/forwarded.c", "base/ip.c"),
    "fuzz_range": ("handler/static_range.c",),
    "fuzz_request": ("message/request*", "message/cookie.c", "message/accept_encoding.c", "message/forwarded.c", "base/date.c", "base/uri.c"),
    "fuzz_response": ("http1/response_read.c",),
    "fuzz_tls": ("tls/filter.c", "tls/openssl_session.c", "io/io_filter.c"),
    "fuzz_values": ("obs/trace.c", "websocket/handshake.c", "middleware/rate_limit_redis_reply.c", "client/message.c"),
    "fuzz_websocket_connection": ("handler/websocket*", "protocol/http1_upgrade.c"),
    "fuzz_websocket_deflate": ("websocket/deflate.c", "websocket/extension.c"),
    "fuzz_websocket_frames": ("websocket/frame.c", "base/utf8.c"),
}  # fmt: skip


def revision():
    say = lambda *command: subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()  # noqa: E731
    changed = say("status", "--porcelain", "src", "include", "test/fuzz/*.c", "test/fuzz/*.h")
    return say("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


class Record:
    """One row per target, day and revision: seconds of CPU, inputs, edges (libFuzzer's "cov"), findings."""

    def __init__(self):
        self.rows = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
        self.lock = threading.Lock()

    def seconds(self, target):
        return sum(row["cpu_seconds"] for row in self.rows if row["target"] == target)

    def add(self, target, day, revision, seconds, runs, edges, findings):
        key = {"target": target, "day": day, "revision": revision}
        with self.lock:
            row = next((row for row in self.rows if key.items() <= row.items()), None)
            if row is None:
                row = key | {"cpu_seconds": 0, "runs": 0, "edges": 0, "findings": 0}
                self.rows.append(row)
            row["cpu_seconds"] = round(row["cpu_seconds"] + seconds, 1)
            row["runs"] += runs
            row["edges"] = max(row["edges"], edges)
            row["findings"] += findings
            self.rows.sort(key=lambda row: (row["day"], row["revision"], row["target"]))
            new = RECORD.with_suffix(".new")
            new.write_text("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n", encoding="utf-8")
            new.replace(RECORD)


# --- a run ---


def run_slice(target, seconds):
    """(seconds of CPU, inputs, edges, whether it has found nothing) of one run of libFuzzer."""
    command = ["sh", "test/tools/fuzz_one.sh", PROGRAMS / target, str(seconds), "0", str(LONGEST_RUN)]
    with open(ROOT / f"build/fuzz/{target}.said", "wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    log = (ROOT / f"build/fuzz/{target}.log").read_text(encoding="utf-8", errors="replace")
    numbers = [int(count) for count in re.findall(r"^#(\d+)\s", log, re.MULTILINE)]
    edges = [int(count) for count in re.findall(r"\bcov: (\d+)", log)]
    return usage.ru_utime + usage.ru_stime, max(numbers, default=0), max(edges, default=0), process.returncode == 0


class Hunt:
    def __init__(self, targets, hours, seconds):
        self.targets, self.seconds = list(targets), seconds
        self.end = time.monotonic() + hours * 3600
        self.record, self.running, self.failed = Record(), set(), []
        self.lock = threading.Lock()

    def next(self):
        """The target whose turn it is, or None at the end."""
        with self.lock:
            waiting = [target for target in self.targets if target not in self.running and target not in self.failed]
            if not waiting or time.monotonic() >= self.end:
                return None
            target = min(waiting, key=self.record.seconds)
            self.running.add(target)
            return target

    def work(self):
        day, version = datetime.date.today().isoformat(), revision()
        while target := self.next():
            left = max(1, int(min(self.seconds, self.end - time.monotonic())))
            cpu, runs, edges, good = run_slice(target, left)
            self.record.add(target, day, version, cpu, runs, edges, 0 if good else 1)
            with self.lock:
                self.running.remove(target)
                if not good:
                    self.failed.append(target)
            print(f"{target}: {cpu:.0f} s of CPU, {runs} inputs, {edges} edges; {self.record.seconds(target) / 3600:.2f} hours on record"
                  + ("" if good else "; FOUND SOMETHING: build/fuzz/" + target + ".log"), flush=True)  # fmt: skip


def hunt(targets, hours, seconds):
    search = Hunt(targets, hours, seconds)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # threads and processes that begin from here on have it as well
    jobs = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for worker in [pool.submit(search.work) for _ in range(jobs)]:
            worker.result()
    return not search.failed


# --- what is kept ---


def keep(target):
    """Copies few and small inputs that reach edges which those in the tree do not; false if there is nothing to choose from."""
    if not (FOUND / target).exists():
        return False
    kept = CORPUS / target
    kept.mkdir(exist_ok=True)
    before = set(kept.iterdir())
    subprocess.run([PROGRAMS / target, "-set_cover_merge=1", "-use_counters=0", f"-max_len={LONGEST_INPUT}", kept, FOUND / target],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    new = set(kept.iterdir()) - before
    print(f"{target}: {len(new)} inputs more, {sum(path.stat().st_size for path in new)} bytes", flush=True)
    return True


# --- the table ---


def is_about(target, name):
    return any(fnmatch.fnmatch(name, pattern) for pattern in ABOUT[target])


def branches(target):
    """(those that the kept inputs reach, all) of the code that the target is about."""
    for counters in REPLAY.rglob("*.gcda"):
        counters.unlink()
    inputs = sorted((CORPUS / target).glob("*"))
    subprocess.run([REPLAY / "test/fuzz" / target, *inputs], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    counts = [count for name, file in coverage.read(REPLAY).items() if is_about(target, name) for count in file.branches.values()]
    return sum(count > 0 for count in counts), len(counts)


def print_table(targets):
    rows = collections.defaultdict(list)
    for row in Record().rows:
        rows[row["target"]].append(row)
    print("| target | about | CPU hours | million inputs | edges | branches that the kept inputs reach | findings |\n|---|---|---|---|---|---|---|")
    for target in targets:
        reached, total = branches(target)
        of = lambda name, target=target: [row[name] for row in rows[target]]  # noqa: E731
        about = ", ".join(f"`{pattern}`" for pattern in ABOUT[target])
        print(f"| `{target}` | {about} | {sum(of('cpu_seconds')) / 3600:.2f} | {sum(of('runs')) / 1e6:.1f} | {max(of('edges'), default=0)} | "
              f"{reached} of {total}, {100 * reached / total:.0f} % | {sum(of('findings'))} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", help="all, if none is named")
    parser.add_argument("--hours", type=float, default=1, help="of the clock (default %(default)s)")
    parser.add_argument("--slice", type=int, default=300, metavar="SECONDS", help="of one run (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="choose inputs for test/fuzz/corpus/, instead of a run")
    parser.add_argument("--table", action="store_true", help="print the table, instead of a run")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.target) - set(ABOUT)):
        parser.error(f"there is no target {unknown[0]}; there are: {', '.join(ABOUT)}")
    targets = arguments.target or list(ABOUT)
    if arguments.keep:
        if not any([keep(target) for target in targets]):
            sys.exit("fuzz: there is nothing to keep yet: run ./dev fuzz before")
    elif arguments.table:
        print_table(targets)
    else:
        sys.exit(0 if hunt(targets, arguments.hours, arguments.slice) else 1)


if __name__ == "__main__":
    main()
