"""Which entries of `/admin/reassign_partitions` are accepted, and which are removed?

One znode serves all topics, so its writes are serialized: one under way, by itself or within a topic's step.

Source: KIP-455 "`/admin/reassign_partitions` znode": "Once the znode is non-empty, further writes to it will be
ignored."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.core.messages.effects import Delete, Notice, Set, Write
from controller.core.messages.errors import Refusal
from controller.core.messages.outbox import Outbox
from controller.core.reassignment import legacy_entry, pausing
from controller.core.reassignment.memory import LegacyMemory
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.throttles import Throttles
from controller.core.state.changes import Changes
from controller.core.state.view import Cluster
from controller.core.state.waiting_znodes import Door
from controller.core.steps.change import Case, Change, Next, Precedence, Rule
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import Atom, Outcome, Proposal, Subject, TooLarge
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition, Zxid
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.topics import TopicAddress

NOTICE = "refused legacy reassignment"
WAITS = "limited legacy reassignment"
UNKNOWN = Zxid(0)  # creation zxid of a znode that we wrote, while unknown
ADDRESS = LegacyReassignmentAddress()
SUBJECT = Subject("znode", ADDRESS.path)


class LegacyZnode(TopicDuty):
    """Remembers the accepted entries, which are taken when the znode appears and only decrease afterwards."""

    def __init__(self, shared: Shared, memory: LegacyMemory, queue: MoveQueue, throttles: Throttles) -> None:
        self._shared = shared
        self._queue = queue
        self._throttles = throttles
        self._cluster = shared.cluster
        self._memory = memory
        self._czxid = self._waits_since = Zxid(-1)
        self._done: dict[TopicPartition, None] = {}
        self._has_foreign = self._awaits_topics = False
        self._refused: dict[TopicPartition, str] = {}
        self._begun: dict[TopicName, dict[PartitionId, None]] = {}
        self._step: Step | None = None

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """An entry decides before any other rule, unless a later request in the same step overrules it."""
        return ((Precedence.LEGACY_ENTRY, self._next_step),)

    # ---- accepting ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Accept entries when the znode appears; refuse those whose partition does not exist or is being deleted."""
        if changes.legacy:
            self._accept()
            if self._has_foreign:
                text = "was written while it was not empty; the new entries are ignored and removed"
                out.notice(NOTICE, f"{ADDRESS.path} {text}")
        if changes.legacy or self._awaits_topics:
            self._awaits_topics = False
            self._refuse_unknown(self._cluster.legacy, out)
        elif going := changes.marks.keys() | changes.gone_topics.keys():
            self._refuse_unknown((at for at in self._cluster.legacy if at.topic in going), out)
        if changes.pause and self._cluster.pause is None:
            for at in self._cluster.legacy:
                self._shared.agenda.add(at.topic, (at.partition,))

    def _accept(self) -> None:
        fact, entries = self._shared.state.legacy, self._memory.entries
        self._has_foreign = False
        if fact.stat is not None and fact.stat.czxid not in (self._czxid, UNKNOWN):
            self._czxid = fact.stat.czxid
            entries.clear()  # a new znode: all its entries are new
        if not isinstance(fact.value, LegacyReassignment):
            entries.clear()
            return
        found = {move.topic_partition: move.replicas for move in fact.value.moves}
        if entries:
            for at in entries.keys() - found.keys():
                del entries[at]
            self._has_foreign = found != entries
            return
        entries.update(found)
        for at in found:
            if self._cluster.partition(at) is not None:
                self._shared.agenda.add(at.topic, (at.partition,))

    def is_later_than(self, mzxid: Zxid) -> bool:
        """Whether the znode of the accepted entries was created after this zxid."""
        return mzxid < self._czxid

    def _refuse_unknown(self, entries: Iterable[TopicPartition], out: Outbox) -> None:
        cluster = self._cluster
        for at in entries:
            topic = cluster.topics.get(at.topic)
            if cluster.is_missing(at) or (topic is not None and topic.is_queued_for_deletion):
                self._refuse(at, "The partition does not exist.", out)
            self._awaits_topics |= cluster.is_unreadable(TopicAddress(at.topic))

    def _refuse(self, at: TopicPartition, reason: str, out: Outbox) -> None:
        if at not in self._done:
            out.notice(NOTICE, f"entry {at} of {ADDRESS.path} is refused and removed: {reason}")
        self._done[at] = None

    # ---- deciding -------------------------------------------------------------------------------------------

    def open_step(self, step: Step, out: Outbox) -> None:
        """Prepare for the rule to be asked about this step."""
        self._step, self._refused = step, {}
        self._begun.pop(step.name, None)

    def _next_step(self, case: Case, cluster: Cluster) -> Next:
        target = cluster.legacy.get(case.at)
        is_overruled = self._step is not None and case.at.partition in self._step.requested
        if target is None or is_overruled:
            return None
        if legacy_entry.is_done(case, target):
            self._done[case.at] = None
            if self._step is not None:  # what a client asked for later would have removed the entry
                self._queue.overrule(self._step, case.at, target, Door.LEGACY)
            return None
        outcome = legacy_entry.next_step(case, cluster, target)
        if isinstance(outcome, Refusal):
            self._refused[case.at] = outcome.message or outcome.error.name
            return None
        if isinstance(outcome, Change) and not pausing.holds_back(case, cluster, outcome):
            return outcome if self._step is None or self._begins(self._step, case, target, outcome) else None
        return None

    def _begins(self, step: Step, case: Case, target: Replicas, change: Change) -> bool:
        """Whether nothing holds an entry's move back; first its throttle must be in force."""
        if self._throttles.hold(case.at, target):
            self._queue.hold(step, case.at, target, Door.LEGACY, is_unthrottled=True)
            return False
        if not self._queue.may_begin(step, case, change):
            self._queue.hold(step, case.at, target, Door.LEGACY)
            self._say_that_entries_wait(step)
            return False
        self._queue.drop(step, case.at)
        self._begun.setdefault(case.at.topic, {})[case.at.partition] = None
        return True

    def _say_that_entries_wait(self, step: Step) -> None:
        """Once for each znode, in the log: the tool that wrote it learns nothing."""
        if self._waits_since != self._czxid:
            self._waits_since = self._czxid
            step.notices.append(Notice(WAITS, self._batch()))

    def _batch(self) -> str:
        text = f"entries of {ADDRESS.path} wait, because moves are limited"
        left = f"{len(self._cluster.legacy)} are left, with those under way"
        return f"{text} ({left}); a native controller that takes over begins all of them at once"

    def held_up(self) -> tuple[str, ...]:
        """Entries that wait, as long as any does."""
        return (self._batch(),) if self._queue.holds_entries else ()

    def close_step(self, step: Step, out: Outbox) -> None:
        """Remove the entries that a request of this step overrules together with it."""
        refused, self._refused = self._refused, {}
        for at, reason in refused.items():
            self._refuse(at, reason, out)
        overruled = [at for n in step.requested if (at := TopicPartition(step.name, n)) in self._cluster.legacy]
        if overruled:
            step.planned.along.append(self._without(overruled))
            step.holds.append(SUBJECT)

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """Refuse an entry that does not fit into the topic's znode, as a request would be: others wait behind it."""
        begun = self._begun.pop(step.name, {})
        if step.accepted or step.decided or not isinstance(outcome, TooLarge):
            return  # other refused writes are retried
        for number in begun:
            self._refuse(TopicPartition(step.name, number), outcome.message, out)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Remove the entries that are done, unless the znode is being written or cannot be read."""
        fact, legacy = self._shared.state.legacy, self._cluster.legacy
        self._done = {at: None for at in self._done if at in legacy}
        if fact.stat is None or isinstance(fact.value, Malformed):
            return ()
        is_due = not legacy or self._done or self._has_foreign
        if not is_due or not self._shared.transactions.may_propose(SUBJECT):
            return ()
        why = (f"entries of {ADDRESS.path} are done",)
        return (Proposal(SUBJECT, (Atom((self._without(self._done),), why),)),)

    def _without(self, entries: Iterable[TopicPartition]) -> Write:
        """The znode without some entries; deleted if none is left."""
        gone, stat = {*entries}, self._shared.state.legacy.stat
        assert stat is not None
        rest = tuple(LegacyMove(*at, target) for at, target in self._cluster.legacy.items() if at not in gone)
        if rest:
            return Set(ADDRESS, LegacyReassignment(rest), stat.version, stat.czxid)
        return Delete(ADDRESS, stat.version, stat.czxid)

    def figures(self) -> dict[str, float]:
        """The number of entries that are not done."""
        return {"legacy_reassignment_entries": len(self._cluster.legacy)}
