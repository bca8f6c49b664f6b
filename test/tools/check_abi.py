#!/usr/bin/env python3
"""Owns: the check that programs stay able to run with later releases: check_abi.py [BUILD_DIR]. test/abi/ has what it compares with.

Structs that cross the boundary can grow, or never will: opaque ones, those that pass with their size, and those of
test/abi/frozen.txt. Numbers of enumerators do not change: test/abi/enumerators.txt. Types and functions of the last release
are still those: abidiff, against test/abi/released.i, unless the soname has changed since. Then docs/migration.md names what a
program has to change. With BUILD_DIR: what the shared library exports is what the headers declare.

released.sha256 is the SHA-256 of released.i.

check_abi.py --update writes the list of enumerators again. check_abi.py --release makes the present headers those of the last
release. check_abi.py --report prints what has changed since."""
import argparse
import hashlib
import pathlib
import re
import subprocess
import tempfile

import public_headers
from source_text import ROOT, report

KEPT = ROOT / "test/abi"
MIGRATION = ROOT / "docs/migration.md"
SIZED_TEST = ROOT / "test/unit/server/test_sized.c"
POINTER = re.compile(r"^(const )?(?:struct )?(uvhttp_\w+?)(?:_[st])? \*$")
VALUE = re.compile(r"^(?:const )?(?:struct )?(uvhttp_\w+?)(?:_[st])?$")
IN_CALLBACK = re.compile(r"(?:const )?(?:struct )?(uvhttp_\w+?)(?:_[st])?(?= ?\*?[,)])")
ABIDIFF_TROUBLE = 1 | 2  # in its exit code: it could not compare


def abi_version(text):
    """What a program is bound to, of a text that defines UVHTTP_VERSION."""
    major, minor, _ = re.search(r'UVHTTP_VERSION "([\d.]+)"', text)[1].split(".")
    return f"0.{minor}" if major == "0" else major


def read_frozen(text):
    """{struct: why it can stay as it is}"""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


# --- structs ---


def has_size(struct):
    return bool(struct.fields) and struct.fields[0].name == "struct_size"


def check_parameters(interface, function, growing):
    """Growing structs come as a pointer that the struct's size follows."""
    sizes = {one.name for one in function.parameters if one.type == "size_t"}
    for one in function.parameters:
        value, pointer = VALUE.match(one.type), POINTER.match(one.type)
        if value and value[1] in growing:
            yield f"{function.name}: {one.name} is passed by value, so struct {value[1]} can never grow: pass a pointer and its size"
        if not pointer or pointer[2] not in growing:
            continue
        wanted = [one.name + "_size"] + [field.name + "_size" for field in nested(interface, pointer[2], growing)]
        for name in wanted:
            if name not in sizes:
                yield f"{function.name}: there is no size_t {name}: the library cannot know the size of the program's struct {pointer[2]}"
    result = VALUE.match(function.result)
    if result and result[1] in growing:
        yield f"{function.name}: returns struct {result[1]} by value, which can never grow then"


def nested(interface, name, growing):
    """The fields of a struct that point to another one that grows."""
    for field in interface.structs[name].fields:
        pointer = POINTER.match(field.type)
        if pointer and pointer[2] in growing:
            yield field


def check_embedded(interface, growing):
    for struct in interface.structs.values():
        for field in struct.fields:
            value = VALUE.match(field.type)
            if value and value[1] in growing:
                yield f"struct {struct.name}: {field.name} is a struct {value[1]}: what follows it would move when that grows"


def check_callbacks(interface, growing):
    """A callback gets a growing struct of the library's as a pointer: it reads the fields that it knows."""
    types = dict(interface.callbacks)
    for struct in interface.structs.values():
        types.update({f"{struct.name}.{field.name}": field.type for field in struct.fields if "(*)" in field.type})
    for function in interface.functions.values():
        types.update({f"{function.name}: {one.name}": one.type for one in function.parameters if "(*)" in one.type})
    for where, kind in sorted(types.items()):
        for found in IN_CALLBACK.finditer(kind):
            if found[1] in growing and "*" not in kind[found.end() : found.end() + 2]:
                yield f"{where}: a callback gets struct {found[1]} by value, so that it can never grow: pass a pointer"


def check_structs(interface, frozen):
    known = set(interface.structs)
    for name in sorted(set(frozen) - known):
        yield f"test/abi/frozen.txt: there is no struct {name}"
    for name, reason in sorted(frozen.items()):
        if len(reason) < 20:
            yield f"test/abi/frozen.txt: {name}: say why it never has to grow"
    growing = {name for name in known - set(frozen) if not has_size(interface.structs[name])}
    for function in interface.functions.values():
        yield from check_parameters(interface, function, growing)
    yield from check_embedded(interface, growing)
    yield from check_callbacks(interface, growing)


def check_sized_tests(interface, text):
    for name in sorted(interface.functions):
        if name.endswith("_sized") and not re.search(rf"\b{name}\b", text):
            yield f"{SIZED_TEST.relative_to(ROOT)}: {name} is not tested with the struct of an older program"


# --- enumerators ---


def read_enumerators(text):
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: int(value) for name, value in pairs}


def check_enumerators(kept, present, version):
    """kept: the list, present: the headers."""
    for name, value in kept.items():
        if name not in present:
            yield f"{name} ({value}) is gone: programs of ABI {version} may use it"
        elif present[name] != value:
            yield f"{name} is {present[name]}, and was {value} in ABI {version}: append new enumerators, and give this one its value"
    for name in sorted(set(present) - set(kept)):
        yield f"{name} is new: add it to the list by test/tools/check_abi.py --update"


# --- types and functions ---


def definition(text, tag):
    """Where the body of a struct is in a C text: (behind its '{', at its '}')."""
    begin = end = text.index("{", text.index(f"struct {tag} {{")) + 1
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return begin, end - 1


def without_growth(before, after, growing):
    """The text `after` without the fields that were appended to growing structs since `before`."""
    old, new = public_headers.parse(before).structs, public_headers.parse(after).structs
    for name in sorted(growing & set(old) & set(new)):
        kept, present = old[name].fields, new[name].fields
        if len(present) > len(kept) and present[: len(kept)] == kept:
            begin, end = definition(after, new[name].tag)
            body = slice(*definition(before, old[name].tag))
            after = after[:begin] + before[body] + after[end:]
    return after


def run_abidiff(before, after):
    """Its exit code and report. Functions may be added."""
    command = ["abidiff", "--no-show-locs", "--no-added-syms", str(before), str(after)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def compare(before, after, growing, soname):
    """abidiff's exit code and report for two texts of headers."""
    with tempfile.TemporaryDirectory() as directory:
        libraries = []
        for name, text in (("before", before), ("after", without_growth(before, after, growing))):
            place = pathlib.Path(directory) / name
            place.mkdir()
            libraries.append(public_headers.build_stub(text, place, soname))
        return run_abidiff(*libraries)


def check_types(released, present, growing, version):
    code, text = compare(released, present, growing, f"libuvhttp.so.{version}")
    if code:
        yield f"the ABI differs from that of {version}, to which programs are bound: undo it, or raise the version\n{text}"


# --- what a program has to change ---


def plain_type(kind, interface):
    """A type without what two compilers or two names for it differ in."""
    for name, meant in interface.callbacks.items():
        kind = re.sub(rf"\b{name}\b", meant, kind)
    kind = re.sub(r"\(unnamed \w+ at [^)]*\)", "unnamed", kind.replace("_Bool", "bool"))
    return re.sub(r"\b(struct|union|enum) |(?<=\w)_s\b", "", kind)


def names_of(text):
    """All names that are ours in a C text, but for tags."""
    return set(re.findall(r"\b(?:uvhttp|UVHTTP)_\w+", re.sub(r"\b(struct|union|enum) \w+", "", text)))


def source_changes(released, present):
    """(name, what has become of it) of all that a program cannot use as before; of a field (struct, field, what)."""
    old, new = public_headers.parse(released), public_headers.parse(present)
    for name in sorted(names_of(released) - names_of(present)):
        yield (name,), "is gone"
    for name, value in sorted(old.enumerators.items()):
        if new.enumerators.get(name, value) != value:
            yield (name,), f"is {new.enumerators[name]}, and was {value}"
    before, after = ({**one.functions, **one.inlines} for one in (old, new))
    for name in sorted(set(before) & set(after)):
        first, second = (
            [plain_type(kind, interface) for kind in (one[name].result, *(parameter.type for parameter in one[name].parameters))]
            for one, interface in ((before, old), (after, new))
        )
        if first != second:
            yield (name,), "has another type"
    for name in sorted(set(old.structs) & set(new.structs)):
        kept = {(field.name, plain_type(field.type, new)) for field in new.structs[name].fields}
        for field in old.structs[name].fields:
            if (field.name, plain_type(field.type, old)) not in kept:
                yield (name, field.name), "is gone or has another type"


def check_migration(released, present, text):
    """Each change has a name between backticks; of a struct, "members of `name_t`" stands for all of its fields."""
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    for names, what in source_changes(released, present):
        if names[-1] not in named and f"members of `{names[0]}_t`" not in text:
            yield f"{MIGRATION.relative_to(ROOT)} has no row for {'.'.join(names)}: it {what} since the last release"


# --- the library ---


def check_library(build, interface, version):
    library = pathlib.Path(build) / "dist/lib/libuvhttp.so"
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    soname = re.search(r"soname: \[(.*)\]", dynamic)
    if not soname or soname[1] != f"libuvhttp.so.{version}":
        yield f"{library}: the soname is {soname and soname[1]}, not libuvhttp.so.{version}"
    symbols = subprocess.run(["nm", "-D", "--defined-only", "-P", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[0] for line in symbols.splitlines() if line.split()[1] != "A"}
    declared = {f"{name}@@UVHTTP_{version}" for name in [*interface.functions, *interface.objects]}
    for name in sorted(exported - declared):
        yield f"{library} exports {name}, which no public header declares"
    for name in sorted(declared - exported):
        yield f"{library} does not export {name}, which a public header declares"


# --- all ---


def features_folder(directory):
    """The headers of a library with all features, whatever this build has."""
    place = pathlib.Path(directory) / "uvhttp"
    place.mkdir()
    text = (ROOT / "cmake/features.h.in").read_text(encoding="utf-8")
    (place / "features.h").write_text(re.sub(r"@\w+@|\$\{\w+\}", "1", text).replace("#cmakedefine01", "#define"), encoding="utf-8")
    return directory


def update_enumerators(interface):
    """Writes the list. What a release had stays in it as long as programs of that release run: check_enumerators complains then."""
    path = KEPT / "enumerators.txt"
    released = (KEPT / "released.i").read_text(encoding="utf-8")
    version = abi_version((ROOT / "include/uvhttp/version.h").read_text(encoding="utf-8"))
    kept = public_headers.parse(released).enumerators if abi_version(released) == version else {}
    head = "# Owns: the numbers of all enumerators, which programs are compiled with. Written by test/tools/check_abi.py --update.\n"
    lines = sorted({**interface.enumerators, **kept}.items())
    path.write_text(head + "".join(f"{name} {value}\n" for name, value in lines), encoding="utf-8")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest() + "\n"


def check_released(released, kept):
    """Names in the tree are replaced now and then; those of a release are not."""
    if digest(released) != kept:
        yield "test/abi/released.i is not what was released (test/abi/released.sha256): git checkout it"


def problems(arguments, present, interface):
    version_text = (ROOT / "include/uvhttp/version.h").read_text(encoding="utf-8")
    version = abi_version(version_text)
    frozen = read_frozen((KEPT / "frozen.txt").read_text(encoding="utf-8"))
    kept = read_enumerators((KEPT / "enumerators.txt").read_text(encoding="utf-8"))
    released = (KEPT / "released.i").read_text(encoding="utf-8")
    yield from check_structs(interface, frozen)
    yield from check_sized_tests(interface, SIZED_TEST.read_text(encoding="utf-8"))
    yield from check_enumerators(kept, interface.enumerators, version)
    if abi_version(released) == version:
        yield from check_types(released, present, set(interface.structs) - set(frozen), version)
    else:
        yield from check_migration(released, present, MIGRATION.read_text(encoding="utf-8"))
    yield from check_released(released, (KEPT / "released.sha256").read_text(encoding="utf-8"))
    if arguments.build:
        yield from check_library(arguments.build, interface, version)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?")
    for name in ("update", "release", "report"):
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folders = [ROOT / "include", features_folder(directory)]
        text = public_headers.preprocessed(folders)
        interface = public_headers.parse(text)
        if arguments.release:
            (KEPT / "released.i").write_text(text, encoding="utf-8")
            (KEPT / "released.sha256").write_text(digest(text), encoding="utf-8")
        if arguments.update or arguments.release:
            update_enumerators(interface)
        if arguments.report:
            released = (KEPT / "released.i").read_text(encoding="utf-8")
            print(compare(released, text, set(), "libuvhttp.so")[1])
            return 0
        return report("abi", list(problems(arguments, text, interface)))


if __name__ == "__main__":
    raise SystemExit(main())
