"""docs/architecture.md shows the layers of pyproject.toml, and its example runs."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


def layers(contract: str) -> list[list[str]]:
    """Those of a contract, from the top; folders beside each other in any order."""
    (found,) = [one["layers"] for one in CONTRACTS if one["name"] == contract]
    return [sorted(layer.split(" | ")) for layer in found]


def test_the_table_has_the_layers_of_the_contract() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text("utf-8").partition("\n## Layers\n")[2], re.MULTILINE)

    assert [sorted(re.findall("`([^`]+)`", row)) for row in rows] == layers("dependencies point inward")


@pytest.mark.parametrize("contract", ["inside the core", "inside the replay"])
def test_a_block_has_the_layers_of_the_contract(contract: str) -> None:
    blocks = re.findall(r"^```text\n(.+?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

    assert layers(contract) in [[sorted(line.split(" | ")) for line in block.splitlines()] for block in blocks]


def test_the_example_of_a_driver_runs() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)

    assert (failed, tried > 0) == (0, True)
