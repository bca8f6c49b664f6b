"""Owns: the machine: what it is (with a hash, so that only like is compared with like), and the standard's checklist, each
point with what it means and how to fix it."""

import hashlib
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from uvhttp_bench import network, standard
from uvhttp_bench.model.codec import to_json
from uvhttp_bench.model.record import Environment
from uvhttp_bench.monitor import cpu_times

IDLE_SECONDS = 0.5
TOOLS = {  # program: (package, argument that prints its version)
    "wrk": ("wrk", "-v"),
    "perf": ("linux-perf", "--version"),
    "strace": ("strace", "-V"),
    "cmake": ("cmake", "--version"),
    "cc": ("gcc", "--version"),
}


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def tool_version(program: str, argument: str) -> str:
    """First number that looks like a version; empty when the program is not there."""
    if not shutil.which(program):
        return ""
    done = subprocess.run([program, argument], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d[\w.+-]*", done.stdout + done.stderr)
    return found[0] if found else "?"


def _os_name() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.M)
    return found[1] if found else platform.system()


def _cpu_name() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.M)
    return found[1] if found else platform.machine()


def _memory_kb(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", _read("/proc/meminfo"), re.M)
    return int(found[1]) if found else 0


def _virtualization() -> str:
    if not shutil.which("systemd-detect-virt"):
        return "hypervisor" if re.search(r"^flags.*\bhypervisor\b", _read("/proc/cpuinfo"), re.M) else "none"
    done = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "none"


def governor() -> str:
    found = {_read(str(path)) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ",".join(sorted(found))


def capture(
    compiler: str, compiler_version: str, server_cpus: tuple[int, ...] = (), generator_cpus: tuple[int, ...] = ()
) -> Environment:
    """`compiler` is that of the measured program, as it says itself."""
    environment = Environment(
        os=_os_name(),
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        memory=f"{round(_memory_kb('MemTotal') / 2**20)}GB",
        compiler=compiler,
        compiler_version=compiler_version,
        kernel=f"{platform.system()} {platform.release()}",
        virtualization=_virtualization(),
        governor=governor() or "not visible",
        swap_mb=round((_memory_kb("SwapTotal") - _memory_kb("SwapFree")) / 1024, 1),
        tools={name: version for name, (_, argument) in TOOLS.items() if (version := tool_version(name, argument))},
        network=network.PRIVATE if network.private() else network.SHARED,
        congestion_control=network.congestion_control(),
        sysctls=network.in_force(),
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        server_cpus=server_cpus,
        generator_cpus=generator_cpus,
    )
    return replace(environment, hash=digest(environment))


def digest(environment: Environment) -> str:
    """What a comparison needs to be equal; swap in use changes by itself, the tools do not run the server."""
    same = {name: value for name, value in to_json(environment).items() if name not in ("hash", "swap_mb", "tools")}
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]


# --- the checklist ---

GOOD, WARNING, BAD = "ok", "warning", "missing"


@dataclass(frozen=True)
class Point:
    name: str
    state: str
    value: str
    meaning: str
    fix: str  # empty when nothing has to be


def _point(name: str, good: bool, value: str, meaning: str, fix: str, bad: str = WARNING) -> Point:
    return Point(name, GOOD if good else bad, value, meaning, "" if good else fix)


def _governor() -> Point:
    value = governor()
    return _point(
        "CPU governor", value in ("", "performance"), value or "not visible (virtual machine?)",
        "a CPU that changes its speed makes runs differ", "cpupower frequency-set -g performance",
    )  # fmt: skip


def _swap() -> Point:
    used = _memory_kb("SwapTotal") - _memory_kb("SwapFree")
    return _point(
        "swap", used < 1024, f"{used // 1024} MB in use", "a page that comes back from disk is a latency of milliseconds",
        "swapoff -a && swapon -a",
    )  # fmt: skip


def _setting(name: str, path: str, least: int, meaning: str) -> Point:
    text = _read(f"/proc/sys/{path}")
    value = int(text) if text.isdigit() else 0
    fix = f"sysctl -w {path.replace('/', '.')}={least}"
    return _point(name, value >= least, text or "not visible", meaning, fix)


def _files() -> Point:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = hard == resource.RLIM_INFINITY or hard >= standard.FILES_MIN
    return _point(
        "nofile", good, "unlimited" if hard == resource.RLIM_INFINITY else str(hard),
        f"connections are descriptors; the standard asks for {standard.FILES_MIN} (the soft limit is raised by itself)",
        f"ulimit -Hn {standard.FILES_MIN} as root, or LimitNOFILE= of the service",
    )  # fmt: skip


def _tools() -> Iterable[Point]:
    purposes = {
        "wrk": "the contract's load generator",
        "perf": "counts system calls; strace is the second choice",
        "strace": "counts system calls for the gates",
        "cmake": "builds what compare compares",
        "cc": "builds what compare compares",
    }
    for name, (package, argument) in TOOLS.items():
        version = tool_version(name, argument)
        needed = BAD if name == "wrk" and not version else WARNING
        meaning, fix, good = purposes[name], f"apt-get install {package}", bool(version)
        if name == "wrk" and version and standard.version_of(version) < standard.WRK_MIN:
            least, good = ".".join(map(str, standard.WRK_MIN)), False
            meaning, fix = f"{meaning}: {least} or newer", f"build wrk {least} from its source, or use --tool uvhttp-load"
        yield _point(name, good, version or "not installed", meaning, fix, needed)


def _idle() -> Iterable[Point]:
    cpus = range(os.cpu_count() or 1)
    before = cpu_times(cpus)
    time.sleep(IDLE_SECONDS)
    after = cpu_times(cpus)
    total = max(1e-9, after.total - before.total)
    busy, stolen = (after.processes - before.processes) / total, (after.steal - before.steal) / total
    yield _point(
        "idle machine", busy < 0.05, f"{busy:.0%} in use", "what else runs is measured as if it were the server",
        "end it, or measure later: ps -eo pcpu,args --sort=-pcpu | head",
    )  # fmt: skip
    yield _point(
        "steal", stolen < 0.02, f"{stolen:.0%} used by the host", "other guests of the host change every figure",
        "measure on a machine of one's own; compare with A B B A rounds only",
    )  # fmt: skip


def _pinning() -> Point:
    allowed = len(os.sched_getaffinity(0))
    return _point(
        "pinning", allowed >= 2, f"{allowed} CPUs to choose from", "server and load generator need a CPU each",
        "allow this process two CPUs: taskset, cpuset, or a larger machine",
    )  # fmt: skip


def _hardware() -> Iterable[Point]:
    """Recorded with each run (standard.thresholds); nothing but another machine changes it."""
    cores, memory = os.cpu_count() or 1, round(_memory_kb("MemTotal") / 2**20)
    fix = "a larger machine; CPU time per request and ratios hold on this one"
    yield _point("cores", cores >= standard.CORES_MIN, str(cores), f"the standard asks for {standard.CORES_MIN}", fix)
    yield _point(
        "memory",
        memory >= standard.MEMORY_GB_MIN,
        f"{memory} GB",
        f"the standard asks for {standard.MEMORY_GB_MIN} GB",
        fix,
    )


def own_network(warning: str) -> Point:
    """`warning`: what is not as it should be in the network of a run."""
    return _point(
        "network", not warning, warning or "a namespace of its own, with sysctls of its own",
        "what else uses loopback, and this machine's settings of TCP, change every figure",
        "run it as root, or with unshare --map-root-user",
    )  # fmt: skip


def checklist() -> list[Point]:
    one: list[Callable[[], Point]] = [
        _governor,
        _swap,
        lambda: _setting("somaxconn", "net/core/somaxconn", standard.SOMAXCONN_MIN, "connections that wait to be accepted"),
        lambda: _setting(
            "syn backlog",
            "net/ipv4/tcp_max_syn_backlog",
            standard.SYN_BACKLOG_MIN,
            "connections in the making, 2000 at once",
        ),
        _files,
        _pinning,
    ]
    return [*_hardware(), *(make() for make in one), *_tools(), *_idle()]
