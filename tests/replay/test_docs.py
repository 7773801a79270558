"""The documented columns are the columns there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrics.replay.cli import replay
from metrics.replay.jobs import ALL
from metrics.replay.reassignments import COLUMNS
from metrics.replay.schemas import TABLES, WRITTEN

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "replay.md").read_text()


@pytest.mark.parametrize("table", ALL)
def test_every_table_is_documented(table: str) -> None:
    assert f"`{table}`" in TEXT or f"### {table}" in TEXT


def test_every_column_of_a_move_is_documented_with_its_type() -> None:
    for name, _, kind, meaning in COLUMNS:
        assert f"| `{name}` | {kind} | {meaning} |" in TEXT


@pytest.mark.parametrize("table", ["events", "partitions", "damage"])
def test_every_column_read_from_the_logs_is_documented(table: str) -> None:
    missing = [name for name in WRITTEN[table].names if f"`{name}`" not in TEXT]

    assert not missing


def test_every_option_is_documented() -> None:
    options = [option for parameter in replay.params for option in parameter.opts if option.startswith("--")]

    assert [option for option in options if f"`{option}" not in TEXT] == []
    assert [table for table in TABLES if f"`{table}`" not in TEXT] == []


def test_the_notebook_is_one_and_its_code_compiles() -> None:
    notebook = json.loads((DOCS / "replay.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]

    assert len(code) > 5
    for source in code:
        compile(source, "replay.ipynb", "exec")
