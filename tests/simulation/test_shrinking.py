"""A shrunk story breaks the same promise with fewer events, which are unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller.core.messages.effects import Answer, Effect
from controller.core.messages.events import Event
from tests.simulation.broken import Broken
from tests.simulation.shrinking import lived_through, promise_of, shrink
from tests.simulation.world import GivenUp, World

SEED = 3
A_WHILE_S = 15.0


def answer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    right = World.new_machine

    class Wrong:
        def __init__(self, machine: Any) -> None:
            self._machine = machine
            self.let_go = machine.let_go
            self._queue, self._transactions = machine._queue, machine._transactions

        def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
            effects = self._machine.turn(events, now)
            return [e for effect in effects for e in ([effect, effect] if isinstance(effect, Answer) else [effect])]

    monkeypatch.setattr(World, "new_machine", lambda *given: Wrong(right(*given)))


def test_a_story_gets_smaller_and_breaks_the_same_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_twice(monkeypatch)
    whole = World(SEED)
    broken = lived_through(whole)
    assert broken is not None

    story = shrink(SEED, tries=40, seconds=60.0)

    assert story is not None
    assert promise_of(story.error) == promise_of(broken)
    assert len(story.events) < len(whole.events)
    assert "twice" in str(story.error)


def test_the_smallest_story_can_be_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_twice(monkeypatch)
    story = shrink(SEED, tries=20, seconds=60.0)
    assert story is not None

    again = World(SEED, only=story.events, plan=story.world.plan)

    assert str(lived_through(again)) == str(story.error)
    assert again.trace.lines == story.world.trace.lines


def test_no_more_is_tried_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_twice(monkeypatch)

    story = shrink(SEED, tries=0)

    assert story is not None
    assert story.tries == 1


def test_the_other_events_come_when_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = begun(None)
    left_out = next(name for name in whole if name.startswith("client"))

    rest = begun([name for name in whole if name != left_out])

    assert left_out not in rest
    assert [whole[name] for name in rest] == list(rest.values())


def begun(only: list[str] | None) -> dict[str, str]:
    """A world's first events, with their times."""
    world = World(SEED, only=only)
    world.gives_up_at = A_WHILE_S
    with pytest.raises(GivenUp):
        world.run()
    return {event.name: event.line.split()[0] for event in world.events}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("topic1-0 elected 3, which was not in sync", "topic2-7 elected 1, which was not in sync", True),
        ("topic1-0 elected 3, which was not in sync", "topic1-0 has the ISR [1] but the replicas [2, 3]", False),
        ("never answered: {7: Reassign(a=(1,))}", "never answered: {8: ListReassignments(None)}", True),
    ],
)
def test_a_promise_is_known_by_its_first_words(one: str, other: str, *, is_same: bool) -> None:
    assert (promise_of(Broken(one)) == promise_of(Broken(other))) == is_same
