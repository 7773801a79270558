"""What does ZooKeeper say of a topic and its partitions? Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from zk_layout.ids import ABSENT, PartitionEpoch, PartitionId, Replicas, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

NEVER = Zxid(-1)
NO_EPOCH = PartitionEpoch(-1)
UNASSIGNED = Assignment(())
NOTHING_OWED: Mapping[PartitionId, Replicas] = MappingProxyType({})


class Partition(Struct, frozen=True, gc=False):
    """One partition: its assignment and its state.

    Shape:
        `state` is None if the znode is absent or was not read yet; `is_state_known` distinguishes the two. `assignment`
        is empty if the topic znode does not list the partition. `as_of` is that of the state.
    """

    assignment: Assignment = UNASSIGNED
    state: PartitionState | None = None
    epoch: PartitionEpoch = NO_EPOCH
    as_of: Zxid = NEVER
    is_state_known: bool = False
    is_malformed: bool = False
    has_znode: bool = False
    znode_as_of: Zxid = NEVER


BLANK = Partition()


def since(zxid: Zxid, held: Partition) -> Partition:
    """What was seen of a partition's znodes at this zxid or later, without its assignment."""
    is_state, is_znode = held.as_of >= zxid, held.znode_as_of >= zxid
    return Partition(
        UNASSIGNED,
        held.state if is_state else None,
        held.epoch if is_state else NO_EPOCH,
        held.as_of if is_state else NEVER,
        held.is_state_known and is_state,
        held.is_malformed and is_state,
        held.has_znode and is_znode,
        held.znode_as_of if is_znode else NEVER,
    )


class TopicView(Struct, frozen=True):
    """One topic as its znodes show it; read-only.

    Shape:
        `partitions` and `deletions` follow the facts. `has_lost_id`: a tool that does not know topic ids has
        overwritten the znode; brokers refuse any other id, so `topic_id` is still the former one.
    """

    name: TopicName
    partitions: Mapping[PartitionId, Partition] = MappingProxyType({})
    as_of: Zxid = NEVER
    czxid: Zxid = NEVER
    version: ZnodeVersion = ABSENT
    topic_id: TopicId | None = None
    has_lost_id: bool = False
    has_partitions_znode: bool = False
    is_queued_for_deletion: bool = False
    is_malformed: bool = False
    deletions: Mapping[PartitionId, Replicas] = NOTHING_OWED
    deletions_version: ZnodeVersion = ABSENT


class TopicIdentity(Struct, frozen=True):
    """Distinguishes a topic from a later one of the same name."""

    czxid: Zxid
    topic_id: TopicId | None = None

    def is_of(self, topic: TopicView) -> bool:
        """Whether this is the topic: it has the same znode, or in a copied tree the same id."""
        return self.czxid == topic.czxid or (self.topic_id is not None and self.topic_id == topic.topic_id)


class DeletionMark(Struct, frozen=True, gc=False):
    """A request to delete a topic: the znode in `/admin/delete_topics`.

    If it `is_hidden`, only its existence is known: whether it means the present topic shows once it can be read.
    """

    czxid: Zxid
    version: ZnodeVersion
    is_hidden: bool = False


HIDDEN_MARK = DeletionMark(NEVER, ABSENT, True)


class TopicConfig(Struct, frozen=True):
    """A topic's settings as last read; a version of `ABSENT` means that it has no znode for them."""

    config: Config
    version: ZnodeVersion


class ReassignmentZnode(Struct, frozen=True, gc=False):
    """One child of `/admin/reassignments`.

    Shape:
        `replicas` is None if nothing readable has been written into it yet.
    """

    replicas: Replicas | None
    version: ZnodeVersion
    czxid: Zxid
    mzxid: Zxid
    is_malformed: bool = False
