#!/usr/bin/env python3
"""h2spec against the test server: all cases, strict, on both backends, in clear and by TLS. Every case has to pass except
those named here, which have to fail. It needs Go, which builds h2spec at the versions of go.mod, so it is no step of ./dev
test.

  ./dev h2spec                                    all four, some seconds each
  ./dev h2spec --backend epoll --transport tls    one of them
  ./dev h2spec --cases http2/3.5                  some cases
  ./dev h2spec --url http://127.0.0.1:8080/       against a server that runs already, of which nothing is expected to fail"""
import argparse
import collections
import pathlib
import shutil
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "tools"))
from served import HOST, free_ports, served

WORK = ROOT / "build" / "h2spec"
HERE = pathlib.Path(__file__).resolve().parent
SERVER = ROOT / "build/test/bin/http_test_server"
CASES = 146
SECONDS = 900  # a hang, not a measure
TRANSPORTS = ("clear", "tls")
# Takes each method and a whole body, and its response has a body: a path that is answered before the rest of a request has
# come can say nothing of that rest.
PATH = "/echo"
# The port is shared with HTTP/1, which answers what is no preface: 400, then the end. h2spec takes the 400 for a frame
# (issue 112 of summerwind/h2spec). RFC 9113 section 3.4: "A GOAWAY frame MAY be omitted in this case, since an invalid
# preface indicates that the peer is not using HTTP/2."
EXPECTED_TO_FAIL = {"clear": {"http2/3.5: Sends invalid connection preface"}, "tls": set()}


def h2spec():
    """The program, built when go.mod has changed."""
    program, stamp = WORK / "h2spec", WORK / "go.mod"
    wanted = (HERE / "go.mod").read_text()
    if not (program.exists() and stamp.exists() and stamp.read_text() == wanted):
        if not shutil.which("go"):
            raise RuntimeError("go is not installed")
        done = subprocess.run(["go", "build", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec"], cwd=HERE)
        if done.returncode != 0:
            raise RuntimeError("h2spec has not been built")
        stamp.write_text(wanted)
    return program


def run(name, host, port, tls, path, cases):
    """{case: what was not as expected, None: passed}"""
    report = WORK / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [h2spec(), "--strict", "-h", host, "-p", str(port), "-P", path, "-j", report, *(["-t", "-k"] if tls else []), *cases]
    with open(WORK / f"{name}.log", "wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SECONDS)
    if not report.exists():
        raise RuntimeError(f"h2spec has ended without a report: {WORK / name}.log")
    results = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        title = f"{case.get('package')}: {case.get('classname')}"
        bad = next((one for kind in ("failure", "error", "skipped") if (one := case.find(kind)) is not None), None)
        while title in results:  # h2spec has titles twice in a section
            title += "'"
        results[title] = None if bad is None else " ".join("".join(bad.itertext()).split()) or bad.tag
    return results


def judge(name, results, expected, complete):
    """Prints a row of the table, and what is wrong below it."""
    failed = {title for title, fault in results.items() if fault is not None}
    expected = expected & results.keys()
    wrong = [f"{title}: {results[title]}" for title in results if title in failed - expected]
    wrong += [f"{title}: has passed, which run.py does not expect" for title in sorted(expected - failed)]
    if complete and len(results) != CASES:
        wrong.append(f"{len(results)} cases instead of {CASES}")
    sections = collections.Counter(title.split("/")[0] for title in results if results[title] is None)
    parts = " ".join(f"{section} {count}" for section, count in sorted(sections.items()))
    print(f"| {name} | {len(results)} | {len(results) - len(failed)} ({parts}) | {len(failed & expected)} | {len(wrong)} |", flush=True)
    return [f"{name}: {line}" for line in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("uring", "epoll"), help="one backend only")
    parser.add_argument("--transport", choices=TRANSPORTS, help="one transport only")
    parser.add_argument("--cases", default="", help="comma-separated, such as http2/6.5,hpack (default: all)")
    parser.add_argument("--url", help="of a server that runs already, with the path to ask for")
    arguments = parser.parse_args()
    cases = [case for case in arguments.cases.split(",") if case]
    WORK.mkdir(parents=True, exist_ok=True)
    h2spec()
    wrong = []
    print("| | cases | passed | failed as expected | wrong |\n|---|---|---|---|---|", flush=True)
    if arguments.url:
        url = urllib.parse.urlsplit(arguments.url)
        wrong += judge(url.netloc, run("url", url.hostname, url.port, url.scheme == "https", url.path or "/", cases), set(), not cases)
    else:
        for backend in (arguments.backend,) if arguments.backend else ("uring", "epoll"):
            ports = dict(zip(TRANSPORTS, free_ports(2)))
            addresses = {transport: f"{HOST}:{port}" for transport, port in ports.items()}
            command = [SERVER, "--listen", addresses["clear"], "--tls-listen", addresses["tls"], "--development", "yes"]
            with served(command, ports["clear"], WORK / f"{backend}.server.log", backend):
                for transport in (arguments.transport,) if arguments.transport else TRANSPORTS:
                    results = run(f"{backend}-{transport}", HOST, ports[transport], transport == "tls", PATH, cases)
                    wrong += judge(f"{backend}, {transport}", results, EXPECTED_TO_FAIL[transport], not cases)
    for line in wrong:
        print(f"FAILED {line}")
    sys.exit(1 if wrong else 0)


try:
    main()
except RuntimeError as error:
    sys.exit(f"h2spec: {error}")
