"""What do the folder `/admin/reassignments` and its children say?"""

from __future__ import annotations

from controller.core.state.changes import OpenChanges
from controller.core.state.topics import ReassignmentZnode
from zk_layout.codec import Malformed
from zk_layout.facts import Fact
from zk_layout.ids import ABSENT, ControllerEpoch, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.reassignments import FolderKeeper, Reassignment, ReassignmentAddress

NOBODY = ControllerEpoch(-1)


class ReassignmentZnodes:
    """The folder as folded from facts: who kept it last, and its children by topic."""

    def __init__(self, changes: OpenChanges) -> None:
        self.changes = changes
        self.kept_by = NOBODY
        self.version = ABSENT
        self.children: dict[TopicName, dict[PartitionId, ReassignmentZnode]] = {}

    def child(self, at: TopicPartition) -> ReassignmentZnode | None:
        """A partition's child."""
        children = self.children.get(at.topic)
        return children.get(at.partition) if children else None

    def apply(self, fact: Fact) -> None:
        """Fold in a fact that is newer than what is held of the same znode."""
        if isinstance(fact.address, ReassignmentAddress):
            self._apply_child(TopicPartition(fact.address.topic, fact.address.partition), fact)
            return
        self.version = fact.stat.version if fact.stat is not None else ABSENT
        self.kept_by = fact.value.controller_epoch if isinstance(fact.value, FolderKeeper) else NOBODY
        self.changes.folder = True

    def _apply_child(self, at: TopicPartition, fact: Fact) -> None:
        self.changes.children.setdefault(at, self.child(at))
        if fact.stat is not None:
            replicas = fact.value.assignment if isinstance(fact.value, Reassignment) else None
            stat, is_malformed = fact.stat, isinstance(fact.value, Malformed)
            child = ReassignmentZnode(replicas, stat.version, stat.czxid, stat.mzxid, is_malformed)
            self.children.setdefault(at.topic, {})[at.partition] = child
            return
        children = self.children.get(at.topic, {})
        children.pop(at.partition, None)
        if not children:
            self.children.pop(at.topic, None)
