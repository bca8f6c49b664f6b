"""Owns: the proof that a probe costs a nop and nothing else: the sources that have probes are compiled with and without them."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBE = re.compile(r"UVHTTP__PROBE\((\w+), (.*)\);")
COMPILE = ["cc", "-std=gnu17", "-O2", "-c", "-DNDEBUG", "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include"]
FEATURES = re.compile(r"#define (UVHTTP_WITH_\w+) @")


def sources():
    """{path: [(name of a probe, number of its arguments)]}"""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.c")):
        probes = [(name, arguments.count(",") + 1) for name, arguments in PROBE.findall(path.read_text(encoding="utf-8"))]
        if probes:
            found[path] = probes
    return found


def instructions(object_file):
    """But for nops, of which the compiler puts some between functions."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", object_file], check=True, capture_output=True, text=True).stdout
    names = [line.split("\t")[1].split() for line in listing.splitlines() if "\t" in line]
    return [name[0] for name in names if name and "nop" not in " ".join(name) and name[0] != "xchg"]


@unittest.skipUnless(pathlib.Path("/usr/include/sys/sdt.h").exists() or list(pathlib.Path("/usr/include").glob("*/sys/sdt.h")),
                     "sys/sdt.h is missing")  # fmt: skip
@unittest.skipUnless(shutil.which("readelf") and shutil.which("cc"), "no compiler")
class ProbesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def compile(self, source, usdt):
        features = self.folder / str(usdt) / "uvhttp"
        features.mkdir(parents=True, exist_ok=True)
        names = FEATURES.findall((ROOT / "cmake/features.h.in").read_text(encoding="utf-8"))
        text = "".join(f"#define {name} {usdt if name == 'UVHTTP_WITH_USDT' else 1}\n" for name in names)
        (features / "features.h").write_text(text, encoding="utf-8")
        made = self.folder / f"{source.stem}-{usdt}.o"
        subprocess.run([*COMPILE, f"-I{features.parent}", "-o", made, source], check=True, capture_output=True)
        return made

    def test_each_probe_has_a_note_and_costs_a_nop(self):
        names = set()
        for source, probes in sources().items():
            plain, probed = self.compile(source, 0), self.compile(source, 1)
            notes = subprocess.run(["readelf", "-n", probed], check=True, capture_output=True, text=True).stdout
            for name, count in probes:
                places = re.findall(rf"Provider: uvhttp\s+Name: {name}\s+Location: \S+, Base: \S+, Semaphore: (\S+)\s+Arguments: (.*)", notes)
                self.assertTrue(places, f"{source}: no note of {name}")
                for semaphore, arguments in places:
                    self.assertEqual(int(semaphore, 16), 0)
                    self.assertEqual(len(arguments.split()), count, arguments)
                names.add(name)
            self.assertNotIn("stapsdt", subprocess.run(["readelf", "-n", plain], check=True, capture_output=True, text=True).stdout)
            before, after = instructions(plain), instructions(probed)
            self.assertLessEqual(len(after), len(before), f"{source}: a probe computes its arguments")
        self.assertEqual(names, {"accept", "request", "response", "abort", "close", "queue_wait"})

    def test_the_guide_lists_them(self):
        guide = (ROOT / "docs/guide/tracing.md").read_text(encoding="utf-8")
        for probes in sources().values():
            for name, _ in probes:
                self.assertIn(f"| `{name}` |", guide)


if __name__ == "__main__":
    unittest.main()
