"""Owns: compiling a changed source next to a build, and linking a program of the build with it in front of the library. The
build and the tree stay as they are."""
import json
import os
import re
import shlex
import subprocess
import sys

from source_text import ROOT

CACHE = "ccache"  # each change is compiled once: nothing is gained by keeping it


class Objects:
    """A build directory, made by make."""

    def __init__(self, folder):
        self.folder = folder
        if not (folder / "CMakeCache.txt").exists():
            sys.exit(f"{folder} is no build: ./dev test build makes build/, ./dev test asan makes build/asan")
        subprocess.run(["cmake", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", folder], check=True, stdout=subprocess.DEVNULL)
        entries = json.loads((folder / "compile_commands.json").read_text())
        self.commands = {os.path.relpath(entry["file"], ROOT): entry for entry in entries if "/test/sim/" not in entry["command"]}

    def compile(self, path, source, target, includes=()):
        """Whether it compiles; warnings do not count. Headers are taken from `includes` first."""
        entry = self.commands[path]
        words = [word for word in shlex.split(entry["command"]) if os.path.basename(word) != CACHE]
        output = words.index("-o")
        del words[output : output + 2]
        words = [word for word in words if word not in ("-c", entry["file"]) and not re.match(r"-Werror|-M[DTF]?", word)]
        for include in includes:
            words[1:1] = ["-I", str(include)]
        words += ["-w", "-g0", "-iquote", str((ROOT / path).parent), "-c", source.name, "-o", target.name]
        # Object code may have the name of its source in it: it is the same for all.
        return subprocess.run(words, cwd=target.parent, stderr=subprocess.DEVNULL).returncode == 0

    def link(self, directory, changed, target):
        """The program whose link.txt is in `directory` of the build, with `changed` objects first."""
        file = self.folder / directory / "link.txt"
        words = shlex.split(file.read_text())
        output = words.index("-o")
        words[output : output + 2] = [*map(str, changed), "-o", str(target)]
        subprocess.run(words, cwd=file.parents[2], check=True)
