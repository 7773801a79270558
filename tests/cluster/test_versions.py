"""Every duty of a controller, on every broker version from 2.4 to 3.9."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.version_results import writing_down
from tests.cluster.walk import STEPS, VERSIONS, walking


@pytest.mark.versions
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "version", [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.thorough) for version in VERSIONS[1:])]
)
def test_brokers_of_this_version_miss_nothing_under_our_controller(version: str, tmp_path: Path) -> None:
    with walking(version, tmp_path) as walk, writing_down(version) as walked:
        walked.facts = walk.facts
        for name, step in STEPS.items():
            began = time.monotonic()
            walked.steps[name] = step(walk)
            print(f"{version} {name}: {time.monotonic() - began:.1f} s")  # noqa: T201 - shown where it fails
