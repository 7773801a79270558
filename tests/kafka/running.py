"""How is one class of Kafka's tests run, with which controller?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from controller.lab.java import QUICK_START, find_java
from controller.lab.process import Process
from tests.kafka.jars import VERSIONS, line_of, tests_class_path
from tests.kafka.reports import Outcome, Result, read_reports

KEPT = Path(__file__).parents[2] / ".cache" / "kafka-tests"
WHOLE_CLASS = "(the whole class)"

_ROOT = Path(__file__).parents[2]
_SOURCES = Path(__file__).with_name("java")
# Kafka 2.8 and the libraries that its tests mock with do not know what came later.
_NEWEST_JAVA = {"2.8": 17, "3.9": 21}
_TEST_LIMIT_S = 240
_OPEN_PACKAGES = (
    *("java.io", "java.lang", "java.net", "java.nio", "java.nio.file", "java.text", "java.time", "java.util"),
    *("java.util.concurrent", "java.util.regex", "java.util.stream"),
)
# A node beside brokers 0, 1, 2, …; below reserved.broker.max.id. It is in charge before there are brokers, so it cannot
# find out their protocol; and tests give them one, 4.0, that no released version with ZooKeeper has. If it had to find
# out whether they delete topics, a new term would begin when they have said so.
_SETTINGS = {
    version: {
        "broker.id": "901",
        "http.port": "0",
        "log.format": "json",
        "inter.broker.protocol.version": line_of(version),
        "controller.preflight.tolerate": "protocol,brokers,authorizer",
        "delete.topic.enable": "true",
    }
    for version in VERSIONS
}


class Controller(StrEnum):
    """Which controller leads the brokers."""

    OURS = "ours"
    NATIVE = "native"


class Chosen(msgspec.Struct, frozen=True):
    """A class of tests, or one method of it, and the settings of our controller."""

    class_name: str
    method: str = ""
    settings: Mapping[str, str] = {}
    settings_of_methods: Mapping[str, Mapping[str, str]] = {}
    """Settings of single tests that differ from their class's."""


class Runner:
    """Runs classes of one version's tests, each in a process of its own."""

    def __init__(self, version: str, class_limit_s: float, tell: Callable[[str], None]) -> None:
        """Find or download the jars, and compile the replacement for Kafka's own start of ZooKeeper.

        Raises:
            LabError: There is no Java, or there are no jars.
        """
        self._version = version
        self._limit_s = class_limit_s
        self._tell = tell
        self.java = find_java(newest=_NEWEST_JAVA[line_of(version)])
        self._jars = tests_class_path(version, tell)
        self._compiled = TemporaryDirectory(prefix="kafka-tests-")
        self._ours = Path(self._compiled.name)
        self._compile()

    def _compile(self) -> None:
        path = self._path(self._jars)
        argv: list[str | Path] = [
            self.java.executable,
            "-cp",
            path,
            "org.eclipse.jdt.internal.compiler.batch.Main",
            "-cp",
            path,
        ]
        argv += ["-source", "11", "-target", "11", "-nowarn", "-d", self._ours, *_SOURCES.rglob("*.java")]
        subprocess.run(argv, check=True)
        shutil.copytree(_SOURCES / "META-INF", self._ours / "META-INF")

    @staticmethod
    def _path(jars: Sequence[Path]) -> str:
        return os.pathsep.join(map(str, jars))

    def run(self, chosen: Chosen, controller: Controller) -> list[Outcome]:
        """Run a class; one that takes too long is ended, and the outcome says so."""
        directory = KEPT / self._version / controller / chosen.class_name
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "tmp").mkdir(parents=True)
        _write(directory / "settings.properties", {**_SETTINGS[self._version], **chosen.settings})
        for method, settings in chosen.settings_of_methods.items():
            _write(directory / f"settings-{method}.properties", settings)
        process = Process(
            chosen.class_name,
            # Some tests write to where they are started.
            ["sh", "-c", 'cd "$0" && exec "$@"', directory / "tmp", *self._argv(chosen, controller, directory)],
            directory / "output.log",
            env={"PYTHONPATH": str(_ROOT)},
        )
        process.start()
        try:
            in_time = self._wait(process)
        finally:
            process.kill()
            shutil.rmtree(directory / "tmp", ignore_errors=True)  # what the brokers kept
        outcomes = read_reports(directory)
        if not in_time:
            outcomes.append(_whole_class(f"not done after {self._limit_s:g} s"))
        elif not outcomes and process.exit_code:
            outcomes.append(_whole_class(f"exit code {process.exit_code}: {process.tail(1)}"))
        return outcomes

    def _argv(self, chosen: Chosen, controller: Controller, directory: Path) -> list[str | Path]:
        # For Kafka's own controller, Kafka's own way to start ZooKeeper comes first on the class path.
        path = [self._ours, *self._jars] if controller is Controller.OURS else [*self._jars, self._ours]
        properties = {
            "controller.directory": directory,
            "controller.python": sys.executable,
            "chosen.methods": re.escape(chosen.method),
            "java.io.tmpdir": directory / "tmp",
            "junit.jupiter.extensions.autodetection.enabled": "true",
            "junit.jupiter.execution.timeout.testable.method.default": f"{_TEST_LIMIT_S} s",
        }
        if controller is Controller.OURS:
            properties["controller.is-ours"] = "yes"
        # Lets a class be changed that is loaded already.
        agent = next(jar for jar in self._jars if jar.name.startswith("byte-buddy-agent-"))
        return [
            *(self.java.executable, "-Xmx1g", *QUICK_START, f"-javaagent:{agent}"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN_PACKAGES),
            *(f"-D{key}={value}" for key, value in properties.items()),
            *("-cp", self._path(path), "org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--select-class", chosen.class_name, "--reports-dir", directory, "--details", "summary"),
            *("--disable-banner", "--disable-ansi-colors"),
        ]

    def _wait(self, process: Process) -> bool:
        started = time.monotonic()
        next_word = 60.0
        while process.is_alive:
            passed = time.monotonic() - started
            if passed > self._limit_s:
                return False
            if passed > next_word:
                next_word += 60
                done = len(re.findall(rb"(?m)^test done: ", process.output_since_start()))
                self._tell(f"    … after {passed:.0f} s: {done} tests done")
            time.sleep(0.2)
        return True


def _whole_class(problem: str) -> Outcome:
    return Outcome(WHOLE_CLASS, "", Result.FAILED, problem)


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
