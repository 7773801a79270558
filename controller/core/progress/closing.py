"""When will the receiving brokers have everything? From how fast their gaps close, all replicas of a broker together.

A throttled broker fetches its replicas in turns: the rate of a single one is noise, the sum over a broker is steadier.
Replicas that fall behind count against those that come nearer. A rate is the slope of the line through the sums of the
last minute, which the lumps at either end of it move less than a mere difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import linear_regression
from typing import NamedTuple

from msgspec import Struct, field

from zk_layout.ids import BrokerId, TopicPartition

WINDOW_S = 11.0
"""A quota of Kafka is an average over windows of ten to eleven seconds: nothing shorter says anything."""
LONGEST_WINDOW_S = 60.0
_POINTS = 30
_FEWEST_LOOKS = 6  # that a rate is made of, where they are rare
NOTHING = 1.0
"""Bytes a second that count as zero: the remains of a rate long after a transfer has stopped."""


class Receiving(Struct, frozen=True):
    """One receiving broker.

    Units:
        `gap_bytes` is what it lacks now. Rates are bytes a second over the last minute, None before `WINDOW_S` has
        passed: `closing` is how fast the gap closes, negative if it grows; `inflow` how fast the leaders' logs grow.
    """

    broker: BrokerId
    gap_bytes: int
    closing: float | None = None
    inflow: float | None = None

    @property
    def copying(self) -> float | None:
        """What the broker copies, in bytes a second."""
        return None if self.closing is None or self.inflow is None else max(0.0, self.closing + self.inflow)

    @property
    def is_hopeless(self) -> bool:
        """Whether it is known not to come nearer."""
        return self.gap_bytes > 0 and self.closing is not None and self.closing < NOTHING

    @property
    def remaining_s(self) -> float | None:
        """When it has everything; None if that is not known yet, or never at this rate."""
        if not self.gap_bytes:
            return 0.0
        return None if self.closing is None or self.is_hopeless else self.gap_bytes / self.closing


class _Held(NamedTuple):
    copied: int
    total: int

    @property
    def gap(self) -> int:
        return max(0, self.total - self.copied)


class _Point(NamedTuple):
    """Sums since the beginning, at one time."""

    at: float
    closed: int
    grown: int

    @property
    def copied(self) -> int:
        return self.closed + self.grown


class _Receiver(Struct):
    held: dict[TopicPartition, _Held] = field(default_factory=dict)
    gap: int = 0
    closed: int = 0
    grown: int = 0
    latest: _Point | None = None
    points: deque[_Point] = field(default_factory=deque)

    def see(self, at: TopicPartition, now: _Held) -> None:
        before = self.held.get(at)
        self.held[at] = now
        self.gap += now.gap - (before.gap if before is not None else 0)
        if before is not None and now.copied >= before.copied:  # a log that shrank begins again
            self.closed += before.gap - now.gap
            self.grown += now.total - before.total

    def finish(self, at: TopicPartition, *, is_complete: bool) -> None:
        held = self.held.pop(at, None)
        if held is not None:
            self.gap -= held.gap
            self.closed += held.gap if is_complete else 0

    def mark(self, now: float, longest_s: float) -> None:
        if not self.held:
            self.points.clear()
            self.latest = None
            return
        before, self.latest = self.latest, _Point(now, self.closed, self.grown)
        if before is not None and before.copied <= self.points[0].copied < self.latest.copied:
            self.points = deque((before,))  # the first bytes: a pause before them says nothing of the rate
        if not self.points or now - self.points[-1].at >= longest_s / _POINTS:
            self.points.append(self.latest)
        while len(self.points) > 1 and now - self.points[1].at >= longest_s:
            self.points.popleft()


class Closing:
    """Follows the gaps of a set of moves; losing it costs a window of measuring."""

    def __init__(self) -> None:
        self._receivers: dict[BrokerId, _Receiver] = {}

    def see(self, at: TopicPartition, broker: BrokerId, copied: int, total: int) -> None:
        """Take in what a receiving replica has, and its leader; an in-sync one has everything."""
        self._receivers.setdefault(broker, _Receiver()).see(at, _Held(copied, total))

    def finish(self, at: TopicPartition, *, is_complete: bool) -> None:
        """Take in the end of a move; if it is complete, the rest of its gaps closed."""
        for receiver in self._receivers.values():
            receiver.finish(at, is_complete=is_complete)

    def mark(self, now: float, pace_s: float = 0.0) -> None:
        """Note the sums at this time, after a look at all moves.

        Units:
            Monotonic seconds. `pace_s` is how long one look takes; rates are averaged over longer if looks are rare.
        """
        longest_s = max(LONGEST_WINDOW_S, _FEWEST_LOOKS * pace_s)
        for receiver in self._receivers.values():
            receiver.mark(now, longest_s)

    def receiving(self) -> dict[BrokerId, Receiving]:
        """The brokers that receive, in order."""
        return {broker: _rated(broker, it) for broker, it in sorted(self._receivers.items()) if it.held}

    def remaining_s(self) -> float | None:
        """The longest time that any broker needs, for they receive in parallel; None if one is unknown or never."""
        return longest(self.receiving())


def longest(receiving: Mapping[BrokerId, Receiving]) -> float | None:
    """The longest of the remaining times; None if one of them is not known.

    >>> first, second = BrokerId(1), BrokerId(2)
    >>> longest({first: Receiving(first, 80, 8.0, 0.0), second: Receiving(second, 80, 2.0, 0.0)})
    40.0
    >>> longest({first: Receiving(first, 80, 8.0, 0.0), second: Receiving(second, 80, -1.0, 9.0)})
    """
    found = [one.remaining_s for one in receiving.values()]
    known = [seconds for seconds in found if seconds is not None]
    return max(known, default=0.0) if len(known) == len(found) else None


def _rated(broker: BrokerId, receiver: _Receiver) -> Receiving:
    latest = receiver.latest
    if latest is None:
        return Receiving(broker, receiver.gap)
    first = receiver.points[0]
    passed = latest.at - first.at
    if passed < (WINDOW_S if latest.copied > first.copied else LONGEST_WINDOW_S):
        return Receiving(broker, receiver.gap)
    points = receiver.points if receiver.points[-1] is latest else (*receiver.points, latest)
    times = [point.at - first.at for point in points]
    closing = linear_regression(times, [point.closed for point in points]).slope
    inflow = linear_regression(times, [point.grown for point in points]).slope
    return Receiving(broker, receiver.gap, closing, inflow)
