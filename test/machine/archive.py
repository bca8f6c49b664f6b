"""Owns: the initramfs of the guest: the programs and the Python of this machine, with the libraries that they need."""
import gzip
import os
import pathlib
import re
import stat
import subprocess
import sys
import sysconfig
import tempfile

# Of Python's own modules and of packages: what no test imports.
LEFT_OUT = re.compile(r"site-packages|dist-packages|test|idlelib|tkinter|ensurepip|lib2to3|config-3.*|pip|setuptools|pkg_resources")
PYTHON = os.path.realpath(sys.executable)
ELF = b"\x7fELF"


class Archive:
    """A cpio archive (newc), which is what an initramfs is."""

    def __init__(self, path):
        self.out = gzip.open(path, "wb", compresslevel=1)
        self.seen = set()

    def _entry(self, name, mode, data=b"", device=(0, 0), time=0):
        self.seen.add(name)
        encoded = name.encode() + b"\0"
        fields = (len(self.seen), mode, 0, 0, 1, time, len(data), 0, 0, *device, len(encoded), 0)
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + encoded, data):
            self.out.write(part + bytes(-len(part) % 4))

    def directory(self, name):
        name = name.strip("/")
        if not name or name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o755, time=0):
        name = name.strip("/")
        if name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data, time=time)

    def device(self, name, major, minor):
        self.directory(os.path.dirname(name))
        self._entry(name.strip("/"), stat.S_IFCHR | 0o600, device=(major, minor))

    def copy(self, path, name=None):
        """A file, or a folder with all that is in it, by its own name; links become what they lead to. The time of a module is that
        which its compiled form has noted."""
        path = pathlib.Path(path)
        name = str(name or path)
        if not path.is_dir():
            status = path.stat()
            self.file(name, path.read_bytes(), stat.S_IMODE(status.st_mode), int(status.st_mtime))
            return
        for child in sorted(path.iterdir()):
            if not LEFT_OUT.fullmatch(child.name):
                self.copy(child, f"{name}/{child.name}")

    def program(self, path, name=None):
        """With its libraries, and without what debuggers read."""
        path = pathlib.Path(path)
        self.file(str(name or path), stripped(path))
        for library in libraries(path):
            self.copy(library)

    def python(self, site):
        """The one that runs this, with the packages of the folder `site` in /site."""
        self.program(PYTHON)
        standard = pathlib.Path(sysconfig.get_path("stdlib"))
        self.copy(standard)
        for module in standard.glob("lib-dynload/*.so"):
            for library in libraries(module):
                self.copy(library)
        self.copy(site, "/site")

    def close(self):
        self._entry("TRAILER!!!", 0)
        self.out.close()


def libraries(path):
    shown = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", shown)


def stripped(path):
    if path.read_bytes()[:4] != ELF:
        return path.read_bytes()
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "--strip-debug", "-o", file.name, str(path)], check=True)
        return pathlib.Path(file.name).read_bytes()
