#!/usr/bin/env python3
"""Owns: the proof that configure refuses what it does not understand, and that a binary knows how it was built."""
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OptionsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.build = pathlib.Path(directory.name) / "build"
        self.build.mkdir()

    def configure(self, *arguments):
        done = subprocess.run(["cmake", *arguments, ROOT], cwd=self.build, capture_output=True, text=True, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def refused(self, expected, *arguments):
        code, output = self.configure(*arguments)
        self.assertNotEqual(code, 0, output)
        self.assertIn(expected, output)
        self.assertFalse((self.build / "Makefile").exists())

    def test_unknown_option_names_the_nearest(self):
        self.refused("Did you mean: BUILD_WITH_WEBSOCKET?", "-DBUILD_WITH_WEBSOCKETS=ON")
        self.refused("Did you mean: ENABLE_COVERAGE?", "-DENABLE_COVERGE=ON")
        self.refused("unknown option UVHTTP_SANITISE Did you mean: UVHTTP_SANITIZE?", "-DUVHTTP_SANITISE=address")
        self.refused("unknown option ENABLE_X", "-DENABLE_X:BOOL=ON")

    def test_value_that_is_no_boolean(self):
        for value in ("maybe", "", "ON,", "2"):
            with self.subTest(value):
                self.refused("is not a boolean", f"-DENABLE_DEBUG={value}")
        self.refused("is not a boolean", "-DBUILD_WITH_MIMALLOC:STRING=on!")

    def test_other_wrong_values(self):
        self.refused("none of address, undefined, thread", "-DUVHTTP_SANITIZE=adress")
        self.refused("cannot be combined", "-DUVHTTP_SANITIZE=address,thread")
        self.refused("none of AUTO, ON, OFF", "-DUVHTTP_WITH_URING=yes")
        self.refused("none of openssl, mbedtls, off", "-DUVHTTP_TLS=on")
        self.refused("none of ON, FULL, OFF", "-DUVHTTP_HARDEN=yes")
        self.refused("contradicts", "-DENABLE_DEBUG=ON", "-DCMAKE_BUILD_TYPE=Release")

    def test_missing_d_is_refused_whatever_cmake_takes_it_for(self):
        self.refused("-ENABLE_DEBUG=OFF", "-DBUILD_WITH_WEBSOCKET=ON", "-ENABLE_DEBUG=OFF")
        self.refused("Did you mean: -DUVHTTP_WERROR=ON?", "-UVHTTP_WERROR=ON")
        self.refused("Did you mean: -DENABLE_DEBUG=ON?", "ENABLE_DEBUG=ON")
        self.refused("Did you mean: -DBUILD_WITH_MIMALLOC=OFF?", "-BUILD_WITH_MIMALLOC=OFF")

    def test_separate_d_is_fine(self):
        self.assertEqual(self.configure("-D", "ENABLE_DEBUG=ON", "-U", "UVHTTP_X=")[0], 0)

    def test_a_corrected_command_works_in_the_same_directory(self):
        self.refused("unknown option", "-DENABLE_DEBUGGING=ON")
        code, output = self.configure()
        self.assertEqual(code, 0, output)

    def test_what_is_left_out_is_neither_compiled_nor_installed(self):
        parts = {"WEBSOCKET": "websocket.h", "STATIC": "static.h", "MIDDLEWARE": "cors.h", "FORMS": None}
        symbols = {"STATIC": "static_site.c", "FORMS": "multipart.c", "MIDDLEWARE": "cors.c", "WEBSOCKET": "websocket.c"}
        code, output = self.configure(*(f"-DBUILD_WITH_{part}=OFF" for part in parts), "-DUVHTTP_BUILD_EXAMPLES=ON")
        self.assertEqual(code, 0, output)
        makefile = (self.build / "CMakeFiles/uvhttp_objects.dir/build.make").read_text(encoding="utf-8")
        install = (self.build / "cmake_install.cmake").read_text(encoding="utf-8")
        for part, header in parts.items():
            self.assertNotIn(f"/{symbols[part]}.o", makefile)
            if header:
                self.assertRegex(install, rf'REGEX "/{header[:-2]}[^"]*h\$" EXCLUDE')
        self.assertIn("/router.c.o", makefile)
        for program in ("upload", "static_files", "rate_limit", "websocket_echo"):
            self.assertFalse((self.build / f"CMakeFiles/{program}.dir").exists(), program)

    def test_build_info_says_what_is_in_the_binary(self):
        code, output = self.configure("-DENABLE_DEBUG=ON", "-DBUILD_WITH_MIMALLOC=OFF", "-DBUILD_WITH_WEBSOCKET=OFF",
                                      "-DENABLE_COVERAGE=ON", "-DUVHTTP_WITH_URING=OFF")  # fmt: skip
        self.assertEqual(code, 0, output)
        info = dict(re.findall(r'#define (\w+) "(.*)"', (self.build / "generated/build_info.h").read_text(encoding="utf-8")))
        self.assertEqual(info["UVHTTP_BUILD_TYPE"], "Debug")
        self.assertIn("-O0 -g", info["UVHTTP_BUILD_FLAGS"])
        self.assertIn("--coverage", info["UVHTTP_BUILD_FLAGS"])
        self.assertNotIn("NDEBUG", info["UVHTTP_BUILD_FLAGS"])
        self.assertIn(
            "BUILD_WITH_WEBSOCKET=OFF BUILD_WITH_STATIC=ON BUILD_WITH_FORMS=ON BUILD_WITH_MIDDLEWARE=ON BUILD_WITH_COMPRESSION=ON BUILD_WITH_REDIS=ON BUILD_WITH_YAML=ON BUILD_WITH_COROUTINES=ON BUILD_WITH_MIMALLOC=OFF BUILD_WITH_USDT=OFF ENABLE_DEBUG=ON ENABLE_COVERAGE=ON UVHTTP_WITH_URING=OFF",
            info["UVHTTP_BUILD_OPTIONS"],
        )
        self.assertNotIn(str(ROOT), str(info))
        code, output = self.configure("-DENABLE_DEBUG=OFF", "-DENABLE_COVERAGE=OFF")
        self.assertEqual(code, 0, output)
        text = (self.build / "generated/build_info.h").read_text(encoding="utf-8")
        self.assertIn('UVHTTP_BUILD_TYPE "Release"', text)
        self.assertIn("-O2 -g -DNDEBUG", text)

    def test_hardening_is_of_optimized_builds(self):
        for arguments, said, flags in (
            ([], "ON", ["-D_FORTIFY_SOURCE=3"]),
            (["-DUVHTTP_HARDEN=FULL"], "FULL", ["-D_FORTIFY_SOURCE=3", "-fstack-protector-strong"]),
            (["-DUVHTTP_HARDEN=OFF"], "OFF", []),
            (["-DUVHTTP_HARDEN=ON", "-DENABLE_DEBUG=ON"], "OFF", []),
        ):
            with self.subTest(arguments):
                code, output = self.configure("-DUVHTTP_BUILD_EXAMPLES=OFF", *arguments)
                self.assertEqual(code, 0, output)
                text = (self.build / "generated/build_info.h").read_text(encoding="utf-8")
                self.assertIn(f"UVHTTP_HARDEN={said} ", text)
                known = ["-D_FORTIFY_SOURCE=3", "-fstack-protector-strong"]
                self.assertEqual([flag for flag in known if flag in text], flags)


class BuildIdentityTest(unittest.TestCase):
    """cmake/write_build_identity.cmake, which runs at each build."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.outside = pathlib.Path(directory.name)
        self.tree = self.outside / "tree"
        self.header = self.outside / "build_identity.h"
        for name, text in (("src/io/a.c", "int a;"), ("include/b.h", "int b;"), ("bench/c.c", "int c;"), ("CMakeLists.txt", "")):
            self.write(name, text)

    def write(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text, encoding="utf-8")

    def identity(self):
        command = ["cmake", f"-DSOURCE={self.tree}", f"-DOUTPUT={self.header}", "-P", ROOT / "cmake/write_build_identity.cmake"]
        subprocess.run(command, check=True, capture_output=True)
        return dict(re.findall(r'#define UVHTTP_BUILD_(\w+) "(.*)"', self.header.read_text(encoding="utf-8")))

    def git(self, *arguments):
        who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"]
        return subprocess.run(["git", *who, *arguments], cwd=self.tree, check=True, capture_output=True, text=True).stdout

    def test_without_git_the_sources_are_known_all_the_same(self):
        first = self.identity()
        self.assertEqual((first["REVISION"], first["DIRTY"]), ("unknown", "unknown"))
        before = self.header.stat().st_mtime_ns
        self.assertEqual(self.identity(), first)
        self.assertEqual(self.header.stat().st_mtime_ns, before, "nothing changed: nothing may be compiled again")
        self.write("README.md", "not built")
        self.assertEqual(self.identity(), first)
        for name in ("src/io/a.c", "include/new.h", "bench/c.c", "CMakeLists.txt"):
            known = self.identity()["SOURCES"]
            self.write(name, "int changed;")
            self.assertNotEqual(self.identity()["SOURCES"], known, name)

    def test_dirty_includes_the_benchmarks_and_files_that_git_does_not_know(self):
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")
        self.assertEqual((self.identity()["REVISION"], self.identity()["DIRTY"]), (self.git("rev-parse", "HEAD").strip(), "no"))
        self.write("docs/a.md", "not measured")
        self.assertEqual(self.identity()["DIRTY"], "no")
        self.write("bench/uvhttp_bench/gates.py", "")
        self.assertEqual(self.identity()["DIRTY"], "yes")

    def test_a_copy_inside_another_repository_has_no_revision(self):
        self.git("init", "-q", str(self.outside))
        self.assertEqual(self.identity()["REVISION"], "unknown")


if __name__ == "__main__":
    unittest.main()
