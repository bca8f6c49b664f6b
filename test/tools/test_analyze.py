"""Owns: the proof that each analyzer finds what it is there for, and that a finding is accepted by its line alone."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import analyze

FAULTY = """#include <stdlib.h>
int *make(int want);
int *make(int want) {
    int *made = malloc(sizeof *made);
    if (want > 3) made = NULL;
    *made = want;
    return made;
}
"""


class AnalyzersTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()
        (self.root / "src").mkdir()
        self.path = self.root / "src/faulty.c"
        patch = mock.patch.object(analyze, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def findings(self, text):
        self.path.write_text(text, encoding="utf-8")
        command = ["cc", "-O2", "-o", "faulty.o", "-c", str(self.path)]
        return analyze.analyze([(self.path, str(self.root), command)])

    def test_each_tool_finds_a_null_pointer(self):
        found = self.findings(FAULTY)
        self.assertEqual({finding.tool for finding in found if finding.line == 6}, {"gcc", "clang-tidy", "cppcheck"}, found)
        self.assertEqual({finding.path for finding in found}, {"src/faulty.c"})

    def test_right_code_has_no_finding(self):
        self.assertEqual(self.findings("int twice(int n);\nint twice(int n) {\n    return 2 * n;\n}\n"), set())

    def test_what_does_not_compile_is_an_error(self):
        with self.assertRaises(RuntimeError):
            self.findings("int twice(int n) { return m; }\n")


class AcceptedTest(unittest.TestCase):
    finding = analyze.Finding("gcc", "-Wanalyzer-x", "src/a.c", 2, "may be wrong")
    lines = ["int a;", "int b = *c;"]

    def problems(self, findings, *accepted):
        return list(analyze.problems_of(findings, accepted, lambda _: self.lines))

    def test_a_finding_is_a_problem_with_its_line(self):
        self.assertEqual(self.problems({self.finding}), ["src/a.c:2: may be wrong [gcc -Wanalyzer-x]"])

    def test_an_accepted_one_is_none(self):
        self.assertEqual(self.problems({self.finding}, analyze.Accepted("gcc", "-Wanalyzer-x", "src/a.c", "= *c", "")), [])

    def test_it_is_accepted_by_tool_check_file_and_code(self):
        for other in (("clang-tidy", "-Wanalyzer-x", "src/a.c", "= *c"), ("gcc", "-Wanalyzer-y", "src/a.c", "= *c"),
                      ("gcc", "-Wanalyzer-x", "src/b.c", "= *c"), ("gcc", "-Wanalyzer-x", "src/a.c", "= *d")):  # fmt: skip
            self.assertEqual(len(self.problems({self.finding}, analyze.Accepted(*other, ""))), 2, other)

    def test_an_entry_that_finds_nothing_is_a_problem(self):
        (problem,) = self.problems(set(), analyze.Accepted("gcc", "-Wanalyzer-x", "src/a.c", "= *c", ""))
        self.assertIn("nothing is found any more", problem)


if __name__ == "__main__":
    unittest.main()
