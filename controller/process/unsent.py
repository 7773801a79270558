"""What becomes of transactions that are decided and never sent? Each is answered as if another had written first.

Then the machine reads again, and decides again from what it finds. The answer comes as soon as something changes that
the transaction concerns, since other controllers act on the same changes; otherwise after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from controller.core.messages.effects import Commit
from controller.core.messages.events import CommitId, Conflicted
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import TopicName
from zk_layout.znodes.brokers import BrokerAddress

HOLD_S: Final = 30.0
REASON: Final = "not sent: this process only observes"


class Emit(Protocol):
    """Where answers go: `controller.runtime.pump.Pump.emit`."""

    def __call__(self, event: Conflicted, /) -> None: ...


class Unsent:
    """The transactions of one dry term."""

    def __init__(self, emit: Emit) -> None:
        """`emit` receives one answer for each transaction, never within `submit`."""
        self._emit = emit
        self._held: dict[CommitId, tuple[Commit, asyncio.TimerHandle]] = {}
        self._of_topic: dict[TopicName, set[CommitId]] = {}

    @property
    def count(self) -> int:
        """How many have no answer yet."""
        return len(self._held)

    def submit(self, commit: Commit) -> None:
        """Take a transaction that another process would send."""
        timer = asyncio.get_running_loop().call_later(HOLD_S, self._answer, commit.commit)
        self._held[commit.commit] = commit, timer
        for topic in topics_of(write.address for write in commit.writes):
            self._of_topic.setdefault(topic, set()).add(commit.commit)

    def saw(self, facts: Iterable[Fact]) -> None:
        """Answer what these facts concern: transactions about their topics and, if brokers come or go, all."""
        due: set[CommitId] = set()
        for fact in facts:
            if isinstance(fact.address, BrokerAddress):
                due.update(self._held)
            elif (topic := getattr(fact.address, "topic", None)) is not None:
                due |= self._of_topic.get(topic, set())
        for commit in sorted(due):
            self._answer(commit)

    def stop(self) -> None:
        """Answer nothing more."""
        for _, timer in self._held.values():
            timer.cancel()
        self._held.clear()
        self._of_topic.clear()

    def _answer(self, number: CommitId) -> None:
        held = self._held.pop(number, None)
        if held is None:
            return
        commit, timer = held
        timer.cancel()
        for topic in topics_of(write.address for write in commit.writes):
            commits = self._of_topic[topic]
            commits.discard(number)
            if not commits:
                del self._of_topic[topic]
        self._emit(Conflicted(number, commit.writes[0].address, REASON))


def topics_of(addresses: Iterable[Address]) -> set[TopicName]:
    """The topics that these znodes belong to."""
    found = (getattr(address, "topic", None) for address in addresses)
    return {topic for topic in found if topic is not None}
