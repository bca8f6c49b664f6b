"""Owns: the list of servers that `peers` compares."""

from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.exits import UsageError
from uvhttp_bench.targets.actix import Actix
from uvhttp_bench.targets.axum import Axum
from uvhttp_bench.targets.base import Target
from uvhttp_bench.targets.bun import Bun
from uvhttp_bench.targets.civetweb import Civetweb
from uvhttp_bench.targets.fasthttp import Fasthttp
from uvhttp_bench.targets.go import Go
from uvhttp_bench.targets.h2o import H2o
from uvhttp_bench.targets.hyper import Hyper
from uvhttp_bench.targets.libevent import Libevent
from uvhttp_bench.targets.libh2o import Libh2o
from uvhttp_bench.targets.libwebsockets import Libwebsockets
from uvhttp_bench.targets.lighttpd import Lighttpd
from uvhttp_bench.targets.limits import all_limits
from uvhttp_bench.targets.may_minihttp import MayMinihttp
from uvhttp_bench.targets.microhttpd import Microhttpd
from uvhttp_bench.targets.nghttpd import Nghttpd
from uvhttp_bench.targets.nginx import Nginx
from uvhttp_bench.targets.node import Node
from uvhttp_bench.targets.picohttpparser import Picohttpparser
from uvhttp_bench.targets.tomcat import WARMUP_SECONDS, Tomcat
from uvhttp_bench.targets.uvhttp import Uvhttp
from uvhttp_bench.targets.uwebsockets import Uwebsockets

OURS = ("uvhttp-uring", "uvhttp-libuv")
COPYING = tuple(f"{name}-copy" for name in OURS)  # zero-copy off; measured when named


def known(server: Path | None = None, jvm_warmup_seconds: float = WARMUP_SECONDS) -> dict[str, Target]:
    ours: list[Target] = [
        Uvhttp(engine, program=server, name=name, sendfile=name in OURS)
        for names in (OURS, COPYING)
        for name, engine in zip(names, ("uring", "epoll"), strict=True)
    ]
    others: list[Target] = [
        Nginx(), H2o(), Libh2o(), Nghttpd(), Lighttpd(), Microhttpd(), Civetweb(), Libevent(), Libwebsockets(), Tomcat(warmup_seconds=jvm_warmup_seconds), Go(), Fasthttp(), Node(), Bun(),
        Hyper(), Axum(), Actix(), MayMinihttp(), Uwebsockets(), Picohttpparser(), *all_limits(),
    ]  # fmt: skip
    return {target.name: target for target in ours + others}


def choose(names: Sequence[str], server: Path | None = None, jvm_warmup_seconds: float = WARMUP_SECONDS) -> list[Target]:
    """In the order of the list; ours are always among them, because the others are measured against them."""
    targets = known(server, jvm_warmup_seconds)
    for name in names:
        if name not in targets:
            raise UsageError(f"no server {name!r}: known are {', '.join(targets)}")
    wanted = set(names) or targets.keys() - COPYING
    return [target for name, target in targets.items() if name in wanted or name == OURS[0]]
