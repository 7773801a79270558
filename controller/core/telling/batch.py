"""Whom must each change reach, and in which commands? One batch a turn, merged per broker.

Source: Kafka's AbstractControllerBrokerRequestBatch: LeaderAndIsr, then UpdateMetadata, then StopReplica.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple, TypeVar

from controller.core.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.memory import NOBODY
from controller.core.stage import still_to_go
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, TopicView
from controller.core.telling.greetings import Greeting
from controller.core.telling.views import deleted, live_brokers, view
from controller.core.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PARTITIONS_A_REQUEST = 10_000

T = TypeVar("T")
Views = dict[TopicName, dict[PartitionId, PartitionView]]


class Circumstances(NamedTuple):
    """Under what circumstances a partition changed."""

    has_new_id: bool
    is_initial: bool


class Batch:
    """What one turn tells the brokers."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing to tell yet."""
        self._cluster = cluster
        self._views: Views = {}
        self._greetings: list[tuple[Greeting, list[PartitionView]]] = []
        self._changed: set[int] = set()
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
            former_view = changes.topics.get(name)
            has_new_id = former_view is not None and former_view.topic_id != topic_view.topic_id
            for number, former in numbers.items():
                held = topic_view.partitions.get(number)
                if held is not None and held.state is not None and held.assignment.replicas:
                    self._add_partition(topic_view, number, held, former, Circumstances(has_new_id, changes.is_initial))

    def add_stops(self, topic: TopicView, number: PartitionId) -> None:
        """Ask leaving replicas to delete their logs, once the leader has heard that they leave."""
        held, at = topic.partitions.get(number), TopicPartition(topic.name, number)
        if held is None or held.state is None or at in self._cluster.untold or topic.is_queued_for_deletion:
            return
        state = held.state
        confirmed = self._cluster.confirmed.get(at, NOBODY)
        for broker in still_to_go(held.assignment, state, topic.deletions.get(number, ()), confirmed):
            if self._cluster.is_registered(broker):
                self._stop(broker, ReplicaStop(topic.name, number, state.leader_epoch, True))

    def greet(self, greeting: Greeting) -> None:
        """Tell brokers that know nothing yet of some partitions, after what has changed; views are made once a turn."""
        if not self._greetings:
            self._changed = {id(seen) for of_topic in self._views.values() for seen in of_topic.values()}
        seen_first: list[PartitionView] = []
        for name, numbers in greeting.partitions.items():
            topic = self._cluster.topics[name]
            for number in numbers:
                seen = self._view(topic, number, topic.partitions[number])
                if seen is None:
                    continue
                if id(seen) not in self._changed:
                    seen_first.append(seen)
                self._greet_replicas(seen, greeting.brokers)
                self._greet_leaving(topic, number, greeting.brokers)
        self._greetings.append((greeting, seen_first))

    def tells(self, *, brokers_changed: bool, is_greeting: bool = False) -> Iterator[tuple[BrokerId, Command]]:
        """The commands, in the order in which each broker must get them.

        Shape:
            `is_greeting`: some broker knows nothing yet, and everybody must know it before it hears who follows it.
        """
        recipients = self._cluster.registered_brokers()
        brokers = live_brokers(self._cluster)
        if is_greeting:
            greeting = UpdateMetadata((), brokers)
            yield from ((b, greeting) for b in recipients)
        for broker in recipients:
            existing, new = self._leading.get(broker, ((), ()))
            for command in _leader_and_isr(existing, new, brokers):
                yield broker, command
        yield from self._metadata(recipients, brokers, is_news=brokers_changed and not is_greeting)
        for broker in recipients:
            for stops in cut(self._stops.get(broker, {}).values()):
                yield broker, StopReplica(stops)

    def _add_partition(
        self, topic: TopicView, number: PartitionId, held: Partition, former: Partition, circumstances: Circumstances
    ) -> None:
        """Everybody hears of a changed partition; its replicas hear LeaderAndIsr where the leader epoch rose.

        A partition that has just got its first leader is new on its replicas: they create their logs.
        """
        seen, before = self._view(topic, number, held), former.state
        if seen is None:
            return
        has_risen = before is None or before.leader_epoch != seen.leader_epoch
        if not has_risen and not circumstances.has_new_id:
            return
        self._announced.add(id(seen))
        former_leader = before.leader if before is not None and has_risen else None
        is_created = before is None and not circumstances.is_initial
        cluster = self._cluster
        for broker in seen.replicas:
            if not cluster.is_registered(broker):
                continue
            if broker in cluster.shutting_down and broker not in (seen.leader, former_leader):
                self._stop(broker, ReplicaStop(topic.name, number, seen.leader_epoch, False))
            else:
                self._lead(broker, seen, is_created=is_created)
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

    def _greet_replicas(self, seen: PartitionView, fresh: Container[BrokerId]) -> None:
        """Followers do not take on a leader that they do not know to be alive: tell them again when it has come."""
        if id(seen) in self._announced:
            return
        for broker in seen.replicas:
            if (seen.leader in fresh or broker in fresh) and self._cluster.is_registered(broker):
                self._lead(broker, seen)

    def _greet_leaving(self, topic: TopicView, number: PartitionId, fresh: Container[BrokerId]) -> None:
        removing, owed = topic.partitions[number].assignment.removing, topic.deletions.get(number, ())
        if (removing or owed) and any(b in fresh for b in (*topic.partitions[number].assignment.replicas, *owed)):
            self.add_stops(topic, number)

    def _stop(self, broker: BrokerId, stop: ReplicaStop) -> None:
        stops = self._stops.setdefault(broker, {})
        held = stops.get((stop.topic, stop.partition))
        if held is None or not held.is_deletion:
            stops[stop.topic, stop.partition] = stop

    def _metadata(
        self, recipients: Iterable[BrokerId], brokers: tuple[LiveBroker, ...], *, is_news: bool
    ) -> Iterator[tuple[BrokerId, Command]]:
        """What has changed to everybody, and the rest of what was looked at to those who do not know it yet."""
        changed = [v for of_topic in self._views.values() for v in of_topic.values()]
        if self._greetings:
            changed = [v for v in changed if id(v) in self._changed]
        # Apart: a broker that drops a topic forgets the id, also the one that the same request gives its successor.
        parts = [UpdateMetadata(part, brokers) for part in (*cut(self._gone), *cut(changed))]
        if not parts and is_news:
            parts = [UpdateMetadata((), brokers)]
        greetings = [(g.brokers, [UpdateMetadata(part, brokers) for part in cut(v)]) for g, v in self._greetings]
        for broker in recipients:
            yield from ((broker, command) for command in parts)
            for fresh, commands in greetings:
                if broker in fresh:
                    yield from ((broker, command) for command in commands)


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
