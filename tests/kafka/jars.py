"""Which jars do Kafka's own tests need?"""

from __future__ import annotations

from pathlib import Path

from controller.lab.errors import JarsUnavailable
from controller.lab.jars import Module, Progress, class_path

_KAFKA = "org.apache.kafka"
_WITH_TESTS = {
    "3.9": (
        "kafka_2.13",
        "kafka-clients",
        "kafka-group-coordinator",
        "kafka-metadata",
        "kafka-raft",
        "kafka-server",
        "kafka-server-common",
        "kafka-storage",
        "kafka-storage-api",
        "kafka-tools",
    ),
    "2.8": ("kafka_2.13", "kafka-clients", "kafka-metadata", "kafka-raft"),
}
_JUNIT = (
    # A compiler that needs only a Java runtime.
    Module("org.eclipse.jdt", "ecj", "3.33.0"),
    Module("org.junit.jupiter", "junit-jupiter", "5.10.2"),
    Module("org.junit.platform", "junit-platform-console", "1.10.2"),
    Module("org.hamcrest", "hamcrest", "2.2"),
    Module("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
# Libraries for mocks and certificates. Older releases of Mockito do not know Java 17.
_BESIDE = {
    "3.9": (
        Module("org.mockito", "mockito-core", "5.10.0"),
        Module("org.mockito", "mockito-junit-jupiter", "5.10.0"),
        Module("org.bouncycastle", "bcpkix-jdk18on", "1.75"),
    ),
    "2.8": (
        Module("org.mockito", "mockito-core", "4.11.0"),
        Module("org.easymock", "easymock", "4.3"),
        Module("org.bouncycastle", "bcpkix-jdk15on", "1.66"),
    ),
}
VERSIONS = ("3.9.1", "3.9.2", "2.8.2")


def line_of(version: str) -> str:
    """The release line of a version, whose releases have the same tests.

    >>> line_of("3.9.2")
    '3.9'
    """
    return ".".join(version.split(".")[:2])


def tests_class_path(version: str, progress: Progress) -> tuple[Path, ...]:
    """Kafka with its tests and what runs them; downloaded once, to where the lab keeps its jars.

    Raises:
        JarsUnavailable: They are missing and could not be downloaded, or the needs of this version are unknown.
    """
    if version not in VERSIONS:
        raise JarsUnavailable(version, f"its tests are not known here; known are {', '.join(VERSIONS)}")
    return class_path(f"kafka-tests-{version}", version, lambda: _modules(version), progress=progress)


def _modules(version: str) -> list[Module]:
    return [
        *(Module(_KAFKA, name, version, with_tests=True) for name in _WITH_TESTS[line_of(version)]),
        *_BESIDE[line_of(version)],
        *_JUNIT,
    ]
