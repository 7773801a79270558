"""When is a request about topics answered: do its partitions have leaders, is its topic gone, do brokers know?

Kafka answers when its own metadata show the outcome. Here the answer waits, for a moment, until the brokers have taken
the metadata in, so that a client finds the same at whichever broker it asks next.

Source: Kafka's DelayedCreatePartitions, DelayedDeleteTopics and DelayedElectLeader.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from controller.core.clients.open_requests import Item, OpenRequests
from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.events import Acknowledged, Alarm, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result
from controller.core.messages.requests import Election, Growth, NewTopic, TopicReference
from controller.core.state.changes import Changes
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition, Zxid

LONGEST_TELLING_S = 2.0


class BrokersHadTime(Alarm, frozen=True):
    """Brokers have had their time to take in what a client waits for."""

    call: CallId


class _Awaited(Struct, eq=False):
    """A part of a request whose writes are done.

    Shape:
        `leaderless` are partitions still without a leader; `life` tells a topic to be deleted from one created after
        it. `untold` are brokers that have not taken in what they were told, with that.
    """

    item: Item
    result: Result
    leaderless: dict[PartitionId, None]
    life: Zxid | None = None
    untold: dict[BrokerId, UpdateMetadata] = {}


class Outcomes:
    """Parts of requests between their write and their answer."""

    def __init__(self, cluster: Cluster, requests: OpenRequests) -> None:
        self._cluster = cluster
        self._requests = requests
        self._pending: dict[TopicName, list[_Awaited]] = {}
        self._fresh: dict[TopicName, None] = {}
        self._telling: list[_Awaited] = []

    def expect(self, item: Item, result: Result) -> bool:
        """The writes of a part are done; whether its answer waits for their outcome."""
        topic = self._cluster.topics.get(item.at.topic)
        if topic is None:
            return False
        awaited = _Awaited(item, result, {})
        match item.wanted:
            case NewTopic() | Growth():
                awaited.leaderless = {n: None for n, held in topic.partitions.items() if held.state is None}
            case Election():
                awaited.leaderless = {item.at.partition: None}
            case TopicReference():
                awaited.life = topic.czxid
            case _:
                return False
        self._pending.setdefault(topic.name, []).append(awaited)
        self._fresh[topic.name] = None
        return True

    def look(self, changes: Changes, out: Outbox) -> None:
        """Answer what has come about with this turn's changes, once brokers know."""
        if not self._pending and not self._telling:
            return
        told = {t.broker: t.command for t in out.told if isinstance(t.command, UpdateMetadata)}
        for broker in changes.brokers:
            if not self._cluster.is_registered(broker):
                self._know(broker, None, out)
        changed = {n for n in self._pending if n in changes.partitions or n in changes.gone_topics} | self._fresh.keys()
        self._fresh = {}
        for name in sorted(changed):
            self._look_at(name, told, out)

    def _look_at(self, name: TopicName, told: Mapping[BrokerId, UpdateMetadata], out: Outbox) -> None:
        waiting = []
        for awaited in self._pending.pop(name, ()):
            if not self._has_come_about(awaited):
                waiting.append(awaited)
            elif told:
                awaited.untold = dict(told)
                self._telling.append(awaited)
                out.wake(BrokersHadTime(awaited.item.call), out.now + LONGEST_TELLING_S)
            else:
                self._settle(awaited, out)
        if waiting:
            self._pending[name] = waiting

    def hear(self, answer: Acknowledged, out: Outbox) -> None:
        """A broker has taken something in, or refused it; it is told again then, and the client does not wait."""
        if self._telling and isinstance(answer.command, UpdateMetadata):
            self._know(answer.broker, answer.command, out)

    def stop_telling(self, call: CallId, out: Outbox) -> None:
        """Brokers have had their time to take in what they were told: the client waits no longer for them."""
        told = [awaited for awaited in self._telling if awaited.item.call == call]
        self._telling = [awaited for awaited in self._telling if awaited.item.call != call]
        for awaited in told:
            self._settle(awaited, out)

    def give_up(self, call: CallId, out: Outbox) -> None:
        """The client's time is over: parts that have come about are settled, the others are no longer awaited."""
        self.stop_telling(call, out)
        for name, waiting in tuple(self._pending.items()):
            left = [awaited for awaited in waiting if awaited.item.call != call]
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
        while awaited.leaderless:
            number = next(iter(awaited.leaderless))
            if self._is_leaderless(topic, number):
                return False
            del awaited.leaderless[number]
        return True

    def _is_leaderless(self, topic: TopicView, number: PartitionId) -> bool:
        held = topic.partitions.get(number)
        if held is None or held.state is None:
            return held is not None
        return not self._cluster.is_online(held.state.leader, TopicPartition(topic.name, number))

    def _waits_for_a_broker(self, topic: TopicView) -> bool:
        """Whether a deletion cannot end before some broker returns: for clients the topic is gone, as in Kafka."""
        hosts = {replica for held in topic.partitions.values() for replica in held.assignment.replicas}
        return any(not self._cluster.is_registered(host) for host in hosts if host not in self._cluster.controllers)

    def _know(self, broker: BrokerId, command: UpdateMetadata | None, out: Outbox) -> None:
        """A broker knows what it was told up to this command; None where it is gone."""
        waiting: list[_Awaited] = []
        knowing: list[_Awaited] = []
        for awaited in self._telling:
            expected = awaited.untold.get(broker)
            if expected is not None and (command is None or expected is command or expected == command):
                del awaited.untold[broker]
            (waiting if awaited.untold else knowing).append(awaited)
        self._telling = waiting
        for awaited in knowing:
            self._settle(awaited, out)

    def _settle(self, awaited: _Awaited, out: Outbox) -> None:
        self._requests.settle(awaited.item, awaited.result, out)
