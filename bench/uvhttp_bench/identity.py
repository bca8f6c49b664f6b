"""Owns: who was measured. The program is the one that was planned and stays it, it was built from these sources, it uses the
settings that its command line asks for, and no variable of the environment changes its figures."""

import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

from uvhttp_bench import repository, revisions, sources
from uvhttp_bench.loads import uvhttp_load
from uvhttp_bench.loads.base import Load
from uvhttp_bench.model.evidence import Identity
from uvhttp_bench.model.record import Check
from uvhttp_bench.targets.base import Response, Running, Target, ask

Asked = Callable[[Response], None]

CONFIG_PATH = "/config"  # of performance_test
# Settings of performance_test that are no fields of the configuration, or have another name there. None: not compared.
OWN_OPTIONS: dict[str, str | None] = {
    "--port": None, "--https-port": None, "--address": None, "--static": None, "--sendfile": None,
    "--certificate": "tls_certificate", "--key": "tls_key",
}  # fmt: skip
SWITCHES = ("--kernel-tls",)
ENGINES = {"uring": "io_uring", "epoll": "epoll"}
# Variables that change what a server or a generator does, whoever made it.
CHANGING = re.compile(
    r"(UVHTTP_|LD_|MALLOC_|MIMALLOC_|GLIBC_TUNABLES$|OPENSSL_|UV_(THREADPOOL_SIZE|USE_IO_URING)$"
    r"|GO(MAXPROCS|DEBUG|GC|MEMLIMIT)$|JAVA_(TOOL_)?OPT|JDK_JAVA_OPTIONS$|CATALINA_OPTS$|NODE_OPTIONS$|[ATL]SAN_|UBSAN_)"
)
# They name files, or are read by the tests alone. What UVHTTP_BENCH_SERVER names is judged by its sources.
HARMLESS = re.compile(r"UVHTTP_(BENCH_\w+|COUNTS|BUILD_DIR|FUZZ_SECONDS)$")
LOG_LEVEL_DEFAULT = "warn"

PROGRAM, SOURCES, SETTINGS, VARIABLES = "program", "sources", "settings", "environment"


@dataclass(frozen=True)
class Expected:
    """What a run is planned with. `ours`: a program of this repository."""

    ours: bool = False
    program: str = ""
    sources: str = ""
    session: str = ""


@functools.lru_cache(maxsize=256)
def _digest(path: str, device: int, inode: int, size: int, modified_ns: int, changed_ns: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_hash(path: Path | None) -> str:
    """ "" where it cannot be read. The content is read once: a file that is replaced or written to is another one."""
    if path is None:
        return ""
    try:
        known = path.stat()
        return _digest(str(path), known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
    except OSError:
        return ""


@functools.cache
def _of_commit(commit: str) -> str:
    return sources.of_commit(commit)[0]


def expected_sources(program: Path) -> str:
    """A program that was built for a commit is of that commit, any other is of the working tree. "" for a commit whose
    programs do not say what they were built from."""
    if program.parent.parent == revisions.BUILT:
        commit = program.parent.name
        known = repository.git("ls-tree", commit, "cmake/write_build_identity.cmake")
        return _of_commit(commit) if known else ""
    return sources.of_tree(repository.ROOT)


@functools.cache
def harness_hash() -> str:
    """As it was when this process started to measure."""
    return sources.harness_of_tree(repository.ROOT)


def expect(target: Target, session: str) -> Expected:
    program = getattr(target, "program", None)
    if not isinstance(program, Path):
        return Expected(session=session)
    return Expected(True, file_hash(program), expected_sources(program), session)


# --- what is seen ---


def shown(value: str) -> str:
    """Without where the repository is on this machine."""
    return value.replace(f"{repository.ROOT}/", "")


def changing(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that change figures, or might; an empty one counts as not set."""
    return {name: shown(value) for name, value in sorted(variables.items()) if value and CHANGING.match(name)}


def variables_of(pid: int) -> dict[str, str]:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in words if word)
    return changing({name: value for name, _, value in pairs})


def libraries_of(pid: int, preloaded: str = "") -> dict[str, str]:
    names = {Path(path).name for path in re.split(r"[ :]", preloaded) if path}
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count("/")}
    wanted = (Path(path) for path in sorted(paths) if path.startswith("/"))
    return {path.name: file_hash(path) for path in wanted if path.name in names or path.name.startswith("libuvhttp.so")}


def asked_settings(program: str, command: Sequence[str]) -> dict[str, str]:
    """The fields that a command line of performance_test sets; of a file its name, which is the same everywhere."""
    words = list(command)
    places = [index for index, word in enumerate(words) if word == program]
    found: dict[str, str] = {}
    rest = iter(words[places[-1] + 1 :] if places else [])
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals:
            value = "true" if name in SWITCHES else next(rest, "")
        field_name = OWN_OPTIONS[name] if name in OWN_OPTIONS else name.removeprefix("--").replace("-", "_")
        if field_name:
            found[field_name] = _value(value)
    return found


def _value(text: str) -> str:
    return Path(text).name if text.startswith("/") else text


@dataclass(frozen=True)
class Reported:
    """What the running server says about itself."""

    sources: str = ""
    engine: str = ""
    settings: dict[str, str] = field(default_factory=dict)  # all
    changed: dict[str, str] = field(default_factory=dict)  # those that are not the default


def _nobody(response: Response) -> None:
    del response


def sources_said(build_info: str) -> str:
    found = re.search(r"^sources: (\w+)$", build_info, re.M)
    return found[1] if found else ""


def reported(running: Running, asked: Asked) -> Reported:
    """Empty of a server that is not performance_test."""
    try:
        response = ask("http", running.ports.http, CONFIG_PATH)
        asked(response)
        found = json.loads(response.body)
        settings = {str(name): _value(str(one["value"])) for name, one in found["settings"].items()}
        changed = {name: settings[name] for name, one in found["settings"].items() if not one["default"]}
        return Reported(sources_said(str(found["build_info"])), str(found["engine"]), settings, changed)
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return Reported()


_first: dict[tuple[str, str], str] = {}  # of a session and a server or generator: the first hash that was seen


def _remembered(session: str, name: str, digest: str) -> str:
    return _first.setdefault((session, name), digest)


def generator_file(load: Load) -> Path | None:
    name = load.name.split()[0]
    if name == uvhttp_load.UvhttpLoad.name:
        return uvhttp_load.program()
    found = shutil.which(name)
    return Path(found) if found else None


def _generator(load: Load, session: str) -> Identity:
    digest = file_hash(generator_file(load))
    given = load.name.startswith(uvhttp_load.UvhttpLoad.name) and os.environ.get("UVHTTP_BENCH_LOAD")
    own = file_hash(repository.PROGRAMS / uvhttp_load.UvhttpLoad.name) if given else ""
    return Identity(
        generator=digest,
        generator_first=_remembered(session, f"generator {load.name}", digest),
        generator_expected=(own or "none was built here") if given else "",
        variables_of_harness=changing(os.environ),
        harness=harness_hash(),
    )


def before(expected: Expected, target: Target, running: Running, load: Load, on_response: Asked = _nobody) -> Identity:
    """Of a server that listens, before the load. `on_response` is called with the response to each question."""
    variables = variables_of(running.pid)
    program = file_hash(Path(f"/proc/{running.pid}/exe"))
    seen = replace(
        _generator(load, expected.session),
        ours=expected.ours,
        planned=expected.program,
        first=_remembered(expected.session, f"server {target.name}", program),
        before=program,
        libraries_before=libraries_of(running.pid, variables.get("LD_PRELOAD", "")),
        sources_expected=expected.sources,
        variables=variables,
        variables_permitted=permitted(target, expected.ours),
    )
    if not expected.ours or not expected.sources:
        return seen
    said = reported(running, on_response)
    words = [str(word) for word in running.process.args] if isinstance(running.process.args, list) else []
    asked = asked_settings(_program_word(words), words)
    defaults = {name for name, value in asked.items() if name not in said.changed and said.settings.get(name) == value}
    return replace(
        seen,
        sources=said.sources,
        settings_expected={
            **{name: value for name, value in asked.items() if name not in defaults},
            "I/O backend": ENGINES.get(getattr(target, "engine", ""), said.engine),
        },
        settings_before={**said.changed, "I/O backend": said.engine},
    )


def _program_word(words: Sequence[str]) -> str:
    """What the wrappers (taskset, env) start: the last word before the first option of the server, --port."""
    places = [index for index, word in enumerate(words) if word == "--port"]
    return words[places[0] - 1] if places else ""


def permitted(target: Target, ours: bool) -> dict[str, str]:
    """What the target sets on purpose, and what may be set because it holds anyway."""
    engine = str(getattr(target, "engine", ""))
    same = {"UVHTTP_ENGINE": engine, "UVHTTP_LOG_LEVEL": LOG_LEVEL_DEFAULT} if ours else {}
    return {**same, **{name: shown(value) for name, value in getattr(target, "variables", {}).items()}}


def of_file(load: Load, program: Path, session: str, build_info: str) -> Identity:
    """Of a program that is server and generator in one, and has ended when it can be looked at."""
    digest = file_hash(program)
    return replace(
        _generator(load, session),
        ours=True,
        planned=digest,
        first=_remembered(session, f"server {load.name}", digest),
        before=digest,
        after=digest,
        sources=sources_said(build_info),
        sources_expected=expected_sources(program),
    )


def after(seen: Identity, running: Running, on_response: Asked = _nobody) -> Identity:
    """The same server after the load."""
    settings = {}
    if seen.settings_before:
        said = reported(running, on_response)
        settings = {**said.changed, "I/O backend": said.engine}
    return replace(
        seen,
        after=file_hash(Path(f"/proc/{running.pid}/exe")),
        libraries_after=libraries_of(running.pid, seen.variables.get("LD_PRELOAD", "")),
        settings_after=settings,
    )


# --- what it means ---


def _program(seen: Identity) -> Check:
    if not seen.before or not seen.after:
        return Check(PROGRAM, False, "/proc/PID/exe cannot be read: run server and uvhttp-bench as the same user")
    if seen.ours and seen.before != seen.planned:
        what = f"the process runs {seen.before[:12]}, planned was {seen.planned[:12]}"
        return Check(PROGRAM, False, f"{what}: not the program that was to be measured, or replaced: build and run again")
    if seen.before != seen.first:
        what = f"the program is {seen.before[:12]}, in the session's first run it was {seen.first[:12]}"
        return Check(PROGRAM, False, f"{what}: do not build while a session runs; run it again")
    if (seen.before, seen.libraries_before) != (seen.after, seen.libraries_after):
        return Check(PROGRAM, False, "the program or its library was replaced during the run: run it again")
    if seen.generator != seen.generator_first:
        return Check(PROGRAM, False, "the load generator was replaced during the session: run it again")
    if seen.generator_expected and seen.generator != seen.generator_expected:
        return Check(PROGRAM, False, "UVHTTP_BENCH_LOAD names a generator that was not built here: unset it")
    return Check(PROGRAM, True, f"SHA-256 {seen.before[:12]} before and after")


def _sources(seen: Identity) -> Check:
    if not seen.sources:
        return Check(SOURCES, False, f"the server does not say its sources at {CONFIG_PATH}: is this performance_test?")
    good = seen.sources == seen.sources_expected
    detail = f"built from {seen.sources[:12]}"
    advice = f", these sources are {seen.sources_expected[:12]}: ./dev build, and unset UVHTTP_BENCH_SERVER"
    return Check(SOURCES, good, detail if good else f"{detail}{advice}")


def _differences(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
    return ", ".join(f"{name} {b.get(name, 'default')!r} instead of {a.get(name, 'default')!r}" for name in names)


def _settings(seen: Identity) -> Check:
    wrong = _differences(seen.settings_expected, seen.settings_before)
    if wrong:
        return Check(SETTINGS, False, f"the server uses {wrong}: unset the UVHTTP_ variables that say so")
    changed = _differences(seen.settings_before, seen.settings_after)
    if changed:
        return Check(SETTINGS, False, f"changed during the run: {changed}: send no SIGHUP to a server under test")
    return Check(SETTINGS, True, f"{len(seen.settings_before)} as asked for, the others are the defaults")


def _unknown(variables: Mapping[str, str], expected: Mapping[str, str], ours: bool) -> Iterable[str]:
    for name, value in variables.items():
        if HARMLESS.match(name) or expected.get(name) == value or (not ours and name.startswith("UVHTTP_")):
            continue
        yield name


def _variables(seen: Identity) -> Check:
    found = {
        *_unknown(seen.variables, seen.variables_permitted, seen.ours),
        *_unknown(seen.variables_of_harness, seen.variables_permitted, seen.ours),
    }
    found |= {name for name in seen.variables_permitted if name == "LD_PRELOAD" and name not in seen.variables}
    if found:
        return Check(VARIABLES, False, f"{', '.join(sorted(found))}: changes what is measured: unset it")
    return Check(VARIABLES, True, "no variable that changes figures")


def checks(seen: Identity) -> list[Check]:
    """Of what was recorded; none of a record that has nothing (schema version 1)."""
    if not seen.harness:
        return []
    found = [_program(seen), _variables(seen)]
    if seen.ours and seen.sources_expected:
        found += [_sources(seen), _settings(seen)]
    return found
