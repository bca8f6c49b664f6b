"""Owns: the proof that the jobs of ./dev kernel name tests that exist, and that its archives are ones that a kernel unpacks."""
import gzip
import pathlib
import re
import stat
import sys
import tempfile
import unittest

from source_text import ROOT

sys.path.append(str(ROOT / "test/machine"))
import jobs  # noqa: E402
from archive import Archive  # noqa: E402


def entries(path):
    """(name, mode, time, data) of each entry of a cpio archive (newc)."""
    data, at = gzip.decompress(path.read_bytes()), 0
    while at < len(data):
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + i * 8 : at + 14 + i * 8], 16) for i in range(13)]
        mode, time, size, name_size = fields[1], fields[5], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at = (at + 110 + name_size + 3) & ~3
        yield name, mode, time, data[at : at + size]
        at = (at + size + 3) & ~3


INTEGRATION = {path.stem.removeprefix("test_"): path.read_text(encoding="utf-8") for path in (ROOT / "test/integration").glob("test_*.py")}


class JobsTest(unittest.TestCase):
    def test_each_file_of_integration_tests_runs_in_a_guest_or_is_left_out_for_a_reason(self):
        runs = set().union(*(job.files for job in jobs.JOBS.values())) - {"backend"}
        left_out = [file for files in jobs.FILES_LEFT_OUT.values() for file in files]
        self.assertEqual(sorted([*runs, *left_out]), sorted(INTEGRATION))

    def test_each_folder_of_unit_tests_runs_in_a_guest_or_computes_alone(self):
        folders = [path.name for path in (ROOT / "test/unit").iterdir() if any(path.glob("test_*.c"))]
        self.assertEqual(sorted([*(folder for folder in jobs.FOLDERS if "/" not in folder), *jobs.FOLDERS_COMPUTE_ALONE]), sorted(folders))

    def test_every_test_of_a_job_exists(self):
        self.assertTrue((ROOT / "test/machine/test_backend.py").exists())
        for name, job in jobs.JOBS.items():
            self.assertTrue(job.files and job.folders and job.engines, name)
            for file, part in job.files.items():
                tests = jobs.tests_of(INTEGRATION.get(file, "def test_one"))
                self.assertEqual(set(part.names) - set(tests), set(), (name, file))
                self.assertTrue(part.of(tests), (name, file))
                if part != jobs.ALL:  # tests_of() sees functions alone
                    self.assertNotRegex(INTEGRATION[file], r"(?m)^(class Test|async def test)", file)
            for folder in job.folders:
                self.assertTrue(jobs.unit_tests(ROOT.glob("test/unit/*/test_*.c"), [folder]), (name, folder))

    def test_the_tests_of_a_part(self):
        tests = jobs.tests_of("def test_a():\n    def test_inner():\n\n@mark\ndef test_b_c(server):\ndef helper():\n")
        self.assertEqual(tests, ["a", "b_c"])
        self.assertEqual(jobs.ALL.of(tests), ["a", "b_c"])
        self.assertEqual(jobs.only("b_c").of(tests), ["b_c"])
        self.assertEqual(jobs.all_but("b_c").of(tests), ["a"])

    def test_the_guest_has_each_program_that_a_test_starts(self):
        texts = "".join(INTEGRATION.get(file, "") for job in jobs.JOBS.values() for file in job.files)
        started = re.findall(r'\bserve\("(\w+)"|\b(?:EXAMPLES|TEST_PROGRAMS) / "(\w+)"', texts)
        listed = re.findall(r'"(\w+)"', " ".join(re.findall(r'parametrize\("program", \[([^]]*)\]', texts)))
        programs = {pathlib.Path(path).name for path in jobs.PROGRAMS}
        self.assertEqual(({one or other for one, other in started} | set(listed)) - programs, set())

    def test_the_programs_of_folders_without_those_that_compute_alone(self):
        sources = [pathlib.Path("test/unit") / name for name in ("io/test_b.c", "io/test_a.c", "io/test_exhaustive_x.c", "http1/test_c.c")]
        self.assertEqual(jobs.unit_tests(sources, ["io"]), ["test_io_a", "test_io_b"])
        self.assertEqual(jobs.unit_tests(sources, ["io/b", "http1"]), ["test_http1_c", "test_io_b"])
        self.assertEqual(jobs.unit_tests(sources, ["io/exhaustive_x"]), ["test_io_exhaustive_x"])


class ArchiveTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)

    def archived(self, fill):
        archive = Archive(self.place / "archive")
        fill(archive)
        archive.close()
        return list(entries(self.place / "archive"))

    def test_folders_come_once_and_before_what_is_in_them(self):
        def fill(archive):
            archive.file("/a/b/one", b"12345")
            archive.file("/a/b/two", b"")
            archive.file("/a/b/one", b"another")
            archive.device("dev/console", 5, 1)

        found = self.archived(fill)
        self.assertEqual([name for name, *_ in found], ["a", "a/b", "a/b/one", "a/b/two", "dev", "dev/console", "TRAILER!!!"])
        self.assertEqual(found[2], ("a/b/one", stat.S_IFREG | 0o755, 0, b"12345"))
        self.assertTrue(stat.S_ISDIR(found[0][1]) and stat.S_ISCHR(found[5][1]))

    def test_a_folder_is_copied_with_times_and_without_what_is_left_out(self):
        for name in ("module.py", "__pycache__/module.pyc", "test/long.py"):
            path = self.place / "package" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (self.place / "package/linked.py").symlink_to("module.py")
        found = {name: (time, data) for name, _, time, data in self.archived(lambda archive: archive.copy(self.place / "package", "/p"))}
        self.assertEqual(set(found), {"p", "p/module.py", "p/linked.py", "p/__pycache__", "p/__pycache__/module.pyc", "TRAILER!!!"})
        self.assertEqual(found["p/module.py"], (int((self.place / "package/module.py").stat().st_mtime), b"module.py"))
        self.assertEqual(found["p/linked.py"][1], b"module.py")


if __name__ == "__main__":
    unittest.main()
