"""What do the children of `/admin/reassignments` say, and what was taken away there?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from zk_layout.facts import Fact, Malformed
from zk_layout.ids import ControllerEpoch, PartitionId, Replicas, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.reassignments import FolderKeeper, Reassignment, ReassignmentAddress

ABSENT = ZnodeVersion(-1)
NOBODY = ControllerEpoch(-1)


class MoveZnode(Struct, frozen=True, gc=False):
    """One child as it is now.

    Shape:
        `replicas` is None where nothing has been written into it yet, or nothing that can be read.
    """

    replicas: Replicas | None
    version: ZnodeVersion
    mzxid: Zxid
    is_malformed: bool = False


class MoveZnodes:
    """The folder as folded from facts. It is neither read nor written unless `is_kept`.

    Shape:
        `taken_away` are children that were there in this reign and are gone; `wished` the moves that were accepted
        through a child. `void` are children that must not count as wishes, with the zxid of the data in question.
    """

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.is_kept = False
        self.kept_by = NOBODY
        self.folder_version = ABSENT
        self.children: dict[TopicName, dict[PartitionId, MoveZnode]] = {}
        self.taken_away: dict[TopicName, set[PartitionId]] = {}
        self.wished: set[TopicPartition] = set()
        self.void: dict[TopicPartition, Zxid] = {}
        self._changed: dict[TopicPartition, None] = {}

    def apply(self, fact: Fact) -> None:
        """Fold in what is newer than what is held of the folder itself, or of a child."""
        if isinstance(fact.address, ReassignmentAddress):
            self._apply_child(TopicPartition(fact.address.topic, fact.address.partition), fact)
        else:
            self.folder_version = fact.stat.version if fact.stat is not None else ABSENT
            self.kept_by = fact.value.controller_epoch if isinstance(fact.value, FolderKeeper) else NOBODY

    def _apply_child(self, at: TopicPartition, fact: Fact) -> None:
        self._changed[at] = None
        children = self.children.setdefault(at.topic, {})
        if fact.stat is None:
            if children.pop(at.partition, None) is not None:
                self.taken_away.setdefault(at.topic, set()).add(at.partition)
            self.void.pop(at, None)
        else:
            value = fact.value
            replicas = value.assignment if isinstance(value, Reassignment) else None
            is_malformed = isinstance(value, Malformed)
            children[at.partition] = MoveZnode(replicas, fact.stat.version, fact.stat.mzxid, is_malformed)
            self.taken_away.get(at.topic, set()).discard(at.partition)
        if not children:
            del self.children[at.topic]

    def take_changed(self) -> Iterable[TopicPartition]:
        """The partitions whose children have changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return changed

    def child(self, at: TopicPartition) -> MoveZnode | None:
        """A partition's child."""
        children = self.children.get(at.topic)
        return children.get(at.partition) if children else None

    def disregard(self, at: TopicPartition) -> None:
        """What a child says now is not to be done."""
        child = self.child(at)
        if child is not None:
            self.void[at] = child.mzxid

    def is_void(self, at: TopicPartition, child: MoveZnode) -> bool:
        """Whether what a child says must not count as a wish."""
        return self.void.get(at) == child.mzxid

    def settle(self, topic: TopicName, numbers: set[PartitionId], moving: set[PartitionId]) -> None:
        """Of these partitions, some do not move: that their children are gone means nothing."""
        taken_away = self.taken_away.get(topic)
        if taken_away is not None:
            taken_away -= numbers - moving
            if not taken_away:
                del self.taken_away[topic]
        if self.wished:
            self.wished.difference_update(TopicPartition(topic, n) for n in numbers - moving)
