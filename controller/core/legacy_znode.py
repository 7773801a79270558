"""Which entries of `/admin/reassign_partitions` are to leave, and who may write the znode now?

The znode is one for all topics, so its writes are serialised: one in flight, by itself or within a topic's step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.cluster import Cluster
from controller.core.draft import legacy_write
from controller.core.effects import Delete, Notice, Wake, Write
from controller.core.events import CommitId
from controller.core.retries import AT_ONCE, wait_s
from zk_layout.ids import PartitionId, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes.admin import LegacyReassignmentAddress

ABSENT = ZnodeVersion(-1)
NOTICE = "legacy reassignment"
LEGACY_AGAIN = "legacy znode again"


class LegacyZnode:
    """The bookkeeping of the legacy znode in one reign."""

    def __init__(self, cluster: Cluster) -> None:
        """No entry seen yet."""
        self._cluster = cluster
        self._struck: set[TopicPartition] = set()
        self._writer: CommitId | TopicName | None = None
        self._waiters: dict[TopicName, set[PartitionId]] = {}
        self._refusals = 0
        self._is_waiting = False

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

    def succeeded(self) -> None:
        """ZooKeeper accepted a write of the znode alone."""
        self._refusals = 0

    def failed(self, now: float) -> Iterator[Notice | Wake]:
        """ZooKeeper refused a write of the znode alone: after a few times in a row the next one waits."""
        self._refusals += 1
        wait = wait_s(self._refusals)
        if wait is None:
            return
        if not self._is_waiting and self._refusals == AT_ONCE + 1:
            path = LegacyReassignmentAddress().path
            text = f"ZooKeeper refused {self._refusals} writes of {path} in a row; trying again more slowly"
            yield Notice("refused by zookeeper", text)
        self._is_waiting = True
        yield Wake(LEGACY_AGAIN, now + wait)

    def resume(self) -> None:
        """The wait is over."""
        self._is_waiting = False

    def look(self) -> Iterator[Notice]:
        """The znode has changed."""
        if self._cluster.has_foreign_legacy:
            text = "was written while it was not empty; what is new in it is ignored and taken out again"
            yield Notice(NOTICE, f"{LegacyReassignmentAddress().path} {text}")
        yield from self.strike_unknown()

    def strike_unknown(self) -> Iterator[Notice]:
        """Entries whose partition does not exist, or is being deleted, are refused as soon as they are seen."""
        cluster = self._cluster
        unknown = [
            at
            for at in cluster.legacy
            if cluster.partition(at) is None or cluster.topics[at.topic].is_queued_for_deletion
        ]
        yield from self.strike(dict.fromkeys(unknown, "The partition does not exist."))

    def trimmed(self) -> Write | None:
        """The znode without the entries that are to leave, if there are any and nobody is writing it."""
        cluster = self._cluster
        self._struck &= cluster.legacy.keys()
        if (
            self._writer is not None
            or self._is_waiting
            or cluster.legacy_version == ABSENT
            or cluster.is_legacy_malformed
        ):
            return None
        if not cluster.legacy:
            return Delete(LegacyReassignmentAddress(), cluster.legacy_version)
        return legacy_write(cluster, self._struck) if self._struck or cluster.has_foreign_legacy else None
