"""How far is the deletion of each topic: who was told, who has confirmed, and what comes next?

That a topic is to be deleted is a fact (`/admin/delete_topics/<topic>`), and so is that it is not deleted yet (its
znode). What brokers have confirmed is memory: losing it with a term costs asking them again.

Source: Kafka's TopicDeletionManager and ReplicaStateMachine, with two differences: moves of the topic are not waited
for but end with it, their adding replicas deleted like the others; and brokers are told only what they have not
confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from controller.core.commands import PartitionView, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.effects import Create, Survey
from controller.core.events import Acknowledged, Surveyed
from controller.core.memory import Memory
from controller.core.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.state.topics import TopicView
from controller.core.telling.batch import cut
from controller.core.telling.sending import send
from controller.core.telling.views import deleted, live_brokers
from controller.core.topics import deletion_writes
from controller.core.transactions.proposal import Atom
from controller.core.view import Cluster
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import TopicConfigAddress

DURING_DELETE = LeaderEpoch(-2)  # obeyed whatever leader epoch a broker knows
NOTICE = "delayed topic deletion"
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
    needs_config: bool = True
    needs_survey: bool = False
    is_surveying: bool = False
    found: tuple[tuple[Address, ZnodeVersion], ...] | None = None
    noticed: set[BrokerId] = field(default_factory=set)


class TopicDeletions:
    """The deletions of one term."""

    def __init__(self, cluster: Cluster, memory: Memory) -> None:
        """Nothing is being deleted."""
        self._cluster = cluster
        self._memory = memory
        self._deletions: dict[TopicName, _Deletion] = {}
        self._withdrawn = memory.withdrawn

    # ---- following ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes) -> list[TopicName]:
        """Take in which topics are to be deleted now, which no longer, and whose replicas have changed.

        Answers those whose request was taken back too late; brokers hear nothing of them until it is there again.
        """
        for name in changes.configs:
            if name in self._deletions:
                self._deletions[name].needs_config = False
        too_late = [name for name in {**changes.gone_topics, **changes.marks} if self._follow_one(name, changes)]
        for name in self._withdrawn:
            changes.partitions.pop(name, None)
        for name in changes.partitions if self._deletions else ():
            if name in self._deletions:
                self._deletions[name].is_due = True
        return too_late

    def _follow_one(self, name: TopicName, changes: Changes) -> bool:
        """Whether a deletion that has begun was withdrawn. It goes on, as in Kafka.

        Some logs are gone: a replica without its log that is in the ISR would make the others drop their records.
        """
        topic, former = self._cluster.topics.get(name), self._deletions.get(name)
        is_another = name in changes.gone_topics
        if topic is None or is_another:
            self._withdrawn.pop(name, None)
        if topic is not None and topic.is_queued_for_deletion:
            self._withdrawn.pop(name, None)
            if former is None or is_another:
                self._deletions[name] = _Deletion()
            return False
        self._deletions.pop(name, None)
        has_begun = former is not None and not is_another and any(former.told.values())
        if topic is not None and has_begun:
            self._withdrawn[name] = None
        return topic is not None and has_begun

    def hear(self, event: Acknowledged) -> list[TopicName]:
        """A broker answered a StopReplica: the topics that this concerns."""
        concerned: dict[TopicName, None] = {}
        if not self._deletions or not isinstance(event.command, StopReplica):
            return []
        for stop in event.command.stops:
            deletion = self._deletions.get(stop.topic)
            if deletion is None or stop.leader_epoch != DURING_DELETE:
                continue
            is_refused = TopicPartition(stop.topic, stop.partition) in event.errors
            answers = deletion.refused if is_refused else deletion.confirmed
            answers.setdefault(event.broker, set()).add(stop.partition)
            concerned[stop.topic] = None
        return list(concerned)

    def surveyed(self, event: Surveyed) -> None:
        """What is below the topic's znode has been listed."""
        deletion = self._deletions.get(event.topic)
        if deletion is not None:
            deletion.found, deletion.is_surveying = event.found, False

    def failed(self, name: TopicName) -> None:
        """ZooKeeper refused the removal: there is something else below the topic's znode than the facts tell."""
        deletion = self._deletions.get(name)
        if deletion is not None:
            deletion.needs_survey, deletion.found = True, None

    @property
    def is_refused(self) -> bool:
        """Whether a broker could not delete a replica and is to be asked again."""
        return any(deletion.refused for deletion in self._deletions.values())

    def ask_again(self) -> None:
        """Brokers that could not delete a replica are asked again with the next announcement."""
        for deletion in self._deletions.values():
            for broker, numbers in deletion.refused.items():
                deletion.told.get(broker, set()).difference_update(numbers)
                deletion.is_due = True
            deletion.refused.clear()

    # ---- telling --------------------------------------------------------------------------------------------

    def tell(self, out: Outbox) -> None:
        """Brokers must hear that the topic is gone for clients, and which logs to delete.

        Those that are told everything in this turn knew nothing yet, and what they confirmed before counts no more.
        """
        if not self._deletions:
            return
        recipients = self._cluster.registered_brokers()
        fresh = frozenset(self._memory.told_everything)
        for deletion in self._deletions.values() if fresh else ():
            deletion.is_due = True
            for broker in fresh:
                for answers in (deletion.told, deletion.confirmed, deletion.refused):
                    answers.pop(broker, None)
        self._tell_metadata(recipients, fresh, out)
        for broker in recipients:
            for stops in cut(self._take_stops(broker)):
                send(broker, StopReplica(stops), self._cluster, self._memory, out)
        for deletion in self._deletions.values():
            deletion.is_due = False

    def _tell_metadata(self, recipients: Iterable[BrokerId], fresh: frozenset[BrokerId], out: Outbox) -> None:
        new: list[PartitionView] = []
        every: list[PartitionView] = []
        for name, deletion in self._deletions.items():
            if deletion.is_announced and not fresh:
                continue
            views = deleted(self._cluster.topics[name], self._cluster.controller_epoch)
            every.extend(views)
            if not deletion.is_announced:
                new.extend(views)
                deletion.is_announced = True
        brokers = live_brokers(self._cluster)
        for views, is_for_fresh in ((new, False), (every, True)):
            commands = [UpdateMetadata(part, brokers) for part in cut(views)]
            for broker in recipients:
                if (broker in fresh) is is_for_fresh:
                    for command in commands:
                        send(broker, command, self._cluster, self._memory, out)

    def _take_stops(self, broker: BrokerId) -> list[ReplicaStop]:
        """The replicas that a broker has not been told to delete; it counts as told from now on."""
        stops = []
        for name, deletion in self._deletions.items():
            if deletion.is_due:
                told = deletion.told.setdefault(broker, set())
                untold = self._replicas(broker, name) - told - deletion.confirmed.get(broker, NONE)
                told |= untold
                stops += [ReplicaStop(name, number, DURING_DELETE, True) for number in sorted(untold)]
        return stops

    # ---- deciding -------------------------------------------------------------------------------------------

    def is_under_way(self, name: TopicName) -> bool:
        """Whether a topic is being deleted, be it that somebody has taken the request back too late."""
        return name in self._deletions or name in self._withdrawn

    def next_step(self, name: TopicName, out: Outbox) -> tuple[Atom, ...]:
        """What is to be written next for a topic that is being deleted; nothing while it waits."""
        cluster = self._cluster
        if name in self._withdrawn:
            why = f"topic {name} goes on being deleted: its request was taken back too late"
            return (Atom((Create(TopicDeletionAddress(name), None),), (why,)),)
        mark, topic = cluster.deletion_marks[name], cluster.topics[name]
        deletion = self._deletions[name]
        if topic.is_malformed or self._unconfirmed(name, deletion):
            self._say_what_is_awaited(topic, deletion, out)
            return ()
        if deletion.needs_config:
            out.read([TopicConfigAddress(name)])
            return ()
        if deletion.needs_survey and deletion.found is None:
            if not deletion.is_surveying:
                out.add(Survey(name))
            deletion.is_surveying = True
            return ()
        below = deletion_writes.below(topic) if deletion.found is None else deletion_writes.surveyed(deletion.found)
        end = deletion_writes.end(topic, mark, cluster.config_version(name))
        return (Atom((*below, *end), (f"topic {name} is deleted: no broker has a replica of it any more",)),)

    def _replicas(self, broker: BrokerId, name: TopicName) -> set[PartitionId]:
        """The partitions of a topic that a broker may have a log of: assigned, or left and unconfirmed."""
        cluster = self._cluster
        assigned = cluster.hosted.get(broker, {}).get(name, {})
        return {*assigned, *cluster.owing.get(broker, {}).get(name, {})}

    def _unconfirmed(self, name: TopicName, deletion: _Deletion) -> dict[BrokerId, int]:
        """How many replicas each broker has still to delete; controllers host nothing."""
        cluster = self._cluster
        left = {}
        for broker in sorted({**cluster.hosted, **cluster.owing}):
            numbers = self._replicas(broker, name)
            if broker not in cluster.controllers and numbers:
                missing = len(numbers - deletion.confirmed.get(broker, NONE))
                if missing:
                    left[broker] = missing
        return left

    def _say_what_is_awaited(self, topic: TopicView, deletion: _Deletion, out: Outbox) -> None:
        for broker, count in self._unconfirmed(topic.name, deletion).items():
            if self._is_eligible(broker, deletion) or broker in deletion.noticed:
                continue
            deletion.noticed.add(broker)
            reason = "could not delete" if self._cluster.is_registered(broker) else "is offline and has"
            text = f"topic {topic.name} cannot be deleted yet: broker {broker} {reason} {count} of its replicas"
            out.notice(NOTICE, text)

    def _is_eligible(self, broker: BrokerId, deletion: _Deletion) -> bool:
        return self._cluster.is_registered(broker) and not deletion.refused.get(broker)

    # ---- measuring ------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        ineligible = replicas = ineligible_replicas = 0
        for name, deletion in self._deletions.items():
            left = self._unconfirmed(name, deletion)
            waiting = sum(count for broker, count in left.items() if not self._is_eligible(broker, deletion))
            replicas += sum(left.values())
            ineligible_replicas += waiting
            ineligible += bool(waiting)
        return {
            "topics_to_delete": len(self._deletions),
            "topics_ineligible_to_delete": ineligible,
            "replicas_to_delete": replicas,
            "replicas_ineligible_to_delete": ineligible_replicas,
        }
