"""Which partitions are announced and examined again although ZooKeeper says nothing new of them? Some a turn.

What is about to be written is not among them, unless it takes too long: brokers hear of it once, as it is then.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes, OpenChanges, cut_off
from controller.core.state.placement import Numbers
from controller.core.state.view import Cluster
from zk_layout.ids import PartitionId, TopicName, TopicPartition

WRITTEN_WITHIN_S = 10.0


class TouchUnwritten(Alarm, frozen=True):
    """What has not been written by now is touched as it is."""


class Touching:
    """The partitions that are still to be touched in this term.

    Shape:
        `_unwritten` are touched only if nothing is written about them before the alarm.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._due: Numbers = {}
        self._unwritten: Numbers = {}
        self._is_alarm_set = False

    @property
    def has_more(self) -> bool:
        """Whether a partition is due."""
        return bool(self._due)

    def add(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Touch these partitions in this turn or a later one."""
        _note(self._due, name, numbers)

    def add_unless_written(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Touch these partitions if nothing is written about them; `expect_writes` must follow."""
        _note(self._unwritten, name, numbers)

    def expect_writes(self, out: Outbox) -> None:
        """Give the writes their time."""
        if self._unwritten and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(TouchUnwritten(), out.now + WRITTEN_WITHIN_S)

    def woke(self) -> None:
        """The time is over."""
        self._is_alarm_set = False
        unwritten, self._unwritten = self._unwritten, {}
        for name, numbers in unwritten.items():
            self.add(name, numbers)

    def follow(self, changes: Changes) -> None:
        """What has changed is announced for that."""
        if not self._unwritten:
            return
        for name in changes.gone_topics:
            self._unwritten.pop(name, None)
        for name, changed in changes.partitions.items():
            numbers = self._unwritten.get(name)
            if numbers is None:
                continue
            for number in changed:
                numbers.pop(number, None)
            if not numbers:
                del self._unwritten[name]

    def touch(self, changes: OpenChanges) -> None:
        """Touch as many as fit this turn, and only if the turn has no partitions seen for the first time."""
        if changes.is_initial:
            return
        for name, numbers in cut_off(self._due, changes.room).items():
            for number in numbers:
                held = self._cluster.partition(TopicPartition(name, number))
                if held is not None:
                    changes.touch(name, number, held)


def _note(index: Numbers, name: TopicName, numbers: Iterable[PartitionId]) -> None:
    noted = dict.fromkeys(numbers)
    if noted:
        index.setdefault(name, {}).update(noted)
