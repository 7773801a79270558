"""What is known under one topic name, from which of its znodes, and as of when?"""

from __future__ import annotations

from controller.core.state.topics import NEVER, Partition, TopicConfig, TopicView
from zk_layout.ids import ABSENT, PartitionId
from zk_layout.znodes.replica_deletions import ReplicaDeletions


class Record:
    """Everything known under one topic name, whether or not its own znode has been seen."""

    __slots__ = (
        "absent_as_of",
        "config",
        "config_as_of",
        "id_as_of",
        "mark_as_of",
        "owed",
        "owed_as_of",
        "owed_czxid",
        "owed_version",
        "partitions",
        "partitions_znode",
        "partitions_znode_as_of",
        "read_as_of",
        "view",
    )

    def __init__(self) -> None:
        self.view: TopicView | None = None
        self.partitions: dict[PartitionId, Partition] = {}
        self.absent_as_of = self.id_as_of = self.mark_as_of = self.config_as_of = self.owed_as_of = NEVER
        self.partitions_znode_as_of = self.read_as_of = NEVER
        self.partitions_znode = False
        self.config: TopicConfig | None = None
        self.owed: ReplicaDeletions | None = None
        self.owed_version = ABSENT
        self.owed_czxid = NEVER

    @property
    def is_tombstone(self) -> bool:
        """Whether the record only remembers absences."""
        is_anything_there = any(p.state is not None or p.is_malformed for p in self.partitions.values())
        return self.view is None and self.owed_version == ABSENT and not is_anything_there
