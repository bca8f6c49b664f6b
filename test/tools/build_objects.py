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
    """A build directory of a preset: the commands are those of Ninja."""

    def __init__(self, folder):
        self.folder = folder
        if not (folder / "CMakeCache.txt").exists():
            sys.exit(f"{folder} is no build: ./dev test build makes build/, ./dev test asan makes build/asan")
        if not (folder / "build.ninja").exists():
            sys.exit(f"{folder} was not made by Ninja, as those of the presets are")
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

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.folder, "--quiet", "-t", *arguments], check=True, capture_output=True, text=True).stdout

    def users_of(self, header):
        """The sources of the library that include it, as the compiler has noted."""
        source = None
        for line in self.ninja("deps").splitlines():
            if not line.startswith(" "):
                found = re.match(r"CMakeFiles/uvhttp_objects\.dir/(.*)\.o: ", line)
                source = found and found[1]
            elif source and line.endswith(f"/{header}"):
                yield source

    def link(self, program, changed, target):
        """A program of test/bin, with `changed` objects first."""
        words = shlex.split(self.ninja("commands", "-s", f"test/bin/{program}"))
        words = words[words.index("&&") + 1 :]  # ": && the command && :"
        words = words[: words.index("&&")]
        output = words.index("-o")
        words[output : output + 2] = [*map(str, changed), "-o", str(target)]
        subprocess.run(words, cwd=self.folder, check=True)
