"""Owns: what every server of a comparison is given: files of known sizes and one certificate."""

import hashlib
import subprocess
from pathlib import Path

from uvhttp_bench.exits import BenchError, MissingError
from uvhttp_bench.targets.adapter import program

FILE_SIZES = {"10kb.bin": 10 << 10, "100kb.bin": 100 << 10, "1mb.bin": 1 << 20}


def make(directory: Path) -> None:
    """static/ with a file of each size and hello.txt, certificate.pem and key.pem (P-256, self-signed)."""
    if not program("openssl"):
        raise MissingError("openssl is not installed: apt-get install openssl")
    static = directory / "static"
    static.mkdir()
    for name, size in FILE_SIZES.items():
        block = hashlib.sha256(name.encode()).digest() * 2048
        (static / name).write_bytes((block * (size // len(block) + 1))[:size])
    (directory / "hello.txt").write_bytes(b"Hello, World!")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem")]
    run = subprocess.run(["openssl", "req", "-x509", *kind, *files], capture_output=True, text=True)
    if run.returncode != 0:
        raise BenchError(f"openssl can not make a certificate: {run.stderr.strip().splitlines()[-1:]}")
    (directory / "both.pem").write_text((directory / "key.pem").read_text() + (directory / "certificate.pem").read_text())
