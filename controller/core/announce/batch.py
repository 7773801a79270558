"""Whom must each change reach, and in which commands? One batch a turn, merged per broker.

Source: Kafka's AbstractControllerBrokerRequestBatch: LeaderAndIsr, then UpdateMetadata, then StopReplica.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from controller.core.announce.views import deleted, live_brokers, view
from controller.core.cluster import Changes, Cluster, Partition, PartitionChange, TopicView
from controller.core.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.stage import Stage, stage
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PARTITIONS_A_REQUEST = 10_000

T = TypeVar("T")
Confirmed = Mapping[TopicPartition, frozenset[BrokerId]]
Views = dict[TopicName, dict[PartitionId, PartitionView]]


class Batch:
    """What one turn tells the brokers.

    Shape:
        `confirmed` names the brokers that have deleted their replica of a partition: they are not asked again.
        `fresh` brokers know nothing yet and are told everything that concerns them, except topics that are `held` back:
        what is known of those is a pair that ZooKeeper never held.
    """

    def __init__(
        self,
        cluster: Cluster,
        confirmed: Confirmed,
        fresh: Iterable[BrokerId] = (),
        held: frozenset[TopicName] = frozenset(),
    ) -> None:
        """Nothing to tell yet."""
        self._cluster = cluster
        self._confirmed = confirmed
        self._fresh = frozenset(b for b in fresh if cluster.is_registered(b))
        self._held = held
        self._views: Views = {}
        self._everything: list[PartitionView] = []
        self._announced: set[int] = set()
        self._gone: list[PartitionView] = []
        self._leading: dict[BrokerId, tuple[list[PartitionView], list[PartitionView]]] = {}
        self._stops: dict[BrokerId, dict[tuple[TopicName, PartitionId], ReplicaStop]] = {}

    def add(self, changes: Changes) -> None:
        """Take in what the facts of this turn changed."""
        for topic in changes.gone_topics.values():
            self._gone.extend(deleted(topic, self._cluster.controller_epoch))
        for name, numbers in changes.partitions.items():
            topic_view = self._cluster.topics.get(name)
            if topic_view is None or topic_view.is_queued_for_deletion:
                continue
            for number, flags in numbers.items():
                held = topic_view.partitions[number]
                if flags and held.state is not None and held.assignment.replicas:
                    self._add_partition(topic_view, number, held, flags, changes)

    def add_stops(self, topic: TopicView, number: PartitionId) -> None:
        """Ask leaving replicas to delete their logs, once the leader has heard that they leave."""
        held = topic.partitions[number]
        state = held.state
        if held.is_untold or state is None or topic.is_queued_for_deletion:
            return
        leaving = topic.deletions.get(number, ())
        if held.assignment.removing and stage(held.assignment, state) is Stage.LETTING_GO:
            leaving = (*leaving, *held.assignment.removing)
        if not leaving:
            return
        confirmed = self._confirmed.get(TopicPartition(topic.name, number), frozenset())
        target = held.assignment.target
        for broker in dict.fromkeys(leaving):
            if broker not in confirmed and broker not in target and self._cluster.is_registered(broker):
                self._stop(broker, ReplicaStop(topic.name, number, state.leader_epoch, True))

    def tells(self, *, brokers_changed: bool) -> Iterator[tuple[BrokerId, Command]]:
        """The commands, in the order in which each broker must get them."""
        recipients = self._cluster.registered_brokers()
        brokers = live_brokers(self._cluster)
        if self._fresh:
            greeting = UpdateMetadata((), brokers)
            yield from ((b, greeting) for b in recipients)
            self._greet()
        for broker in recipients:
            existing, new = self._leading.get(broker, ((), ()))
            for command in _leader_and_isr(existing, new, brokers):
                yield broker, command
        yield from self._metadata(recipients, brokers, brokers_changed)
        for broker in recipients:
            for stops in cut(self._stops.get(broker, {}).values()):
                yield broker, StopReplica(stops)

    def _add_partition(
        self, topic: TopicView, number: PartitionId, held: Partition, flags: int, changes: Changes
    ) -> None:
        seen = self._view(topic, number, held)
        if seen is None or not flags & PartitionChange.LEADERSHIP:
            return
        self._announced.add(id(seen))
        former = changes.former_leaders.get(TopicPartition(topic.name, number))
        cluster = self._cluster
        for broker in seen.replicas:
            if broker not in cluster.brokers or broker == cluster.own_id or broker in self._fresh:
                continue
            if broker in cluster.shutting_down and broker not in (seen.leader, former):
                self._stop(broker, ReplicaStop(topic.name, number, seen.leader_epoch, False))
            else:
                self._lead(broker, seen, is_created=bool(flags & PartitionChange.CREATED))
        if held.assignment.removing or topic.deletions:
            self.add_stops(topic, number)

    def _view(self, topic: TopicView, number: PartitionId, held: Partition) -> PartitionView | None:
        of_topic = self._views.setdefault(topic.name, {})
        seen = of_topic.get(number)
        if seen is None and held.state is not None:
            seen = of_topic[number] = view(topic, number, held, held.state, self._cluster)
        return seen

    def _lead(self, broker: BrokerId, seen: PartitionView, *, is_created: bool = False) -> None:
        lists = self._leading.get(broker)
        if lists is None:
            lists = self._leading[broker] = ([], [])
        lists[is_created or (broker in seen.adding and broker not in seen.isr)].append(seen)

    def _lead_followers(self, seen: PartitionView) -> None:
        """Followers do not take on a leader that they do not know to be alive: tell them again when it has come."""
        for broker in seen.replicas:
            if broker not in self._fresh and self._cluster.is_registered(broker):
                self._lead(broker, seen)

    def _stop(self, broker: BrokerId, stop: ReplicaStop) -> None:
        stops = self._stops.setdefault(broker, {})
        held = stops.get((stop.topic, stop.partition))
        if held is None or not held.is_deletion:
            stops[stop.topic, stop.partition] = stop

    def _greet(self) -> None:
        """Everything that concerns the fresh brokers. Views already made this turn are used again."""
        cluster = self._cluster
        changed = {name: dict(of_topic) for name, of_topic in self._views.items()}
        for name in cluster.topics:
            topic = cluster.topics[name]
            if topic.is_queued_for_deletion or name in self._held:
                continue
            for number, held in topic.partitions.items():
                if held.assignment.replicas:
                    self._view(topic, number, held)
        everything, self._views = self._views, changed
        self._everything = [v for of_topic in everything.values() for v in of_topic.values()]
        for broker in sorted(self._fresh):
            self._greet_one(broker, everything)

    def _greet_one(self, broker: BrokerId, everything: Views) -> None:
        cluster = self._cluster
        for name, numbers in cluster.hosted.get(broker, {}).items():
            if name in self._held:
                continue
            of_topic, topic = everything.get(name, {}), cluster.topics[name]
            for number in numbers:
                seen = of_topic.get(number)
                if seen is not None and broker in seen.replicas:
                    self._lead(broker, seen)
                    if seen.leader == broker and id(seen) not in self._announced:
                        self._lead_followers(seen)
                if topic.partitions[number].assignment.removing:
                    self.add_stops(topic, number)
        for name, numbers in cluster.owing.get(broker, {}).items():
            for number in numbers:
                self.add_stops(cluster.topics[name], number)

    def _metadata(
        self, recipients: Iterable[BrokerId], brokers: tuple[LiveBroker, ...], brokers_changed: bool
    ) -> Iterator[tuple[BrokerId, Command]]:
        changed = self._gone + [v for of_topic in self._views.values() for v in of_topic.values()]
        parts = [UpdateMetadata(part, brokers) for part in cut(changed)]
        if not parts and brokers_changed:
            parts = [UpdateMetadata((), brokers)]
        full = [UpdateMetadata(part, brokers) for part in cut(self._everything)] if self._fresh else []
        for broker in recipients:
            for command in full if broker in self._fresh else parts:
                yield broker, command


def _leader_and_isr(
    existing: Iterable[PartitionView], new: Iterable[PartitionView], brokers: tuple[LiveBroker, ...]
) -> Iterator[LeaderAndIsr]:
    for part in cut(existing):
        yield LeaderAndIsr(part, (), _leaders(part, brokers))
    for part in cut(new):
        yield LeaderAndIsr((), part, _leaders(part, brokers))


def _leaders(partitions: Iterable[PartitionView], brokers: tuple[LiveBroker, ...]) -> tuple[LiveBroker, ...]:
    leaders = {p.leader for p in partitions}
    return tuple(b for b in brokers if b.broker in leaders)


def cut(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Parts that stay far below a broker's `socket.request.max.bytes`, and let the first be sent early."""
    every = tuple(items)
    for start in range(0, len(every), PARTITIONS_A_REQUEST):
        yield every[start : start + PARTITIONS_A_REQUEST]
