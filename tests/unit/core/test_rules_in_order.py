"""The table in controller/core/steps/README.md has each rule, in the order in which they are asked, with its file."""

from __future__ import annotations

import re
from pathlib import Path

from controller.core.duties import all_duties
from controller.core.steps.change import Precedence
from controller.core.steps.step import TopicDuty
from controller.core.steps.steps import in_order
from controller.core.turn.intake import Intake
from tests.unit.core.builders import Term

STEPS = Path(__file__).parents[3] / "controller" / "core" / "steps"
ROW = re.compile(r"\| `(?P<rule>\w+)` \| [^|]+ \| \[(?P<file>[\w/]+\.py)\]\((?P<link>[\w/.]+)\) \|")


def test_the_table_of_rules_is_the_order_in_which_they_are_asked() -> None:
    term = Term(keeps_reassignment_znodes=True)
    duties = all_duties(term.shared, term.memory, Intake(term.shared, {}))
    asked = in_order(duty for duty in duties if isinstance(duty, TopicDuty))

    rows = [row.groupdict() for row in map(ROW.fullmatch, (STEPS / "README.md").read_text().splitlines()) if row]

    modules = [rule.__module__.removeprefix("controller.core.").replace(".", "/") for _, rule in asked]
    assert [(row["rule"], row["file"]) for row in rows] == [
        (rank.name, f"{module}.py") for (rank, _), module in zip(asked, modules, strict=True)
    ]
    assert [rank for rank, _ in asked] == sorted(Precedence)
    assert all((STEPS / row["link"]).is_file() and row["link"] == f"../{row['file']}" for row in rows)
