"""Which few of a seed's events break the same promise?

Events are left out, many at first, then fewer at a time, as long as the same promise is broken; the consequences of the
others are drawn as before. Then fewer processes are tried.

Source: Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input (delta debugging).
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tests.simulation.broken import Broken
from tests.simulation.world import GivenUp, Plan, World

TRIES = 300
SECONDS = 180.0
# How much later a smaller story may end.
GRACE_S = 5.0
_WORDS = 6
_VARIABLE = re.compile(r"\([^()]*\)|\[[^\]]*\]|\{[^}]*\}|'[^']*'|\S*\d\S*")


class Story(NamedTuple):
    """A world that broke a promise, and the number of attempts to find it."""

    world: World
    error: Exception
    tries: int

    @property
    def events(self) -> list[str]:
        """Its events, in order."""
        return [event.name for event in self.world.events]


def promise_of(error: Exception) -> str:
    """The broken promise: the first words, without names and numbers.

    >>> promise_of(Broken("topic1-0 elected 3, which was not in sync"))
    'Broken: … elected … which was not'
    """
    words = _VARIABLE.sub("…", str(error)).split()[:_WORDS]
    where = "" if isinstance(error, Broken) else f" in {traceback.extract_tb(error.__traceback__)[-1].name}"
    return f"{type(error).__name__}{where}: {' '.join(words)}"


def lived_through(world: World) -> Exception | None:
    """The promise that broke, if any."""
    try:
        world.run()
    except GivenUp:
        return None
    except Exception as error:
        return error
    return None


def shrink(seed: int, *, tries: int = TRIES, seconds: float = SECONDS) -> Story | None:
    """The smallest story found within so many attempts and about that time; None if the seed keeps every promise."""
    world = World(seed)
    error = lived_through(world)
    return None if error is None else _Search(Story(world, error, 1), tries, seconds).smallest()


class _Search:
    def __init__(self, story: Story, tries: int, seconds: float) -> None:
        self._story = story
        self._promise = promise_of(story.error)
        self._gives_up_at = story.world.clock.now + GRACE_S
        self._tries_left = tries
        self._until = time.monotonic() + seconds
        self._tries = story.tries

    def smallest(self) -> Story:
        chunk = (len(self._story.events) + 1) // 2
        while chunk:
            has_shrunk = self._without_each(chunk)
            if chunk > 1 or not has_shrunk:
                chunk //= 2
        for plan in self._smaller_plans():
            self._breaks_too(self._story.events, plan)
        return self._story._replace(tries=self._tries)

    def _without_each(self, chunk: int) -> bool:
        """Leave out one chunk of events after the other; return whether any could be left out."""
        at, before = 0, len(self._story.events)
        while at < len(self._story.events) and self._may_try():
            events = self._story.events
            if not self._breaks_too(events[:at] + events[at + chunk :], self._story.world.plan):
                at += chunk
        return len(self._story.events) < before

    def _smaller_plans(self) -> Iterator[Plan]:
        for field, least in (("controllers", 1), ("brokers", 1)):
            while (count := getattr(self._story.world.plan, field)) > least:
                yield replace(self._story.world.plan, **{field: count - 1})
                if getattr(self._story.world.plan, field) == count:
                    break

    def _may_try(self) -> bool:
        return self._tries_left > 0 and time.monotonic() < self._until

    def _breaks_too(self, events: Sequence[str], plan: Plan) -> bool:
        if not self._may_try():
            return False
        self._tries_left -= 1
        self._tries += 1
        world = World(self._story.world.seed, only=frozenset(events), plan=plan)
        world.gives_up_at = self._gives_up_at
        error = lived_through(world)
        if error is None or promise_of(error) != self._promise:
            return False
        self._story = Story(world, error, self._tries)
        return True
