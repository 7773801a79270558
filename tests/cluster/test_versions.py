"""Every duty of a controller, on every broker version from 2.4 to 3.9."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.cluster.walk import STEPS, VERSIONS, walking


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_of_this_version_miss_nothing_under_our_controller(version: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with walking(version, tmp_path) as walk:
        sys.stdout.write(f"{version} started {time.monotonic() - began:.1f} s\n")
        for name, step in STEPS.items():
            began = time.monotonic()
            ran = step(walk)
            sys.stdout.write(f"{version} {name} {time.monotonic() - began:.1f} s: {ran}\n")
