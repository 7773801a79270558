"""How far is the deletion of each topic: who was told, who has confirmed, and what comes next?

That a topic is to be deleted is a fact (`/admin/delete_topics/<topic>`), and so is that it is not deleted yet (its
znode). What brokers have confirmed is memory: losing it with a reign costs asking them again.

Source: Kafka's TopicDeletionManager and ReplicaStateMachine, with two differences: moves of the topic are not waited
for but end with it, their adding replicas deleted like the others; and brokers are told only what they have not
confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from controller.core.announce.batch import cut
from controller.core.announce.views import deleted, live_brokers
from controller.core.cluster import Changes, Cluster, TopicView
from controller.core.commands import Command, PartitionView, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.draft import Atom
from controller.core.effects import Effect, Notice, Read, Survey
from controller.core.events import Acknowledged, Surveyed
from controller.core.rules import deletion
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.configs import TopicConfigAddress
from zk_layout.znodes.topics import TopicAddress

DURING_DELETE = LeaderEpoch(-2)  # obeyed whatever leader epoch a broker knows
NOTICE = "topic deletion waits"
NONE: frozenset[PartitionId] = frozenset()

Numbers = dict[BrokerId, set[PartitionId]]


class _Deletion(Struct):
    """One topic on its way out.

    Shape:
        `told`, `confirmed` and `refused` are by broker, in its present life. `found` is what a survey listed;
        `is_surveying` that one is under way.
    """

    is_announced: bool = False
    is_due: bool = True
    told: Numbers = field(default_factory=dict)
    confirmed: Numbers = field(default_factory=dict)
    refused: Numbers = field(default_factory=dict)
    needs_survey: bool = False
    is_surveying: bool = False
    found: tuple[tuple[Address, ZnodeVersion], ...] | None = None
    noticed: set[BrokerId] = field(default_factory=set)


class Removal(Struct):
    """The next step of a deletion: effects that go first, and writes that belong together. Both empty: it waits."""

    effects: list[Effect] = field(default_factory=list)
    atoms: list[Atom] = field(default_factory=list)


class TopicDeletions:
    """The deletions of one reign."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is being deleted."""
        self._cluster = cluster
        self._deletions: dict[TopicName, _Deletion] = {}

    # ---- following ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes) -> None:
        """Take in which topics are to be deleted now, which no longer, and whose replicas have changed."""
        for name in (*changes.gone_topics, *changes.marks):
            topic = self._cluster.topics.get(name)
            if name in changes.gone_topics or topic is None or not topic.is_queued_for_deletion:
                self._deletions.pop(name, None)
            if topic is not None and topic.is_queued_for_deletion:
                self._deletions.setdefault(name, _Deletion())
        if self._deletions:
            for name in changes.partitions:
                if name in self._deletions:
                    self._deletions[name].is_due = True

    def hear(self, event: Acknowledged) -> list[TopicName]:
        """A broker answered a StopReplica: the topics that this concerns."""
        concerned: dict[TopicName, None] = {}
        if not self._deletions or not isinstance(event.command, StopReplica):
            return []
        for stop in event.command.stops:
            going = self._deletions.get(stop.topic)
            if going is None or stop.leader_epoch != DURING_DELETE:
                continue
            is_refused = TopicPartition(stop.topic, stop.partition) in event.errors
            answers = going.refused if is_refused else going.confirmed
            answers.setdefault(event.broker, set()).add(stop.partition)
            concerned[stop.topic] = None
        return list(concerned)

    def surveyed(self, event: Surveyed) -> None:
        """What is below the topic's znode has been listed."""
        going = self._deletions.get(event.topic)
        if going is not None:
            going.found, going.is_surveying = event.found, False

    def failed(self, name: TopicName) -> None:
        """ZooKeeper refused the removal: there is something else below the topic's znode than the facts tell."""
        going = self._deletions.get(name)
        if going is not None:
            going.needs_survey, going.found = True, None

    @property
    def is_refused(self) -> bool:
        """Whether a broker could not delete a replica and is to be asked again."""
        return any(going.refused for going in self._deletions.values())

    def ask_again(self) -> None:
        """Brokers that could not delete a replica are asked again with the next announcement."""
        for going in self._deletions.values():
            for broker, numbers in going.refused.items():
                going.told.get(broker, set()).difference_update(numbers)
                going.is_due = True
            going.refused.clear()

    # ---- telling --------------------------------------------------------------------------------------------

    def tells(self, fresh: Iterable[BrokerId]) -> Iterator[tuple[BrokerId, Command]]:
        """What brokers must hear: that the topic is gone for clients, and which logs to delete.

        Shape:
            `fresh` brokers know nothing yet; they are told all of it.
        """
        if not self._deletions:
            return
        recipients = self._cluster.registered_brokers()
        for broker in fresh:
            for going in self._deletions.values():
                going.is_due = True
                for answers in (going.told, going.confirmed, going.refused):
                    answers.pop(broker, None)
        yield from self._metadata(recipients, frozenset(fresh))
        for broker in recipients:
            for stops in cut(self._stops(broker)):
                yield broker, StopReplica(stops)
        for going in self._deletions.values():
            going.is_due = False

    def _metadata(
        self, recipients: Iterable[BrokerId], fresh: frozenset[BrokerId]
    ) -> Iterator[tuple[BrokerId, UpdateMetadata]]:
        new: list[PartitionView] = []
        every: list[PartitionView] = []
        for name, going in self._deletions.items():
            if going.is_announced and not fresh:
                continue
            views = deleted(self._cluster.topics[name], self._cluster.controller_epoch)
            every.extend(views)
            if not going.is_announced:
                new.extend(views)
                going.is_announced = True
        brokers = live_brokers(self._cluster)
        for views, is_for_fresh in ((new, False), (every, True)):
            commands = [UpdateMetadata(part, brokers) for part in cut(views)]
            for broker in recipients:
                if (broker in fresh) is is_for_fresh:
                    yield from ((broker, command) for command in commands)

    def _stops(self, broker: BrokerId) -> Iterator[ReplicaStop]:
        for name, going in self._deletions.items():
            if not going.is_due:
                continue
            told = going.told.setdefault(broker, set())
            untold = self._replicas(broker, name) - told - going.confirmed.get(broker, NONE)
            told |= untold
            yield from (ReplicaStop(name, number, DURING_DELETE, True) for number in sorted(untold))

    # ---- deciding -------------------------------------------------------------------------------------------

    def next_step(self, name: TopicName) -> Removal:
        """What comes next for a topic that somebody wants to be deleted."""
        cluster = self._cluster
        mark, topic = cluster.deletion_marks[name], cluster.topics.get(name)
        if topic is None or not topic.is_queued_for_deletion:
            struck = deletion.strike(name, mark, topic, cluster)
            if struck is None:
                return Removal([Read((TopicAddress(name),))])
            return Removal(atoms=[Atom((struck[0],), (struck[1],))])
        going = self._deletions[name]
        if topic.is_malformed or self._unconfirmed(name, going):
            return Removal(list(self._notices(topic, going)))
        if topic.config_version is None:
            return Removal([Read((TopicConfigAddress(name),))])
        if going.needs_survey and going.found is None:
            effects: list[Effect] = [] if going.is_surveying else [Survey(name)]
            going.is_surveying = True
            return Removal(effects)
        below = deletion.below(topic) if going.found is None else deletion.surveyed(going.found)
        why = f"topic {name} is deleted: no broker has a replica of it any more"
        return Removal(atoms=[Atom((*below, *deletion.end(topic, mark)), (why,))])

    def _replicas(self, broker: BrokerId, name: TopicName) -> set[PartitionId]:
        """The partitions of a topic that a broker may have a log of: assigned, or left and unconfirmed."""
        cluster = self._cluster
        assigned = cluster.hosted.get(broker, {}).get(name, set())
        owed = cluster.owing.get(broker, {}).get(name)
        return assigned | owed if owed else assigned

    def _unconfirmed(self, name: TopicName, going: _Deletion) -> dict[BrokerId, int]:
        """How many replicas each broker has still to delete; nobody waits for our own id, which hosts nothing."""
        cluster = self._cluster
        left = {}
        for broker in sorted({**cluster.hosted, **cluster.owing}):
            numbers = self._replicas(broker, name)
            if broker != cluster.own_id and numbers:
                missing = len(numbers - going.confirmed.get(broker, NONE))
                if missing:
                    left[broker] = missing
        return left

    def _notices(self, topic: TopicView, going: _Deletion) -> Iterator[Notice]:
        for broker, count in self._unconfirmed(topic.name, going).items():
            if self._is_eligible(broker, going) or broker in going.noticed:
                continue
            going.noticed.add(broker)
            reason = "could not delete" if self._cluster.is_registered(broker) else "is offline and has"
            yield Notice(
                NOTICE, f"the deletion of topic {topic.name} waits: broker {broker} {reason} {count} of its replicas"
            )

    def _is_eligible(self, broker: BrokerId, going: _Deletion) -> bool:
        return self._cluster.is_registered(broker) and not going.refused.get(broker)

    # ---- measuring ------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        ineligible = replicas = ineligible_replicas = 0
        for name, going in self._deletions.items():
            left = self._unconfirmed(name, going)
            waiting = sum(count for broker, count in left.items() if not self._is_eligible(broker, going))
            replicas += sum(left.values())
            ineligible_replicas += waiting
            ineligible += bool(waiting)
        return {
            "topics_to_delete": len(self._deletions),
            "topics_ineligible_to_delete": ineligible,
            "replicas_to_delete": replicas,
            "replicas_ineligible_to_delete": ineligible_replicas,
        }
