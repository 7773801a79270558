"""Which removed replicas are confirmed to be deleted, and how long are the others waited for?"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from controller.core.messages.commands import StopReplica
from controller.core.messages.events import Acknowledged
from controller.core.reassignment.memory import MovesMemory
from controller.core.stage import still_to_go
from controller.core.state.brokers import NO_BROKERS
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

WORTH_GATHERING = 20
GATHER_S = 1.0


class Removal:
    """The waits of one term: losing them costs asking again."""

    def __init__(self, memory: MovesMemory, patience_s: float, most_gathered: int) -> None:
        """At most `most_gathered` ends of a topic's moves wait for others."""
        self._memory = memory
        self._patience_s = patience_s
        self._most_gathered = most_gathered
        self._until: dict[TopicPartition, float] = {}
        self._gathered: dict[TopicName, dict[PartitionId, None]] = {}
        # Topics many of whose partitions moved at once: their last ends wait for each other, too.
        self._crowded: dict[TopicName, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to forget."""
        return not (self._memory.confirmed or self._until or self._memory.out_of_patience)

    def forget_topic(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Forget the confirmations of a deleted topic."""
        self._crowded.pop(name, None)
        for number in numbers if self._memory.confirmed else ():
            self._memory.confirmed.pop(TopicPartition(name, number), None)

    def see(self, at: TopicPartition, held: Partition, owed: Replicas) -> None:
        """Forget what no longer matters once a partition has changed."""
        if not held.assignment.is_moving:
            self._until.pop(at, None)
            self._memory.out_of_patience.pop(at, None)
        confirmed = self._memory.confirmed.get(at)
        if confirmed:
            leaving = still_to_go(held.assignment, held.state, owed, NO_BROKERS)
            self._keep(at, frozenset(b for b in confirmed if b in leaving))

    def confirm(self, answer: Acknowledged, cluster: Cluster) -> list[TopicPartition]:
        """Record an answer to StopReplica; return the partitions that have a next step now.

        An answer to an older leader epoch does not count: the replica may have been added again since. A move has no
        next step before the last replica is deleted that is waited for.
        """
        confirmed: list[TopicPartition] = []
        for stop in answer.command.stops if isinstance(answer.command, StopReplica) else ():
            at = TopicPartition(stop.topic, stop.partition)
            held = cluster.partition(at)
            if not stop.is_deletion or at in answer.errors or held is None or held.state is None:
                continue
            if held.state.leader_epoch == stop.leader_epoch:
                self._keep(at, self._memory.confirmed.get(at, NO_BROKERS) | {answer.broker})
                if not self._waits_for_more(at, held, cluster):
                    confirmed.append(at)
        return confirmed

    def _waits_for_more(self, at: TopicPartition, held: Partition, cluster: Cluster) -> bool:
        """Whether a move in its last stage waits for further replicas, as `rule.next_step` would."""
        if at in self._memory.out_of_patience:
            return False
        gone = {*self._memory.confirmed.get(at, NO_BROKERS), *cluster.controllers}
        return any(cluster.is_registered(r) for r in still_to_go(held.assignment, held.state, (), gone))

    def wait_for(self, partitions: Iterable[TopicPartition], now: float) -> float | None:
        """Begin to wait for these moves; return the end of the earliest of all waits, if any wait is new."""
        new = [at for at in partitions if at not in self._until and at not in self._memory.out_of_patience]
        for at in new:
            self._until[at] = now + self._patience_s
        return next(iter(self._until.values())) if new else None  # all wait equally long: the first is the earliest

    def adjust(self, patience_s: float) -> float | None:
        """Wait for that long from now on, and also in waits that have begun; return when the earliest ends."""
        longer_s, self._patience_s = patience_s - self._patience_s, patience_s
        self._until = {at: until + longer_s for at, until in self._until.items()}
        return next(iter(self._until.values()), None)

    def lose_patience(self, now: float) -> tuple[list[TopicPartition], float | None]:
        """End the waits that are over; return their moves, and when the next wait ends."""
        expired = [at for at, _ in takewhile(lambda wait: wait[1] <= now, self._until.items())]
        for at in expired:
            del self._until[at]
        self._memory.out_of_patience.update(dict.fromkeys(expired))
        return expired, next(iter(self._until.values()), None)

    def gather(self, topic: TopicName, moving: int) -> bool:
        """Begin to let ends of this topic's moves wait for each other, if that is worth it; return whether it began.

        Shape:
            `moving` counts the topic's moves.
        """
        if moving >= WORTH_GATHERING:
            self._crowded[topic] = None
        elif not moving:
            self._crowded.pop(topic, None)
        if topic in self._memory.gathering or topic not in self._crowded:
            return False
        self._memory.gathering[topic] = None
        return True

    def is_gathering(self, topic: TopicName) -> bool:
        """Whether ends of this topic's moves wait for each other."""
        return topic in self._memory.gathering

    def put_off(self, topic: TopicName, numbers: Iterable[PartitionId], moving: int) -> bool:
        """Delay the ends of these moves; return whether they need not wait longer: all are there, or enough are."""
        gathered = self._gathered.setdefault(topic, {})
        gathered.update(dict.fromkeys(numbers))
        if len(gathered) >= moving:
            self._crowded.pop(topic, None)
        return len(gathered) >= min(moving, self._most_gathered)

    def gathered(self, topic: TopicName) -> Iterable[PartitionId]:
        """Stop gathering; return the delayed moves."""
        self._memory.gathering.pop(topic, None)
        return self._gathered.pop(topic, {})

    def _keep(self, at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
        if brokers:
            self._memory.confirmed[at] = brokers
        else:
            self._memory.confirmed.pop(at, None)
