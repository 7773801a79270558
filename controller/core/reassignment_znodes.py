"""Who keeps `/admin/reassignments`, which of its children are due, and which of them belong to no partition?

The children of partitions that exist are written in their topics' steps; here are those of all others, and the folder.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from controller.core.cluster import Changes, Cluster
from controller.core.effects import Create, Delete, Effect, Notice, Set, Wake, Write
from controller.core.events import CommitId
from controller.core.move_znodes import ABSENT
from controller.core.retries import AT_ONCE, wait_s
from zk_layout.ids import TopicName, TopicPartition, Zxid
from zk_layout.znodes.reassignments import ROOT, FolderKeeper, ReassignmentAddress, ReassignmentsAddress

NOTICE = "reassignment znode"
ALARM = "reassignment znodes again"
DELETIONS_A_TRANSACTION = 200
PAUSE_S = 0.2
GONE = Zxid(-1)


class Plan(Struct, frozen=True):
    """One transaction about the folder, or about children that belong to no partition."""

    writes: tuple[Write, ...]
    why: str
    homeless: tuple[TopicPartition, ...] = ()


class ReassignmentZnodes:
    """The bookkeeping of the folder in one reign; without the setting it has nothing to do."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing seen yet."""
        self._cluster = cluster
        self._znodes = cluster.move_znodes
        self._homeless: dict[TopicPartition, None] = {}
        self._sent: dict[CommitId, Plan] = {}
        self._is_marking = False
        self._has_folder = False
        self._noticed: dict[TopicPartition, Zxid] = {}
        self._refusals = 0
        self._not_before = 0.0

    def begin(self) -> Iterator[Notice]:
        """Tell the wishes of before from what a controller left behind that does not keep the folder.

        Every reign that keeps it writes its epoch there first of all. Where a later one has written a partition's
        state, and the topic znode is younger than the child, nobody can say which of the two was meant last: the
        child is not followed.
        """
        cluster, znodes = self._cluster, self._znodes
        for name, children in sorted(znodes.children.items()):
            topic = cluster.topics.get(name)
            for number, child in sorted(children.items()) if topic is not None else ():
                held = topic.partitions.get(number) if topic is not None else None
                if topic is None or held is None or held.state is None or child.replicas is None:
                    continue
                is_younger = child.mzxid > topic.as_of
                if child.replicas == held.assignment.target or is_younger:
                    continue
                if held.state.controller_epoch > znodes.kept_by:
                    at = TopicPartition(name, number)
                    znodes.disregard(at)
                    text = "a controller that does not follow it has ruled since it was written"
                    yield self._refusal(at, f"{text}; write it again if it is still wanted")

    def follow(self, changes: Changes) -> Iterator[TopicPartition | Notice]:
        """The partitions to look at now that children or topics have changed."""
        if not self._znodes.is_kept:
            return
        for at in self._znodes.take_changed():
            yield at
            child = self._znodes.child(at)
            if child is not None and self._noticed.get(at) == GONE:
                del self._noticed[at]
            if child is not None and self._is_homeless(at.topic):
                self._homeless[at] = None
                held = self._cluster.partition(at)
                if held is None or held.assignment.target != child.replicas:
                    yield from self.refuse({at: "The partition does not exist."})
        for name in {**changes.gone_topics, **changes.marks}:
            children = [TopicPartition(name, n) for n in self._znodes.children.get(name, ())]
            if self._is_homeless(name):
                self._homeless.update(dict.fromkeys(children))
            else:
                yield from children
        for name in sorted(changes.topics & self._znodes.children.keys()):
            yield from self._differing(name)
        if self._has_folder != (self._znodes.folder_version != ABSENT):
            self._has_folder = not self._has_folder
            yield from (TopicPartition(name, n) for name, numbers in self._cluster.moving.items() for n in numbers)

    def _differing(self, name: TopicName) -> Iterator[TopicPartition]:
        """A topic znode can be read again, or somebody else has written it."""
        topic = self._cluster.topics.get(name)
        for number, child in self._znodes.children[name].items():
            held = topic.partitions.get(number) if topic is not None else None
            if held is None or held.assignment.target != child.replicas:
                yield TopicPartition(name, number)

    def refuse(self, refused: dict[TopicPartition, str]) -> Iterator[Notice]:
        """Say once why a wish is not followed."""
        for at, reason in refused.items():
            child = self._znodes.child(at)
            mzxid = child.mzxid if child is not None else GONE
            if self._noticed.get(at) != mzxid:
                self._noticed[at] = mzxid
                yield self._refusal(at, reason)

    def _refusal(self, at: TopicPartition, reason: str) -> Notice:
        held = self._cluster.partition(at)
        is_moving = held is not None and held.assignment.is_moving
        fate = "it says again where the partition moves" if is_moving else "it is removed"
        return Notice(NOTICE, f"{ReassignmentAddress(at.topic, at.partition).path} is not followed: {reason}; {fate}")

    def _is_homeless(self, name: TopicName) -> bool:
        topic = self._cluster.topics.get(name)
        return topic is None or topic.is_queued_for_deletion

    def plans(self, now: float) -> Iterator[Plan]:
        """What to write now beside the topics' steps; each must be told to `sent`."""
        if not self._znodes.is_kept or now < self._not_before:
            return
        if not self._is_marking:
            yield from self._mark()
        in_flight = {at for plan in self._sent.values() for at in plan.homeless}
        for at in [at for at in self._homeless if at not in in_flight]:
            if self._znodes.child(at) is None or not self._is_homeless(at.topic):
                del self._homeless[at]
        due = [at for at in self._homeless if at not in in_flight]
        for start in range(0, len(due), DELETIONS_A_TRANSACTION):
            some = tuple(due[start : start + DELETIONS_A_TRANSACTION])
            children = [(at, self._znodes.child(at)) for at in some]
            writes = tuple(Delete(ReassignmentAddress(at.topic, at.partition), c.version) for at, c in children if c)
            yield Plan(writes, f"{len(some)} children of {ROOT} belong to no partition", some)

    def _mark(self) -> Iterator[Plan]:
        znodes, epoch = self._znodes, self._cluster.controller_epoch
        if znodes.folder_version == ABSENT:
            yield Plan((Create(ReassignmentsAddress(), FolderKeeper(epoch)),), f"{ROOT} is kept from now on")
        elif znodes.kept_by != epoch:
            write = Set(ReassignmentsAddress(), FolderKeeper(epoch), znodes.folder_version)
            yield Plan((write,), f"{ROOT} is kept by controller epoch {epoch}")

    def sent(self, plan: Plan, commit: CommitId) -> None:
        """Its transaction is in flight."""
        self._sent[commit] = plan
        self._is_marking = self._is_marking or not plan.homeless

    def accepted(self, commit: CommitId) -> None:
        """A transaction was accepted."""
        if self._arrive(commit):
            self._refusals = 0

    def failed(self, commit: CommitId, now: float) -> Iterator[Effect]:
        """A transaction failed: what it was about is read again, and a moment later tried again."""
        if not self._arrive(commit):
            return
        self._refusals += 1
        if self._refusals == AT_ONCE + 1:
            text = f"ZooKeeper refused {self._refusals} writes of {ROOT} in a row; trying again more slowly"
            yield Notice("refused by zookeeper", text)
        self._not_before = now + (wait_s(self._refusals) or PAUSE_S)
        yield Wake(ALARM, self._not_before)

    def _arrive(self, commit: CommitId) -> bool:
        plan = self._sent.pop(commit, None)
        if plan is not None and not plan.homeless:
            self._is_marking = False
        return plan is not None
