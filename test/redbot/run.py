#!/usr/bin/env python3
"""REDbot against the test server, on both engines: what it says of static files, whole and in ranges, conditional requests,
compressed variants, and responses of handlers. Nothing may be bad or a warning, and what it has to have tried must be good. It
asks slowly, so it is no step of ./dev test.

  ./dev redbot                    both engines
  ./dev redbot --engine epoll     one of them"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "tools"))
from served import HOST, free_ports, served

WORK = ROOT / "build" / "redbot"
SERVER = ROOT / "build/test/bin/http_test_server"
# That a response says nothing of how long it is fresh is its application's choice.
ALLOWED = {"FRESHNESS_HEURISTIC"}
STATIC = {"RANGE_CORRECT", "INM_304", "IMS_304", "CL_CORRECT"}
# What is asked for, and which notes have to be there.
PAGES = {
    "/tls/files/small.html": STATIC,                            # from memory
    "/tls/files/large.bin": STATIC,                             # by sendfile
    "/tls/files/packed.html": STATIC | {"CONNEG_GZIP_GOOD"},    # with a .gz next to it
    "/tls/files/none.html": set(),
    f"/file?path={WORK}/files/large.bin": {"CL_CORRECT"},
    "/": {"CL_CORRECT"},
    "/copy?size=70000": {"CL_CORRECT"},
    "/pieces": set(),
    "/guarded/own": {"CL_CORRECT", "CONTENT_TYPE_OPTIONS"},
    "/redirect": set(),
    "/empty/204": set(),
}  # fmt: skip
SECONDS = 600  # a hang, not a measure


def make_files():
    files = WORK / "files"
    files.mkdir(parents=True, exist_ok=True)
    page = b"<!DOCTYPE html><title>A page</title><p>" + b"Some text. " * 2000
    (files / "small.html").write_bytes(page)
    (files / "packed.html").write_bytes(page)
    (files / "packed.html.gz").write_bytes(gzip.compress(page))
    (files / "large.bin").write_bytes(bytes(range(256)) * 4096)
    settled = time.time() - 3600
    for file in files.iterdir():
        os.utime(file, (settled, settled))


def ask(url, wanted):
    """Returns what is wrong, and how many notes there were."""
    command = [WORK / "venv/bin/redbot", "-o", "har", url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    try:
        notes = json.loads(done.stdout)["log"]["entries"][0]["_red_messages"]
    except (ValueError, LookupError):
        return [f"no result: {(done.stdout + done.stderr).strip()[-300:]}"], 0
    bad = [f"{note['level']} {note['note_id']}: {note['summary']}" for note in notes
           if note["level"] not in ("GOOD", "INFO") and note["note_id"] not in ALLOWED]
    missing = wanted - {note["note_id"] for note in notes if note["level"] == "GOOD"}
    return bad + [f"not found to be good: {note}" for note in sorted(missing)], len(notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("uring", "epoll"), help="one engine only")
    arguments = parser.parse_args()
    make_files()
    good = True
    for engine in (arguments.engine,) if arguments.engine else ("uring", "epoll"):
        (port,) = free_ports(1)
        command = [SERVER, "--listen", f"{HOST}:{port}", "--tls-static", WORK / "files"]
        with served(command, port, WORK / f"{engine}.server.log", engine), concurrent.futures.ThreadPoolExecutor(8) as pool:
            responses = {path: pool.submit(ask, f"http://{HOST}:{port}{path}", wanted) for path, wanted in PAGES.items()}
            for path, response in responses.items():
                bad, count = response.result()
                good = good and not bad
                print(f"{engine}: {path}: {count} notes, {len(bad) or 'none'} bad", flush=True)
                for line in bad:
                    print(f"  FAILED {line}", flush=True)
    sys.exit(0 if good else 1)


try:
    main()
except RuntimeError as error:
    sys.exit(f"redbot: {error}")
