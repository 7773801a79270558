"""What if someone else changes a partition's replicas in the topic znode?

While it leads, only this controller decides about replicas: a foreign write, such as an old tool's outdated copy or a
manual edit, is ignored and reverted, except for new partitions. Writes from before its term apply, but in-sync replicas
that they do not list are removed as by a move, once the listed ones are in sync. Where it only observes, every write is
another's, and counts.

Source: Kafka's KafkaController.processPartitionModifications, which reacts to new partitions only; its next write of
the znode restores what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.messages.effects import Notice
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.memory import ForeignWritesMemory
from controller.core.state.changes import OpenChanges
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, Precedence, Rule, listed, raised
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import Accepted, Outcome, is_unwritten
from controller.core.turn.shared import Shared
from zk_layout.ids import ABSENT, PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.topics import Assignment, TopicAddress

KIND = "overwritten assignment"

Assignments = dict[PartitionId, Assignment]
Formers = Mapping[PartitionId, Partition]


class ForeignWrites(TopicDuty):
    """Knows which assignments this controller wrote, and restores those that someone else replaced."""

    def __init__(self, shared: Shared, memory: ForeignWritesMemory) -> None:
        self._agenda, self._state, self._topics = shared.agenda, shared.state, shared.state.topics
        self._leads = not shared.settings.is_observing
        self._overwritten = memory.overwritten
        self._ours: dict[TopicName, Assignments] = {}
        # Whose write has no outcome yet, and what was replaced by assignments that are taken for ours until then.
        self._replaced: dict[TopicName, Assignments] = {}
        self._accepted: dict[TopicName, None] = {}
        self._unwritten: dict[TopicName, Assignments] = {}
        # What a write of unknown outcome made of the topic, if ZooKeeper accepted it, and at which version. It counts
        # for the first readable content from then on, for the topic may have been spoiled and put right since.
        self._perhaps: dict[TopicName, tuple[ZnodeVersion, Assignments]] = {}
        self._compared: dict[TopicName, tuple[Zxid, ZnodeVersion]] = {}
        # What applied when a version was compared, of partitions whose changes other duties have not taken since.
        self._applied: dict[TopicName, Assignments] = {}

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """Rules for in-sync replicas that are not listed."""
        return ((Precedence.STRAYS, put_right), (Precedence.UNLISTED, next_step))

    def close_step(self, step: Step, out: Outbox) -> None:
        """Record our own write, which may be seen before the outcome, or without one."""
        if not self._leads:
            return
        assignments = ((number, step.planned.assignment_of(number)) for number in step.planned.assigned)
        self._ours[step.name] = {number: a for number, a in assignments if a is not None}
        self._replaced[step.name] = {}
        if not self._ours[step.name]:
            del self._ours[step.name], self._replaced[step.name]

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """After this, whatever else is seen of the topic was written later; what was not written is not ours."""
        replaced = self._replaced.pop(step.name, None)
        if isinstance(outcome, Accepted):
            self._accepted[step.name] = None
            self._perhaps.pop(step.name, None)
        elif replaced is not None and is_unwritten(outcome):
            self._unwritten[step.name] = replaced
            self._ours.pop(step.name, None)
        elif replaced is not None:
            self._perhaps[step.name] = ZnodeVersion(step.topic.version + 1), self._ours[step.name]

    def retract(self, changes: OpenChanges, out: Outbox) -> None:
        """Revert foreign assignments, so that other duties see the replicas that apply.

        This must happen at once and for the whole znode, even if other duties see its partitions later or over several
        turns: otherwise this controller's next decision would be taken for its earlier write.
        """
        if not self._leads:
            return
        left = self._state.changes
        for name in {**left.gone_topics, **changes.gone_topics}:
            for memory in (
                self._overwritten, self._ours, self._unwritten, self._perhaps, self._accepted, self._compared,
                self._applied,
            ):  # fmt: skip
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
                self._applied[name] = {n: view.partitions[n].assignment for n in left.partitions.get(name, ())}
            if name not in left.partitions:
                self._applied.pop(name, None)
        for name in self._accepted:
            self._keep(name, self._ours.pop(name, {}))
        self._accepted.clear()
        for name, replaced in self._unwritten.items():
            self._disown(name, replaced, changes, out)
        self._unwritten.clear()

    def _compare(self, topic: TopicView, numbers: Formers, changes: OpenChanges, out: Outbox) -> None:
        lost: Assignments = {}
        applied = self._applied.get(topic.name, {})
        for number, former in numbers.items():
            found, before = topic.partitions[number].assignment, applied.get(number, former.assignment)
            if before is found or self._may_have_written(topic, number, found):
                continue
            expected = self._expected(topic.name, number, before, found)
            if not expected.replicas or expected == found:
                if topic.name in self._replaced:
                    self._replaced[topic.name].setdefault(number, before)
                continue
            lost[number] = found
            is_as_before = self._topics.put_back(topic.name, number, expected) == former
            if is_as_before and number in changes.partitions.get(topic.name, ()):
                changes.untouch(topic.name, number)
        self._note_lost(topic, lost, out)
        if not topic.is_malformed:
            self._perhaps.pop(topic.name, None)

    def _expected(self, name: TopicName, number: PartitionId, before: Assignment, found: Assignment) -> Assignment:
        ours = self._ours.get(name, {}).get(number)
        return ours if ours is not None and (ours == found or name in self._accepted) else before

    def _may_have_written(self, topic: TopicView, number: PartitionId, found: Assignment) -> bool:
        version, assignments = self._perhaps.get(topic.name, (ABSENT, {}))
        return topic.version >= version and assignments.get(number) == found

    def _disown(self, name: TopicName, replaced: Assignments, changes: OpenChanges, out: Outbox) -> None:
        """Revert assignments that only looked like ours: another process wrote the same, and our write was refused.

        What belongs to our write, such as deletions that are owed, was not written with them.
        """
        topic, lost = self._topics.views.get(name), Assignments()
        if topic is None:
            return
        for number, before in replaced.items():
            held = topic.partitions.get(number)
            if held is not None and before.replicas and held.assignment != before:
                lost[number] = held.assignment
                changes.touch(name, number, held)
                self._put_back(name, number, before)
        self._note_lost(topic, lost, out)

    def _note_lost(self, topic: TopicView, lost: Assignments, out: Outbox) -> None:
        """Have what was put back written to the topic's znode, and report it."""
        if lost:
            self._overwritten.setdefault(topic.name, {}).update(dict.fromkeys(lost))
            self._agenda.add(topic.name, lost)
            out.add(_notice(topic, lost))

    def _keep(self, name: TopicName, ours: Assignments) -> None:
        """Keep what ZooKeeper accepted, even if it was overwritten before it was seen."""
        overwritten = self._overwritten.get(name, ())
        for number, assignment in ours.items():
            if number in overwritten:
                self._put_back(name, number, assignment)

    def _put_back(self, name: TopicName, number: PartitionId, assignment: Assignment) -> None:
        self._topics.put_back(name, number, assignment)
        if number in self._applied.get(name, ()):
            self._applied[name][number] = assignment


def put_right(case: Case, cluster: Cluster) -> Next:
    """Remove strays from the ISR: a leader that knows only the listed replicas has waited for no others.

    A replica released by a decision is owed a deletion, and gets it. Others may have the only second copy: they become
    replicas that are removed once the listed ones are in sync. Listed replicas that are not in sync count as added, so
    that the move does not end at once.
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
    """Mark unlisted in-sync replicas as being removed, so that they serve until then."""
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
    text = f"{TopicAddress(topic.name).path} was written by another process: it gives {what}{more}"
    return Notice(KIND, f"{text}; that is put right. Ask the controller to move replicas")
