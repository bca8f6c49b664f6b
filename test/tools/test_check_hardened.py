"""Owns: the proof that what is not hardened is found: small programs, each without one part of it."""
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_hardened

SOURCE = """#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    char text[16];
    memset(text, 0, sizeof text);
    snprintf(text, (size_t)count, "%s", words[0]);
    return text[0];
}
"""
HARDENED = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fPIE", "-pie", "-Wl,-z,relro,-z,now"]
X86 = platform.machine() == "x86_64"


class HardenedTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        (self.folder / "main.c").write_text(SOURCE, encoding="utf-8")
        (self.folder / "both.c").write_text('__asm__(".section .both, \\"awx\\"\\n.long 0\\n.previous");\n', encoding="utf-8")

    def build(self, *flags):
        program = self.folder / "program"
        subprocess.run(["cc", *HARDENED, *flags, "-o", program, self.folder / "main.c"], check=True, capture_output=True)
        return list(check_hardened.problems_of(program, True))

    def test_all_of_it(self):
        self.assertEqual(self.build(), [])

    def test_each_part_is_missed(self):
        for flags, problem in (
            (["-no-pie", "-fno-PIE"], "PIE"),
            (["-Wl,-z,norelro"], "RELRO"),
            (["-Wl,-z,lazy"], "-z now"),
            (["-Wl,-z,execstack"], "stack can be run"),
            ([str(self.folder / "both.c")], "written and run"),
            *([(["-fno-PIE", "-mcmodel=large", "-Wl,-z,notext"], "code is relocated")] if X86 else []),
            (["-fno-stack-protector"], "no stack protector"),
            (["-U_FORTIFY_SOURCE"], "_FORTIFY_SOURCE"),
        ):
            with self.subTest(flags):
                self.assertTrue(any(problem in found for found in self.build(*flags)), self.build(*flags))

    def test_a_call_that_the_simulation_cannot_replace_is_named(self):
        call = "#include <unistd.h>\nchar text[16];\nlong take(size_t);\nlong take(size_t size) { return read(0, text, %s); }\n"
        for size in ("sizeof text", "size"):
            (self.folder / "call.c").write_text(call % size, encoding="utf-8")
            subprocess.run(["cc", *HARDENED[:3], "-c", "-o", self.folder / "call.o", self.folder / "call.c"], check=True)
            problems = list(check_hardened.replaced_calls(self.folder / "call.o"))
            self.assertEqual(len(problems), size == "size", problems)

    @unittest.skipUnless(X86, "CET is of x86")
    def test_an_object_without_cet_is_named(self):
        for name, flag in (("with", "full"), ("without", "none")):
            subprocess.run(["cc", "-c", f"-fcf-protection={flag}", "-o", self.folder / f"{name}.o", self.folder / "main.c"], check=True)
        archive = self.folder / "both.a"
        subprocess.run(["ar", "rc", archive, self.folder / "with.o", self.folder / "without.o"], check=True)
        (problem,) = check_hardened.problems_of_archive(archive)
        self.assertIn("without.o", problem)


if __name__ == "__main__":
    unittest.main()
