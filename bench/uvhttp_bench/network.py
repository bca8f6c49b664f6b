"""Owns: the network that servers are measured in: a namespace of this program's own, whose sysctls it sets, where it may; and
what the kernel says about the server's sockets in it.

A namespace belongs to a thread, and to the threads and processes that it starts. Nobody else's traffic is on its loopback, and
nothing outside can be reached: what needs the machine's network (a download, a database) happens in outside()."""

import argparse
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from uvhttp_bench.exits import MissingError

PRIVATE, SHARED = "private", "shared"
# Loopback has no queue to keep short: what paces measures timers. Every kernel has reno and allows it, so that records of
# different machines were made with the same (docs/guide/benchmarking.md).
DEFAULT = "reno"
SYSTEM = "system"  # what the machine uses
CONGESTION_CONTROL = "net.ipv4.tcp_congestion_control"
AVAILABLE = "net.ipv4.tcp_available_congestion_control"
SYSCTLS = {
    "net.core.somaxconn": "4096",  # as many as uvhttp's backlog
    "net.ipv4.tcp_max_syn_backlog": "4096",
    "net.ipv4.tcp_no_metrics_save": "1",  # else the kernel remembers what it learned of 127.0.0.1 from the server before
}
# They stay the machine's. The largest window alone decides how much of a server's sending is done in the client's time, and so
# whom a comparison of large bodies favours: that is not for this program to choose.
RECORDED = (
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_limit_output_bytes", "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.ip_local_port_range",
)  # fmt: skip

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_machine: int | None = None  # descriptor of the machine's namespace while this program is in one of its own


def private() -> bool:
    return _machine is not None


# --- sysctls ---


def _path(name: str) -> Path:
    return Path("/proc/sys", name.replace(".", "/"))


def sysctl(name: str) -> str:
    """Empty where the kernel does not have it."""
    try:
        return " ".join(_path(name).read_text().split())
    except OSError:
        return ""


def _set(name: str, value: str) -> bool:
    """Whether it has the value now."""
    if sysctl(name) != value:
        with contextlib.suppress(OSError):
            _path(name).write_text(value)
    return sysctl(name) == value


def congestion_control() -> str:
    """In force for sockets that choose none."""
    return sysctl(CONGESTION_CONTROL)


def machines_congestion_control() -> str:
    with outside():
        return congestion_control()


def in_force() -> dict[str, str]:
    return {name: sysctl(name) for name in (*SYSCTLS, *RECORDED)}


def different() -> list[str]:
    """Sysctls that have not the value which they should have."""
    return [f"{name} is {sysctl(name) or 'not there'}" for name, value in SYSCTLS.items() if sysctl(name) != value]


def use(name: str) -> None:
    """For the servers that start from now on, and for who loads them."""
    if private():
        _set(CONGESTION_CONTROL, name)
    if congestion_control() == name:
        return
    if not private():
        raise MissingError(
            f"--congestion-control {name}: the machine uses {congestion_control()}, and a network of its own needs root: "
            "unshare --map-root-user uvhttp-bench ..."
        )
    raise MissingError(
        f"--congestion-control {name}: not allowed in a network of its own: "
        f"sysctl -w net.ipv4.tcp_allowed_congestion_control='{sysctl('net.ipv4.tcp_allowed_congestion_control')} {name}'"
    )


# --- the namespace ---


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def _own() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _raise_loopback() -> None:
    get, put, up = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        response = fcntl.ioctl(any_socket, get, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack_from("h", response, 16)[0]
        fcntl.ioctl(any_socket, put, struct.pack("16sh22x", b"lo", flags | up))


@contextlib.contextmanager
def entered() -> Iterator[str]:
    """A namespace of this thread's own until the block ends; or why there is none, and the machine's is used."""
    global _machine
    if private():
        yield ""
        return
    before = _own()
    try:
        try:
            _call("unshare", _CLONE_NEWNET)
        except OSError as error:
            yield f"{error.strerror}; run it as root, or with unshare --map-root-user"
            return
        _machine = before
        try:
            _raise_loopback()
            for name, value in SYSCTLS.items():
                _set(name, value)
            yield ""
        finally:
            _machine = None
            with contextlib.suppress(OSError):  # who is root in a user namespace alone cannot go back
                _call("setns", before, _CLONE_NEWNET)
    finally:
        os.close(before)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """The machine's network for a block. What is opened or started there stays there."""
    if _machine is None:
        yield
        return
    inside = _own()
    try:
        try:
            _call("setns", _machine, _CLONE_NEWNET)
        except OSError:  # root in a user namespace alone
            yield
            return
        try:
            yield
        finally:
            _call("setns", inside, _CLONE_NEWNET)
    finally:
        os.close(inside)


# --- options of a verb ---


def _name(text: str) -> str:
    known = [SYSTEM, *sysctl(AVAILABLE).split()]
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r}: this kernel has {', '.join(known)}")
    return congestion_control() if text == SYSTEM else text


def _one(text: str) -> tuple[str, ...]:
    return (_name(text),)


def _several(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(part.strip()) for part in text.split(",")))


def add_argument(parser: argparse.ArgumentParser, several: bool = False) -> None:
    more = "; several: each in turn, with ratios of its own (default reno, and the machine's as well for large bodies)"
    parser.add_argument(
        "--congestion-control", type=_several if several else _one, default=(), metavar="NAME,..." if several else "NAME",
        help="of TCP, the same for every server: reno, bbr, ... or system, the machine's" + (more if several else " (default reno)"),
    )  # fmt: skip


def always_default(parser: argparse.ArgumentParser) -> None:
    """For a verb that measures and has no choice."""
    parser.set_defaults(congestion_control=())


@contextlib.contextmanager
def of(args: argparse.Namespace) -> Iterator[None]:
    """The network that a verb asked for; a verb that measures nothing asked for none."""
    asked: Sequence[str] | None = getattr(args, "congestion_control", None)
    if asked is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        if getattr(args, "scheduler", None):
            why = "workers of other machines have to reach the server"
        else:
            why = stack.enter_context(entered())
        for name in (*asked[1:], *asked[:1]):  # what cannot be used is reported before anything takes time
            use(name)
        if private() and not asked:
            _set(CONGESTION_CONTROL, DEFAULT)
        line = warning(why)
        if line:
            print(f"uvhttp-bench {args.verb}: {line}", file=sys.stderr)
        yield


def warning(why_shared: str) -> str:
    """What is not as it should be, in a line; empty: nothing."""
    if why_shared:
        return f"in the machine's network, with its {congestion_control()} and its sysctls: {why_shared}"
    wrong = different()
    return f"could not be set in a network of its own: {'; '.join(wrong)}" if wrong else ""


# --- what the server's sockets use ---

_SOCK_DIAG, _BY_FAMILY = 4, 20  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_CONG = 4  # INET_DIAG_CONG
_ESTABLISHED = 1 << 1
_MESSAGE_BYTES = 72  # struct inet_diag_msg


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:size]
        data = data[(size + 3) & ~3 :]


def _dump(diag: socket.socket, family: int, port: int) -> Iterator[bytes]:
    """The message of each established socket of a local port."""
    who = struct.pack(">HH32x", port, 0) + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    request = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 1 << (_CONG - 1), _ESTABLISHED) + who
    diag.sendto(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request, (0, 0))
    while True:
        data = diag.recv(1 << 18)
        while data:
            size, kind = struct.unpack_from("=IH", data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", data, 16)[0], "sock_diag")
            yield data[16:size]
            data = data[(size + 3) & ~3 :]


def congestion_controls(port: int) -> set[str]:
    """Of the established sockets of a local port (0: of all), as the kernel has them; empty: there are none."""
    found: set[str] = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
        diag.settimeout(5)
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in _dump(diag, family, port):
                found |= {
                    value.rstrip(b"\0").decode() for kind, value in _attributes(message[_MESSAGE_BYTES:]) if kind == _CONG
                }
    return found


class Observer:
    """`with Observer(port) as seen: ...load...`: then seen.names are those that the sockets of the port had in its course."""

    FIRST_SECONDS, EVERY_SECONDS = 0.03, 0.2

    def __init__(self, port: int) -> None:
        self._port = port
        self.names: set[str] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        wait = self.FIRST_SECONDS
        while not self._done.wait(wait):
            try:
                found = congestion_controls(self._port)
            except OSError:  # a kernel without it; that nothing was seen is what the check says
                return
            self.names |= found
            wait = self.EVERY_SECONDS if found else self.FIRST_SECONDS

    def __enter__(self) -> "Observer":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._thread.join()
