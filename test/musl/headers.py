"""Owns: which headers of this machine a compiler for musl may see: those of the kernel, which are the same for each C library, and those of
libraries. What has a name of musl's own is musl's."""
import pathlib

SYSTEM = pathlib.Path("/usr/include")
TRIPLET = SYSTEM / "x86_64-linux-gnu"
KERNEL_HEADERS = {"linux": SYSTEM / "linux", "asm-generic": SYSTEM / "asm-generic", "asm": TRIPLET / "asm"}
LIBRARY_HEADERS = {
    name: SYSTEM / name
    for name in ("brotli", "hiredis", "liburing", "liburing.h", "mimalloc.h", "uv", "uv.h", "xxhash.h", "yaml.h", "zconf.h", "zlib.h")
}
OPENSSL_HEADERS = {f"openssl/{path.name}": path for place in (SYSTEM, TRIPLET) for path in sorted(place.glob("openssl/*.h"))}


def lead_to_headers(directory, headers):
    """Links in `directory`, by name."""
    for name, path in headers.items():
        link = directory / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
