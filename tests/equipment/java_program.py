"""How does a test run a Java program beside Kafka's own classes?"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from controller.lab.jars import Module, class_path, kafka_class_path
from controller.lab.java import QUICK_START, find_java

_LOGGING = Path(__file__).parents[2] / "controller" / "lab" / "tools-log4j.properties"
# A compiler that needs only a Java runtime; tests.kafka uses the same.
_COMPILER = Module("org.eclipse.jdt", "ecj", "3.33.0")


@contextmanager
def compiled(source: Path, version: str) -> Iterator[tuple[Path, list[str]]]:
    """Compile one file against Kafka's classes of a version; gives a directory and the command that runs its class.

    Raises:
        LabError: there is no Java, or there are no jars.
    """
    java = find_java()
    path = os.pathsep.join(map(str, kafka_class_path(version)))
    compiler = os.pathsep.join(map(str, class_path("java-compiler", _COMPILER.revision, lambda: [_COMPILER])))
    with TemporaryDirectory(prefix=f"{source.stem.lower()}-") as directory:
        compiling = [str(java.executable), "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main"]
        compiling += ["-cp", path, "-source", "11", "-target", "11", "-nowarn", "-d", directory, str(source)]
        subprocess.run(compiling, check=True)
        running = [str(java.executable), "-Xmx384m", *QUICK_START, f"-Dlog4j.configuration=file:{_LOGGING}"]
        yield Path(directory), [*running, "-cp", f"{directory}{os.pathsep}{path}", source.stem]
