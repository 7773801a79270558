"""The tables of others' scenarios and of known traps name tests that exist, and leave nothing without an answer."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLES = {"reassignment-scenarios.md": 60, "controller-scenarios.md": 60, "traps.md": 65}  # at least so many rows
TEXTS = {table: (TESTS / table).read_text() for table in TABLES}
ALL = "\n".join(TEXTS.values())
SCENARIOS = sorted(set(re.findall(r"`(\w+\.txt)`", ALL)))
NAMED = sorted(set(re.findall(r"`tests/([\w/]+\.py)::(\w+)`", ALL)))
LINKS = sorted({(table, link) for table, text in TEXTS.items() for link in re.findall(r"\]\(([^)#]+)\)", text)})
NOTHING_OF_THE_KIND = "nothing of the kind in Kafka"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_story_named_exists(scenario: str) -> None:
    assert (TESTS / "scenarios" / scenario).is_file()


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_each_test_named_exists(path: str, name: str) -> None:
    assert name in _tests_of(path)


@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_named_in_a_form_that_is_not_checked(table: str) -> None:
    named = re.findall(r"`([^`]*(?:\w\.txt|::)[^`]*)`", TEXTS[table])

    assert [n for n in named if not re.fullmatch(r"\w+\.txt|tests/[\w/]+\.py::\w+", n)] == []


@pytest.mark.parametrize("table", TABLES)
def test_each_row_has_a_test_or_a_reason(table: str) -> None:
    rows = [tuple(row.strip("| ").split(" | ", 1)) for row in TEXTS[table].splitlines() if row.startswith("| ")]
    rows = [row for row in rows if row[0] not in ("theirs", "trap", "---")]

    assert len(rows) >= TABLES[table]
    for theirs, here in rows:
        assert "::" in here or ".txt`" in here or "*sim*" in here or NOTHING_OF_THE_KIND in here, theirs


@pytest.mark.parametrize(("table", "link"), LINKS)
def test_links_lead_somewhere(table: str, link: str) -> None:
    assert (TESTS / table).parent.joinpath(link).is_file()


@pytest.mark.parametrize(
    "path", ["unit/traps/test_tickets.py", "unit/traps/test_weaknesses.py", "unit/traps/test_protocol.py"]
)
def test_each_test_of_a_trap_is_in_the_table(path: str) -> None:
    named = {name for of, name in NAMED if of == path and f"tests/{of}::{name}" in TEXTS["traps.md"]}

    assert _tests_of(path) - named == set()


@cache
def _tests_of(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
