"""How do the jars of many Kafka versions come to be there in time? They are downloaded beside the first tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from controller.lab.errors import JarsUnavailable
from controller.lab.jars import kafka_class_path
from controller.lab.process import Process

_running: list[Process] = []
LOG = Path(__file__).parents[2] / ".cache" / "versions" / "jars.log"


def download_beside(versions: Sequence[str]) -> None:
    """In a process of its own, which ends with this one; whoever needs one of them meanwhile waits for it."""
    process = Process("jars", [sys.executable, "-m", "tests.cluster.jars_ahead", *versions], LOG)
    process.start()
    _running.append(process)


def download(versions: Sequence[str]) -> None:
    """One after the other; a test that lacks its jars says why by itself."""
    for version in versions:
        with suppress(JarsUnavailable):
            kafka_class_path(version)


if __name__ == "__main__":
    download(sys.argv[1:])
