"""docs/versions.md tells of every version and every step, and nothing of others."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.test_rolling_upgrade import FIRST, LATER
from tests.cluster.version_results import PASSED
from tests.cluster.walk import STEPS, VERSIONS

PAGE = Path(__file__).parents[2] / "docs" / "versions.md"


def tables() -> list[list[list[str]]]:
    """Each table's rows of cells, the line below the header left out."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| "):
            found.append([])
        elif not line.startswith("| ---"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table for table in found if table]


def test_every_step_was_passed_by_every_version() -> None:
    (_, *versions), *rows = tables()[0]
    outcomes = {step: cells for step, *cells in rows if PASSED in cells}

    assert versions == list(VERSIONS), "renew the page with: make versions"
    assert outcomes == {step: [PASSED] * len(VERSIONS) for step in STEPS}, "renew the page with: make versions"


def test_every_step_is_explained() -> None:
    _, *rows = tables()[1]

    assert [row[0] for row in rows] == list(STEPS), "renew the page with: make versions"
    assert all(all(cells) for cells in rows)


def test_every_leg_of_the_rolling_upgrade_is_told() -> None:
    _, *rows = tables()[2]
    legs = [row[0] for row in rows]

    assert [leg for leg in legs if "." in leg][: len(LATER)] == [
        f"{before} → {after}" for before, after in zip([FIRST, *LATER], LATER, strict=False)
    ]
    assert f"Outcome: {PASSED}" in PAGE.read_text(encoding="utf-8")
