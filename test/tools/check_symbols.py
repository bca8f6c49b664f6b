#!/usr/bin/env python3
"""Owns: the check that layers hold for symbols too: check_symbols.py BUILD_DIR, after the build.

Includes do not show everything. A header may declare what another folder implements, and a caller of it reaches a folder
that it may not include. A struct may be named by a forward declaration where its header may not be included. nm says where
a symbol is defined, and who uses it."""
import collections
import pathlib
import re
import subprocess
import sys

from check_layering import LAYERS, read_layers
from graph import cycles
from source_text import ROOT, c_files, code_lines, report

OBJECTS = "CMakeFiles/uvhttp_objects.dir/src"
OURS = re.compile(r"uvhttp_\w+")
FUNCTION = re.compile(r"\b(uvhttp_\w+)\s*\(")
OBJECT = re.compile(r"\b(uvhttp_\w+)\s*(?:\[[^]]*\])*$")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\b[A-Z][A-Z_]+\s*\([\d, ]*\)")
STRUCT = re.compile(r"\b(?:struct|union)\s+(uvhttp__\w+)\b\s*(\{?)")


def statements(text):
    """What stands at file level in a C file and ends with ';', each in one line. Bodies are replaced by {}; those of
    functions end a statement and are left out with it."""
    lines, macro = [], False
    for line in code_lines(text):
        directive = macro or line.lstrip().startswith("#")
        macro = directive and line.rstrip().endswith("\\")
        if not directive:
            lines.append(line)
    depth, statement, is_function = 0, "", False
    for c in re.sub(r'extern\s*""\s*\{', " ", "\n".join(lines)):
        if c == "{":
            if depth == 0:
                is_function = statement.rstrip().endswith(")")
                statement += "{}"
            depth += 1
        elif c == "}":
            depth = max(depth - 1, 0)
            if depth == 0 and is_function:
                statement, is_function = "", False
        elif depth == 0 and c == ";":
            yield " ".join(statement.split())
            statement = ""
        elif depth == 0:
            statement += c


def declared(text):
    """Names of the functions and objects that a C file declares without defining them."""
    names = set()
    for statement in statements(text):
        plain = ATTRIBUTE.sub("", statement)
        if "{}" in plain or plain.startswith(("typedef ", "static ", "static_assert", "_Static_assert")):
            continue
        found = FUNCTION.search(plain) or (plain.startswith("extern ") and OBJECT.search(plain))
        if found:
            names.add(found[1])
    return names


def read_objects(directory):
    """{source below src/: (defined, undefined)}: the global symbols of each object that are ours."""
    objects = {}
    for path in sorted(directory.rglob("*.o")):
        source = path.relative_to(directory).as_posix().removesuffix(".o")
        if not (ROOT / "src" / source).exists():
            continue  # of a build before the file was moved
        output = subprocess.run(["nm", "-g", "-P", str(path)], check=True, capture_output=True, text=True).stdout
        symbols = [line.split()[:2] for line in output.splitlines() if OURS.match(line)]
        defined = {name for name, kind in symbols if kind not in "Uw"}
        objects[source] = (defined, {name for name, _ in symbols} - defined)
    return objects


def folder_of(source):
    return source.split("/")[0]


class Symbols:
    """files: (path, text) of src/ and include/; objects: what read_objects returns."""

    def __init__(self, layers, files, objects):
        self.layers = layers
        self.objects = objects
        self.owner = {name: source for source, (defined, _) in objects.items() for name in defined}
        self.declarations = collections.defaultdict(list)
        self.structs = {}
        self.named = []
        for path, text in files:
            for name in declared(text):
                self.declarations[name].append(path)
            for name, brace in STRUCT.findall("\n".join(code_lines(text))):
                if brace:
                    self.structs.setdefault(name, path)
                self.named.append((name, path))

    def check_declarations(self):
        """A symbol is declared in a header of the folder that defines it, or in a public one which that folder implements."""
        implemented = collections.defaultdict(set)
        for name, source in sorted(self.owner.items()):
            folder = folder_of(source)
            headers = [path for path in self.declarations[name] if path.endswith(".h")]
            if not headers:
                yield f"src/{source}: {name} is global, but no header declares it: make it static, or declare it"
            for path in headers:
                header = path.split("/")[-1]
                if path.startswith("include/"):
                    implemented[header].add(folder)
                    allowed = self.layers.implementers.get(header, {self.layers.headers.get(header)})
                else:
                    allowed = {path.split("/")[1]}
                if folder not in allowed:
                    yield f"{path}: {name} is declared here, but implemented in src/{source}: move one of them"
        for header, folders in sorted(self.layers.implementers.items()):
            if not implemented[header]:
                continue  # a feature that this build does not have
            for folder in sorted(folders - implemented[header] - {self.layers.headers[header]}):
                yield f"test/tools/layers.txt: {folder} implements nothing of {header}: drop it from the line"
        for name, paths in sorted(self.declarations.items()):
            for path in paths:
                if path.endswith(".c"):
                    yield f"{path}: {name} is declared here: include its header"

    def check_uses(self):
        """Who uses a symbol may include the folder that defines it; for a public one, (folder) is enough."""
        for source, (_, undefined) in self.objects.items():
            for name in sorted(undefined & set(self.owner)):
                folder, target = folder_of(source), folder_of(self.owner[name])
                public = not name.startswith("uvhttp__") and f"({target})" in self.layers.folders[folder]
                if not public and not self.layers.allowed(folder, target):
                    yield f"src/{source}: {name} is of src/{self.owner[name]}, and {folder}/ may not include {target}/"

    def check_structs(self):
        """Who names a struct of the library may include the folder that defines it."""
        for name, path in sorted(set(self.named)):
            home = self.structs.get(name, path)
            folder, target = (p.split("/")[1] for p in (path, home))
            if path.startswith("src/") and not self.layers.allowed(folder, target):
                yield f"{path}: struct {name} is of {home}, and {folder}/ may not include {target}/"

    def check_cycles(self):
        """Files of which each uses symbols of the next are one unit, whatever their number."""
        uses = {
            source: {self.owner[name] for name in undefined if name in self.owner} for source, (_, undefined) in self.objects.items()
        }
        for cycle in cycles(uses):
            yield f"cycle of files: {' '.join(sorted(cycle))}: move what they share to a file below them, or return to the caller"

    def problems(self):
        for check in (self.check_declarations, self.check_uses, self.check_structs, self.check_cycles):
            yield from check()


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_symbols.py BUILD_DIR")
    layers = read_layers(LAYERS.read_text(encoding="utf-8"))
    objects = read_objects(pathlib.Path(sys.argv[1]) / OBJECTS)
    files = [(path, text) for path, text in c_files(ROOT, "src", "include") if path.endswith((".c", ".h"))]
    if not objects:
        sys.exit(f"{sys.argv[1]}: no objects of the library: build it first")
    return report("symbols", list(Symbols(layers, files, objects).problems()))


if __name__ == "__main__":
    sys.exit(main())
