"""Owns: the proof that the figures of coverage are those of what was run: a program that takes one branch of two."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import coverage

SOURCE = """int main(int count, char **words) {
    (void)words;
    if (count > 1)
        return 1;
    return 0;
}
"""


class CoverageTest(unittest.TestCase):
    def test_a_branch_that_was_not_executed_is_missed(self):
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(coverage, "ROOT", pathlib.Path(directory).resolve()):
            source = coverage.ROOT / "src/base/uri.c"
            build = coverage.ROOT / "build"
            objects = build / "CMakeFiles/uvhttp_objects.dir"
            for folder in (source.parent, objects):
                folder.mkdir(parents=True)
            source.write_text(SOURCE, encoding="utf-8")
            subprocess.run(["gcc", "--coverage", "-c", "-o", objects / "uri.c.o", source], check=True)
            subprocess.run(["gcc", "--coverage", "-o", build / "program", objects / "uri.c.o"], check=True)
            subprocess.run([build / "program"], check=True)
            (file,) = coverage.read(build).values()
            self.assertEqual(coverage.share(file.branches.values()).split(), ["1", "of", "2", "50.0", "%"])
            self.assertEqual([line for line, count in file.lines.items() if count == 0], [4])

    def test_parsers_are_files_or_folders(self):
        self.assertTrue(coverage.is_parser("base/uri.c") and coverage.is_parser("websocket/frame.c"))
        self.assertFalse(coverage.is_parser("base/arena.c"))

    def test_each_parser_is_there(self):
        for parser in coverage.PARSERS:
            self.assertTrue((coverage.ROOT / "src" / parser).exists(), parser)


if __name__ == "__main__":
    unittest.main()
