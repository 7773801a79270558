"""A machine's knowledge of the configuration comes from the operator and this release."""

from __future__ import annotations

import tomllib
from pathlib import Path

from controller.process.machine_settings import SOFTWARE

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_tools_know_this_controller_by_its_release() -> None:
    assert f"kafka-zk-controller {tomllib.loads(PYPROJECT.read_text())['project']['version']}" == SOFTWARE
