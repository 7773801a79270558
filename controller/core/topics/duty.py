"""When are topics created, extended, given ids, and deleted?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from controller.core.announcing.sending import is_accepted
from controller.core.clients.authorization import CLUSTER
from controller.core.clients.decisions import Decisions
from controller.core.clients.open_requests import WHOLE_TOPIC, Item, denied, refused
from controller.core.messages.effects import Create
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Acknowledged, Again, Alarm, Asked, Surveyed
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Result, TopicDeleted
from controller.core.messages.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
)
from controller.core.state.changes import Changes
from controller.core.state.topics import TopicView
from controller.core.steps.step import Step, TopicDuty
from controller.core.topics import create_partitions, create_topics, delete_topics, deletion_writes
from controller.core.topics.creation import TopicCreation
from controller.core.topics.deletion import TopicDeletions
from controller.core.topics.memory import TopicsMemory
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject, topic_subject
from controller.core.turn.duty import Report
from controller.core.turn.intake import NoTimeGiven
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName, TopicPartition
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import TopicAddress

ASK_AGAIN_AFTER_S = 30.0
WITHDRAWN = "withdrawn topic deletion"
Parts = tuple[list[Item], list[tuple[int, Result]]]  # parts to decide, and results of settled ones by index
Droppable = TopicDeletionAddress | ReplicaDeletionsAddress


class AskAgainToDelete(Alarm, frozen=True):
    """Ask brokers again that could not delete a replica of a topic."""


class Topics(TopicDuty):
    """Topics as a whole. Topics that do not exist, or are being deleted, are decided by this duty alone."""

    requests = (CreateTopics, CreatePartitions, DeleteTopics)
    parts = (NewTopic, Growth, TopicReference)
    alarms = (AskAgainToDelete,)

    def __init__(self, shared: Shared, memory: TopicsMemory) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._creation = TopicCreation(shared)
        self._deletions = TopicDeletions(shared.cluster, memory, shared.announcements, shared.settings.budget.deleted)
        self._is_alarm_set = False
        self._to_drop: dict[Droppable, None] = {}

    # ---- requests -------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Divide a request by topic; refuse at once what the request alone forbids."""
        request, decisions = asked.request, self._shared.decisions_on(asked)
        match request:
            case CreateTopics():
                parts = self._to_create(asked, request, decisions)
            case CreatePartitions():
                parts = self._to_grow(asked, request, decisions)
            case DeleteTopics():
                parts = self._to_delete(asked, request, decisions)
            case _:
                raise TypeError(f"{type(request).__name__} is not served here")
        out.decided(decisions.logged())
        if request.timeout_ms <= 0:
            out.wake(NoTimeGiven(asked.call), out.now)
        items, refusals = parts
        self._shared.quotas.open(asked.call, asked.caller, is_strict=request.knows_quota_exceeded)
        self._shared.requests.open(asked.call, request, items, refusals, out)
        for name in dict.fromkeys(item.at.topic for item in items):
            self._shared.agenda.add(name, is_urgent=True)

    def _to_create(self, asked: Asked, request: CreateTopics, decisions: Decisions) -> Parts:
        may_create_all = decisions.may(AclOperation.CREATE, CLUSTER, is_logged_if_denied=False)
        wanted: list[tuple[TopicName, NewTopic | Growth, Refusal | None]] = []
        for topic, refused_alone in zip(request.topics, create_topics.refuse_within(request), strict=True):
            name = topic.name
            is_open = decisions.may(AclOperation.DESCRIBE_CONFIGS, _topic(name), is_logged_if_denied=False)
            shown = topic if is_open else structs.replace(topic, shows_configs=False)
            if may_create_all or refused_alone is not None or decisions.may(AclOperation.CREATE, _topic(name)):
                wanted.append((name, shown, refused_alone or create_topics.refuse_name(name)))
            else:
                wanted.append((name, shown, create_topics.FORBIDDEN))
        return _by_topic(asked, wanted)

    def _to_grow(self, asked: Asked, request: CreatePartitions, decisions: Decisions) -> Parts:
        wanted: list[tuple[TopicName, NewTopic | Growth, Refusal | None]] = []
        for growth, refused_alone in zip(request.growths, create_partitions.refuse_within(request), strict=True):
            is_free = refused_alone is not None or decisions.may(AclOperation.ALTER, _topic(growth.topic))
            wanted.append((growth.topic, growth, refused_alone if is_free else create_partitions.FORBIDDEN))
        return _by_topic(asked, wanted)

    def _to_delete(self, asked: Asked, request: DeleteTopics, decisions: Decisions) -> Parts:
        """Names are looked up in their turn, ids now: a topic that is just being created has none yet."""
        items: list[Item] = []
        results: list[tuple[int, Result]] = []
        cluster = self._cluster
        refused_whole = delete_topics.refuse_within(request, is_enabled=cluster.deletes_topics)
        for index, reference in enumerate(request.topics):
            found = refused_whole or delete_topics.find(reference, cluster)
            named = reference.name
            if not isinstance(found, Refusal):
                # An id is no secret; the name behind it is, unless the caller may describe the topic.
                is_hidden = named is None and not decisions.may(AclOperation.DESCRIBE, _topic(found))
                named = named if is_hidden else found
                if is_hidden or not decisions.may(AclOperation.DELETE, _topic(found)):
                    found = delete_topics.FORBIDDEN
            if isinstance(found, Refusal):
                results.append((index, TopicDeleted(named, reference.topic_id, found.error, found.message)))
            else:
                wanted = TopicReference(found, cluster.topics[found].topic_id if found in cluster.topics else None)
                items.append(Item(asked.call, index, TopicPartition(found, WHOLE_TOPIC), wanted))
        return items, results

    def consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Consider a request about an existing topic."""
        wanted = item.wanted
        match wanted:
            case NewTopic():
                self._settle(item, denied(item, create_topics.already_exists(step.name)), out)
            case Growth():
                self._grow(item, wanted, step, out)
            case TopicReference() if step.name in self._cluster.deletion_marks:
                self._shared.requests.put_back((item,))  # until a mark that means another topic has been dropped
            case TopicReference():
                if self._may_change(item, len(step.topic.partitions), out):
                    why = f"asked to delete topic {step.name}"
                    step.planned.request(Create(TopicDeletionAddress(step.name), None), why)
                    step.accepted.append(item)
            case _:
                raise TypeError(f"{type(wanted).__name__} is no request about a topic")

    def _may_change(self, item: Item, partitions: int, out: Outbox) -> bool:
        """Whether the client's quota allows this many changes; refuses the part if not."""
        refusal = self._shared.quotas.charge(item.call, item.index, partitions, out.now)
        if refusal is not None:
            self._settle(item, denied(item, refusal), out)
        return refusal is None

    def _grow(self, item: Item, growth: Growth, step: Step, out: Outbox) -> None:
        most_bytes = self._shared.sizes.most_data_bytes(TopicAddress(step.name).path)
        unstorable = create_topics.refuse_unstorable(growth.partition_count, 1, most_bytes)
        added = unstorable or create_partitions.consider(growth, step.topic, self._cluster)
        request = self._shared.requests.request(item.call)
        if isinstance(added, Refusal):
            self._settle(item, denied(item, added), out)
        elif isinstance(request, CreatePartitions) and request.is_validation_only:
            self._settle(item, refused(item, ErrorCode.NONE, None), out)
        elif self._may_change(item, len(added), out):
            step.planned.grow(added)
            step.accepted.append(item)

    def granted(self, item: Item) -> Result:
        """The answer to a part whose writes are done; describes a created topic."""
        return self._creation.created(item.wanted) if isinstance(item.wanted, NewTopic) else super().granted(item)

    def missing(self, item: Item) -> Result:
        """The answer for a missing topic; like Kafka's, it has a message for growth but only a code for deletion."""
        if isinstance(item.wanted, Growth):
            return denied(item, create_partitions.missing(item.at.topic))
        return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)

    # ---- topics that no other duty decides about ------------------------------------------------------------

    def owns(self, name: TopicName) -> bool:
        """True for topics that are absent or being deleted. A deletion request that is not executed does not count."""
        topic = self._cluster.topics.get(name)
        return topic is None or topic.is_queued_for_deletion or self._deletions.is_under_way(name)

    def decide(self, step: Step, items: list[Item], out: Outbox) -> None:
        """Create the topic, or continue its deletion."""
        topic = self._cluster.topics.get(step.name)
        if topic is not None:
            self._delete(step, topic, items, out)
            return
        for item in items:
            if step.accepted:
                step.postponed.append(item)
            elif isinstance(item.wanted, NewTopic):
                self._creation.consider(item, item.wanted, step, out)
            else:
                self._settle(item, self._missing(item), out)

    def _delete(self, step: Step, topic: TopicView, items: list[Item], out: Outbox) -> None:
        if topic.is_queued_for_deletion:
            for item in items:
                self._refuse_while_deleting(item, out)
        else:
            self._shared.requests.put_back(items)  # until the mark is there again
        if not self._shared.transactions.is_waiting(topic_subject(step.name)):
            step.atoms = self._deletions.next_step(step.name, out)

    def _refuse_while_deleting(self, item: Item, out: Outbox) -> None:
        match item.wanted:
            case TopicReference():
                partitions = len(self._cluster.topics[item.at.topic].partitions)
                if self._may_change(item, partitions, out):  # Kafka counts every request
                    self._shared.outcomes.expect(item, self.granted(item))
                    out.wake(Again(), out.now)
            case NewTopic():
                self._settle(item, denied(item, create_topics.already_exists(item.at.topic)), out)
            case Growth():
                self._settle(item, denied(item, create_partitions.QUEUED), out)
            case _:
                self._settle(item, self._missing(item, is_being_deleted=True), out)

    def _missing(self, item: Item, *, is_being_deleted: bool = False) -> Result:
        address, decider = TopicAddress(item.at.topic), self._shared.deciders[type(item.wanted)]
        if not is_being_deleted and self._cluster.is_unreadable(address):
            message = f"{address.path} cannot be read; restore this controller's right to read it"
            return refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return decider.being_deleted(item) if is_being_deleted else decider.missing(item)

    def _settle(self, item: Item, result: Result, out: Outbox) -> None:
        self._shared.requests.settle(item, result, out)

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Begin and end deletions as the facts say."""
        for name in self._deletions.follow(changes):
            text = f"topic {name} is still being deleted: brokers were sent deletions of its replicas"
            out.notice(WITHDRAWN, f"{text} before {TopicDeletionAddress(name).path} was removed; it is written again")
        self._to_drop.update(dict.fromkeys(map(TopicDeletionAddress, changes.marks)))
        self._to_drop.update(dict.fromkeys(map(ReplicaDeletionsAddress, changes.stray_deletions)))
        for name in changes.configs:
            if self._deletions.is_under_way(name):
                self._shared.agenda.add(name)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Announce deletions to brokers."""
        for name in self._deletions.announce(out):
            self._shared.agenda.add(name)
        if self._deletions.is_refused and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(AskAgainToDelete(), out.now + ASK_AGAIN_AFTER_S)

    def hear(self, report: Report, out: Outbox) -> None:
        """Take in confirmed or refused deletions of replicas, and surveys."""
        match report:
            case Acknowledged() if is_accepted(report, self._cluster):
                for topic in self._deletions.hear(report):
                    self._shared.agenda.add(topic)
            case Surveyed(topic):
                self._deletions.surveyed(report)
                self._shared.agenda.add(topic)
            case _:
                pass

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Ask brokers again that could not delete a replica."""
        self._is_alarm_set = False
        self._deletions.ask_again()

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Drop deletion requests that are not executed, and owed deletions of topics that are gone.

        Nothing waits for the outcome.
        """
        due, self._to_drop = self._to_drop, {}
        proposals = []
        for address in due:
            subject = Subject("znode", address.path)
            if not self._is_for_nothing(address):
                continue
            if self._shared.transactions.is_busy(subject):
                self._to_drop[address] = None
            elif self._shared.transactions.may_propose(subject):
                dropped = self._dropped(address)
                if dropped is None:
                    out.read([TopicAddress(address.topic)])
                else:
                    proposals.append(Proposal(subject, (dropped,), memo=address))
        return proposals

    def _is_for_nothing(self, address: Droppable) -> bool:
        """Whether the znode has no effect, as far as known; a missing topic may still have to be looked up."""
        name = address.topic
        if isinstance(address, ReplicaDeletionsAddress):
            return self._cluster.stray_deletions(name) is not None
        mark, topic = self._cluster.deletion_marks.get(name), self._cluster.topics.get(name)
        if mark is None or mark.is_hidden:
            return False
        is_undecided = self._cluster.deletes_topics is None and topic is not None and mark.czxid > topic.czxid
        return not is_undecided and (topic is None or not topic.is_queued_for_deletion)

    def _dropped(self, address: Droppable) -> Atom | None:
        """Its removal; None if the topic has to be looked up first."""
        name, cluster = address.topic, self._cluster
        if isinstance(address, ReplicaDeletionsAddress):
            return deletion_writes.forgotten(name, cluster)
        return deletion_writes.dropped(name, cluster.deletion_marks[name], cluster.topics.get(name), cluster)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Retry a refused removal; log a dropped request."""
        address = proposal.memo
        if isinstance(outcome, Accepted) and isinstance(address, TopicDeletionAddress):
            self._say_dropped(address, out)
        if isinstance(outcome, Refused) and not outcome.is_waiting:
            self.retry(proposal, out)

    def _say_dropped(self, address: TopicDeletionAddress, out: Outbox) -> None:
        """Log a mark for a former topic, or one copied in another order than it was created."""
        if self._cluster.deletes_topics and address.topic in self._cluster.topics:
            text = f"{address.path} was older than the topic and is removed: topic {address.topic} is not deleted"
            out.notice("outdated topic deletion", f"{text}; request it again if it is still wanted")

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """Try again to remove a znode without effect."""
        assert isinstance(proposal.memo, Droppable)
        self._to_drop[proposal.memo] = None

    def close_step(self, step: Step, out: Outbox) -> None:
        """Give a topic without an id one; restore an id that an old tool dropped."""
        topic = step.topic
        if not topic.partitions or topic.is_malformed or step.is_limited:
            return
        if not step.planned.restore_id() and self._shared.settings.assigns_topic_ids and topic.topic_id is None:
            step.planned.give_id(self._shared.random.topic_id())

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """Survey a topic after a refused deletion: there may be unknown znodes below the topic's."""
        self._creation.ended(step.name)
        if isinstance(outcome, Refused):
            self._deletions.failed(step.name)

    def figures(self) -> dict[str, float]:
        """The gauges of pending deletions."""
        return self._deletions.figures()


def _by_topic(asked: Asked, wanted: Iterable[tuple[TopicName, NewTopic | Growth, Refusal | None]]) -> Parts:
    items: list[Item] = []
    results: list[tuple[int, Result]] = []
    for index, (name, what, refusal) in enumerate(wanted):
        item = Item(asked.call, index, TopicPartition(name, WHOLE_TOPIC), what)
        if refusal is None:
            items.append(item)
        else:
            results.append((index, denied(item, refusal)))
    return items, results


def _topic(name: TopicName) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name)
