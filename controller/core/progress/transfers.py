"""How much has each receiving replica copied, how fast, and when will it have everything?

From what brokers say of their disks: the receiver's size is the numerator, the leader's the denominator. The leader's
log may grow meanwhile, so the time left follows from how fast the gap between the two closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

from msgspec import Struct

from controller.core.messages.events import ReplicaSize
from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.reassignment_status import ReplicaProgress

SMOOTHING_S = 10.0
"""What lies longer back than this has lost two thirds of its weight."""
STALE_AFTER_S = 15.0
"""A rate that was last measured so long ago says nothing any more."""
_NOTHING = 1.0  # bytes a second that are none: what is left of a rate long after it has ended


class _Flow(Struct):
    """Sums over time, older ones with less weight: bytes copied, bytes by which the gap closed, seconds."""

    at: float
    copied: int
    gap: int
    seconds: float = 0.0
    copied_sum: float = 0.0
    closed_sum: float = 0.0

    def sample(self, now: float, copied: int, gap: int) -> None:
        took = now - self.at
        if took <= 0:
            return
        kept = exp(-took / SMOOTHING_S)
        self.seconds = self.seconds * kept + took
        self.copied_sum = self.copied_sum * kept + max(0, copied - self.copied)
        self.closed_sum = self.closed_sum * kept + (self.gap - gap)
        self.at, self.copied, self.gap = now, copied, gap


class Transfers:
    """Memory of one term: losing it costs some seconds of measuring."""

    def __init__(self) -> None:
        self._sizes: dict[TopicPartition, dict[BrokerId, int]] = {}
        self._flows: dict[TopicPartition, dict[BrokerId, _Flow]] = {}
        self.stale_after_s = STALE_AFTER_S

    def hear(self, broker: BrokerId, asked: Iterable[TopicPartition], sizes: dict[TopicPartition, ReplicaSize]) -> None:
        """A broker said how large its replicas are; one it was asked for and does not have yet is empty."""
        for at in asked:
            size = sizes.get(at)
            self._sizes.setdefault(at, {})[broker] = size.size_bytes if size is not None else 0

    def sample(self, at: TopicPartition, leader: BrokerId, receiver: BrokerId, now: float) -> None:
        """The receiver has just said how far it is: reckon with what was heard last of both ends."""
        heard = self._sizes.get(at, {})
        total, copied = heard.get(leader), heard.get(receiver)
        if total is None or copied is None:
            return
        gap = max(0, total - copied)
        flows = self._flows.setdefault(at, {})
        flow = flows.get(receiver)
        if flow is None or copied < flow.copied:  # a log that shrank begins anew
            flows[receiver] = _Flow(now, copied, gap)
        else:
            flow.sample(now, copied, gap)

    def progress(
        self, at: TopicPartition, leader: BrokerId, receiver: BrokerId, now: float, *, is_in_sync: bool
    ) -> ReplicaProgress:
        """How far one receiving replica is.

        Shape:
            Whoever is in sync has everything, whatever sizes say: segments are cut and compacted differently.
        """
        heard = self._sizes.get(at, {})
        total, copied = heard.get(leader), heard.get(receiver)
        if is_in_sync:
            return ReplicaProgress(receiver, total, total, remaining_seconds=0.0)
        flow = self._flows.get(at, {}).get(receiver)
        if total is None or copied is None:
            return ReplicaProgress(receiver, copied, total)
        copied = min(copied, total)
        rate = remaining = None
        if flow is not None and flow.seconds > 0 and now - flow.at < self.stale_after_s:
            rate, closing = flow.copied_sum / flow.seconds, flow.closed_sum / flow.seconds
            rate = round(rate, 1) if rate >= _NOTHING else 0.0
            if total == copied:
                remaining = 0.0
            elif closing >= _NOTHING:
                remaining = round((total - copied) / closing, 1)
        return ReplicaProgress(receiver, copied, total, rate, remaining)

    def largest(self, at: TopicPartition) -> int | None:
        """The size of the largest replica measured; None before the first measurement."""
        return max(self._sizes.get(at, {}).values(), default=None)

    def forget(self, at: TopicPartition) -> None:
        """The move is over."""
        self._sizes.pop(at, None)
        self._flows.pop(at, None)
