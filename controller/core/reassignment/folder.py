"""Which moves do children of `/admin/reassignments` request, and which moves must they show (KIP-236)?

A child that differs from its partition's target in the topic znode is a request, because the controller never leaves
such a child behind: its own changes update the child in the same transaction, or before it if that would be too large.
If a child existed in this term and disappears while its move continues, its removal requests a cancel, for the
controller deletes a child no earlier than its move ends. A child missing since the term began means nothing; it is
created again.

Source: KIP-236 "Proposed Changes": a new child starts a move, changed contents start it again, the old replicas as
contents cancel it, and "the child nodes are precisely the replicas currently being reassigned".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from controller.core.messages.effects import Create, Delete, Set, Write
from controller.core.messages.errors import Refusal
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import PartitionReassignment
from controller.core.reassignment import alter_reassignments, pausing
from controller.core.reassignment.memory import FolderMemory
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.throttles import Throttles
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, ReassignmentZnode, TopicView
from controller.core.state.waiting_znodes import Door
from controller.core.steps.change import Case, Change
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.back_off import AT_ONCE
from controller.core.transactions.proposal import (
    Accepted,
    Atom,
    Outcome,
    Proposal,
    Subject,
    Unwritable,
    is_unwritten,
    topic_subject,
)
from controller.core.turn.shared import Shared
from zk_layout.ids import ABSENT, PartitionId, Replicas, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.reassignments import ROOT, FolderKeeper, Reassignment, ReassignmentAddress, ReassignmentsAddress
from zk_layout.znodes.topics import TopicAddress
from zk_layout.znodes.waiting_moves import part_of

NOTICE = "refused reassignment znode"
FOLDER = Subject("znode", ROOT)
STRAYS = Subject("children of", ROOT)
DELETIONS_AT_ONCE = 200
GONE = Zxid(-1)

Older = Callable[[Zxid], bool]


class ReassignmentFolder(TopicDuty):
    """The folder in one term. Registered only if `controller.reassignments.znodes` asks for it."""

    def __init__(
        self,
        shared: Shared,
        memory: FolderMemory,
        queue: MoveQueue,
        throttles: Throttles,
        is_older_than_entries: Older,
    ) -> None:
        self._shared = shared
        self._queue = queue
        self._throttles = throttles
        self._cluster = shared.cluster
        self._memory = memory
        self._is_older_than_entries = is_older_than_entries
        self._state = shared.state.reassignments
        # Partitions whose child was removed. With what it asked for, it cancels a move to that; with None, any move.
        self._removed: dict[TopicName, dict[PartitionId, Replicas | None]] = {}
        # Children that a step of ours deletes, and what it means that one is gone if that step is refused.
        self._deleting: dict[TopicName, dict[PartitionId, tuple[Zxid, ZnodeVersion]]] = {}
        self._gone: dict[TopicName, dict[PartitionId, Replicas | None]] = {}
        self._void: dict[TopicPartition, Zxid] = {}
        self._doubted: dict[TopicPartition, Zxid] = {}
        self._behind: dict[TopicPartition, Zxid] = {}
        self._strays: dict[TopicPartition, None] = {}
        self._noticed: dict[TopicPartition, Zxid] = {}
        self._is_marked = self._had_folder = False
        self._waiting: dict[PartitionId, None] = {}
        self._held_back: dict[PartitionId, None] = {}  # by a pause, a throttle or limits: their children ask on

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Examine the partitions whose children or topics have changed."""
        due = self._shared.agenda.add
        if changes.is_beginning:
            self._doubt_leftovers(out)
        for at, former in changes.children.items():
            self._note(at, former)
            due(at.topic, (at.partition,))
            self._look_for_stray(at, out)
        for name in {**changes.gone_topics, **changes.marks}:
            children = self._state.children.get(name, {})
            if self._has_no_partitions(name):
                self._strays.update({TopicPartition(name, n): None for n in children})
            else:
                due(name, children)
        for name in changes.topics:
            if name in self._state.children and name in self._cluster.topics:
                due(name, self._differing(name))
        self._follow_for_all(changes)

    def _follow_for_all(self, changes: Changes) -> None:
        if changes.pause and self._cluster.pause is None:
            for name, children in self._state.children.items():
                self._shared.agenda.add(name, children)
        has_folder = self._state.version != ABSENT
        if has_folder is not self._had_folder:
            self._had_folder = has_folder
            for name, numbers in self._cluster.moving.items():
                self._shared.agenda.add(name, numbers)

    def _note(self, at: TopicPartition, former: ReassignmentZnode | None) -> None:
        if self._state.child(at) is not None:
            self._removed.get(at.topic, {}).pop(at.partition, None)
            return
        self._void.pop(at, None)
        if former is not None:
            # While the topic is unread, another controller's move may be under way that the child did not ask for.
            topic = self._cluster.topics.get(at.topic)
            is_unread = topic is None or _is_unread(topic, topic.partitions.get(at.partition))
            is_ours = self._deleting.get(at.topic, {}).get(at.partition) == (former.czxid, former.version)
            if not is_ours or self._shared.transactions.is_busy(topic_subject(at.topic)):
                removed = self._gone if is_ours else self._removed
                removed.setdefault(at.topic, {})[at.partition] = former.replicas if is_unread else None

    def _doubt_leftovers(self, out: Outbox) -> None:
        """Ignore requests left by a controller that does not maintain /admin/reassignments.

        Each term that maintains the folder writes its epoch there. If a later epoch has written a partition's
        state, and the child is older than the topic znode, nothing shows which of the two was written last: the child
        is ignored. Until it has been corrected, the epoch is not written: the next term would take it for a request.
        """
        for name, children in sorted(self._state.children.items()):
            topic = self._cluster.topics.get(name)
            for number, child in sorted(children.items()) if topic is not None else ():
                held = topic.partitions.get(number) if topic is not None else None
                if topic is None or held is None or held.state is None or child.replicas is None:
                    continue
                is_younger = child.mzxid > topic.as_of
                if child.replicas == held.assignment.target or is_younger:
                    continue
                if held.state.controller_epoch > self._state.kept_by:
                    at = TopicPartition(name, number)
                    self._void[at] = self._doubted[at] = child.mzxid
                    text = "a controller that ignores this znode, or could not write it, has led since it was written"
                    self._say_refused(at, f"{text}; write it again if you still want it", out)

    def _look_for_stray(self, at: TopicPartition, out: Outbox) -> None:
        child = self._state.child(at)
        if child is None:
            return
        if self._noticed.get(at) == GONE:
            del self._noticed[at]
        if self._may_be_stray(at.topic):
            self._strays[at] = None
        if self._has_no_partitions(at.topic):
            held = self._cluster.partition(at)
            if held is None or held.assignment.target != child.replicas:
                self._refuse(at, "The partition does not exist.", out)

    def _differing(self, name: TopicName) -> list[PartitionId]:
        """The children that differ from a topic znode that is readable again, or was overwritten."""
        partitions, children = self._cluster.topics[name].partitions, self._state.children[name]
        return [
            number
            for number, child in children.items()
            if number not in partitions or partitions[number].assignment.target != child.replicas
        ]

    def _has_no_partitions(self, name: TopicName) -> bool:
        topic = self._cluster.topics.get(name)
        if topic is None:
            return not self._cluster.is_unreadable(TopicAddress(name))
        return topic.is_queued_for_deletion

    def _may_be_stray(self, name: TopicName) -> bool:
        return name not in self._cluster.topics or self._has_no_partitions(name)

    def _refuse(self, at: TopicPartition, reason: str, out: Outbox) -> None:
        """Log once why a child is ignored."""
        child = self._state.child(at)
        mzxid = child.mzxid if child is not None else GONE
        if self._noticed.get(at) != mzxid:
            self._noticed[at] = mzxid
            self._say_refused(at, reason, out)

    def _say_refused(self, at: TopicPartition, reason: str, out: Outbox) -> None:
        held = self._cluster.partition(at)
        is_moving = held is not None and held.assignment.is_moving
        fate = "it is reset to the current target" if is_moving else "it is removed"
        out.notice(NOTICE, f"{_address(at).path} is refused: {reason.removesuffix('.')}; {fate}")

    # ---- deciding -------------------------------------------------------------------------------------------

    def open_step(self, step: Step, out: Outbox) -> None:
        """Apply the children's requests, unless a request in this step decides about the same partition's replicas."""
        self._settle_removed(step)
        draft = step.planned
        self._waiting, self._held_back = {}, {}
        for at, replicas in list(self._asked_for(step)):
            number = at.partition
            if number in step.requested and not draft.touches(number):
                continue  # what a request lets wait, or waits for no longer, is later
            if draft.touches(number) or number in step.limited:
                self._waiting[number] = None
                continue
            wanted, case = PartitionReassignment(at, replicas), draft.case(number)
            outcome = alter_reassignments.consider(wanted, case, self._cluster)
            is_cancel = replicas is None
            if isinstance(outcome, Change) and not is_cancel and pausing.holds_back(case, self._cluster, outcome):
                self._held_back[number] = None
                continue
            if isinstance(outcome, Refusal):
                self._refuse(at, outcome.message or outcome.error.name, out)
                continue
            if isinstance(outcome, Change) and case is not None and not self._begins(step, case, replicas, outcome):
                self._held_back[number] = None
                if at in self._cluster.legacy:
                    # The entry is older: it goes, instead of asking in turn with the child.
                    step.requested[number] = None
                continue
            if replicas is None:
                self._queue.drop(step, at)
            else:
                self._queue.overrule(step, at, replicas, Door.CHILD)
            if outcome is not None:
                draft.take(number, replace(outcome, why=f"{outcome.why} by {ROOT}"))
                step.decided[number] = None
                self._memory.asked_by_child[at] = None
            step.requested[number] = None

    def _begins(self, step: Step, case: Case, target: Replicas | None, change: Change) -> bool:
        """Whether nothing holds a move back; first its throttle must be in force. A cancellation always begins."""
        if target is None:
            return self._queue.may_begin(step, case, change)
        is_unthrottled = self._throttles.hold(case.at, target)
        if is_unthrottled or not self._queue.may_begin(step, case, change):
            self._queue.hold(step, case.at, target, Door.CHILD, is_unthrottled=is_unthrottled)
            return False
        return True

    def _settle_removed(self, step: Step) -> None:
        """Forget removed children of partitions that do not move: their removal means nothing."""
        moving = self._cluster.moving.get(step.name, {})
        settled = [n for n in step.numbers if n not in moving]
        removed = self._removed.get(step.name, {})
        for number in settled:
            removed.pop(number, None)
            self._memory.asked_by_child.pop(TopicPartition(step.name, number), None)
        if not removed:
            self._removed.pop(step.name, None)

    def _asked_for(self, step: Step) -> Iterator[tuple[TopicPartition, Replicas | None]]:
        """The requests by children of due partitions that are not under way yet.

        Of a child and an entry of the legacy znode the later one applies, even if the child wants no change; so it does
        of a child and a client's waiting move. A child older than the topic was meant for an earlier topic.
        """
        topic, cluster = step.topic, self._cluster
        children, removed = self._state.children.get(topic.name, {}), self._removed.get(topic.name, {})
        for number in sorted(step.numbers) if children or removed else ():
            at, held, child = TopicPartition(topic.name, number), topic.partitions.get(number), children.get(number)
            if child is None:
                if number in removed and held is not None and not _is_unread(topic, held):
                    asked_for = removed[number]
                    if held.assignment.is_moving and asked_for in (None, held.assignment.target):
                        yield at, None
            elif child.replicas is not None and not _is_unread(topic, held) and self._void.get(at) != child.mzxid:
                target = held.assignment.target if held is not None else ()
                is_older = at in cluster.legacy and self._is_older_than_entries(child.mzxid)
                differs = child.replicas != target or cluster.legacy.get(at, target) != target
                is_wish = differs or self._is_later_than_what_waits(at, child)
                if is_wish and not is_older and child.mzxid > topic.czxid:
                    yield at, child.replicas

    def _is_later_than_what_waits(self, at: TopicPartition, child: ReassignmentZnode) -> bool:
        """Whether a client's move waits that was surely accepted before the child was written.

        A child that we could not delete when its own move ended is older than what waits since then.
        """
        part = self._cluster.waiting_parts(at.topic).get(part_of(at.partition))
        return part is not None and self._cluster.waiting_move(at) is not None and child.mzxid > part.mzxid

    def close_step(self, step: Step, out: Outbox) -> None:
        """Update the children of these partitions, and of those this step decided about, to the moves under way.

        Children that differ from the decision are written before the topic if the transaction has to be cut, or if
        ZooKeeper keeps refusing it: a successor then finds the same decision as a request, or a child to create. A
        child that requests what is decided remains a request until that is written, so it is updated afterwards.
        """
        topic, draft = step.topic, step.planned
        if topic.is_malformed:
            return
        self._deleting.pop(topic.name, None)
        corrected: list[Write] = []
        followed: list[Write] = []
        due = {n: None for n in step.numbers if n not in self._waiting and n not in step.limited}
        numbers = (due | dict.fromkeys(draft.assigned) | step.requested).keys() - self._held_back
        for number in sorted(numbers):
            write, child = self._kept(step, number), self._state.child(TopicPartition(topic.name, number))
            if isinstance(write, Delete) and child is not None:
                self._deleting.setdefault(topic.name, {})[number] = child.czxid, child.version
            if write is not None:
                (followed if self._is_as_decided(step, number) else corrected).append(write)
        if not corrected and not followed:
            return
        draft.shows = f"{ROOT} shows the moves of topic {topic.name}"
        if self._shared.transactions.refusals(topic_subject(topic.name)) > AT_ONCE:
            draft.apart.append(Atom((), (draft.shows,), before=(*corrected, *followed)))
            decided = {**dict.fromkeys(draft.assigned), **step.requested}
            for at in (TopicPartition(topic.name, n) for n in decided if n not in self._held_back):
                if (child := self._state.child(at)) is not None:
                    self._behind[at] = child.mzxid
        else:
            draft.before.extend(corrected)
            draft.after.extend(followed)

    def _is_as_decided(self, step: Step, number: PartitionId) -> bool:
        """Whether no child requests anything but what this step decides."""
        child, assignment = self._state.child(TopicPartition(step.name, number)), step.planned.assignment_of(number)
        return child is None or (assignment is not None and child.replicas == assignment.target)

    def _kept(self, step: Step, number: PartitionId) -> Write | None:
        """The write that makes a partition's child show its move; None if it does, or the move is unknown."""
        topic, draft, cluster = step.topic, step.planned, self._cluster
        at, held = TopicPartition(topic.name, number), topic.partitions.get(number)
        child, assignment = self._state.child(at), draft.assignment_of(number)
        target = assignment.target if assignment is not None and assignment.is_moving else None
        is_unread = _is_unread(topic, held)
        if child is None:
            # A child newer than an entry of the legacy znode overrules it, so the entry must be judged first.
            is_judged = at not in cluster.legacy or not is_unread
            if target is None or self._state.version == ABSENT or not is_judged:
                return None
            return Create(_address(at), Reassignment(target))
        is_awaited = child.replicas is None and not child.is_malformed  # its creator has yet to write into it
        if is_awaited or (number not in draft.assigned and is_unread):
            return None
        if target is None:
            return Delete(_address(at), child.version, child.czxid)
        return None if child.replicas == target else Set(_address(at), Reassignment(target), child.version, child.czxid)

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """Ignore a child whose request does not fit into the topic's znode.

        The same applies to an outdated child, if the topic was written without it, and to the removal of a child that
        showed a former move. A child that was deleted by a part of a step of ours was not removed by another process.
        A child that was left out is written in the next step: nothing else may ever happen to its partition.
        """
        gone = self._gone.pop(step.name, {})
        if is_unwritten(outcome):
            self._deleting.pop(step.name, None)
            if gone:
                self._removed.setdefault(step.name, {}).update(gone)
                self._shared.agenda.add(step.name, gone)
        assigned = step.draft.assigned if step.draft is not None else ()
        for number in {**dict.fromkeys(assigned), **step.requested}:
            at = TopicPartition(step.name, number)
            mzxid = self._behind.pop(at, None)
            if isinstance(outcome, Accepted):
                self._removed.get(step.name, {}).pop(number, None)
                if mzxid is not None:
                    self._void[at] = self._doubted[at] = mzxid
        if isinstance(outcome, Accepted):
            self._shared.agenda.add(step.name, _left_out(step))
        if isinstance(outcome, Unwritable):
            for number in step.decided:
                at = TopicPartition(step.name, number)
                child = self._state.child(at)
                if child is not None and at in self._memory.asked_by_child:
                    self._void[at] = child.mzxid

    # ---- the folder itself, and children that belong to no partition ----------------------------------------

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Record this term in the folder, and remove stray children."""
        may_propose = self._shared.transactions.may_propose
        proposals = []
        mark = self._mark() if may_propose(FOLDER) else None
        if mark is not None:
            proposals.append(Proposal(FOLDER, (mark,)))
        self._strays = {at: None for at in self._strays if self._state.child(at) and self._may_be_stray(at.topic)}
        if may_propose(STRAYS) and (removals := tuple(self._removals())):
            proposals.append(Proposal(STRAYS, removals))
        return proposals

    def _mark(self) -> Atom | None:
        epoch, version = self._cluster.controller_epoch, self._state.version
        if version == ABSENT:
            return Atom((Create(ReassignmentsAddress(), FolderKeeper(epoch)),), (f"{ROOT} is kept from now on",))
        self._doubted = {at: as_of for at, as_of in self._doubted.items() if self._is_as_of(at, as_of)}
        if bool(self._doubted) is not (self._state.kept_by == epoch):
            return None
        # If this term ends before they are corrected, the next one must not take them for requests.
        keeper, why = FolderKeeper(epoch), f"{ROOT} is kept by controller epoch {epoch}"
        if self._doubted:
            keeper, why = FolderKeeper(), f"topics were written without their children of {ROOT}"
        return Atom((Set(ReassignmentsAddress(), keeper, version),), (why,))

    def _is_as_of(self, at: TopicPartition, mzxid: Zxid) -> bool:
        child = self._state.child(at)
        return child is not None and child.mzxid == mzxid

    def _removals(self) -> Iterator[Atom]:
        strays = [at for at in self._strays if self._has_no_partitions(at.topic)]
        for start in range(0, len(strays), DELETIONS_AT_ONCE):
            some = strays[start : start + DELETIONS_AT_ONCE]
            children = [(at, self._state.child(at)) for at in some]
            writes = tuple(
                Delete(_address(at), child.version, child.czxid) for at, child in children if child is not None
            )
            yield Atom(writes, (f"{len(writes)} children of {ROOT} belong to no partition",))


def _left_out(step: Step) -> Iterator[PartitionId]:
    """The partitions whose children were to be written apart, and were not, because the step had other writes."""
    for atom in step.draft.apart if step.draft is not None else ():
        if atom not in step.atoms:
            yield from (w.address.partition for w in atom.before if isinstance(w.address, ReassignmentAddress))


def _is_unread(topic: TopicView, held: Partition | None) -> bool:
    """Whether a partition's znodes must be read or repaired before anything can be said of it."""
    return topic.is_malformed or (held is not None and (not held.is_state_known or held.is_malformed))


def _address(at: TopicPartition) -> ReassignmentAddress:
    return ReassignmentAddress(at.topic, at.partition)
