"""Which followers are in sync, but so far behind that they may not stay so? Asks a few brokers about a few partitions.

A follower that has less now than its leader had ten seconds ago is more than ten seconds behind.

Source: Kafka's ListOffsets, as a broker answers it to a debugging consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from math import inf

from controller.core.messages.effects import DescribeLogEnds
from controller.core.messages.events import LogEndsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.state.placement import PlacementIndex
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, TopicPartition

PACE_S = 12.0
BEHIND_S = 10
"""Brokers answer within two seconds of each round: so a follower is asked at least ten after its leader."""
TOPICS = 10
"""Of each broker concerned; the next ten another time."""


def leader_beside(cluster: Cluster, at: TopicPartition, replica: BrokerId) -> BrokerId | None:
    """Who leads a replica that no move adds or removes and whose broker is up; None if it is no such replica."""
    held = cluster.partition(at)
    if held is None or held.state is None or not cluster.is_online(replica, at):
        return None
    is_kept = replica in held.assignment.replicas
    is_moved = replica in held.assignment.adding or replica in held.assignment.removing
    return held.state.leader if is_kept and not is_moved else None


class Lagging:
    """The comparisons of one term: each round leaders are asked, and followers of those asked in the round before."""

    def __init__(self, cluster: Cluster, placement: PlacementIndex) -> None:
        self._cluster = cluster
        self._placement = placement
        self._round = 0
        self._asked: dict[TopicPartition, BrokerId] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._compared: dict[TopicPartition, tuple[BrokerId, int]] = {}
        self.next_at = -inf

    def ask(self, brokers: set[BrokerId], out: Outbox) -> None:
        """Begin the next round with partitions that these brokers have."""
        self.next_at = out.now + PACE_S
        self._compared = {at: (self._asked[at], end) for at, end in self._ends.items()}
        self._asked, self._ends = dict(self._sample(brokers)), {}
        self._round += 1
        wanted: dict[BrokerId, dict[TopicPartition, None]] = {}
        for at, leader in self._asked.items():
            wanted.setdefault(leader, {})[at] = None
        for at in self._compared:
            for replica in self._followers(at):
                wanted.setdefault(replica, {})[at] = None
        for broker in sorted(filter(self._cluster.is_registered, wanted)):
            held = self._cluster.brokers[broker]
            out.add(DescribeLogEnds(broker, held.epoch, held.registration, tuple(sorted(wanted[broker]))))

    def hear(self, described: LogEndsDescribed) -> Iterator[tuple[TopicPartition, BrokerId, BrokerId]]:
        """Take in where a broker's logs end; each partition in which it is far behind, and the leader there."""
        broker, held = described.broker, self._cluster.brokers.get(described.broker)
        if held is None or held.epoch != described.broker_epoch:
            return
        for at, end in described.ends.items():
            leader, had = self._compared.get(at, (broker, 0))
            if self._asked.get(at) == broker:
                self._ends[at] = end
            elif end < had and broker in self._followers(at) and self._leader(at) == leader:
                yield at, broker, leader

    def _sample(self, brokers: set[BrokerId]) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """One partition of each of the next topics that these brokers have, with its leader."""
        for broker in sorted(brokers):
            topics = self._placement.hosted.get(broker, {})
            many = min(TOPICS, len(topics))
            first = self._round * TOPICS % len(topics) if many else 0
            for name in islice(chain(topics, topics), first, first + many):
                at = TopicPartition(name, next(iter(topics[name])))
                if (leader := self._leader(at)) is not None and any(True for _ in self._followers(at)):
                    yield at, leader

    def _followers(self, at: TopicPartition) -> list[BrokerId]:
        """The followers in sync that no move adds or removes."""
        held = self._cluster.partition(at)
        isr = () if held is None or held.state is None else held.state.isr
        return [replica for replica in isr if leader_beside(self._cluster, at, replica) not in (None, replica)]

    def _leader(self, at: TopicPartition) -> BrokerId | None:
        held: Partition | None = self._cluster.partition(at)
        return None if held is None or held.state is None else held.state.leader
