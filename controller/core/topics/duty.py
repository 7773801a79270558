"""Topics: their creation, their growth, their ids, and their deletion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

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
from controller.core.telling.sending import is_accepted
from controller.core.topics import create_partitions, create_topics, delete_topics, deletion_writes
from controller.core.topics.creation import TopicCreation
from controller.core.topics.deletion import TopicDeletions
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
Parts = tuple[list[Item], list[tuple[int, Result]]]  # what is to be decided, and what is settled already, by place
Droppable = TopicDeletionAddress | ReplicaDeletionsAddress


class AskAgainToDelete(Alarm, frozen=True):
    """Brokers that could not delete a replica of a topic are asked again."""


class Topics(TopicDuty):
    """What becomes of topics as a whole. One that does not exist, or is to be deleted, is its business alone."""

    requests = (CreateTopics, CreatePartitions, DeleteTopics)
    parts = (NewTopic, Growth, TopicReference)
    alarms = (AskAgainToDelete,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._creation = TopicCreation(shared)
        self._deletions = TopicDeletions(shared.cluster, shared.memory, shared.settings.budget.deleted)
        self._is_alarm_set = False
        self._to_drop: dict[Droppable, None] = {}

    # ---- requests -------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Divide a request by topic; what can be refused from the request alone is refused at once."""
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
        out.decided(decisions.told())
        if request.timeout_ms <= 0:
            out.wake(NoTimeGiven(asked.call), out.now)
        items, refusals = parts
        self._shared.quotas.open(asked.call, asked.caller, is_strict=request.knows_quota_exceeded)
        self._shared.requests.open(asked.call, request, items, refusals, out)
        for name in dict.fromkeys(item.at.topic for item in items):
            self._shared.agenda.add(name, is_urgent=True)

    def _to_create(self, asked: Asked, request: CreateTopics, decisions: Decisions) -> Parts:
        may_create_all = decisions.may(AclOperation.CREATE, CLUSTER, is_told_if_denied=False)
        wanted: list[tuple[TopicName, NewTopic | Growth, Refusal | None]] = []
        for topic, refused_alone in zip(request.topics, create_topics.refuse_within(request), strict=True):
            name = topic.name
            is_open = decisions.may(AclOperation.DESCRIBE_CONFIGS, _topic(name), is_told_if_denied=False)
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
        """Names are looked up when it is their turn, ids now: a topic that is just being created has none yet."""
        items: list[Item] = []
        results: list[tuple[int, Result]] = []
        cluster = self._cluster
        refused_whole = delete_topics.refuse_within(request, is_enabled=cluster.deletes_topics)
        for index, reference in enumerate(request.topics):
            found = refused_whole or delete_topics.find(reference, cluster)
            named = reference.name
            if not isinstance(found, Refusal):
                # An id is no secret; the name behind it is one for whoever may not describe the topic.
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
        """A request about a topic that exists."""
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
        """Whether a client has not changed too much already; it is told if it has."""
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
        """A created topic is described as it is."""
        return self._creation.created(item.wanted) if isinstance(item.wanted, NewTopic) else super().granted(item)

    def missing(self, item: Item) -> Result:
        """Kafka names a topic that was to grow; of one that was to be deleted it has no more to say than the code."""
        if isinstance(item.wanted, Growth):
            return denied(item, create_partitions.missing(item.at.topic))
        return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)

    # ---- topics that nobody else decides about --------------------------------------------------------------

    def owns(self, name: TopicName) -> bool:
        """Whether a topic does not exist, or is being deleted; a request that is not carried out says nothing of it."""
        topic = self._cluster.topics.get(name)
        return topic is None or topic.is_queued_for_deletion or self._deletions.is_under_way(name)

    def decide(self, step: Step, items: list[Item], out: Outbox) -> None:
        """Create it, or go on deleting it."""
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
                if self._may_change(item, partitions, out):  # Kafka counts it as often as it is asked for
                    self._shared.outcomes.expect(item, self.granted(item))
                    out.wake(Again(), out.now)
            case NewTopic():
                self._settle(item, denied(item, create_topics.already_exists(item.at.topic)), out)
            case Growth():
                self._settle(item, denied(item, create_partitions.QUEUED), out)
            case _:
                self._settle(item, self._missing(item, is_being_deleted=True), out)

    def _missing(self, item: Item, *, is_being_deleted: bool = False) -> Result:
        decider = self._shared.deciders[type(item.wanted)]
        return decider.being_deleted(item) if is_being_deleted else decider.missing(item)

    def _settle(self, item: Item, result: Result, out: Outbox) -> None:
        self._shared.requests.settle(item, result, out)

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Deletions begin and end with the facts."""
        for name in self._deletions.follow(changes):
            text = f"topic {name} goes on being deleted: brokers were told to delete replicas of it"
            out.notice(WITHDRAWN, f"{text} before {TopicDeletionAddress(name).path} was removed; it is written again")
        self._to_drop.update(dict.fromkeys(map(TopicDeletionAddress, changes.marks)))
        self._to_drop.update(dict.fromkeys(map(ReplicaDeletionsAddress, changes.stray_deletions)))
        for name in changes.configs:
            if self._deletions.is_under_way(name):
                self._shared.agenda.add(name)

    def tell(self, changes: Changes, out: Outbox) -> None:
        """Brokers hear what they have to delete."""
        for name in self._deletions.tell(out):
            self._shared.agenda.add(name)
        if self._deletions.is_refused and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(AskAgainToDelete(), out.now + ASK_AGAIN_AFTER_S)

    def hear(self, report: Report, out: Outbox) -> None:
        """A broker has deleted replicas, or could not; what is below a topic's znode has been listed."""
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
        """Ask again those who could not delete a replica."""
        self._is_alarm_set = False
        self._deletions.ask_again()

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Drop requests that are not carried out, and what topics that are gone still owe.

        Whatever ZooKeeper says to that, nothing waits for it.
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
        """As far as the facts tell; that the topic does not exist may still have to be made sure of."""
        name = address.topic
        if isinstance(address, ReplicaDeletionsAddress):
            return self._cluster.stray_deletions(name) is not None
        mark, topic = self._cluster.deletion_marks.get(name), self._cluster.topics.get(name)
        if mark is None or mark.is_hidden:
            return False
        is_undecided = self._cluster.deletes_topics is None and topic is not None and mark.czxid > topic.czxid
        return not is_undecided and (topic is None or not topic.is_queued_for_deletion)

    def _dropped(self, address: Droppable) -> Atom | None:
        """Its removal; None where the topic has to be looked for first."""
        name, cluster = address.topic, self._cluster
        if isinstance(address, ReplicaDeletionsAddress):
            return deletion_writes.forgotten(name, cluster)
        return deletion_writes.dropped(name, cluster.deletion_marks[name], cluster.topics.get(name), cluster)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """A znode that could not be removed is looked at again; a request that leaves without effect is told."""
        address = proposal.memo
        if isinstance(outcome, Accepted) and isinstance(address, TopicDeletionAddress):
            self._say_dropped(address, out)
        if isinstance(outcome, Refused) and not outcome.is_waiting:
            self.retry(proposal, out)

    def _say_dropped(self, address: TopicDeletionAddress, out: Outbox) -> None:
        """It was meant for a former topic, or znodes were copied in another order than they came to be."""
        if self._cluster.deletes_topics and address.topic in self._cluster.topics:
            text = f"{address.path} was older than the topic and is removed: topic {address.topic} is not deleted"
            out.notice("outdated topic deletion", f"{text}; ask again if it is to be")

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """Try again to remove a znode that is for nothing."""
        assert isinstance(proposal.memo, Droppable)
        self._to_drop[proposal.memo] = None

    def close_step(self, step: Step, out: Outbox) -> None:
        """A topic without an id gets one; one whose id was dropped by an old tool gets it back."""
        topic = step.topic
        if not topic.partitions or topic.is_malformed or step.is_limited:
            return
        if topic.has_lost_id and topic.topic_id is not None:
            step.planned.give_id(topic.topic_id)
        elif self._shared.settings.assigns_topic_ids and topic.topic_id is None:
            step.planned.give_id(self._shared.random.topic_id())

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """A refused deletion is looked into: something may be below the topic's znode that nobody knows of."""
        self._creation.ended(step.name)
        if isinstance(outcome, Refused):
            self._deletions.failed(step.name)

    def figures(self) -> dict[str, float]:
        """How much is still to be deleted."""
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
