"""What uvhttp says about itself and about configuration files: check, explain, version, help, completions, manual pages."""
import os
import shutil
import subprocess

import pytest
from harness import EXAMPLES, build_option

PROGRAM = EXAMPLES / "uvhttp"
needs_yaml = pytest.mark.skipif(build_option("BUILD_WITH_YAML") != "ON", reason="built without YAML")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without static files or middleware")


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=30, env={**os.environ, **environment})


# --- help ---


def test_help_fits_a_terminal():
    for command in ([], ["serve"], ["check"], ["explain"], ["version"], ["completion"], ["man"]):
        lines = run(*command, "--help").stdout.splitlines()
        assert 2 <= len(lines) <= 23 and max(map(len, lines)) <= 80, command
        assert run("help", *command).stdout.splitlines() == lines
    for line in run("serve", "--help-all").stdout.splitlines():
        assert len(line) <= 80, line


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["check", "-h"], ["version"], ["man"], ["completion", "fish"], ["explain"], ["serve", "--help"]])
def test_output_that_cannot_be_written_is_an_error(arguments):
    with open("/dev/full", "w") as full:
        result = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    program = "uvhttp serve" if arguments[0] == "serve" else "uvhttp"
    assert (result.stderr, result.returncode) == (f"{program}: standard output: No space left on device\n", 1)


# --- check ---


@pytest.fixture
def file(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("home")
    return tmp_path / "server.yaml"


@needs_yaml
def test_a_file_that_is_right(file):
    file.write_text("keepalive_timeout: 5\nlisten: ['127.0.0.1:80', '[::1]:80']\nsites:\n  - root: site\n    spa: true\n")
    result = run("check", file)
    assert (result.stdout, result.stderr, result.returncode) == (f"{file}: ok, 2 addresses, 1 site\n", "", 0)


@needs_yaml
@pytest.mark.parametrize("text, says", [
    ("keepalive_timout: 5\n", ['1:1: there is no field "keepalive_timout", did you mean "keepalive_timeout"?']),
    ("backlog: many\nsites:\n  - rot: site\n", ['1:10: backlog is "many": expected 1..65535', '3:5: a site has no "rot", did you mean "root"?']),
    ("sites: 3\n", ["1:8: sites: expected a list of mappings"]),
    ("listen:\n  - 127.0.0.1\n", ['2:5: address "127.0.0.1" has no port: expected "127.0.0.1:8080"']),
    ("listen: ['127.0.0.1:65536', 'a:b', 'c:']\n", [f'1:{at}: address "{address}": "{port}" is no port: expected 0..65535'
        for at, address, port in ((10, "127.0.0.1:65536", "65536"), (29, "a:b", "b"), (36, "c:", ""))]),
    ("listen:\n  - {adress: x}\n", ['2:6: an address has no "adress", did you mean "address"?', "2:5: expected an address: 127.0.0.1:8080, or {address: ..., tls: true}"]),
    ("listen: ['127.0.0.1:1', '127.0.0.1:1']\n", ['1:25: address "127.0.0.1:1" is listed twice']),
    ("sites:\n  - root: none\n", ["2:5: {}/none: the directory cannot be opened: No such file or directory"]),
    ("sites:\n  - root: site\n    max_age: long\n    gzip: 1\n", ["3:14: max_age: expected 0..31536000 seconds", "4:11: gzip: expected true or false"]),
    ("sites:\n  - root: site\n  - root: site\n", ['3:5: a second site without "hosts": that of line 2 gets all requests']),
    ("sites:\n  - hosts: a\n", ['2:5: the site has no directory: add "root: DIR"']),
    ("sites:\n  - root: site\n    https_only: true\n", ['2:5: https_only: no address has TLS: add "tls: true" to one of "listen"']),
    ("sites:\n  - root: site\n    mounts: [{prefix: a, root: site}]\n", ["3:23: prefix: expected a path such as /assets", '3:14: a mount needs "prefix" and "root"']),
    ("sites:\n  - root: site\n    mounts: [{prefix: /, root: site}]\n", ['3:14: the site has two directories at "/"']),
    ("sites:\n  - root: site\n    redirects: [{from: /a}]\n", ['3:17: a redirect needs "from" and "to"']),
    ("sites:\n  - root: site\n    redirects: [{from: /a, to: /b, status: 200}]\n", ["3:17: redirect with status 200: expected 301, 302, 303, 307 or 308"]),
    ("sites:\n  - root: site\n    headers: {'a b': c}\n", ['3:15: "a b" is no name of a header field: expected \'Name: value\'']),
    ("sites:\n  - root: site\n    basic_auth_file: none\n", ["2:5: {}/none: No such file or directory"]),
    ("sites: [\n", ["2:1: "]),
])
def test_each_problem_of_a_file_is_said_with_its_line(file, text, says):
    file.write_text(text)
    result = run("check", file)
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and result.stdout == "" and len(lines) == len(says), lines
    for line, expected in zip(lines, says):
        expected = expected.replace("{}", str(file.parent))
        assert line.startswith(f"{file}:{expected}"), line
    served = run("serve", "--config", file)
    assert served.returncode != 0 and says[0].replace("{}", str(file.parent)) in served.stderr


@needs_yaml
def test_what_a_file_names_is_opened(file):
    file.write_text("tls_certificate: none.pem\ntls_key: none.key\n")
    result = run("check", file)
    assert result.returncode == 1 and "none.pem" in result.stderr
    file.write_text("sites:\n  - {root: site, hosts: 'http://a/'}\n")
    result = run("check", file)
    assert result.returncode == 1 and 'hosts has "http://a/": expected a name' in result.stderr


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--file"]])
def test_check_wants_one_file(arguments):
    result = run("check", *arguments)
    assert result.returncode == 2 and result.stderr == "uvhttp check: expected the name of a configuration file: uvhttp check server.yaml\n"


def test_a_file_that_is_not_there(tmp_path):
    result = run("check", tmp_path / "none.yaml")
    assert result.returncode == 1 and "none.yaml: " in result.stderr


# --- explain ---


@needs_yaml
def test_settings_say_where_they_come_from(file):
    file.write_text("backlog: 100\nsites: [{root: site}]\n")
    result = run("explain", "--changed", "--config", file, "--keepalive-timeout", 5, UVHTTP_BODY_TIMEOUT="9")
    settings = dict(line.split(" = ", 1) for line in result.stdout.splitlines() if " = " in line)
    assert settings["backlog"] == f"100  ({file}:1)" and settings["keepalive_timeout"] == "5  (option)"
    assert settings["body_timeout"] == "9  (UVHTTP_BODY_TIMEOUT)"
    assert "max_connections" not in settings
    assert "    enforced by " in result.stdout and result.stdout.count("a change needs a restart") >= 3


def test_one_setting_is_explained():
    result = run("explain", "keepalive-timeout")
    assert result.stdout.startswith("keepalive_timeout = 60  (default)\n    enforced by ") and result.stdout.count("\n") == 3
    assert len([line for line in run("explain").stdout.splitlines() if " = " in line]) > 60
    result = run("explain", "keepalive")
    assert result.returncode == 2 and result.stderr == "uvhttp explain: there is no field 'keepalive'; uvhttp explain lists all\n"
    assert "\033" not in run("explain").stdout


# --- version ---


def test_the_version_says_what_works_here():
    text = run("version").stdout
    assert text.startswith("uvhttp ") and "\nfeatures: " in text and "\nlibraries: libuv " in text
    backends = next(line for line in text.splitlines() if line.startswith("backends: "))
    if build_option("UVHTTP_WITH_URING") == "ON":
        assert "io_uring" in backends
    assert "epoll" in backends and ("(used)" in backends)
    assert ("yaml" in text.split("libraries:")[0].split("without")[0]) == (build_option("BUILD_WITH_YAML") == "ON")
    assert run("version", "x").returncode == 2


# --- completions ---


def complete(words):
    """What bash offers for the last of the words."""
    script = run("completion", "bash").stdout
    line = " ".join(f"'{word}'" for word in words)
    test = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _uvhttp; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", test], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes(tmp_path, monkeypatch):
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir.pem").write_text("")
    monkeypatch.chdir(tmp_path)
    assert complete(["uvhttp", "s"]) == ["serve"] and "check" in complete(["uvhttp", ""])
    assert complete(["uvhttp", "serve", "--sp"]) == ["--spa", "--spool-memory", "--spool-size-max", "--spool-directory"]
    assert complete(["uvhttp", "serve", "d"]) == ["dir"]
    assert sorted(complete(["uvhttp", "serve", "--key", "d"])) == ["dir", "dir.pem"]
    assert complete(["uvhttp", "serve", "--port", ""]) == [] and complete(["uvhttp", "serve", "-p", "d"]) == []
    assert complete(["uvhttp", "completion", ""]) == ["bash", "zsh", "fish"]
    assert complete(["uvhttp", "explain", "keepalive_t"]) == ["keepalive_timeout"]
    assert complete(["uvhttp", "check", "dir."]) == ["dir.pem"]
    assert complete(["uvhttp", "version", ""]) == []


@pytest.mark.parametrize("shell, arguments", [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_scripts_for_other_shells_are_well_formed(shell, arguments, tmp_path):
    script = tmp_path / "script"
    script.write_text(run("completion", shell).stdout)
    text = script.read_text()
    assert "--http-port" in text or "-l http-port" in text
    for name in ("serve", "check", "explain", "version", "completion", "keepalive"):
        assert name in text
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    subprocess.run([shell, *arguments, script], check=True)


def test_fish_completes(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("no fish")
    script = tmp_path / "uvhttp.fish"
    script.write_text(run("completion", "fish").stdout)

    def offers(line):
        command = f"source {script}; complete -C '{line}'"
        text = subprocess.run(["fish", "-c", command], capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)}).stdout
        return [offer.split("\t")[0] for offer in text.splitlines()]

    assert offers("uvhttp s") == ["serve"] and "--http-port" in offers("uvhttp serve --http-p")
    assert sorted(offers("uvhttp completion ")) == ["bash", "fish", "zsh"]


@pytest.mark.parametrize("arguments", [[], ["tcsh"], ["bash", "zsh"]])
def test_completion_wants_a_shell(arguments):
    result = run("completion", *arguments)
    assert result.returncode == 2 and "expected bash, zsh or fish" in result.stderr


# --- manual pages ---


@pytest.mark.parametrize("program, arguments", [("uvhttp", ["man"]), ("uvhttp-load", ["--man"])])
def test_manual_pages_are_well_formed(program, arguments, tmp_path):
    page = tmp_path / f"{program}.1"
    page.write_text(subprocess.run([EXAMPLES / program, *arguments], capture_output=True, text=True, check=True).stdout)
    help_text = subprocess.run([EXAMPLES / program, *(["serve", "--help-all"] if program == "uvhttp" else ["--help"])],
                               capture_output=True, text=True, check=True).stdout
    options = {word.strip(",") for word in help_text.split() if word.startswith("--")}
    roff = page.read_text().replace("\\-", "-")
    assert len(options) > 30 and [option for option in options - {"--FIELD"} if option not in roff] == []
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc")
    checked = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    # A date would make each build another one.
    assert [line for line in checked.stdout.splitlines() if "missing date" not in line] == []
