"""What may leaders still know of a broker's former life, so that an ISR could come of it?

AlterPartition requests may be on their way when a broker dies, and do not name a broker epoch. If the broker is in the
ISR, removing it raises the leader epoch, which fences them; elsewhere the leader epoch is raised for that alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.core.brokers.memory import BrokersMemory
from controller.core.brokers.passes import HostedPasses
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from zk_layout.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionId, Replicas, TopicName, TopicPartition

Followed = Mapping[TopicPartition, LeaderEpoch]


class FormerLives:
    """Outdates former lives in passes over the partitions that brokers host."""

    def __init__(self, cluster: Cluster, memory: BrokersMemory, passes: HostedPasses) -> None:
        self._cluster = cluster
        self._memory = memory
        self._passes = passes
        self._followed: dict[BrokerId, dict[TopicPartition, LeaderEpoch]] = {}  # by brokers that shut down
        # Partitions whose leader epoch has risen during passes, with the number of passes that watched until then.
        self._risen: dict[TopicPartition, int] = {}
        self._watching = 0

    def watch(self) -> int:
        """Begin to note which leader epochs rise: a pass passes the returned number on to `outdate` or `follow`."""
        if not self._passes.has_more:
            self._risen.clear()
        self._watching += 1
        return self._watching

    def watch_shutdown(self, broker: BrokerId) -> int:
        """The same, for a broker that begins to shut down."""
        self._followed[broker] = {}
        return self.watch()

    def note_risen(self, at: TopicPartition) -> None:
        """Note that a leader gets another leader epoch, which fences what it knew."""
        self._memory.unannounced.pop(at, None)
        if self._passes.has_more:
            self._risen[at] = self._watching

    def has_risen(self, at: TopicPartition, since: int) -> bool:
        """Whether the leader epoch of a partition has risen since a pass began to `watch`."""
        return self._risen.get(at, 0) >= since

    def note_led(self, at: TopicPartition, former: BrokerId, epoch: LeaderEpoch) -> None:
        """Note that a partition has another leader. A former one that shuts down is sent that, and follows."""
        if former in self._followed:
            self._followed[former][at] = epoch

    def follow(self, broker: BrokerId, name: TopicName, numbers: Iterable[PartitionId], since: int) -> None:
        """Note what a broker follows that shuts down: elsewhere it is sent no new leader epoch, and stops."""
        if broker in self._followed:
            self._followed[broker].update(self._lagging(broker, name, numbers, since))

    def take_followed(self, broker: BrokerId) -> Followed | None:
        """What a lost broker followed after it had shut down; None if it did not, or if not all of it is known."""
        followed = self._followed.pop(broker, None)
        return None if self._passes.is_under_way(broker) else followed

    def outdate(
        self,
        broker: BrokerId,
        name: TopicName,
        numbers: Iterable[PartitionId],
        since: int,
        followed: Followed | None = None,
    ) -> None:
        """Have leader epochs raised where the broker, in its former life, may join the ISR."""
        for at, epoch in self._lagging(broker, name, numbers, since):
            if followed is None or followed.get(at) == epoch:
                self._memory.note_unannounced(at)

    def _lagging(
        self, broker: BrokerId, name: TopicName, numbers: Iterable[PartitionId], since: int
    ) -> Iterator[tuple[TopicPartition, LeaderEpoch]]:
        """The partitions in which a broker may rejoin the ISR, with their leader epochs, unless those rose `since`."""
        topic = self._cluster.topics.get(name)
        if topic is None:
            return
        for number in numbers:
            held = topic.partitions.get(number)
            if held is None or held.state is None or broker not in catching_up(held):
                continue
            at = TopicPartition(name, number)
            if not self.has_risen(at, since):
                yield at, held.state.leader_epoch


def catching_up(held: Partition) -> Replicas:
    """The replicas that a leader may add to the ISR next."""
    state, replicas = held.state, held.assignment.replicas
    if state is None or state.leader == NO_LEADER or state.isr == replicas:
        return ()
    return tuple(r for r in replicas if r not in state.isr and r != state.leader)
