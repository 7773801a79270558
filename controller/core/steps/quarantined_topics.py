"""Which topics, or which of their partitions, are set aside, and what may still be decided about them?

What raises, or is refused for good, is first left with its elections only: states are znodes of their own. Where those
go wrong too, nothing is decided about it. After a while, ever longer, everything is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct, field

from controller.core.clients.open_requests import Item
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import Election, IsrProposal
from controller.core.scheduling.quarantine import SetAside
from controller.core.transactions.back_off import FIRST_WAIT_S, LONGEST_WAIT_S, doubled_s
from zk_layout.ids import PartitionId, TopicName

FORGOTTEN_AFTER_S = 2 * LONGEST_WAIT_S


class TryTopicAgain(Alarm, frozen=True):
    """A topic that was set aside may be tried again as a whole."""

    topic: TopicName


class Limit(IntEnum):
    """How far decisions about a partition, or about the topic as a whole, may go."""

    NONE = 0
    ELECTIONS = 1
    NOTHING = 2


class Aside(Struct, eq=False):
    """One topic that is set aside, or has been until a moment ago.

    Shape:
        `whole` is the limit of decisions about the topic's own znodes. Partitions that are `due` have not been looked
        at as they should be. With `holds_requests` requests wait, because
        ZooKeeper refuses what they want; it `is_unproven` that it does no more until something is written. `times`
        counts in a row.
    """

    whole: Limit = Limit.NONE
    partitions: dict[PartitionId, Limit] = field(default_factory=dict)
    due: dict[PartitionId, None] = field(default_factory=dict)
    holds_requests: bool = False
    is_unproven: bool = False
    times: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether anything may not be decided now."""
        return bool(self.whole or self.partitions)

    def limit(self, number: PartitionId) -> Limit:
        """What may be decided about a partition."""
        return max(self.whole, self.partitions.get(number, Limit.NONE))

    def may_try(self, item: Item) -> bool:
        """Whether what a request wants written may be: ISRs and leaders are in znodes of their own."""
        if not self.holds_requests:
            return True
        is_state_only = isinstance(item.wanted, IsrProposal | Election)
        return item.at.partition not in self.partitions and (is_state_only or not self.whole)


FREE = Aside()


class TopicsAside:
    """The topics of one term that are set aside."""

    def __init__(self, set_aside: SetAside) -> None:
        """None is. `set_aside` says it and shows it."""
        self._set_aside = set_aside
        self._topics: dict[TopicName, Aside] = {}

    def of(self, name: TopicName) -> Aside:
        """What may be decided about a topic."""
        return self._topics.get(name, FREE)

    def put(
        self,
        name: TopicName,
        why: str,
        out: Outbox,
        *,
        partitions: Iterable[PartitionId] = (),
        holds_requests: bool = False,
    ) -> None:
        """Decide less about these partitions, or about the topic as a whole, for a while."""
        held = self._topics.setdefault(name, Aside())
        if not held.is_limited:
            held.times += 1
            out.wake(TryTopicAgain(name), out.now + doubled_s(held.times, FIRST_WAIT_S, LONGEST_WAIT_S))
        held.holds_requests |= holds_requests
        numbers = tuple(partitions)
        for number in numbers:
            held.partitions[number] = _less(held.partitions.get(number, Limit.NONE))
        if not numbers:
            held.whole = _less(held.whole)
        self._set_aside.put(f"topic {name}", why, out)

    def release(self, name: TopicName, out: Outbox) -> tuple[PartitionId, ...]:
        """Try everything again; the partitions that were set aside."""
        held = self._topics.get(name)
        if held is None:
            return ()
        if not held.is_limited:  # nothing was refused since the last time
            self.forget(name)
            return ()
        held.is_unproven = held.holds_requests
        if held.is_unproven:
            out.wake(TryTopicAgain(name), out.now + FORGOTTEN_AFTER_S)
        numbers = tuple(held.partitions.keys() | held.due.keys())
        held.whole, held.partitions, held.due, held.holds_requests = Limit.NONE, {}, {}, False
        return numbers

    def went_well(self, name: TopicName, *, has_written: bool) -> None:
        """A step of a topic was decided, and written where there was something to write."""
        held = self._topics.get(name)
        if held is not None and not held.is_limited and (has_written or not held.is_unproven):
            self.forget(name)

    def forget(self, name: TopicName) -> None:
        """Nothing is wrong with it any more, or it has gone."""
        if self._topics.pop(name, None) is not None:
            self._set_aside.take_back(f"topic {name}")


def _less(limit: Limit) -> Limit:
    return Limit(min(limit + 1, Limit.NOTHING))
