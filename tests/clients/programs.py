"""Which clients are there, and how is each made ready to run on this machine?"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from controller.lab.errors import LabError
from controller.lab.jars import Module, class_path, kafka_class_path
from controller.lab.java import QUICK_START, find_java

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / ".cache" / "clients"


class Unavailable(Exception):
    """This machine cannot run a client; the text says why."""


class Program(Struct, frozen=True):
    """A command that carries out a plan."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}


class Client(Struct, frozen=True):
    """One library in one version."""

    name: str
    version: str
    make_ready: Callable[[], Program]

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} {self.version}"

    @property
    def slug(self) -> str:
        """For names of topics."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def python(script: str, *pins: str) -> Callable[[], Program]:
    """A virtual environment of its own, made once for these pins."""

    def make_ready() -> Program:
        directory = KEPT / "python" / hashlib.sha256("\n".join((sys.version, *pins)).encode()).hexdigest()[:16]
        python = directory / "bin" / "python"
        if not (directory / "ready").exists():
            venv.create(directory, with_pip=True, clear=True)
            _run([str(python), "-m", "pip", "install", "--quiet", *pins], HERE)
            (directory / "ready").touch()
        return Program((str(python), str(HERE / "python" / script)))

    return make_ready


def java(version: str) -> Callable[[], Program]:
    def make_ready() -> Program:
        try:
            java = find_java()
            jars = [*class_path(f"kafka-clients-{version}", version, partial(_clients, version)), *_jackson()]
        except LabError as error:
            raise Unavailable(str(error)) from error
        if not (java.executable.parent / "javac").exists():
            raise Unavailable("this Java has no compiler")
        joined = ":".join(map(str, jars))
        return Program((str(java.executable), *QUICK_START, "-cp", joined, str(HERE / "java" / "JavaAdmin.java")))

    return make_ready


def _clients(version: str) -> list[Module]:
    return [Module("org.apache.kafka", "kafka-clients", version), Module("org.slf4j", "slf4j-nop", "1.7.36")]


def _jackson() -> list[Path]:
    """Which Java's clients want for tokens of OAUTHBEARER, and do not bring."""
    return [jar for jar in kafka_class_path("3.9.1") if jar.name.startswith("jackson-")]


def go(program: str) -> Callable[[], Program]:
    def make_ready() -> Program:
        found = _tool("go")
        made = KEPT / "go" / program
        _run([found, "build", "-mod=readonly", "-o", str(made), f"./{program}"], HERE / "go")
        return Program((str(made),))

    return make_ready


def node(script: str) -> Callable[[], Program]:
    """Packages are installed beside a copy of the lock, not into the sources."""

    def make_ready() -> Program:
        node, npm = _tool("node"), _tool("npm")
        made = KEPT / "node"
        made.mkdir(parents=True, exist_ok=True)
        lock = (HERE / "node" / "package-lock.json").read_bytes()
        installed = made / "installed"
        for source in (HERE / "node").iterdir():
            if source.is_file():
                shutil.copy(source, made)
        if not installed.exists() or installed.read_bytes() != lock:
            _run([npm, "ci", "--no-audit", "--no-fund", "--silent"], made)
            installed.write_bytes(lock)
        return Program((node, str(made / script)))

    return make_ready


def _kcat() -> Program:
    return Program((sys.executable, str(HERE / "python" / "kcat.py"), _tool("kcat")))


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name} on this machine")
    return found


def _run(argv: Sequence[str], directory: Path) -> None:
    """A step of making ready.

    Raises:
        Unavailable: it failed; with the last line of what it said.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False, env=_without_our_path())
    if run.returncode:
        said = (run.stderr or run.stdout).strip().splitlines()
        raise Unavailable(f"`{Path(argv[0]).name} {' '.join(argv[1:3])}` failed: {said[-1] if said else 'silently'}")


def _without_our_path() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


CLIENTS: tuple[Client, ...] = (
    Client("Java AdminClient", "2.8.2", java("2.8.2")),
    Client("Java AdminClient", "4.1.1", java("4.1.1")),
    Client("confluent-kafka", "2.3.0", python("confluent.py", "confluent-kafka==2.3.0")),
    Client("confluent-kafka", "2.16.1", python("confluent.py", "confluent-kafka==2.16.1")),
    Client("kcat", "of this machine", _kcat),
    Client("kafka-python", "3.0.12", python("kafka_python.py", "kafka-python==3.0.12")),
    Client("aiokafka", "0.14.0", python("aiokafka_client.py", "aiokafka==0.14.0")),
    Client("kafkajs", "2.2.4", node("kafkajs.js")),
    Client("@platformatic/kafka", "1.35.0", node("platformatic.js")),
    Client("franz-go", "1.22.2", go("franz")),
    Client("sarama", "1.61.1", go("sarama")),
)
