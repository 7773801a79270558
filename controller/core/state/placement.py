"""Which broker hosts what, which moves involve it, and which deletions does it owe? Indexes over the topics' facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.topics import Assignment

Numbers = dict[TopicName, dict[PartitionId, None]]


class PlacementIndex:
    """Updated incrementally from changes. All indexes keep the order in which their entries were seen.

    Shape:
        `moving` are the moving partitions; `adding` and `removing` index them by the brokers to which a move adds a
        replica, and from which it removes one. These two are not grouped by topic: a broker often has one move of each
        topic, and callers need the number of moves.
    """

    def __init__(self) -> None:
        self.hosted: dict[BrokerId, Numbers] = {}
        self.owing: dict[BrokerId, Numbers] = {}
        self.moving: Numbers = {}
        self.adding: dict[BrokerId, dict[TopicPartition, None]] = {}
        self.removing: dict[BrokerId, dict[TopicPartition, None]] = {}
        self.replica_counts: dict[BrokerId, int] = {}
        self.preferred_counts: dict[BrokerId, int] = {}
        self.partition_count = 0

    def let_go(self) -> bool:
        """Free the index of one broker at the end of a term; return whether some may be left."""
        for index in (self.hosted, self.adding, self.removing):
            if index:
                index.popitem()
                return True
        return False

    def assign(
        self, name: TopicName, number: PartitionId, before: Assignment, after: Assignment, *, is_moving: bool
    ) -> None:
        """Note changed replicas of a partition; `is_moving` as in `note_moving`."""
        for broker in before.replicas:
            if broker not in after.replicas:
                discard(self.hosted[broker], name, number)
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
            self._forget_move(name, number, before)
            self.note_moving(name, number, after, is_moving=is_moving)

    def assign_first(self, name: TopicName, partitions: Mapping[PartitionId, Assignment], *, may_move: bool) -> None:
        """Note the replicas of all partitions of a topic that had none, at once; unless `may_move`, none counts as
        moving.
        """
        hosting: defaultdict[BrokerId, list[PartitionId]] = defaultdict(list)
        for number, assignment in partitions.items():
            for broker in assignment.replicas:
                hosting[broker].append(number)
            if may_move and (assignment.adding or assignment.removing):
                self.note_moving(name, number, assignment, is_moving=True)
        for broker, numbers in hosting.items():
            self.hosted.setdefault(broker, {}).setdefault(name, {}).update(dict.fromkeys(numbers))
            self.replica_counts[broker] = self.replica_counts.get(broker, 0) + len(numbers)
        preferred = Counter([assignment.replicas[0] for assignment in partitions.values() if assignment.replicas])
        for broker, count in preferred.items():
            self.preferred_counts[broker] = self.preferred_counts.get(broker, 0) + count
        self.partition_count += preferred.total()

    def forget(self, name: TopicName, partitions: Mapping[PartitionId, Assignment]) -> None:
        """Forget a deleted topic: the same as removing the replicas of each partition, at once."""
        for broker, topics in self.hosted.items():
            self.replica_counts[broker] -= len(topics.pop(name, ()))
        for number, assignment in partitions.items():
            if assignment.replicas:
                self.preferred_counts[assignment.replicas[0]] -= 1
                self.partition_count -= 1
            self._forget_move(name, number, assignment)
        self.moving.pop(name, None)

    def note_moving(self, name: TopicName, number: PartitionId, assignment: Assignment, *, is_moving: bool) -> None:
        """Note whether a partition moves; one of a topic queued for deletion does not."""
        if not is_moving:
            discard(self.moving, name, number)
            self._forget_move(name, number, assignment)
            return
        self.moving.setdefault(name, {})[number] = None
        at = TopicPartition(name, number)
        for broker in assignment.adding:
            self.adding.setdefault(broker, {})[at] = None
        for broker in assignment.removing:
            self.removing.setdefault(broker, {})[at] = None

    def _forget_move(self, name: TopicName, number: PartitionId, assignment: Assignment) -> None:
        if not assignment.is_moving:
            return
        at = TopicPartition(name, number)
        for broker in assignment.adding:
            self.adding.get(broker, {}).pop(at, None)
        for broker in assignment.removing:
            self.removing.get(broker, {}).pop(at, None)

    def owe(
        self, name: TopicName, before: Mapping[PartitionId, Replicas], after: Mapping[PartitionId, Replicas]
    ) -> None:
        """Note changed owed deletions of a topic."""
        for number, replicas in before.items():
            for broker in replicas:
                discard(self.owing.get(broker, {}), name, number)
        for number, replicas in after.items():
            for broker in replicas:
                self.owing.setdefault(broker, {}).setdefault(name, {})[number] = None


def discard(index: Numbers, name: TopicName, number: PartitionId) -> None:
    """Remove a partition from an index, if present."""
    numbers = index.get(name)
    if numbers is not None:
        numbers.pop(number, None)
        if not numbers:
            del index[name]
