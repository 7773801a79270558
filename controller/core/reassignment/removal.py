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
GATHER_S = 0.25


class Removal:
    """The waits of one term: losing them costs asking again."""

    def __init__(self, memory: MovesMemory, patience_s: float) -> None:
        self._memory = memory
        self._patience_s = patience_s
        self._until: dict[TopicPartition, float] = {}
        self._gathered: dict[TopicName, dict[PartitionId, None]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to forget."""
        return not (self._memory.confirmed or self._until or self._memory.out_of_patience)

    def forget_topic(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Forget the confirmations of a deleted topic."""
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
        """Record an answer to StopReplica; return the partitions whose deletion it confirms.

        An answer to an older leader epoch does not count: the replica may have been added again since.
        """
        confirmed: list[TopicPartition] = []
        for stop in answer.command.stops if isinstance(answer.command, StopReplica) else ():
            at = TopicPartition(stop.topic, stop.partition)
            held = cluster.partition(at)
            if not stop.is_deletion or at in answer.errors or held is None or held.state is None:
                continue
            if held.state.leader_epoch == stop.leader_epoch:
                self._keep(at, self._memory.confirmed.get(at, NO_BROKERS) | {answer.broker})
                confirmed.append(at)
        return confirmed

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
        """Note written ends of moves; return whether further ends of this topic now wait for each other."""
        if moving < WORTH_GATHERING or topic in self._memory.gathering:
            return False
        self._memory.gathering[topic] = None
        return True

    def put_off(self, topic: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Delay the ends of these moves."""
        self._gathered.setdefault(topic, {}).update(dict.fromkeys(numbers))

    def gathered(self, topic: TopicName) -> Iterable[PartitionId]:
        """Stop gathering; return the delayed moves."""
        self._memory.gathering.pop(topic, None)
        return self._gathered.pop(topic, {})

    def _keep(self, at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
        if brokers:
            self._memory.confirmed[at] = brokers
        else:
            self._memory.confirmed.pop(at, None)
