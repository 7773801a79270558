"""How far is the deletion of each topic: which brokers were asked, which have confirmed, and what comes next?

That a topic is to be deleted is a fact (`/admin/delete_topics/<topic>`), and so is that it still exists (its znode).
The brokers' confirmations are memory: losing them with a term costs asking again.

Source: Kafka's TopicDeletionManager and ReplicaStateMachine, with two differences: a deletion does not wait for moves
of the topic but ends them, and deletes their adding replicas like the others; and brokers are asked only for what they
have not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct, field

from controller.core.announcing.announcements import Announcements
from controller.core.announcing.batch import cut
from controller.core.announcing.sending import send
from controller.core.announcing.views import deleted, live_brokers
from controller.core.messages.commands import PartitionView, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Create, Survey
from controller.core.messages.events import Acknowledged, Again, Surveyed
from controller.core.messages.outbox import Outbox
from controller.core.state.brokers import NO_BROKERS
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.topics import deletion_writes
from controller.core.topics.memory import TopicsMemory
from controller.core.transactions.proposal import Atom
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, Replicas, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import TopicConfigAddress

DURING_DELETE = LeaderEpoch(-2)  # obeyed whatever leader epoch a broker knows
NOTICE = "delayed topic deletion"
NONE: frozenset[PartitionId] = frozenset()

Numbers = dict[BrokerId, set[PartitionId]]


class _Round(Struct):
    """One round through all partitions of a topic, in parts.

    Shape:
        `audience` are brokers that get the deletion announced again; every broker is asked for logs it was not asked to
        delete yet. `left` are the partitions still to come, None before the first.
    """

    audience: frozenset[BrokerId] = NO_BROKERS
    left: list[PartitionId] | None = None


class _Deletion(Struct):
    """One topic that is being deleted.

    Shape:
        `rounds` are still to be sent, at most one that has begun and one that has not. `asked`, `confirmed` and
        `refused` are by broker, since it registered; `left` is what is not confirmed, as far as the last round has
        come. Of `announced` partitions all brokers were sent the deletion; the replicas of others may not be known yet.
        `found` is the result of a survey; `is_surveying`: one is under way.
    """

    rounds: list[_Round] = field(default_factory=lambda: [_Round()])
    asked: Numbers = field(default_factory=dict)
    confirmed: Numbers = field(default_factory=dict)
    refused: Numbers = field(default_factory=dict)
    left: Numbers = field(default_factory=dict)
    announced: set[PartitionId] = field(default_factory=set)
    needs_config: bool = True
    needs_survey: bool = False
    is_surveying: bool = False
    found: tuple[tuple[Address, ZnodeVersion], ...] | None = None
    noticed: set[BrokerId] = field(default_factory=set)

    def announce_again(self, audience: frozenset[BrokerId] = NO_BROKERS) -> None:
        """Schedule another round through all partitions."""
        if self.rounds and self.rounds[-1].left is None:
            self.rounds[-1].audience |= audience
        else:
            self.rounds.append(_Round(audience))


class TopicDeletions:
    """The deletions of one term."""

    def __init__(
        self, cluster: Cluster, memory: TopicsMemory, announcements: Announcements, budget: int = 1_500
    ) -> None:
        """Begin without deletions. `budget` limits the partitions a turn announces, or whose znodes a step removes."""
        self._cluster = cluster
        self._budget = budget
        self._announcements = announcements
        self._deletions: dict[TopicName, _Deletion] = {}
        self._to_announce: dict[TopicName, None] = {}
        # Those that wait, with a notice, until it can be read which former replicas brokers still have.
        self._lack_accounts: dict[TopicName, None] = {}
        self._withdrawn = memory.withdrawn

    # ---- following ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes) -> list[TopicName]:
        """Take in which deletions begin or end, and topics whose replicas have changed.

        Returns the topics whose request was withdrawn too late; brokers are sent nothing about them until it is back.
        """
        for name in changes.configs:
            if name in self._deletions:
                self._deletions[name].needs_config = False
        too_late = [name for name in {**changes.gone_topics, **changes.marks} if self._follow_one(name, changes)]
        for name, numbers in changes.partitions.items() if self._deletions else ():
            if name in self._deletions and self._have_replicas_changed(name, numbers):
                self._announce_again(name)
        for name, former in changes.topics.items() if self._deletions else ():
            if name in self._deletions and self._is_owed_anew(name, former):
                self._announce_again(name)
        for name in [one for one in self._lack_accounts if self._cluster.account_unreadable(one) is None]:
            del self._lack_accounts[name]
            if name in self._deletions:
                self._announce_again(name)  # that nothing is owed is no fact about the topic: go on all the same
        return too_late

    def _have_replicas_changed(self, name: TopicName, numbers: Mapping[PartitionId, Partition]) -> bool:
        partitions = self._cluster.topics[name].partitions
        return any(former.assignment != partitions[number].assignment for number, former in numbers.items())

    def _is_owed_anew(self, name: TopicName, former: TopicView | None) -> bool:
        return former is None or former.deletions != self._cluster.topics[name].deletions

    def _announce_again(self, name: TopicName, audience: frozenset[BrokerId] = NO_BROKERS) -> None:
        self._deletions[name].announce_again(audience)
        self._to_announce[name] = None

    def _follow_one(self, name: TopicName, changes: Changes) -> bool:
        """Return whether a deletion was withdrawn after it had begun. It continues, as in Kafka.

        Some logs are gone: an in-sync replica without its log would make the others drop their records.
        """
        topic, former = self._cluster.topics.get(name), self._deletions.get(name)
        is_another = name in changes.gone_topics
        if topic is None or is_another:
            self._withdrawn.pop(name, None)
        if topic is not None and topic.is_queued_for_deletion:
            self._withdrawn.pop(name, None)
            if self._cluster.deletion_marks[name].is_hidden:
                return False
            if former is None or is_another:
                self._deletions[name] = _Deletion()
                self._to_announce[name] = None
            return False
        self._deletions.pop(name, None)
        self._to_announce.pop(name, None)
        has_begun = former is not None and not is_another and any(former.asked.values())
        if topic is not None and has_begun:
            self._withdrawn[name] = None
        return topic is not None and has_begun

    def hear(self, event: Acknowledged) -> list[TopicName]:
        """Record an answer to StopReplica; return the topics for which it was the last one, or a refusal."""
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
            left = deletion.left
            if not is_refused and event.broker in left:
                left[event.broker].discard(stop.partition)
                if not left[event.broker]:
                    del left[event.broker]
            if is_refused or left.keys() <= self._cluster.controllers.keys():
                concerned[stop.topic] = None
        return list(concerned)

    def surveyed(self, event: Surveyed) -> None:
        """Take in the survey of the znodes below a topic."""
        deletion = self._deletions.get(event.topic)
        if deletion is not None:
            deletion.found, deletion.is_surveying = event.found, False

    def failed(self, name: TopicName) -> None:
        """Request a survey: ZooKeeper refused the removal, so there are unknown znodes below the topic's."""
        deletion = self._deletions.get(name)
        if deletion is not None:
            deletion.needs_survey, deletion.found = True, None

    @property
    def is_refused(self) -> bool:
        """Whether a broker could not delete a replica and must be asked again."""
        return any(deletion.refused for deletion in self._deletions.values())

    def ask_again(self) -> None:
        """Ask brokers that could not delete a replica again, with the next announcement."""
        for name, deletion in self._deletions.items():
            for broker, numbers in deletion.refused.items():
                deletion.asked.get(broker, set()).difference_update(numbers)
                self._announce_again(name)
            deletion.refused.clear()

    # ---- announcing -----------------------------------------------------------------------------------------

    def announce(self, out: Outbox) -> list[TopicName]:
        """Announce the deletion and the logs to remove; return topics sent in full this turn.

        Brokers that get a full update this turn know nothing yet, and their earlier confirmations do not count.
        """
        if not self._deletions:
            return []
        fresh = frozenset(self._cluster.updated_in_full)
        for name, deletion in self._deletions.items() if fresh else ():
            for broker in fresh:
                for answers in (deletion.asked, deletion.confirmed, deletion.refused):
                    answers.pop(broker, None)
            self._announce_again(name, fresh)
        before = tuple(self._to_announce)
        if before:
            self._announce_some(out)
        if self._to_announce:
            out.wake(Again(), out.now)
        return [name for name in before if name not in self._to_announce]

    def _announce_some(self, out: Outbox) -> None:
        recipients, brokers = self._cluster.registered_brokers(), live_brokers(self._cluster)
        everybody = frozenset(recipients)
        gone: dict[frozenset[BrokerId], list[PartitionView]] = {}
        stops: dict[BrokerId, list[ReplicaStop]] = {broker: [] for broker in recipients}
        for name, audience, numbers in self._take_rounds():
            announced = self._deletions[name].announced
            due = numbers if audience else [n for n in numbers if n not in announced]
            for view in deleted(self._cluster.topics[name], self._cluster.controller_epoch, due):
                hearers = audience if view.partition in announced else everybody
                gone.setdefault(hearers, []).append(view)
                announced.add(view.partition)
            self._add_stops(name, numbers, stops)
        for audience, views in gone.items():
            commands = [UpdateMetadata(part, brokers) for part in cut(views)]
            for broker in recipients:
                if broker in audience:
                    for command in commands:
                        send(broker, command, self._cluster, self._announcements, out)
        for broker in recipients:
            for part in cut(stops[broker]):
                send(broker, StopReplica(part), self._cluster, self._announcements, out)

    def _take_rounds(self) -> Iterator[tuple[TopicName, frozenset[BrokerId], list[PartitionId]]]:
        """Take the next partitions, as many as a turn may announce, with the brokers for whom they are repeated."""
        most = self._budget
        while self._to_announce and most > 0:
            name = next(iter(self._to_announce))
            rounds = self._deletions[name].rounds
            now = rounds[0]
            if now.left is None:
                now.left = sorted(_numbers(self._cluster.topics[name]))
                self._deletions[name].left = {}
            numbers, now.left = now.left[:most], now.left[most:]
            most -= 1 + len(numbers)
            if not now.left:
                del rounds[0]
            if not rounds:
                del self._to_announce[name]
            yield name, now.audience, numbers

    def _add_stops(
        self, name: TopicName, numbers: Iterable[PartitionId], stops: dict[BrokerId, list[ReplicaStop]]
    ) -> None:
        """Add the replicas that brokers were not asked to delete yet; from now on they were."""
        topic, deletion = self._cluster.topics[name], self._deletions[name]
        for number in numbers:
            for broker in _hosts(topic, number):
                if number in deletion.confirmed.get(broker, NONE):
                    continue
                deletion.left.setdefault(broker, set()).add(number)
                if broker not in stops:
                    continue
                asked = deletion.asked.setdefault(broker, set())
                if number not in asked:
                    asked.add(number)
                    stops[broker].append(ReplicaStop(name, number, DURING_DELETE, True))

    # ---- deciding -------------------------------------------------------------------------------------------

    def is_under_way(self, name: TopicName) -> bool:
        """Whether a topic is being deleted, even if the request was withdrawn too late."""
        return name in self._deletions or name in self._withdrawn

    def next_step(self, name: TopicName, out: Outbox) -> tuple[Atom, ...]:
        """The next write for a topic that is being deleted; while it waits, only what another process has overwritten.

        A topic whose mark cannot be read is neither announced nor deleted.
        """
        cluster = self._cluster
        if name in self._withdrawn:
            why = f"topic {name} is still being deleted: its request was withdrawn too late"
            return (Atom((Create(TopicDeletionAddress(name), None),), (why,)),)
        mark, topic = cluster.deletion_marks[name], cluster.topics[name]
        deletion = self._deletions.get(name)
        if deletion is None:
            return deletion_writes.put_right(topic, cluster)
        if deletion.rounds:
            return ()
        is_owed_unknown = cluster.account_unreadable(name) is not None
        if topic.is_malformed or is_owed_unknown or self._unconfirmed(deletion):
            self._say_what_is_awaited(topic, deletion, out)
            return deletion_writes.put_right(topic, cluster)
        if deletion.needs_config:
            out.read([TopicConfigAddress(name)])
            return ()
        if deletion.needs_survey and deletion.found is None:
            if not deletion.is_surveying:
                out.add(Survey(name))
            deletion.is_surveying = True
            return ()
        reason = "no broker has a replica of it any more"
        below = deletion_writes.below(topic) if deletion.found is None else deletion_writes.surveyed(deletion.found)
        first = tuple(islice(below, 2 * self._budget))
        if len(first) == 2 * self._budget:
            if deletion.found is not None:
                deletion.found = deletion.found[len(first) :]
            return (Atom((), (f"the first {len(first)} znodes of topic {name} are deleted: {reason}",), before=first),)
        end = tuple(deletion_writes.end(topic, mark, cluster))
        return (Atom(end, (f"topic {name} is deleted: {reason}",), before=first),)

    def _unconfirmed(self, deletion: _Deletion) -> dict[BrokerId, int]:
        """The number of replicas that each broker must still delete; controllers host nothing."""
        left, controllers = deletion.left, self._cluster.controllers
        return {broker: len(left[broker]) for broker in sorted(left) if broker not in controllers}

    def _say_what_is_awaited(self, topic: TopicView, deletion: _Deletion, out: Outbox) -> None:
        account = self._cluster.account_unreadable(topic.name)
        if account is not None and topic.name not in self._lack_accounts:
            self._lack_accounts[topic.name] = None
            why = f"{account} cannot be read: which brokers still have former replicas is not known"
            out.notice(NOTICE, f"topic {topic.name} cannot be deleted yet: {why}")
        for broker, count in self._unconfirmed(deletion).items():
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
        """The current gauges, by measure."""
        ineligible = replicas = ineligible_replicas = 0
        for deletion in self._deletions.values():
            left = self._unconfirmed(deletion)
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


def _numbers(topic: TopicView) -> Iterable[PartitionId]:
    """The partitions of which a broker may have a log."""
    return {**topic.partitions, **topic.deletions} if topic.deletions else topic.partitions


def _hosts(topic: TopicView, number: PartitionId) -> Replicas:
    """The brokers that may have a log of a partition: assigned, or removed and unconfirmed."""
    held, owed = topic.partitions.get(number), topic.deletions.get(number, ())
    assigned = () if held is None else held.assignment.replicas
    return (*assigned, *(r for r in owed if r not in assigned)) if owed else assigned
