"""Owns: what runs on which kernel. A release of Debian has one kernel for virtual machines, whose version names the job."""
import dataclasses

# Those that make system calls; the others compute alone, and a kernel changes nothing for them.
FOLDERS = ("client", "conn", "exchange", "exec", "handler", "io", "obs", "protocol", "server", "tls", "trace")
COMPUTE_ALONE = ("test_exhaustive_*", "test_static_rules")
# About what users do, and about what is left to the kernel. "backend" is of the guest alone: test/machine/test_backend.py.
FILES = ("backend", "client", "deferred", "drain", "engines", "framing", "http2", "http2_tls", "limits", "listen", "requests", "responses",
         "static", "stream_upload", "threads", "timeouts", "tls", "tls_bodies", "upgrade", "websocket", "websocket_topics", "worker")  # fmt: skip
# What these files start, in the folder of a build.
PROGRAMS = ("dist/bin/embed_in_uv_loop", "dist/bin/gateway", "dist/bin/https", "dist/bin/performance_test", "dist/bin/stream_upload",
            "dist/bin/uvhttp", "dist/bin/websocket_echo", "test/bin/http_test_server", "test/bin/pattern_server", "test/bin/static_test_server",
            "test/bin/verify_client", "test/bin/websocket_test_server", "test/bin/without_io_uring")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Job:
    suite: str  # of Debian, whose kernel it is
    engines: tuple[str, ...]
    automatic: str  # the backend that `auto` has to choose there
    files: tuple[str, ...] = FILES
    folders: tuple[str, ...] = FOLDERS
    kernel_tls: bool = False  # with the kernel's TLS, which has to be used


JOBS = {
    "6.1": Job("bookworm", ("uring",), "io_uring"),
    "5.10": Job("bullseye", ("epoll",), "epoll"),
    "ktls": Job("bookworm", ("uring", "epoll"), "io_uring", ("tls_kernel", "tls_bodies"), ("tls",), kernel_tls=True),
}


def unit_tests(sources, chosen):
    """The names of the programs of test/unit/<folder>/test_<topic>.c, for "<folder>" and "<folder>/<topic>"; `sources` are paths of all."""
    names = []
    for path in sorted(sources):
        folder, topic = path.parent.name, path.stem.removeprefix("test_")
        if f"{folder}/{topic}" in chosen or (folder in chosen and not any(path.match(f"{name}.c") for name in COMPUTE_ALONE)):
            names.append(f"test_{folder}_{topic}")
    return names
