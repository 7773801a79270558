"""Which broker hosts what, which partitions move, and who owes a deletion? Indexes that follow the topics' facts."""

from __future__ import annotations

from collections.abc import Mapping

from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName
from zk_layout.znodes.topics import Assignment

Numbers = dict[TopicName, dict[PartitionId, None]]


class PlacementIndex:
    """Kept from what changes, never counted from scratch. Everything is in the order in which it was seen."""

    def __init__(self) -> None:
        """No replica anywhere."""
        self.hosted: dict[BrokerId, Numbers] = {}
        self.owing: dict[BrokerId, Numbers] = {}
        self.moving: Numbers = {}
        self.replica_counts: dict[BrokerId, int] = {}
        self.preferred_counts: dict[BrokerId, int] = {}
        self.partition_count = 0

    def let_go(self) -> bool:
        """Forget what one broker hosts, since nobody will ask any more; whether something is left."""
        if self.hosted:
            self.hosted.popitem()
        return bool(self.hosted)

    def assign(
        self, name: TopicName, number: PartitionId, before: Assignment, after: Assignment, *, is_moving: bool
    ) -> None:
        """A partition's replicas have changed; `is_moving` as in `note_moving`."""
        for broker in before.replicas:
            if broker not in after.replicas:
                _discard(self.hosted[broker], name, number)
                self.replica_counts[broker] -= 1
        hosted, counts = self.hosted, self.replica_counts
        for broker in after.replicas:
            if broker not in before.replicas:
                topics = hosted.get(broker)
                if topics is None:
                    topics = hosted[broker] = {}
                numbers = topics.get(name)
                if numbers is None:
                    numbers = topics[name] = {}
                numbers[number] = None
                counts[broker] = counts.get(broker, 0) + 1
        for broker in before.replicas[:1]:
            self.preferred_counts[broker] -= 1
        for broker in after.replicas[:1]:
            self.preferred_counts[broker] = self.preferred_counts.get(broker, 0) + 1
        self.partition_count += bool(after.replicas) - bool(before.replicas)
        if is_moving or before.is_moving:
            self.note_moving(name, number, is_moving)

    def forget(self, name: TopicName, partitions: Mapping[PartitionId, Assignment]) -> None:
        """A topic is gone: the same as taking the replicas of each partition away, at once."""
        for broker, topics in self.hosted.items():
            self.replica_counts[broker] -= len(topics.pop(name, ()))
        for assignment in partitions.values():
            if assignment.replicas:
                self.preferred_counts[assignment.replicas[0]] -= 1
                self.partition_count -= 1
        self.moving.pop(name, None)

    def note_moving(self, name: TopicName, number: PartitionId, is_moving: bool) -> None:
        """Whether a partition moves; those of a topic that is queued for deletion do not."""
        if is_moving:
            self.moving.setdefault(name, {})[number] = None
        else:
            _discard(self.moving, name, number)

    def owe(
        self, name: TopicName, before: Mapping[PartitionId, Replicas], after: Mapping[PartitionId, Replicas]
    ) -> None:
        """Other deletions are owed than before."""
        for number, replicas in before.items():
            for broker in replicas:
                _discard(self.owing.get(broker, {}), name, number)
        for number, replicas in after.items():
            for broker in replicas:
                self.owing.setdefault(broker, {}).setdefault(name, {})[number] = None


def _discard(index: Numbers, name: TopicName, number: PartitionId) -> None:
    numbers = index.get(name)
    if numbers is not None:
        numbers.pop(number, None)
        if not numbers:
            del index[name]
