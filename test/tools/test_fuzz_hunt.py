"""Owns: the proof that ./dev fuzz knows each target, gives the next slice to the right one, and records what it did and found."""
import pathlib
import re
import stat
import sys
import tempfile
import unittest
from unittest import mock

from source_text import ROOT

sys.path.append(str(ROOT / "test/fuzz"))
import hunt  # noqa: E402

# Says what libFuzzer says; "bad" has a finding.
PROGRAM = """#!/bin/sh
echo '#2 INITED cov: 7 ft: 9'
case $0 in *bad) exit 77 ;; esac
echo '#40 DONE cov: 11 ft: 12'
echo 'stat::number_of_executed_units: 40'
"""


class TargetsTest(unittest.TestCase):
    def test_each_target_is_about_code_that_exists(self):
        self.assertEqual(set(hunt.ABOUT), {path.stem for path in (ROOT / "test/fuzz").glob("fuzz_*.c")})
        sources = [path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/*/*.c")]
        for target, patterns in hunt.ABOUT.items():
            for pattern in patterns:
                self.assertTrue([name for name in sources if hunt.fnmatch.fnmatch(name, pattern)], (target, pattern))

    def test_the_record_has_rows_of_targets(self):
        for row in hunt.Record().rows:
            self.assertIn(row["target"], hunt.ABOUT)
            self.assertTrue(re.fullmatch(r"[0-9a-f]{8}\+?", row["revision"]), row)


class HuntTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        for name in ("test/tools", "build/fuzz"):
            (self.place / name).mkdir(parents=True)
        (self.place / "test/tools/fuzz_one.sh").write_text((ROOT / "test/tools/fuzz_one.sh").read_text(encoding="utf-8"), encoding="utf-8")
        for name in ("bad", "good", "other"):
            program = self.place / name
            program.write_text(PROGRAM, encoding="utf-8")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name, value in {"ROOT": self.place, "PROGRAMS": self.place, "RECORD": self.place / "record.json", "revision": lambda: "0badcafe"}.items():
            patch = mock.patch.object(hunt, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def rows(self):
        return {row["target"]: row for row in hunt.Record().rows}

    def test_a_slice_goes_to_the_target_with_the_least_time(self):
        record = hunt.Record()
        for target, seconds in (("bad", 30), ("good", 10), ("other", 20)):
            record.add(target, "2026-11-27", "0badcafe", seconds, 1, 1, 0)
        search = hunt.Hunt(("bad", "good", "other"), 1, 1)
        self.assertEqual([search.next(), search.next(), search.next(), search.next()], ["good", "other", "bad", None])

    def test_slices_of_a_revision_add_up(self):
        record = hunt.Record()
        record.add("good", "2026-11-27", "0badcafe", 2, 10, 5, 0)
        record.add("good", "2026-11-27", "0badcafe", 3, 20, 4, 1)
        record.add("good", "2026-11-28", "0badcafe", 4, 30, 6, 0)
        self.assertEqual(hunt.Record().seconds("good"), 9)
        self.assertEqual([(row["runs"], row["edges"], row["findings"]) for row in hunt.Record().rows], [(30, 5, 1), (30, 6, 0)])

    def test_a_target_that_found_something_is_not_run_again_and_the_others_continue(self):
        search = hunt.Hunt(("bad", "good"), 1, 1)
        run_slice, slices = hunt.run_slice, []

        def counted(target, seconds):
            slices.append(target)
            if slices.count("good") == 3:
                search.end = 0
            return run_slice(target, seconds)

        with mock.patch.object(hunt, "run_slice", counted), mock.patch("builtins.print"):
            search.work()
        self.assertEqual((slices.count("bad"), slices.count("good")), (1, 3))
        self.assertEqual(search.failed, ["bad"])
        rows = self.rows()
        self.assertEqual((rows["good"]["runs"], rows["good"]["edges"], rows["good"]["findings"]), (120, 11, 0))
        self.assertEqual((rows["bad"]["runs"], rows["bad"]["edges"], rows["bad"]["findings"]), (2, 7, 1))

    def test_an_input_of_a_hunt_may_wait_for_the_cpu(self):
        said = self.place / "arguments"
        (self.place / "good").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{said}\n', encoding="utf-8")
        hunt.run_slice("good", 1)
        self.assertIn("-timeout=100", said.read_text(encoding="utf-8").split("\n"))


if __name__ == "__main__":
    unittest.main()
