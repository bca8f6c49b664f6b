#!/usr/bin/env python3
"""The Autobahn testsuite against the echo example, by ws: and by wss:. Every case has to be OK or INFORMATIONAL. It needs
Python 2.7, which Debian has no longer, so it is no step of ./dev test.

  ./dev autobahn                                  all cases on both engines, four times an hour
  ./dev autobahn --engine uring --scheme wss      one of the four
  ./dev autobahn --engine epoll --cases '12.*'    some of them
  ./dev autobahn --url wss://127.0.0.1:9443/echo  against a server that runs already"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "tools"))
from served import HOST, free_ports, served

WORK = ROOT / "build" / "autobahn"
VERSION = "25.10.1"
CASES = 517
GOOD = ("OK", "INFORMATIONAL")
SCHEMES = ("ws", "wss")


def python2():
    """A Python 2.7 that runs: $PYTHON2, the path, or one of pyenv's."""
    candidates = [os.environ.get("PYTHON2"), shutil.which("python2.7")]
    candidates += sorted(map(str, pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")).glob("versions/2.7*/bin/python2.7")))
    for candidate in filter(None, candidates):
        result = subprocess.run([candidate, "-c", "import sys, ssl; print(sys.version_info[:2] == (2, 7))"], capture_output=True, text=True)
        if result.stdout.strip() == "True":
            return candidate
    sys.exit("autobahn: no Python 2.7 with ssl: the testsuite runs on nothing newer.\n"
             "Install one (pyenv install 2.7.18) and put it on the path, or name it: PYTHON2=/path/to/python2.7 ./dev autobahn")


def wstest():
    program = WORK / "venv" / "bin" / "wstest"
    if not program.exists():
        python = python2()
        tools = WORK / "tools"
        shutil.rmtree(WORK / "venv", ignore_errors=True)
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, *pip, "--target", tools, "virtualenv<20.16"], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([python, "-m", "virtualenv", "--quiet", WORK / "venv"], check=True, env=dict(os.environ, PYTHONPATH=str(tools)))
        subprocess.run([WORK / "venv" / "bin" / "python", *pip, f"autobahntestsuite=={VERSION}"], check=True, stderr=subprocess.DEVNULL)
    return program


@contextlib.contextmanager
def echo(engine):
    """The URL of a running echo by scheme."""
    ports = free_ports(len(SCHEMES))
    addresses = [f"{HOST}:{port}" for port in ports]
    with served([ROOT / "build/dist/bin/websocket_echo", *addresses], ports[0], WORK / f"{engine}.server.log", engine):
        yield {scheme: f"{scheme}://{address}/echo" for scheme, address in zip(SCHEMES, addresses)}


def groups(cases):
    """Parts to run one after the other: the testsuite says nothing before its end, and all of it takes an hour."""
    if cases != ["*"]:
        return cases
    compressed = [f"{section}.{part}.*" for section, parts in ((12, 5), (13, 7)) for part in range(1, parts + 1)]
    return [f"{section}.*" for section in (*range(1, 8), 9, 10)] + compressed


def run(name, url, cases):
    results = {}
    shutil.rmtree(WORK / f"reports-{name}", ignore_errors=True)
    for group in groups(cases):
        part = run_group(name, url, group)
        good = sum(result["behavior"] in GOOD and result["behaviorClose"] in GOOD for result in part.values())
        print(f"{name}: {group}: {good} of {len(part)} good", flush=True)
        results.update(part)
    return results


def run_group(name, url, group):
    reports = WORK / f"reports-{name}" / group.replace("*", "all")
    spec = WORK / f"{name}.json"
    spec.write_text(json.dumps({"options": {"failByDrop": False}, "outdir": str(reports), "servers": [{"agent": name, "url": url}],
                                "cases": [group], "exclude-cases": [], "exclude-agent-cases": {}}))
    with open(WORK / f"{name}.log", "a") as log:
        subprocess.run([wstest(), "-m", "fuzzingclient", "-s", spec], check=True, stdout=log, stderr=log)
    return json.loads((reports / "index.json").read_text())[name]


def judge(name, results, cases):
    sections = collections.defaultdict(collections.Counter)
    bad = []
    for case, result in results.items():
        behaviour = result["behavior"]
        if behaviour in GOOD and result["behaviorClose"] not in GOOD:
            behaviour = f"{behaviour}, close {result['behaviorClose']}"
        sections[int(case.split(".")[0])][behaviour] += 1
        if behaviour not in GOOD:
            bad.append(f"{case}: {behaviour}")
    print(f"{name}: {len(results)} cases, reports in {(WORK / f'reports-{name}').relative_to(ROOT)}/*/index.html")
    for section, counts in sorted(sections.items()):
        print(f"  section {section:2}: " + ", ".join(f"{count} {behaviour}" for behaviour, count in sorted(counts.items())))
    total = sum(sections.values(), collections.Counter())
    print("  all       : " + ", ".join(f"{count} {behaviour}" for behaviour, count in sorted(total.items())))
    if cases == ["*"] and len(results) != CASES:
        bad.append(f"{len(results)} cases instead of {CASES}")
    for line in bad:
        print(f"  FAILED {line}")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("uring", "epoll"), help="one engine only")
    parser.add_argument("--scheme", choices=SCHEMES, help="one scheme only")
    parser.add_argument("--cases", default="*", help="comma-separated, such as 1.*,13.7.1 (default: all)")
    parser.add_argument("--url", help="of a server that runs already, ws: or wss:")
    arguments = parser.parse_args()
    cases = re.split(r"[, ]+", arguments.cases)
    WORK.mkdir(parents=True, exist_ok=True)
    wstest()
    good = True
    if arguments.url:
        good = judge("url", run("url", arguments.url, cases), cases)
    else:
        for engine in (arguments.engine,) if arguments.engine else ("uring", "epoll"):
            with echo(engine) as urls:
                for scheme in (arguments.scheme,) if arguments.scheme else SCHEMES:
                    name = f"{engine}-{scheme}"
                    good = judge(name, run(name, urls[scheme], cases), cases) and good
    sys.exit(0 if good else 1)


try:
    main()
except RuntimeError as error:
    sys.exit(f"autobahn: {error}")
