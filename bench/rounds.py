"""Owns: what the comparisons of this folder share: processes pinned to a CPU, their CPU time, wrk, rounds in turn, and the
table. Any error voids the run."""
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TICK = os.sysconf("SC_CLK_TCK")


def void(why):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: void: {why}")


def cpu_seconds(pid):
    """User and system time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def build_c(source, *libraries):
    """Compiles a program of this folder into build/bench."""
    program = BUILD / "bench" / source.stem
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-D_GNU_SOURCE", str(source), "-o", str(program), *libraries]
    if subprocess.run(command).returncode != 0:
        void(f"{source.name} can not be built")
    return program


def pinned(cpu, command):
    return ["taskset", "-c", str(cpu), *map(str, command)]


def wrk(cpu, url, conns, seconds, *more):
    """Returns requests done."""
    command = pinned(cpu, ["wrk", "-t1", f"-c{conns}", f"-d{seconds}s", "--timeout", "30s", *more[:2], url, *more[2:]])
    run = subprocess.run(command, capture_output=True, text=True)
    done = re.search(r"(\d+) requests in", run.stdout)
    if run.returncode != 0 or not done or "Socket errors" in run.stdout or "Non-2xx" in run.stdout or done[1] == "0":
        void(f"wrk c={conns} {url}:\n{run.stdout}{run.stderr}")
    return int(done[1])


def cost(pid, load):
    """Calls load(), which returns a number of requests; (user, system) microseconds of the process for each."""
    before = cpu_seconds(pid)
    requests = load()
    after = cpu_seconds(pid)
    return tuple(1e6 * (b - a) / requests for a, b in zip(before, after))


def take_turns(names, rounds, measure):
    """measure(name) of each name in every round, in alternating order: [{name: figures}]."""
    done = []
    for number in range(rounds):
        order = names if number % 2 == 0 else names[::-1]
        measured = {name: measure(name) for name in order}
        done.append({name: measured[name] for name in names})
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return done


def table(rounds, case, what):
    """One line per name for a case of [{name: {case: (user, system)}}]; the first name is the yardstick. The ratio is taken
    within a round, so that a machine whose speed drifts drops out."""
    names = list(rounds[0])
    for name in names:
        pairs = [r[name][case] for r in rounds]
        ratios = [sum(r[name][case]) / sum(r[names[0]][case]) for r in rounds]
        user, system = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        total = statistics.median(sum(p) for p in pairs)
        print(f"{name:20} {what:>12} {total:10.2f} {user:6.2f} {system:7.2f}  "
              f"{statistics.median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})")


def table_head(yardstick):
    print(f"{'program':20} {'case':>12} {'us/request':>10} {'user':>6} {'system':>7}  ratio to {yardstick} (lowest..highest)")


def check_cpus(parser, args):
    if args.server_cpu == args.client_cpu or max(args.server_cpu, args.client_cpu) >= os.cpu_count():
        parser.error("server and client need a CPU each")
