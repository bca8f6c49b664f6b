"""Owns: Apache Tomcat from Debian's package, with a CATALINA_BASE of its own."""

import os
import shutil
from pathlib import Path

from uvhttp_bench.targets.adapter import SOURCES, Adapter, Place, build, filled, package_version, program

HOME = Path("/usr/share/tomcat10")
THREADS_DEFAULT = 200  # Tomcat's own


class Tomcat(Adapter):
    name = "tomcat"
    package = "tomcat10 openjdk-17-jdk-headless"
    serves = frozenset({"hello", "body-100kb", "static-10kb", "static-1mb", "https", "https-100kb"})
    tls = True
    note = "200 threads (its default), heap fixed at 512 MB; measured after the JVM's warm-up"

    def __init__(self, threads: int = THREADS_DEFAULT) -> None:
        self._threads = threads

    def missing(self) -> str | None:
        there = (HOME / "bin" / "bootstrap.jar").exists() and program("java") and program("javac")
        return None if there else self.not_installed()

    def version(self) -> str:
        return f"{package_version('tomcat10')} on OpenJDK {package_version('openjdk-17-jre-headless')}"

    def command(self, place: Place) -> list[str]:
        base = place.directory / "tomcat"
        web = base / "webapps" / "ROOT"
        for directory in (base / "conf", base / "temp", base / "logs", web / "WEB-INF" / "classes", web / "static"):
            directory.mkdir(parents=True, exist_ok=True)
        compiled = place.built / "TomcatWork.class"
        if not compiled.exists():
            jar = str(HOME / "lib" / "servlet-api.jar")
            build(self.name, ["javac", "-cp", jar, "-d", str(place.built), str(SOURCES / "TomcatWork.java")], compiled)
        shutil.copy(compiled, web / "WEB-INF" / "classes")
        shutil.copy(SOURCES / "tomcat_web.xml", web / "WEB-INF" / "web.xml")
        for file in place.files.iterdir() if place.files.exists() else ():
            if not (web / "static" / file.name).exists():
                os.link(file, web / "static" / file.name)
        (base / "conf" / "server.xml").write_text(filled("tomcat_server.xml.in", place, THREADS=self._threads))
        return [
            "java",
            "-Xms512m",
            "-Xmx512m",
            f"-Djava.io.tmpdir={base / 'temp'}",
            f"-Dcatalina.home={HOME}",
            f"-Dcatalina.base={base}",
            "-cp",
            f"{HOME / 'bin' / 'bootstrap.jar'}:{HOME / 'bin' / 'tomcat-juli.jar'}",
            "org.apache.catalina.startup.Bootstrap",
            "start",
        ]
