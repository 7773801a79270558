"""When is a request about topics answered: do its partitions have leaders, is its topic gone, do brokers know?

Kafka answers when its own metadata show the outcome. Here the answer waits, for a moment, until the brokers have taken
the metadata in, so that a client finds the same at whichever broker it asks next.

Source: Kafka's DelayedCreatePartitions, DelayedDeleteTopics and DelayedElectLeader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from controller.core.asks import Asks, Item, granted
from controller.core.cluster import BrokerChange, Changes, Cluster, TopicView
from controller.core.commands import UpdateMetadata
from controller.core.effects import Answer, Wake
from controller.core.events import Acknowledged, AskId
from controller.core.replies import Result
from controller.core.requests import Election, Growth, NewTopic, TopicReference
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition, Zxid

NO_TIME = "no time for request "
TOLD = "brokers were told of request "
LONGEST_TELLING_S = 2.0


class _Awaited(Struct):
    """A part of a request whose writes are done.

    Shape:
        `leaderless` are partitions still without a leader; `life` tells a topic to be deleted from one created after
        it. `untold` are brokers that have not taken in what they were told, with that.
    """

    item: Item
    result: Result
    leaderless: set[PartitionId]
    life: Zxid | None = None
    untold: dict[BrokerId, UpdateMetadata] = {}


class Outcomes:
    """Parts of requests between their write and their answer."""

    def __init__(self, cluster: Cluster, asks: Asks) -> None:
        """Nothing is awaited."""
        self._cluster = cluster
        self._asks = asks
        self._pending: dict[TopicName, list[_Awaited]] = {}
        self._fresh: set[TopicName] = set()
        self._telling: list[_Awaited] = []

    def expect(self, item: Item) -> bool:
        """The writes of a part are done; whether its answer waits for their outcome."""
        topic = self._cluster.topics.get(item.at.topic)
        if topic is None:
            return False
        awaited = _Awaited(item, granted(item, self._cluster), set())
        match item.wanted:
            case NewTopic() | Growth():
                awaited.leaderless = {n for n, held in topic.partitions.items() if held.state is None}
            case Election():
                awaited.leaderless = {item.at.partition}
            case TopicReference():
                awaited.life = topic.czxid
            case _:
                return False
        self._pending.setdefault(topic.name, []).append(awaited)
        self._fresh.add(topic.name)
        return True

    def look(self, changes: Changes, told: Mapping[BrokerId, UpdateMetadata], now: float) -> Iterator[Answer | Wake]:
        """What this turn's changes and announcements answer."""
        if not self._pending and not self._telling:
            return
        for broker, change in changes.brokers.items():
            if change is BrokerChange.VANISHED:
                yield from self._know(broker, None)
        changed = self._fresh | (self._pending.keys() & (changes.partitions.keys() | changes.gone_topics.keys()))
        self._fresh = set()
        for name in sorted(changed):
            waiting = []
            for awaited in self._pending.pop(name, ()):
                if not self._has_come_about(awaited):
                    waiting.append(awaited)
                elif told:
                    awaited.untold = dict(told)
                    self._telling.append(awaited)
                    yield Wake(f"{TOLD}{awaited.item.ask}", now + LONGEST_TELLING_S)
                else:
                    yield from self._settle(awaited)
            if waiting:
                self._pending[name] = waiting

    def hear(self, event: Acknowledged) -> Iterator[Answer]:
        """A broker has taken something in, or refused it; it is told again then, and the client does not wait."""
        if self._telling and isinstance(event.command, UpdateMetadata):
            yield from self._know(event.broker, event.command)

    def told(self, ask: AskId) -> Iterator[Answer]:
        """Brokers have had their time to take in what they were told: the client waits no longer for them."""
        told = [awaited for awaited in self._telling if awaited.item.ask == ask]
        self._telling = [awaited for awaited in self._telling if awaited.item.ask != ask]
        for awaited in told:
            yield from self._settle(awaited)

    def forget(self, ask: AskId) -> Iterator[Answer]:
        """The client's time is over: parts that have come about are settled, the others are no longer awaited."""
        yield from self.told(ask)
        for name, waiting in tuple(self._pending.items()):
            left = [awaited for awaited in waiting if awaited.item.ask != ask]
            if left:
                self._pending[name] = left
            else:
                del self._pending[name]

    def _has_come_about(self, awaited: _Awaited) -> bool:
        topic = self._cluster.topics.get(awaited.item.at.topic)
        if topic is None or awaited.life not in (None, topic.czxid):
            return True
        if awaited.life is not None:
            return self._waits_for_a_broker(topic)
        for number in tuple(awaited.leaderless):
            held = topic.partitions.get(number)
            at = TopicPartition(topic.name, number)
            if held is None or (held.state is not None and self._cluster.is_online(held.state.leader, at)):
                awaited.leaderless.discard(number)
        return not awaited.leaderless

    def _waits_for_a_broker(self, topic: TopicView) -> bool:
        """Whether a deletion cannot end before some broker returns: for clients the topic is gone, as in Kafka."""
        hosts = {replica for held in topic.partitions.values() for replica in held.assignment.replicas}
        return any(not self._cluster.is_registered(host) for host in hosts if host != self._cluster.own_id)

    def _know(self, broker: BrokerId, command: UpdateMetadata | None) -> Iterator[Answer]:
        """A broker knows what it was told up to this command; None where it is gone."""
        waiting = []
        for awaited in self._telling:
            expected = awaited.untold.get(broker)
            if expected is not None and (command is None or expected is command or expected == command):
                del awaited.untold[broker]
            if awaited.untold:
                waiting.append(awaited)
            else:
                yield from self._settle(awaited)
        self._telling = waiting

    def _settle(self, awaited: _Awaited) -> Iterator[Answer]:
        answer = self._asks.settle(awaited.item.ask, awaited.item.index, awaited.result)
        if answer is not None:
            yield answer
