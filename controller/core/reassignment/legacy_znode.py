"""The legacy door: which entries of `/admin/reassign_partitions` are accepted, and which are to leave?

The znode is one for all topics, so its writes are serialised: one under way, by itself or within a topic's step.

Source: KIP-455 "`/admin/reassign_partitions` znode": "Once the znode is non-empty, further writes to it will be
ignored."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.core.messages.effects import Delete, Set, Write
from controller.core.messages.errors import Refusal
from controller.core.messages.outbox import Outbox
from controller.core.reassignment import legacy_entry
from controller.core.state.changes import Changes
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, Precedence, Rule
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import Atom, Outcome, Proposal, Subject, TooLarge
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.ids import PartitionId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.topics import TopicAddress

NOTICE = "refused legacy reassignment"
UNKNOWN = Zxid(0)  # when a znode that we wrote was created
ADDRESS = LegacyReassignmentAddress()
SUBJECT = Subject("znode", ADDRESS.path)


class LegacyZnode(TopicDuty):
    """The accepted entries are memory: they are taken when the znode appears, and only get fewer afterwards."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._memory = shared.memory
        self._done: dict[TopicPartition, None] = {}
        self._has_foreign = self._awaits_topics = False
        self._refused: dict[TopicPartition, str] = {}
        self._begun: dict[TopicName, dict[PartitionId, None]] = {}
        self._step: Step | None = None

    @property
    def rules(self) -> Iterable[tuple[Precedence, Rule]]:
        """An entry decides before anything else does, but for a later request in the same step."""
        return ((Precedence.LEGACY_ENTRY, self._next_step),)

    # ---- accepting ------------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Take entries in when the znode appears; judge those whose partition does not exist, or is being deleted."""
        if changes.legacy:
            self._accept()
            if self._has_foreign:
                text = "was written while it was not empty; the new entries are ignored and removed"
                out.notice(NOTICE, f"{ADDRESS.path} {text}")
        if changes.legacy or changes.marks or self._awaits_topics:
            self._refuse_unknown(out)

    def _accept(self) -> None:
        fact, memory = self._shared.state.legacy, self._memory
        self._has_foreign = False
        if fact.stat is not None and fact.stat.czxid not in (memory.legacy_czxid, UNKNOWN):
            memory.legacy, memory.legacy_czxid = {}, fact.stat.czxid  # another znode of that name: all in it is new
        if not isinstance(fact.value, LegacyReassignment):
            memory.legacy = {}
            return
        found = {move.topic_partition: move.replicas for move in fact.value.moves}
        if memory.legacy:
            memory.legacy = {at: target for at, target in memory.legacy.items() if at in found}
            self._has_foreign = found != memory.legacy
            return
        memory.legacy = found
        for at in found:
            if self._cluster.partition(at) is not None:
                self._shared.agenda.add(at.topic, (at.partition,))

    def _refuse_unknown(self, out: Outbox) -> None:
        cluster, self._awaits_topics = self._cluster, False
        for at in cluster.legacy:
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
        """The rule is asked about partitions of this step now."""
        self._step, self._refused = step, {}
        self._begun.pop(step.name, None)

    def _next_step(self, case: Case, cluster: Cluster) -> Next:
        target = cluster.legacy.get(case.at)
        is_overruled = self._step is not None and case.at.partition in self._step.requested
        if target is None or is_overruled:
            return None
        if legacy_entry.is_done(case, target):
            self._done[case.at] = None
            return None
        outcome = legacy_entry.next_step(case, cluster, target)
        if isinstance(outcome, Refusal):
            self._refused[case.at] = outcome.message or outcome.error.name
            return None
        if isinstance(outcome, Change):
            self._begun.setdefault(case.at.topic, {})[case.at.partition] = None
            return outcome
        return None

    def close_step(self, step: Step, out: Outbox) -> None:
        """Entries that a request of this step overrules leave with it."""
        refused, self._refused = self._refused, {}
        for at, reason in refused.items():
            self._refuse(at, reason, out)
        overruled = [at for n in step.requested if (at := TopicPartition(step.name, n)) in self._cluster.legacy]
        if overruled:
            step.planned.along.append(self._without(overruled))
            step.holds.append(SUBJECT)

    def step_settled(self, step: Step, outcome: Outcome, out: Outbox) -> None:
        """An entry that is too much for the topic's znode is refused, as a request is: others wait behind it."""
        begun = self._begun.pop(step.name, {})
        if step.accepted or step.decided or not isinstance(outcome, TooLarge):
            return  # others that were refused are not tried again, but it is
        for number in begun:
            self._refuse(TopicPartition(step.name, number), outcome.message, out)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Take out the entries that are done, unless the znode is being written or cannot be read."""
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
        """The znode without some entries; deleted where none is left."""
        gone, stat = {*entries}, self._shared.state.legacy.stat
        assert stat is not None
        rest = tuple(LegacyMove(*at, target) for at, target in self._cluster.legacy.items() if at not in gone)
        if rest:
            return Set(ADDRESS, LegacyReassignment(rest), stat.version, stat.czxid)
        return Delete(ADDRESS, stat.version, stat.czxid)

    def figures(self) -> dict[str, float]:
        """The entries that are not done."""
        return {"legacy_reassignment_entries": len(self._cluster.legacy)}
