"""Owns: the public headers as data: the functions, structs and enumerators that a program sees, read by clang, and a library of
empty functions that has the same types in its debug information."""
import dataclasses
import functools
import json
import pathlib
import re
import subprocess

OURS = re.compile(r"uvhttp_[a-z]|UVHTTP_[A-Z]")
LAST = "#include <uvhttp.h>\n"
MARKER = re.compile(r'^# \d+ "(.*?)"')
STANDARD = ("#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>")


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    type: str


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple[Parameter, ...]
    variadic: bool


@dataclasses.dataclass(frozen=True)
class Struct:
    tag: str  # the name, with "_s" at the end where a function has the name
    name: str
    fields: tuple[Parameter, ...]


@dataclasses.dataclass
class Interface:
    functions: dict[str, Function] = dataclasses.field(default_factory=dict)  # that the library exports
    inlines: dict[str, Function] = dataclasses.field(default_factory=dict)  # that stand in a header
    objects: dict[str, str] = dataclasses.field(default_factory=dict)  # exported: {name: type}
    structs: dict[str, Struct] = dataclasses.field(default_factory=dict)  # that are complete
    callbacks: dict[str, str] = dataclasses.field(default_factory=dict)  # typedefs of functions: {name: type}
    enums: list[str] = dataclasses.field(default_factory=list)  # typedefs of enums
    enumerators: dict[str, int] = dataclasses.field(default_factory=dict)


def spelled(node):
    return node["type"]["qualType"]


def parameters_of(node):
    return tuple(Parameter(one.get("name", ""), spelled(one)) for one in node.get("inner", []) if one["kind"] == "ParmVarDecl")


def read_function(node):
    kind = spelled(node)
    return Function(node["name"], kind[: kind.index("(")].strip(), parameters_of(node), kind.rstrip(")").endswith("..."))


def constant(node):
    """The value that is written behind an enumerator, or None."""
    for one in node.get("inner", []):
        if one["kind"] == "ConstantExpr":
            return int(one["value"])
    return None


def add_enum(interface, node):
    following = 0
    for one in node.get("inner", []):
        if one["kind"] == "EnumConstantDecl":
            value = constant(one)
            interface.enumerators[one["name"]] = following if value is None else value
            following = interface.enumerators[one["name"]] + 1


def add_typedef(interface, node):
    meant = json.dumps(node.get("inner", []))
    if '"FunctionProtoType"' in meant:
        interface.callbacks[node["name"]] = spelled(node)
    elif spelled(node).startswith("enum "):
        interface.enums.append(node["name"])


def add(interface, node):
    kind, name = node["kind"], node.get("name", "")
    if kind == "EnumDecl" and any(OURS.match(one.get("name", "")) for one in node.get("inner", [])):
        add_enum(interface, node)
    if not OURS.match(name):
        return
    if kind == "FunctionDecl":
        (interface.inlines if node.get("storageClass") == "static" else interface.functions)[name] = read_function(node)
    elif kind == "VarDecl":
        interface.objects[name] = spelled(node)
    elif kind == "RecordDecl" and node.get("completeDefinition"):
        fields = (one for one in node.get("inner", []) if one["kind"] == "FieldDecl")
        plain = name.removesuffix("_s")
        interface.structs[plain] = Struct(name, plain, tuple(Parameter(one.get("name", ""), spelled(one)) for one in fields))
    elif kind == "TypedefDecl":
        add_typedef(interface, node)


@functools.lru_cache
def parse(text):
    """The interface of a C text that clang can compile by itself."""
    command = ["clang", "-x", "c", "-std=c17", "-fsyntax-only", "-Xclang", "-ast-dump=json", "-"]
    output = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    interface = Interface()
    for node in json.loads(output)["inner"]:
        add(interface, node)
    return interface


def preprocessed(folders):
    """What a program sees that includes all headers of these folders, in one text that needs only the C library."""
    command = ["clang", "-x", "c", "-std=c17", "-E", *(f"-I{folder}" for folder in folders), "-"]
    output = subprocess.run(command, input=LAST, check=True, capture_output=True, text=True).stdout
    version = [line for folder in folders for line in version_lines(pathlib.Path(folder))]
    lines, ours = [*version, *STANDARD], False
    for line in output.splitlines():
        marker = MARKER.match(line)
        if marker:
            ours = any(marker[1].startswith(f"{folder}/") for folder in folders)
        elif ours and line.strip():
            lines.append(line)
    return "\n".join(lines) + "\n"


def version_lines(folder):
    path = folder / "uvhttp/version.h"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines() if line.startswith("#define UVHTTP_VERSION ")]


def stub_text(text):
    """A C text with all functions of an interface, empty, and an object of each type that no function may mention."""
    interface = parse(text)
    lines = [re.sub(r"^static inline ", "static inline __attribute__((unused)) ", text, flags=re.M)]
    for one in sorted(interface.functions.values(), key=lambda one: one.name):
        parameters = [f"__typeof__({parameter.type}) p{at}" for at, parameter in enumerate(one.parameters)]
        parameters += ["..."] if one.variadic else []
        lines.append(f"__typeof__({one.result}) {one.name}({', '.join(parameters) or 'void'}) {{ __builtin_trap(); }}")
    lines += [f"__typeof__({kind}) {name};" for name, kind in sorted(interface.objects.items())]
    lines += [f"struct {one.tag} struct_{name};" for name, one in sorted(interface.structs.items())]
    lines += [f"{name} *typedef_{name};" for name in sorted([*interface.callbacks, *interface.enums])]
    return "\n".join(lines) + "\n"


def build_stub(text, directory, soname):
    """Compiles the stub of preprocessed headers into a library with debug information; its path."""
    source = pathlib.Path(directory) / "stub.c"
    source.write_text(stub_text(text), encoding="utf-8")
    library = source.with_name("libuvhttp.so")
    command = ["cc", "-std=gnu17", "-g", "-w", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library
