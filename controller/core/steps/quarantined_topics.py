"""Which topics or partitions are quarantined, and what may still be decided about them?

After an exception or a permanent refusal, elections alone continue: states are separate znodes. If those fail too,
nothing is decided any more. After a while, longer each time, everything is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct, field

from controller.core.clients.open_requests import Item
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import Election, IsrProposal, NewTopic, TopicReference
from controller.core.scheduling.quarantine import Quarantine
from controller.core.transactions.back_off import FIRST_WAIT_S, LONGEST_WAIT_S, doubled_s
from zk_layout.ids import PartitionId, TopicName

FORGOTTEN_AFTER_S = 2 * LONGEST_WAIT_S


class TryTopicAgain(Alarm, frozen=True):
    """End the quarantine of a topic."""

    topic: TopicName


class Limit(IntEnum):
    """Which decisions are allowed about a partition, or about the topic as a whole."""

    NONE = 0
    ELECTIONS = 1
    NOTHING = 2


class TopicQuarantine(Struct, eq=False):
    """One topic that is in quarantine, or was until recently.

    Shape:
        `whole` limits decisions about the topic's own znodes. `due` partitions have not been fully examined. With
        `holds_requests`, requests wait because ZooKeeper refuses their writes; with `holds_existence`, those to create
        or delete the topic do, and nothing else is limited. `is_unproven` holds after a release until something is
        written. `times` counts consecutive quarantines.
    """

    whole: Limit = Limit.NONE
    partitions: dict[PartitionId, Limit] = field(default_factory=dict)
    due: dict[PartitionId, None] = field(default_factory=dict)
    holds_requests: bool = False
    holds_existence: bool = False
    is_unproven: bool = False
    times: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether any decision is currently forbidden."""
        return bool(self.whole or self.partitions or self.holds_existence)

    def limit(self, number: PartitionId) -> Limit:
        """The limit of decisions about a partition."""
        return max(self.whole, self.partitions.get(number, Limit.NONE))

    def may_try(self, item: Item) -> bool:
        """Whether the writes of a request part are allowed: ISRs and leaders are in separate znodes."""
        if self.holds_existence and isinstance(item.wanted, NewTopic | TopicReference):
            return False
        if not self.holds_requests:
            return True
        is_state_only = isinstance(item.wanted, IsrProposal | Election)
        return item.at.partition not in self.partitions and (is_state_only or not self.whole)


FREE = TopicQuarantine()


class TopicQuarantines:
    """The quarantined topics of one term."""

    def __init__(self, quarantine: Quarantine) -> None:
        """Begin with none. `quarantine` logs and lists them."""
        self._quarantine = quarantine
        self._topics: dict[TopicName, TopicQuarantine] = {}

    def of(self, name: TopicName) -> TopicQuarantine:
        """The quarantine of a topic."""
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
        """Tighten the limit of these partitions, or of the topic as a whole, for a while."""
        held = self._begin(name, why, out)
        held.holds_requests |= holds_requests
        numbers = tuple(partitions)
        for number in numbers:
            held.partitions[number] = _less(held.partitions.get(number, Limit.NONE))
        if not numbers:
            held.whole = _less(held.whole)

    def hold_existence(self, name: TopicName, why: str, out: Outbox) -> None:
        """Let requests to create or delete the topic wait for a while, and only these."""
        self._begin(name, why, out).holds_existence = True

    def _begin(self, name: TopicName, why: str, out: Outbox) -> TopicQuarantine:
        held = self._topics.setdefault(name, TopicQuarantine())
        if not held.is_limited:
            held.times += 1
            out.wake(TryTopicAgain(name), out.now + doubled_s(held.times, FIRST_WAIT_S, LONGEST_WAIT_S))
        self._quarantine.put(f"topic {name}", why, out)
        return held

    def release(self, name: TopicName, out: Outbox) -> tuple[PartitionId, ...]:
        """Lift the limits; return the partitions to examine again."""
        held = self._topics.get(name)
        if held is None:
            return ()
        if not held.is_limited:  # nothing was refused since the last time
            self.forget(name)
            return ()
        held.is_unproven = held.holds_requests or held.holds_existence
        if held.is_unproven:
            out.wake(TryTopicAgain(name), out.now + FORGOTTEN_AFTER_S)
        numbers = tuple(held.partitions.keys() | held.due.keys())
        held.whole, held.partitions, held.due = Limit.NONE, {}, {}
        held.holds_requests = held.holds_existence = False
        return numbers

    def note_success(self, name: TopicName, *, has_written: bool) -> None:
        """Note that a step of a topic was decided, and any writes succeeded."""
        held = self._topics.get(name)
        if held is not None and not held.is_limited and (has_written or not held.is_unproven):
            self.forget(name)

    def forget(self, name: TopicName) -> None:
        """End the quarantine of a topic that has recovered or is gone."""
        if self._topics.pop(name, None) is not None:
            self._quarantine.release(f"topic {name}")


def _less(limit: Limit) -> Limit:
    return Limit(min(limit + 1, Limit.NOTHING))
