"""How long does a leader wait for an ISR that cannot be written?

A broker has one AlterPartition under way, for all partitions that it leads: while one of them keeps it without an
answer, none of them gets another ISR, and acknowledgements wait for replicas that have died. It asks again at once when
it is told of an error, so it is not told at once.

Source: Kafka's DefaultAlterPartitionManager and Partition.handleAlterPartitionError.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.clients.open_requests import Item, refused
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import IsrProposal
from controller.core.steps.quarantined_topics import TopicsAside
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName

WAIT_S = 1.0
WHY = "ZooKeeper refuses to write the partition's state"


class LeadersWaited(Alarm, frozen=True):
    """The leaders that wait for something of a topic get their answer."""

    topic: TopicName


class LeadersWait:
    """The leaders of one term that wait for what cannot be written."""

    def __init__(self, shared: Shared, aside: TopicsAside) -> None:
        self._shared = shared
        self._aside = aside
        self._topics: dict[TopicName, None] = {}

    def put_back(self, name: TopicName, items: Iterable[Item], out: Outbox) -> None:
        """Keep what is asked for until it may be tried again, but no leader for long."""
        held = list(items)
        self._shared.requests.put_back(held)
        if name not in self._topics and any(isinstance(item.wanted, IsrProposal) for item in held):
            self._topics[name] = None
            out.wake(LeadersWaited(name), out.now + WAIT_S)

    def woke(self, alarm: LeadersWaited, out: Outbox) -> None:
        """Answer those that still wait."""
        self._topics.pop(alarm.topic, None)
        requests, aside = self._shared.requests, self._aside.of(alarm.topic)
        items = requests.take(alarm.topic)
        for item in items:
            if isinstance(item.wanted, IsrProposal) and aside.limit(item.at.partition):
                requests.settle(item, refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, WHY), out)
        requests.put_back(items)
