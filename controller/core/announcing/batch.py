"""Which brokers must each change reach, in which commands? One batch a turn, merged per broker.

Source: Kafka's AbstractControllerBrokerRequestBatch: LeaderAndIsr, then UpdateMetadata, then StopReplica.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from controller.core.announcing.full_updates import FullUpdates, UpdatePart
from controller.core.announcing.views import deleted, live_brokers, view, view_at_rest, views_of
from controller.core.messages.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.stage import still_to_go
from controller.core.state.brokers import NO_BROKERS
from controller.core.state.changes import Changes
from controller.core.state.topics import BLANK, Partition, TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PARTITIONS_A_REQUEST = 10_000

T = TypeVar("T")
Views = dict[TopicName, dict[PartitionId, PartitionView]]


class Batch:
    """The commands of one turn."""

    def __init__(self, cluster: Cluster, round_: FullUpdates) -> None:
        """Begin an empty batch. Brokers on the round do not know some topics yet."""
        self._cluster = cluster
        self._round = round_
        self._views: Views = {}
        self._parts: list[UpdatePart] = []
        self._whole: dict[TopicName, list[PartitionView]] = {}
        self._changed: list[PartitionView] = []
        self._announced: set[int] = set()
        self._first: list[PartitionView] = []
        self._gone: list[PartitionView] = []
        self._leading: dict[BrokerId, tuple[list[PartitionView], list[PartitionView]]] = {}
        self._stops: dict[BrokerId, dict[tuple[TopicName, PartitionId], ReplicaStop]] = {}

    def add(self, changes: Changes, new: Mapping[TopicPartition, Container[BrokerId]]) -> None:
        """Add the changes of this turn's facts; `new` are replicas that this controller has just created."""
        for topic in changes.gone_topics.values():
            self._gone.extend(deleted(topic, self._cluster.controller_epoch))
        is_quiet = changes.is_initial and not new and not self._cluster.shutting_down
        lists = self._lists() if is_quiet else None
        for name, numbers in changes.partitions.items():
            topic_view = self._cluster.topics.get(name)
            if topic_view is None or topic_view.is_queued_for_deletion or name in self._cluster.withdrawn:
                continue
            former_view = changes.topics.get(name)
            has_new_id = former_view is not None and former_view.topic_id != topic_view.topic_id
            if lists is not None and not topic_view.deletions:
                self._add_first(topic_view, numbers, changes.at_rest.get(name, {}), lists)
                continue
            for number, former in numbers.items():
                held = topic_view.partitions.get(number)
                if held is not None and held.state is not None and held.assignment.replicas:
                    made = new.get(TopicPartition(name, number), NO_BROKERS) if new else NO_BROKERS
                    self._add_partition(topic_view, number, former, made, has_new_id=has_new_id)

    def add_stops(self, topic: TopicView, number: PartitionId) -> None:
        """Ask removed replicas to delete their logs, once the leader knows that they are removed."""
        held, at = topic.partitions.get(number), TopicPartition(topic.name, number)
        if held is None or held.state is None or at in self._cluster.unannounced or topic.is_queued_for_deletion:
            return
        state = held.state
        confirmed = self._cluster.confirmed.get(at, NO_BROKERS)
        for broker in still_to_go(held.assignment, state, topic.deletions.get(number, ()), confirmed):
            if self._cluster.is_registered(broker):
                self._stop(broker, ReplicaStop(topic.name, number, state.leader_epoch, True))

    def add_part(self, part: UpdatePart) -> None:
        """Add part of a full update; views are made once a turn."""
        if not self._parts:
            self._changed = self._seen()
            self._announced.update(map(id, self._first))
        for name, numbers in part.partitions.items():
            topic = self._cluster.topics[name]
            for number in numbers:
                seen = self._view(topic, number, topic.partitions[number])
                if seen is not None:
                    self._update_replicas(seen, part.brokers)
                    self._update_leaving(topic, number, part.brokers)
        self._parts.append(part)

    def _seen(self) -> list[PartitionView]:
        return [seen for of_topic in self._views.values() for seen in of_topic.values()]

    def commands(self, *, brokers_changed: bool, is_full_update: bool = False) -> Iterator[tuple[BrokerId, Command]]:
        """The commands, in the order in which each broker must get them.

        Shape:
            `is_full_update`: some broker needs a full update, and all brokers must know it before they hear which
            partitions it follows.
        """
        recipients = self._cluster.registered_brokers()
        brokers = live_brokers(self._cluster)
        if is_full_update:
            who_lives = UpdateMetadata((), brokers)
            yield from ((b, who_lives) for b in recipients)
        for broker in recipients:
            existing, new = self._leading.get(broker, ((), ()))
            for command in _leader_and_isr(existing, new, brokers):
                yield broker, command
        yield from self._metadata(recipients, brokers, is_news=brokers_changed and not is_full_update)
        for broker in recipients:
            for stops in cut(self._stops.get(broker, {}).values()):
                yield broker, StopReplica(stops)

    def _add_partition(
        self,
        topic: TopicView,
        number: PartitionId,
        former: Partition,
        new: Container[BrokerId],
        *,
        has_new_id: bool,
    ) -> None:
        """Announce a changed partition to all brokers; its replicas get LeaderAndIsr if the leader epoch rose.

        New replicas are sent apart, as new: only they may create a log while a log directory is offline.
        """
        held = topic.partitions[number]
        seen, before = self._view(topic, number, held), former.state
        if seen is None:
            return
        has_risen = before is None or before.leader_epoch != seen.leader_epoch
        if not has_risen and not has_new_id:
            return
        self._announced.add(id(seen))
        former_leader = before.leader if before is not None and has_risen else None
        cluster = self._cluster
        for broker in seen.replicas:
            if not cluster.is_registered(broker):
                continue
            if broker in cluster.shutting_down and broker not in (seen.leader, former_leader):
                self._stop(broker, ReplicaStop(topic.name, number, seen.leader_epoch, False))
            else:
                self._lead(broker, seen, is_new=broker in new)
        if held.assignment.removing or topic.deletions:
            self.add_stops(topic, number)

    def _lists(self) -> Mapping[BrokerId, Callable[[PartitionView], None]]:
        """What appends to the existing partitions of each broker that can be reached."""
        brokers = self._cluster.registered_brokers()
        return {broker: self._leading.setdefault(broker, ([], []))[0].append for broker in brokers}

    def _add_first(
        self,
        topic: TopicView,
        numbers: Mapping[PartitionId, Partition],
        at_rest: Mapping[PartitionId, None],
        lists: Mapping[BrokerId, Callable[[PartitionView], None]],
    ) -> None:
        """The same as one `_add_partition` each, while no broker shuts down and no replica is new."""
        views, partitions = self._views.setdefault(topic.name, {}), topic.partitions
        for number, former in numbers.items():
            held = partitions[number]
            state = held.state
            if state is None or not held.assignment.replicas:
                continue
            if former is not BLANK or held.assignment.removing:
                self._add_partition(topic, number, former, NO_BROKERS, has_new_id=False)
                continue
            if number in at_rest:
                seen = view_at_rest(topic, number, held, state)
            else:
                seen = view(topic, number, held, state, self._cluster)
            views[number] = seen
            self._first.append(seen)
            for broker in seen.replicas:
                if broker in lists:
                    lists[broker](seen)

    def _view(self, topic: TopicView, number: PartitionId, held: Partition) -> PartitionView | None:
        of_topic = self._views.setdefault(topic.name, {})
        seen = of_topic.get(number)
        if seen is None and held.state is not None:
            seen = of_topic[number] = view(topic, number, held, held.state, self._cluster)
        return seen

    def _lead(self, broker: BrokerId, seen: PartitionView, *, is_new: bool = False) -> None:
        lists = self._leading.get(broker)
        if lists is None:
            lists = self._leading[broker] = ([], [])
        lists[is_new].append(seen)

    def _update_replicas(self, seen: PartitionView, fresh: Container[BrokerId]) -> None:
        """Send a leader's followers the partition again once the leader appears: they refuse a leader that is not
        alive.
        """
        if id(seen) in self._announced:
            return
        for broker in seen.replicas:
            if (seen.leader in fresh or broker in fresh) and self._cluster.is_registered(broker):
                self._lead(broker, seen)

    def _update_leaving(self, topic: TopicView, number: PartitionId, fresh: Container[BrokerId]) -> None:
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
        """UpdateMetadata: changes for every broker, and whole topics for brokers that do not know them."""
        changed = self._changed if self._parts else self._seen()
        # Sent apart: a broker that drops a topic forgets its id, even one that the same request gives its successor.
        gone = [UpdateMetadata(part, brokers) for part in cut(self._gone)]
        made: dict[Hashable, list[UpdateMetadata]] = {}
        for broker in recipients:
            heard = tuple(index for index, part in enumerate(self._parts) if broker in part.brokers)
            key = heard, self._round.still_needed_by(broker)
            if key not in made:
                views = list(self._views_for(broker, changed, [self._parts[index] for index in heard]))
                made[key] = [*gone, *(UpdateMetadata(part, brokers) for part in cut_between_topics(views))]
            commands = made[key]
            if not commands and is_news:
                commands = [UpdateMetadata((), brokers)]
            yield from ((broker, command) for command in commands)

    def _views_for(
        self, broker: BrokerId, changed: Iterable[PartitionView], parts: Iterable[UpdatePart]
    ) -> Iterator[PartitionView]:
        """The changes of topics that the broker knows, and all partitions of topics that are new to it."""
        whole = {name: numbers for part in parts for name, numbers in part.whole.items()}
        if not whole and not self._round.is_under_way:
            yield from changed
            return
        for seen in changed:
            if seen.topic not in whole and not self._round.is_incomplete_at(seen.topic, broker):
                yield seen
        for name, numbers in whole.items():
            yield from self._views_of(self._cluster.topics[name], numbers)

    def _views_of(self, topic: TopicView, numbers: Iterable[PartitionId]) -> Iterable[PartitionView]:
        """All partitions of a topic, made once for all brokers to which it is new: there may be very many."""
        made = self._whole.get(topic.name)
        if made is None:
            made = self._whole[topic.name] = views_of(topic, numbers, self._cluster)
        return made


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


def cut_between_topics(views: Iterable[PartitionView]) -> Iterator[tuple[PartitionView, ...]]:
    """Cut like `cut`, but never within a topic: a broker that does not know the topic would list only a part of it."""
    part: list[PartitionView] = []
    for _, of_topic in groupby(views, key=attrgetter("topic")):
        part += of_topic
        if len(part) >= PARTITIONS_A_REQUEST:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def cut(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Cut into parts far below a broker's `socket.request.max.bytes`, so that the first can be sent early."""
    every = tuple(items)
    for start in range(0, len(every), PARTITIONS_A_REQUEST):
        yield every[start : start + PARTITIONS_A_REQUEST]
