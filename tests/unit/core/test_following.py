"""While duties follow, the changes stay as they are, and until they tell it does not matter which one is first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from controller.core import duties, machine
from controller.core.memory import Memory
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes, OpenChanges
from controller.core.turn.duty import Duty
from controller.core.turn.intake import Intake
from controller.core.turn.shared import Shared
from tests.scenarios.commands import obey
from tests.scenarios.play import LINE
from tests.scenarios.theatre import Theatre

STORIES = Path(__file__).parents[2] / "scenarios"
NAMES = (
    "cancel_and_set_some",
    "conflicts",
    "malformed_znodes",
    "reassign_one_partition",
    "reassignment_znode_cannot_be_followed",
    "topic_deleted",
    "topic_deletion_withdrawn",
    "topic_grows_while_deleted",
)


class Turned:
    """A duty among others: when the last is asked to retract, amend or follow, all do, the last first."""

    def __init__(self, duty: Duty, every: Sequence[Duty]) -> None:
        self._duty, self._every = duty, every

    def __getattr__(self, name: str) -> Any:
        return getattr(self._duty, name)

    def retract(self, changes: OpenChanges, out: Outbox) -> None:
        for duty in self._all():
            duty.retract(changes, out)

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        for duty in self._all():
            duty.amend(changes, out)

    def follow(self, changes: Changes, out: Outbox) -> None:
        before = picture(changes)
        for duty in self._all():
            duty.follow(changes, out)
            assert picture(changes) == before, duty

    def _all(self) -> Sequence[Duty]:
        return self._every[::-1] if self._duty is self._every[-1] else ()


def picture(changes: Changes) -> dict[str, object]:
    """What is in the changes, down to single partitions."""
    of_topics = {name: dict(numbers) for name, numbers in changes.partitions.items()}
    fields = {name: value.copy() if hasattr(value, "copy") else value for name, value in asdict(changes).items()}
    return {**fields, "partitions": of_topics}


def nodes_after(name: str) -> dict[str, bytes]:
    """What ZooKeeper holds when a scenario is over."""
    theatre = Theatre()
    for block in (STORIES / f"{name}.txt").read_text().strip("\n").split("\n\n"):
        for line in block.split(f"\n{LINE}")[0].splitlines():
            if line and not line.startswith("#"):
                obey(theatre, line)
    return {path: node.data for path, node in theatre.zookeeper.nodes.items()}


@pytest.mark.parametrize("name", NAMES)
def test_who_follows_first_does_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = nodes_after(name)

    def turned(shared: Shared, memory: Memory, intake: Intake) -> list[Turned]:
        every = duties.all_duties(shared, memory, intake)
        return [Turned(duty, every) for duty in every]

    monkeypatch.setattr(machine, "all_duties", turned)

    assert nodes_after(name) == expected
