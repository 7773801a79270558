"""Which entries of `/admin/reassign_partitions` are to leave, and who may write the znode now?

The znode is one for all topics, so its writes are serialised: one in flight, by itself or within a topic's step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.cluster import Cluster
from controller.core.draft import legacy_write
from controller.core.effects import Delete, Notice, Write
from controller.core.events import CommitId
from zk_layout.ids import PartitionId, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.admin import LegacyReassignmentAddress

ABSENT = ZnodeVersion(-1)
NOTICE = "legacy reassignment"


class LegacyZnode:
    """The bookkeeping of the legacy znode in one reign."""

    def __init__(self, cluster: Cluster) -> None:
        """No entry seen yet."""
        self._cluster = cluster
        self._struck: set[TopicPartition] = set()
        self._writer: CommitId | TopicName | None = None
        self._waiters: dict[TopicName, set[PartitionId]] = {}

    @property
    def is_being_written(self) -> bool:
        """Whether a write of it is in flight."""
        return self._writer is not None

    @property
    def is_being_written_alone(self) -> bool:
        """Whether a write of it is in flight that is not part of a topic's step."""
        return isinstance(self._writer, int)

    def is_written_by(self, writer: CommitId | TopicName) -> bool:
        """Whether this transaction, or this topic's step, is the one in flight."""
        return self._writer == writer

    def reserve(self, writer: CommitId | TopicName) -> None:
        """A write has been sent."""
        self._writer = writer

    def release(self) -> Iterator[tuple[TopicName, set[PartitionId]]]:
        """The write was answered: the topics that waited for it."""
        self._writer = None
        waiters, self._waiters = self._waiters, {}
        yield from waiters.items()

    def wait(self, topic: TopicName, numbers: Iterable[PartitionId]) -> None:
        """A topic's step has to strike an entry, but the znode is being written."""
        self._waiters.setdefault(topic, set()).update(numbers)

    def strike(self, entries: dict[TopicPartition, str | None]) -> Iterator[Notice]:
        """These entries are done, or refused for the reason given."""
        for at, reason in entries.items():
            if at not in self._struck and reason is not None:
                yield Notice(NOTICE, f"entry {at} of /admin/reassign_partitions is refused and removed: {reason}")
            self._struck.add(at)

    def strike_unknown(self) -> Iterator[Notice]:
        """Entries whose partition does not exist are refused as soon as they are seen."""
        unknown = [at for at in self._cluster.legacy if self._cluster.partition(at) is None]
        yield from self.strike(dict.fromkeys(unknown, "The partition does not exist."))

    def trimmed(self) -> Write | None:
        """The znode without the entries that are to leave, if there are any and nobody is writing it."""
        cluster = self._cluster
        self._struck &= cluster.legacy.keys()
        if self._writer is not None or cluster.legacy_version == ABSENT or cluster.is_legacy_malformed:
            return None
        if not cluster.legacy:
            return Delete(LegacyReassignmentAddress(), cluster.legacy_version)
        return legacy_write(cluster, self._struck) if self._struck else None
