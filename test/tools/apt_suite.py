"""Owns: packages of another release of Debian, and sources of packages: apt with a directory of its own, which asks this machine's mirrors
for another suite, with this machine's keys. The system's apt is read, and left as it is."""
import pathlib
import platform
import re
import subprocess

SYSTEM = pathlib.Path("/etc/apt")


def _fields(block):
    return dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", block, re.MULTILINE))


def _stanzas(text):
    """Those of a .sources file, as dictionaries."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [fields for block in re.split(r"\n\s*\n", "\n".join(lines)) if (fields := _fields(block))]


def _of_line(line):
    """A line of a .list file as a stanza, or None."""
    match = re.match(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+?)\s*(?:#.*)?$", line)
    if not match:
        return None
    options, uri, suite, components = match.groups()
    signed = re.search(r"\bsigned-by=(\S+)", options or "")
    return {"Types": "deb", "URIs": uri, "Suites": suite, "Components": components, **({"Signed-By": signed[1]} if signed else {})}


def _suites_of(stanza, own, suite, kind):
    """Updates and backports are left out: an old release has none any more. Mirrors of the security archive may be without sources."""
    wanted = (own,) if kind == "deb-src" else (own, f"{own}-security", f"{own}/updates")
    return [name.replace(own, suite, 1) for name in stanza.get("Suites", "").split() if name in wanted]


def sources(texts, own, suite, kind):
    """The text of a .sources file: what the given files (name and text) say of the suite `own`, for `suite` and "deb" or "deb-src"."""
    stanzas = []
    for name, text in texts:
        if name.endswith(".sources"):
            stanzas += _stanzas(text)
        else:
            stanzas += filter(None, map(_of_line, text.splitlines()))
    chosen = []
    for stanza in stanzas:
        suites = _suites_of(stanza, own, suite, kind)
        if not suites or "main" not in stanza.get("Components", "").split() or stanza.get("Enabled", "yes").lower() == "no":
            continue
        fields = {"Types": kind, "URIs": stanza["URIs"], "Suites": " ".join(suites), "Components": "main"}
        if "Signed-By" in stanza:
            fields["Signed-By"] = stanza["Signed-By"]
        chosen.append("".join(f"{name}: {value}\n" for name, value in fields.items()))
    return "\n".join(chosen)


def own_suite():
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


class AptSuite:
    """apt for one suite ("bullseye", or this machine's) and one kind of package ("deb" or "deb-src"), in `directory`."""

    def __init__(self, directory, suite, kind="deb"):
        directory = pathlib.Path(directory).absolute()
        files = [SYSTEM / "sources.list", *sorted((SYSTEM / "sources.list.d").glob("*.list")), *sorted((SYSTEM / "sources.list.d").glob("*.sources"))]
        text = sources([(path.name, path.read_text(encoding="utf-8")) for path in files if path.exists()], own_suite(), suite, kind)
        if not text:
            raise SystemExit(f"apt on this machine has no source of {own_suite()} main: nothing to ask for {suite}")
        for folder in ("lists/partial", "cache/archives/partial", "none"):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        (directory / "suite.sources").write_text(text, encoding="utf-8")
        settings = {"Dir::Etc::SourceList": directory / "suite.sources", "Dir::Etc::SourceParts": directory / "none",
                    "Dir::State::Lists": directory / "lists", "Dir::Cache": directory / "cache", "APT::Sandbox::User": "root"}  # fmt: skip
        self.options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        subprocess.run(["apt-get", *self.options, "-q", "update"], check=True, stdout=subprocess.DEVNULL)

    def first_dependency(self, package, pattern):
        """Of a package that only names another one."""
        command = ["apt-cache", *self.options, "depends", "--no-recommends", "--no-suggests", package]
        return re.search(rf"Depends: ({pattern})", subprocess.run(command, check=True, capture_output=True, text=True).stdout)[1]

    def download(self, package, where):
        """The path of the package's file."""
        subprocess.run(["apt-get", *self.options, "-q", "download", package], check=True, cwd=where, stdout=subprocess.DEVNULL)
        (archive,) = pathlib.Path(where).glob(f"{package}_*.deb")
        return archive

    def source(self, packages, where):
        """Downloads the sources of packages; they are not unpacked."""
        subprocess.run(["apt-get", *self.options, "-q", "source", "--download-only", *packages], check=True, cwd=where, stdout=subprocess.DEVNULL)
