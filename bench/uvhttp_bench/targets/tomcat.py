"""Owns: Apache Tomcat from Debian's package, with a CATALINA_BASE of its own."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from uvhttp_bench.scenarios.catalog import Scenario
from uvhttp_bench.targets.base import Ports, Workspace
from uvhttp_bench.targets.peer import BUILT, HELLO, LARGE, SOURCES, STATIC, Peer, build, fill, package_version, program

HOME = Path("/usr/share/tomcat10")
THREADS_DEFAULT = 200  # Tomcat's own
WARMUP_SECONDS = 10.0

TLS_CONNECTOR = """<Connector port="{port}" address="127.0.0.1" maxThreads="{threads}" maxKeepAliveRequests="-1"
    keepAliveTimeout="60000" acceptCount="4096" SSLEnabled="true" scheme="https" secure="true">
    <SSLHostConfig><Certificate certificateFile="{certificate}" certificateKeyFile="{key}" type="EC" /></SSLHostConfig>
</Connector>"""


class Tomcat(Peer):
    name = "tomcat"
    package = "tomcat10 openjdk-17-jdk-headless"
    pipelines = True
    kinds = frozenset({HELLO, LARGE, STATIC})
    schemes = frozenset({"http", "https"})
    start_seconds = 90.0

    def __init__(self, threads: int = THREADS_DEFAULT, warmup_seconds: float = WARMUP_SECONDS) -> None:
        self._threads = threads
        self.warmup_seconds = warmup_seconds
        self.note = f"{threads} threads, heap fixed at 512 MB; measured after the JVM has warmed up for {warmup_seconds:g} s"

    def found(self) -> bool:
        return bool((HOME / "bin" / "bootstrap.jar").exists() and program("java") and program("javac"))

    def version(self) -> str:
        return f"{package_version('tomcat10')} on OpenJDK {package_version('openjdk-17-jre-headless')}"

    def command(self, scenario: Scenario, ports: Ports, workspace: Workspace) -> Sequence[str | Path]:
        base = workspace.path / "tomcat"
        shutil.rmtree(base, ignore_errors=True)
        root = base / "webapps" / "ROOT"
        classes = root / "WEB-INF" / "classes"
        for directory in (base / "conf", base / "temp", base / "logs", classes, root / "static"):
            directory.mkdir(parents=True)
        shutil.copy(self._servlet(), classes)
        shutil.copy(SOURCES / "tomcat_web.xml", root / "WEB-INF" / "web.xml")
        for file in workspace.static.iterdir():
            (root / "static" / file.name).hardlink_to(file)
        secure = ""
        if scenario.scheme == "https":
            where = {"certificate": workspace.certificate, "key": workspace.key}
            secure = TLS_CONNECTOR.format(port=ports.https, threads=self._threads, **where)
        fill("tomcat_server.xml.in", base / "conf" / "server.xml", PORT=ports.http, THREADS=self._threads, TLS=secure)
        jars = f"{HOME / 'bin' / 'bootstrap.jar'}:{HOME / 'bin' / 'tomcat-juli.jar'}"
        options = ["-Xms512m", "-Xmx512m", f"-Djava.io.tmpdir={base / 'temp'}"]
        options += [f"-Dcatalina.home={HOME}", f"-Dcatalina.base={base}", "-cp", jars]
        return ["java", *options, "org.apache.catalina.startup.Bootstrap", "start"]

    def _servlet(self) -> Path:
        source = SOURCES / "TomcatWork.java"
        jar = HOME / "lib" / "servlet-api.jar"
        return build(self.name, ["javac", "-cp", jar, "-d", BUILT, source], [source], BUILT / "TomcatWork.class")
