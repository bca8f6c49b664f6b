"""Owns: nginx and haproxy in front of a server."""
import contextlib
import shutil
import signal
import subprocess

import pytest

from harness import HOST, START_SECONDS, STOP_SECONDS, free_port, poll
from neutral import Http1

NGINX = """
daemon off; master_process off; error_log stderr; pid %(folder)s/nginx.pid;
events { worker_connections 300; }
http {
    access_log off; client_max_body_size 10m;
    client_body_temp_path %(folder)s/b; proxy_temp_path %(folder)s/p; fastcgi_temp_path %(folder)s/f;
    uwsgi_temp_path %(folder)s/u; scgi_temp_path %(folder)s/s;
    upstream backend { server %(backend)s; keepalive 8; }
    server {
        listen %(listen)s http2;
        location / { %(options)s }
    }
}
"""

HAPROXY = """
global
    log stderr format raw local0 warning
defaults
    mode http
    timeout connect 10s
    timeout client 30s
    timeout server 30s
    http-reuse always
frontend front
    bind %(listen)s %(bind)s
    default_backend back
backend back
    %(check)s
    server one %(backend)s %(options)s
"""

CHECK = """option httpchk
    http-check send meth GET uri / hdr Host test"""


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def join(address):
    return "%s:%d" % address[:2]


@contextlib.contextmanager
def running(*command, address, log):
    """A program that listens on the address, until the end of the block."""
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def listens():
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            Http1(address).close()
            return True

    try:
        poll(listens, START_SECONDS)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def nginx(backend, folder, options):
    """`options`: how it passes requests on. Its clients speak HTTP/2; gives its address."""
    address, path = (HOST, free_port()), folder / "nginx.conf"
    path.write_text(NGINX % {"folder": folder, "backend": join(backend), "listen": join(address), "options": options})
    with running("nginx", "-c", path, "-p", folder, "-e", "stderr", address=address, log=folder / "nginx.log"):
        yield address


@contextlib.contextmanager
def haproxy(backend, folder, options, bind="", check=""):
    """`options`: how it speaks to the server; `bind`: how its clients speak. Gives its address."""
    address, path = (HOST, free_port()), folder / "haproxy.cfg"
    values = {"backend": join(backend), "listen": join(address), "options": options, "bind": bind, "check": check}
    path.write_text(HAPROXY % values)
    with running("haproxy", "-db", "-f", path, address=address, log=folder / "haproxy.log"):
        yield address
