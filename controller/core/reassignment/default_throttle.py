"""Which moves have begun without a throttle of their own, and get that of the settings?

Those that no request and no znode asks for: of replicas on a controller's id, or that another process has written into
a topic's znode. All others wait until their throttle is in force. A move that was under way when the term, or the
setting, began keeps what it has: someone may have taken its throttle away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from controller.core.reassignment.throttle_writes import broker_of
from controller.core.state.changes import Changes
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

Ours = Callable[[TopicName], Mapping[str, int]]


class DefaultThrottle:
    """The moves that have begun in one term, and the replicas they add that are still to be listed.

    Shape:
        `unrated` are the brokers whose replicas have been listed and that have no rate yet.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begun: dict[TopicName, dict[PartitionId, Replicas]] = {}
        self._missing: dict[TopicName, dict[str, int]] = {}
        self.unrated: dict[BrokerId, None] = {}

    def begin(self) -> None:
        """Leave alone what moves already."""
        self._missing = {}
        self._begun = {
            name: {number: self._adding(name, number) for number in numbers}
            for name, numbers in self._cluster.moving.items()
        }

    def follow(self, changes: Changes, rate: int, ours: Ours) -> Iterator[TopicName]:
        """Take in what has changed; the topics of which replicas are to be listed now. `ours` are listed already."""
        for name in changes.gone_topics:
            self._begun.pop(name, None)
            self._missing.pop(name, None)
        for name, numbers in changes.partitions.items():
            begun, moving = self._begun.get(name, {}), self._cluster.moving.get(name, ())
            for number in numbers:
                if number not in moving:
                    begun.pop(number, None)
                    continue
                adding = self._adding(name, number)
                new = [f"{number}:{broker}" for broker in adding if broker not in begun.get(number, ())]
                begun[number] = adding
                if new := [entry for entry in new if entry not in ours(name)]:
                    self._missing.setdefault(name, {}).update(dict.fromkeys(new, rate))
                    yield name
            self._begun[name] = begun
            if not begun:
                del self._begun[name]

    def missing(self, name: TopicName) -> dict[str, int]:
        """The replicas of a topic that are still to be listed, with their rate."""
        return self._missing.get(name, {})

    def written(self, name: TopicName, entries: Collection[str]) -> None:
        """These have been listed, or need not be any more."""
        self.unrated.update(dict.fromkeys(map(broker_of, entries)))
        left = {entry: rate for entry, rate in self._missing.pop(name, {}).items() if entry not in entries}
        if left:
            self._missing[name] = left

    def _adding(self, name: TopicName, number: PartitionId) -> Replicas:
        held = self._cluster.partition(TopicPartition(name, number))
        return () if held is None else held.assignment.adding
