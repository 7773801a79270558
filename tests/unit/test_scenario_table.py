"""The table of other projects' scenarios names tests that exist, and leaves none of their tests without an answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = (TESTS / "reassignment-scenarios.md").read_text()
ROWS = [tuple(row.strip("| ").split(" | ", 1)) for row in TABLE.splitlines() if row.startswith("| ")]
SCENARIOS = sorted(set(re.findall(r"`(\w+\.txt)`", TABLE)))
NAMED = sorted(set(re.findall(r"`tests/([\w/]+\.py)::(\w+)`", TABLE)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_story_named_exists(scenario: str) -> None:
    assert (TESTS / "scenarios" / scenario).is_file()


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_each_test_named_exists(path: str, name: str) -> None:
    tree = ast.parse((TESTS / path).read_text())

    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_of_their_scenarios_has_a_test_or_a_reason() -> None:
    rows = [row for row in ROWS if row[0] not in ("theirs", "---")]

    assert len(rows) > 60
    for theirs, here in rows:
        assert "`" in here or "nothing of the kind in Kafka" in here, theirs
