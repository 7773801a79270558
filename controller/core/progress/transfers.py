"""How much has each receiving replica copied, how fast, and when will it have everything?

Computed from the log sizes that brokers report, the receiver's against the leader's. The leader's log may grow
meanwhile, so the remaining time follows from how fast the gap closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

from msgspec import Struct, field

from controller.core.messages.events import ReplicaSize
from controller.core.progress.closing import NOTHING, WINDOW_S
from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.reassignment_status import ReplicaProgress

SMOOTHING_S = 10.0
"""Samples older than this have lost two thirds of their weight."""
CLOSING_SMOOTHING_S = 30.0
"""Of the closing gap; longer, because a throttled broker fetches its replicas in turns."""
STALE_AFTER_S = 15.0
"""A rate not measured for this long means nothing any more."""


class _Average(Struct):
    """Bytes a second, with older samples weighing less."""

    smoothing_s: float
    seconds: float = 0.0
    total: float = 0.0

    def add(self, took: float, count: float) -> None:
        kept = exp(-took / self.smoothing_s)
        self.seconds = self.seconds * kept + took
        self.total = self.total * kept + count

    @property
    def rate(self) -> float:
        return self.total / self.seconds


class _Flow(Struct):
    """One transfer as last sampled, and the averages of bytes copied and of bytes by which the gap closed."""

    began: float
    at: float
    copied: int
    gap: int
    copying: _Average = field(default_factory=lambda: _Average(SMOOTHING_S))
    closing: _Average = field(default_factory=lambda: _Average(CLOSING_SMOOTHING_S))

    def sample(self, now: float, copied: int, gap: int) -> None:
        took = now - self.at
        if took <= 0:
            return
        self.copying.add(took, max(0, copied - self.copied))
        self.closing.add(took, self.gap - gap)
        self.at, self.copied, self.gap = now, copied, gap


class Transfers:
    """Samples of one term; losing them costs some seconds of measuring."""

    def __init__(self) -> None:
        self._sizes: dict[TopicPartition, dict[BrokerId, int]] = {}
        self._flows: dict[TopicPartition, dict[BrokerId, _Flow]] = {}
        self.stale_after_s = STALE_AFTER_S

    def hear(self, broker: BrokerId, asked: Iterable[TopicPartition], sizes: dict[TopicPartition, ReplicaSize]) -> None:
        """Record a broker's replica sizes; a queried replica that the broker does not have yet is empty."""
        for at in asked:
            size = sizes.get(at)
            self._sizes.setdefault(at, {})[broker] = size.size_bytes if size is not None else 0

    def sample(self, at: TopicPartition, leader: BrokerId, receiver: BrokerId, now: float) -> None:
        """Sample a transfer after the receiver's report, with the last reported sizes of both ends."""
        heard = self._sizes.get(at, {})
        total, copied = heard.get(leader), heard.get(receiver)
        if total is None or copied is None:
            return
        gap = max(0, total - copied)
        flows = self._flows.setdefault(at, {})
        flow = flows.get(receiver)
        if flow is None or copied < flow.copied:  # a log that shrank begins again
            flows[receiver] = _Flow(now, now, copied, gap)
        else:
            flow.sample(now, copied, gap)

    def progress(
        self, at: TopicPartition, leader: BrokerId, receiver: BrokerId, now: float, *, is_in_sync: bool
    ) -> ReplicaProgress:
        """The progress of one receiving replica.

        Shape:
            An in-sync replica has everything, whatever the sizes are: segments are cut and compacted differently.
        """
        heard = self._sizes.get(at, {})
        total, copied = heard.get(leader), heard.get(receiver)
        if is_in_sync:
            return ReplicaProgress(receiver, total, total, remaining_seconds=0.0)
        flow = self._flows.get(at, {}).get(receiver)
        if total is None or copied is None:
            return ReplicaProgress(receiver, copied, total)
        copied = min(copied, total)
        if flow is None or not flow.copying.seconds or now - flow.at >= self.stale_after_s:
            return ReplicaProgress(receiver, copied, total)
        rate = flow.copying.rate
        rate = round(rate, 1) if rate >= NOTHING else 0.0
        closing = self.closing(at, receiver)
        remaining = None
        if total == copied:
            remaining = 0.0
        elif closing is not None and closing >= NOTHING:
            remaining = round((total - copied) / closing, 1)
        return ReplicaProgress(receiver, copied, total, rate, remaining)

    def closing(self, at: TopicPartition, receiver: BrokerId) -> float | None:
        """How fast a replica's gap to its leader closes, in bytes a second; negative if it grows.

        None before it was measured for the window over which brokers average a throttle.
        """
        flow = self._flows.get(at, {}).get(receiver)
        return None if flow is None or flow.at - flow.began < WINDOW_S else flow.closing.rate

    def largest(self, at: TopicPartition) -> int | None:
        """The size of the largest replica measured; None before the first measurement."""
        return max(self._sizes.get(at, {}).values(), default=None)

    def forget(self, at: TopicPartition) -> None:
        """Forget a move that is over."""
        self._sizes.pop(at, None)
        self._flows.pop(at, None)
