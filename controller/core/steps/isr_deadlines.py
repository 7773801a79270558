"""How long does a leader wait for an ISR that cannot be written?

A broker sends one AlterPartition at a time, for all partitions that it leads: while one partition keeps it unanswered,
no other gets a new ISR, and acknowledgements wait for dead replicas. It repeats the request as soon as it gets an
error, so the error is delayed.

Source: Kafka's DefaultAlterPartitionManager and Partition.handleAlterPartitionError.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.clients.open_requests import Item, refused
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import IsrProposal
from controller.core.steps.quarantined_topics import TopicQuarantines
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName

WAIT_S = 1.0
WHY = "ZooKeeper refuses to write the partition's state"


class LeadersWaited(Alarm, frozen=True):
    """Answer the leaders that wait for a topic."""

    topic: TopicName


class IsrDeadlines:
    """The leaders of one term that wait for an ISR that cannot be written."""

    def __init__(self, shared: Shared, quarantine: TopicQuarantines) -> None:
        self._shared = shared
        self._quarantines = quarantine
        self._topics: dict[TopicName, None] = {}

    def put_back(self, name: TopicName, items: Iterable[Item], out: Outbox) -> None:
        """Queue these parts until they may be tried again, but limit the wait of leaders."""
        held = list(items)
        self._shared.requests.put_back(held)
        if name not in self._topics and any(isinstance(item.wanted, IsrProposal) for item in held):
            self._topics[name] = None
            out.wake(LeadersWaited(name), out.now + WAIT_S)

    def woke(self, alarm: LeadersWaited, out: Outbox) -> None:
        """Refuse the ISR changes that still wait."""
        self._topics.pop(alarm.topic, None)
        requests, quarantine = self._shared.requests, self._quarantines.of(alarm.topic)
        items = requests.take(alarm.topic)
        for item in items:
            if isinstance(item.wanted, IsrProposal) and quarantine.limit(item.at.partition):
                requests.settle(item, refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, WHY), out)
        requests.put_back(items)
