"""How do the jars of many Kafka versions arrive in time? A process downloads them beside the first tests."""

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
    """Download in a separate process, which ends with this one; a test that needs a jar waits for it."""
    process = Process("jars", [sys.executable, "-m", "tests.cluster.jars_ahead", *versions], LOG)
    process.start()
    _running.append(process)


def download(versions: Sequence[str]) -> None:
    """Download one after the other; a test without its jars reports the reason itself."""
    for version in versions:
        with suppress(JarsUnavailable):
            kafka_class_path(version)


if __name__ == "__main__":
    download(sys.argv[1:])
