"""Owns: the proof that ./dev asks apt only by ./dev setup, and says before what it installs and why."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from source_text import ROOT

# What starts one in a unit test, by itself or in a helper of test/unit/support/.
OTHER_THREADS = re.compile(r"\b(pthread_create|uv_thread_create|uvhttp__work_new|server_start|server_dial|serving_\w+|fake_server_start|uvhttp_server_run)\b")
SYSTEM = ("sh", "dirname", "cat", "awk", "nproc", "env", "mkdir", "rm", "grep", "xargs", "date", "tr")
PURPOSES = ("build", "test", "bench", "compare", "peers", "aarch64", "analyze", "attacks", "autobahn", "browser", "coverage", "h2spec",
            "kernel", "musl", "prometheus", "redbot", "tls-scan", "torture")  # fmt: skip


class SetupTest(unittest.TestCase):
    """./dev on a machine that has only what its folder of programs has."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.asked = self.place / "asked"
        (self.place / "programs").mkdir()
        shutil.copy2(ROOT / "dev", self.place)
        for name in SYSTEM:
            (self.place / "programs" / name).symlink_to(shutil.which(name))
        self.program("apt-get", f'echo "$@" >>{self.asked}')
        self.program("cmake", "exit 0")
        self.program("id", "echo 0")
        self.installed("build-essential", "cmake", "ninja-build")

    def program(self, name, text):
        path = self.place / "programs" / name
        path.write_text(f"#!{shutil.which('sh')}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def installed(self, *names):
        self.program("dpkg-query", f'case " {" ".join(names)} " in *" $4 "*) echo installed ;; *) exit 1 ;; esac')

    def dev(self, *arguments, **environment):
        return subprocess.run([shutil.which("sh"), self.place / "dev", *arguments], env={"PATH": str(self.place / "programs"), **environment},
                              text=True, capture_output=True, check=False)  # fmt: skip

    def apt(self):
        return self.asked.read_text(encoding="utf-8").splitlines() if self.asked.exists() else []

    def test_a_build_installs_what_is_missing_and_says_why(self):
        done = self.dev("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        update, install = self.apt()
        self.assertTrue(update.endswith(" update"))
        packages = install.partition("--no-install-recommends ")[2].split()
        self.assertIn("libuv1-dev", packages)
        self.assertNotIn("cmake", packages)
        self.assertNotIn("clang", packages)
        for package in packages:
            self.assertRegex(done.stderr, rf"(?m)^  {re.escape(package)} +\w")
        self.assertLess(done.stderr.index("libuv1-dev"), done.stderr.index("libssl-dev"))

    def test_nothing_is_asked_of_the_network_when_all_is_there(self):
        self.program("dpkg-query", "echo installed")
        for command in ("setup", "build"):
            done = self.dev(command)
            self.assertEqual((done.returncode, done.stderr, self.apt()), (0, "", []))

    def test_without_root_it_says_what_to_run(self):
        self.program("id", "echo 1000")
        done = self.dev("build")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"apt-get install -y --no-install-recommends pkg-config .*libboost-context-dev")
        self.assertEqual(self.apt(), [])

    def test_what_a_test_program_says_of_its_options_needs_no_build(self):
        self.program("python3", 'echo "$@"')
        self.program("cmake", "echo built >&2")
        for option in ("-h", "--help"):
            done = self.dev("fuzz", option)
            self.assertEqual((done.stdout, done.stderr, self.apt()), (f"test/fuzz/hunt.py {option}\n", "", []))

    def test_a_failed_installation_ends_the_command(self):
        self.program("apt-get", "exit 100")
        done = self.dev("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not install: pkg-config", done.stderr)

    def test_another_system_gets_the_list_of_packages(self):
        (self.place / "programs" / "dpkg-query").unlink()
        done = self.dev("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("libuv1-dev", done.stderr)
        self.assertEqual(self.apt(), [])

    def test_the_list_installs_nothing_and_holds_every_purpose(self):
        build = self.dev("setup", "list").stdout
        for purpose in PURPOSES:
            done = self.dev("setup", "list", purpose)
            self.assertEqual((done.returncode, self.apt()), (0, []))
            self.assertLessEqual(set(build.splitlines()), set(done.stdout.splitlines()))
        self.assertNotEqual(self.dev("setup", "list", "none").returncode, 0)

    def test_what_another_generator_has_made_is_made_again(self):
        self.program("dpkg-query", "echo installed")
        build = self.place / "build"
        for generator, stays in (("Unix Makefiles", False), ("Ninja Multi-Config", False), ("Ninja", True)):
            (build / "CMakeFiles").mkdir(parents=True, exist_ok=True)
            (build / "CMakeCache.txt").write_text(f"UVHTTP_WERROR:BOOL=ON\nCMAKE_GENERATOR:INTERNAL={generator}\n", encoding="utf-8")
            (build / "kept").touch()
            done = self.dev("build")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([(build / name).exists() for name in ("CMakeCache.txt", "CMakeFiles", "kept")], [stays, stays, True])
            self.assertEqual("another generator" in done.stderr, not stays)

    def test_what_python_compiles_is_kept_for_its_next_process(self):
        self.program("dpkg-query", "echo installed")
        self.program("python3", f'echo "${{PYTHONDONTWRITEBYTECODE-may}} $PYTHONPYCACHEPREFIX" >>{self.asked}')
        done = self.dev("test", "style", PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(set(self.apt()), {f"may {self.place}/build/test/pycache"})

    def test_ninja_is_the_generator_of_the_presets(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        self.assertEqual({preset["generator"] for preset in presets if "generator" in preset}, {"Ninja"})

    def test_every_package_has_a_reason_and_a_known_purpose(self):
        text = (ROOT / "dev").read_text(encoding="utf-8")
        rows = re.search(r"^packages\(\).*?<<'END'\n(.*?)^END$", text, re.S | re.M)[1].splitlines()
        self.assertGreater(len(rows), 30)
        for row in rows:
            package, purposes, reason = row.split(None, 2)
            self.assertLessEqual(set(purposes.split(",")), set(PURPOSES), package)
            self.assertTrue(reason)
        self.assertEqual(len({row.split()[0] for row in rows}), len(rows))

    def test_only_setup_calls_apt(self):
        text = (ROOT / "dev").read_text(encoding="utf-8")
        functions = re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", text, re.S | re.M)
        calls = [name for name, body in functions if re.search(r"apt-get .*(update|install)|DEBIAN_FRONTEND", body)]
        self.assertEqual(calls, ["command_setup"])

    def test_commands_set_up_before_they_build(self):
        text = (ROOT / "dev").read_text(encoding="utf-8")
        for name, body in re.findall(r"^(command_\w+)\(\) \{\n(.*?)^\}", text, re.S | re.M):
            work = re.search(r"\b(cmake|build \w+|install_tool|prepare_\w+|run_step)\b", body)
            if work and name != "command_setup":
                self.assertIn("command_setup", body[: work.start()], name)


class ThreadsTest(unittest.TestCase):
    def test_what_thread_sanitizer_is_spared_has_one_thread(self):
        text = (ROOT / "cmake/UvhttpTests.cmake").read_text(encoding="utf-8")
        spared = re.compile(re.search(r'UVHTTP_ONE_THREAD "(.*)"', text)[1])
        sources = [path for path in sorted(ROOT.glob("test/unit/*/test_*.c")) if spared.search(path.relative_to(ROOT).as_posix())]
        self.assertGreater(len(sources), 40)
        for path in sources:
            self.assertIsNone(OTHER_THREADS.search(path.read_text(encoding="utf-8")), path)


if __name__ == "__main__":
    unittest.main()
