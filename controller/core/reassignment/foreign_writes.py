"""What if somebody else writes which replicas a partition has?

While it leads, this controller alone decides that: what is written over it, be it an old tool's outdated copy or an
edit by hand, does not count and is written back; new partitions are taken in. What was written before its term counts,
but in-sync replicas that are not listed there are removed as by a move, once the listed ones are in sync.

Source: Kafka's KafkaController.processPartitionModifications, which looks at new partitions only; its next write of the
znode puts back what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.messages.effects import Notice
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import OpenChanges
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, Precedence, Rule, listed, raised
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import Accepted, Outcome
from controller.core.turn.shared import Shared
from zk_layout.ids import PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.topics import Assignment, TopicAddress

KIND = "overwritten assignment"

Assignments = dict[PartitionId, Assignment]
Formers = Mapping[PartitionId, Partition]


class ForeignWrites(TopicDuty):
    """Knows which assignments this controller wrote itself, and puts back those that somebody else replaced."""

    def __init__(self, shared: Shared) -> None:
        self._agenda, self._state, self._topics = shared.agenda, shared.state, shared.state.topics
        self._overwritten = shared.memory.overwritten
        self._ours: dict[TopicName, Assignments] = {}
        self._accepted: dict[TopicName, None] = {}
        self._compared: dict[TopicName, tuple[Zxid, ZnodeVersion]] = {}

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """In-sync replicas that are not listed."""
        return ((Precedence.STRAYS, put_right), (Precedence.UNLISTED, next_step))

    def close_step(self, step: Step, out: Outbox) -> None:
        """Our own write may be seen before, or without, the answer to it."""
        assignments = ((number, step.planned.assignment_of(number)) for number in step.planned.assigned)
        self._ours[step.name] = {number: a for number, a in assignments if a is not None}
        if not self._ours[step.name]:
            del self._ours[step.name]

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """Whatever else is seen of the topic from now on was written later."""
        if isinstance(outcome, Accepted):
            self._accepted[step.name] = None

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        """Look who wrote what has changed. Everybody else sees the replicas that count.

        At once, and at all of a znode, be it that other duties see its partitions in several turns, or later: what this
        controller decides next would be taken for what it wrote then.
        """
        left = self._state.changes
        for name in {**left.gone_topics, **changes.gone_topics}:
            for memory in (self._overwritten, self._ours, self._accepted, self._compared):
                memory.pop(name, None)
        for name, former in {**left.topics, **changes.topics}.items():
            view = self._topics.views.get(name)
            if view is None or former is None:
                continue
            if view.version != former.version and self._compared.get(name) != (view.czxid, view.version):
                self._overwritten.pop(name, None)
                self._compared[name] = view.czxid, view.version
                numbers = {**left.partitions.get(name, {}), **changes.partitions.get(name, {})}
                self._compare(view, numbers, changes, out)
        for name in self._accepted:
            self._keep(name, self._ours.pop(name, {}))
        self._accepted.clear()

    def _compare(self, topic: TopicView, numbers: Formers, changes: OpenChanges, out: Outbox) -> None:
        lost: Assignments = {}
        for number, former in numbers.items():
            found = topic.partitions[number].assignment
            if former.assignment is found:
                continue
            expected = self._expected(topic.name, number, former.assignment, found)
            if not expected.replicas or expected == found:
                continue
            lost[number] = found
            is_as_before = self._topics.put_back(topic.name, number, expected) == former
            if is_as_before and number in changes.partitions.get(topic.name, ()):
                changes.untouch(topic.name, number)
        if lost:
            self._overwritten.setdefault(topic.name, {}).update(dict.fromkeys(lost))
            self._agenda.add(topic.name, lost)
            out.add(_notice(topic, lost))

    def _expected(self, name: TopicName, number: PartitionId, before: Assignment, found: Assignment) -> Assignment:
        ours = self._ours.get(name, {}).get(number)
        return ours if ours is not None and (ours == found or name in self._accepted) else before

    def _keep(self, name: TopicName, ours: Assignments) -> None:
        """What ZooKeeper accepted counts, also where it was overwritten before it was seen."""
        overwritten = self._overwritten.get(name, ())
        for number, assignment in ours.items():
            if number in overwritten:
                self._topics.put_back(name, number, assignment)


def put_right(case: Case, cluster: Cluster) -> Next:
    """Take out of the ISR what is no replica: a leader that heard of the listed ones alone has waited for no others.

    What a decision let go is owed a deletion, and gets it. Others may hold the only second copy: they become replicas
    that are being removed once the listed ones are in sync. Those that are not yet count as added: the move would let
    go at once otherwise.
    """
    if not case.strays or case.state is None:
        return None
    held, isr, to, notice = case.assignment, case.state.isr, None, None
    why = f"{listed(case.strays)} are in the ISR of {case.at} but not among its replicas {listed(held.target)}"
    why = f"{why}: they leave it, for the leader may not have waited for them"
    others = tuple(r for r in case.strays if r not in case.owed)
    if others:
        missing = tuple(r for r in held.target if r not in (*isr, *held.adding))
        to = Assignment(held.replicas + others, held.adding + missing, held.removing + others)
        notice = Notice(KIND, f"{TopicAddress(case.at.topic).path} does not list all in-sync replicas: {why}")
    return Change(why, to, raised(case.state, cluster.controller_epoch), notice=notice)


def next_step(case: Case, cluster: Cluster) -> Next:
    """Write down that replicas in sync which are not listed are being removed, so that they serve until then."""
    if not case.unlisted or case.state is None:
        return None
    target, unlisted = listed(case.assignment.target), listed(case.unlisted)
    why = f"{unlisted} are in sync but not among the replicas {target} of {case.at}: they stay until those are in sync"
    text = f"{TopicAddress(case.at.topic).path} does not list all in-sync replicas: {why}"
    state = raised(case.state, cluster.controller_epoch)
    return Change(why, case.assignment, state, notice=Notice(KIND, text))


def _notice(topic: TopicView, lost: Assignments) -> Notice:
    number, found = next(iter(lost.items()))
    kept = topic.partitions[number].assignment
    what = f"{TopicPartition(topic.name, number)} the replicas {listed(found.replicas)}, not {listed(kept.replicas)}"
    more = f", and {len(lost) - 1} more partitions" if len(lost) > 1 else ""
    text = f"{TopicAddress(topic.name).path} was written by somebody else: it gives {what}{more}"
    return Notice(KIND, f"{text}; that is put right. Ask the controller to move replicas")
