"""Which replicas have been told to delete their logs, which of them confirmed, and how long is waiting still due?"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.cluster import Cluster, Partition
from controller.core.commands import StopReplica
from controller.core.decide import NOBODY, Waits
from controller.core.errors import ErrorCode
from controller.core.events import Acknowledged
from controller.core.stage import Stage, stage
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

WORTH_GATHERING = 20
GATHER_S = 0.25


class Leavers:
    """Memory of one reign: losing it costs asking again."""

    def __init__(self, patience_s: float) -> None:
        """Nobody leaves."""
        self.waits = Waits()
        self._patience_s = patience_s
        self._until: dict[TopicPartition, float] = {}
        self._gathered: dict[TopicName, set[PartitionId]] = {}

    def see(self, at: TopicPartition, held: Partition, owed: Replicas) -> None:
        """Forget what no longer matters once a partition has changed."""
        moving = held.assignment.is_moving
        if not moving:
            self._until.pop(at, None)
            self.waits.out_of_patience.discard(at)
        confirmed = self.waits.confirmed.get(at)
        if confirmed:
            letting_go = moving and stage(held.assignment, held.state) is Stage.LETTING_GO
            leaving = {*owed, *(held.assignment.removing if letting_go else ())}
            self._keep(at, frozenset(b for b in confirmed if b in leaving))

    def confirm(self, event: Acknowledged, cluster: Cluster) -> list[TopicPartition]:
        """A broker answered a StopReplica: the partitions for which it confirmed a deletion.

        An answer to an older leader epoch does not count: the replica may have been added again since.
        """
        confirmed: list[TopicPartition] = []
        if not isinstance(event.command, StopReplica) or event.error is not ErrorCode.NONE:
            return confirmed
        for stop in event.command.stops:
            at = TopicPartition(stop.topic, stop.partition)
            held = cluster.partition(at)
            if not stop.is_deletion or at in event.errors or held is None or held.state is None:
                continue
            if held.state.leader_epoch == stop.leader_epoch:
                self._keep(at, self.waits.confirmed.get(at, NOBODY) | {event.broker})
                confirmed.append(at)
        return confirmed

    def wait_for(self, partitions: Iterable[TopicPartition], now: float) -> float | None:
        """These moves wait for confirmations: when the earliest of all waits ends, if that is news."""
        new = [at for at in partitions if at not in self._until and at not in self.waits.out_of_patience]
        for at in new:
            self._until[at] = now + self._patience_s
        return min(self._until.values()) if new else None

    def lose_patience(self, now: float) -> tuple[list[TopicPartition], float | None]:
        """The moves that have waited long enough, and when the next wait ends."""
        expired = [at for at, until in self._until.items() if until <= now]
        for at in expired:
            del self._until[at]
        self.waits.out_of_patience.update(expired)
        return expired, min(self._until.values(), default=None)

    def gather(self, topic: TopicName, moving: int) -> bool:
        """Ends of moves were written: whether further ones of this topic are to wait for each other for a while."""
        if moving < WORTH_GATHERING or topic in self.waits.gathering:
            return False
        self.waits.gathering.add(topic)
        return True

    def put_off(self, topic: TopicName, numbers: Iterable[PartitionId]) -> None:
        """The ends of these moves wait."""
        self._gathered.setdefault(topic, set()).update(numbers)

    def gathered(self, topic: TopicName) -> set[PartitionId]:
        """The while is over: what has gathered."""
        self.waits.gathering.discard(topic)
        return self._gathered.pop(topic, set())

    def _keep(self, at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
        if brokers:
            self.waits.confirmed[at] = brokers
        else:
            self.waits.confirmed.pop(at, None)
