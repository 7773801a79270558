"""When will the receiving brokers have everything? From how fast their gaps close, all replicas of a broker together.

A throttled broker fetches its replicas in turns: the rate of a single one is noise, the sum over a broker is steadier.
Replicas that fall behind count against those that come nearer. A rate is the slope of the line through the sums of the
last minute, which the lumps at either end of it move less than a mere difference.

Under a throttle of ours, replicas in sync take no more of the rate: the others share all of it, and the gap closes ever
faster. Otherwise replicas in sync go on taking their part, of Kafka's throttle or of what the broker can do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from statistics import linear_regression
from typing import NamedTuple

from msgspec import Struct, field

from controller.core.progress.sharing import Lacking, seconds_to_share
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

    Shape:
        `remaining_s` is when it has everything; None if that is not known yet, or never at this rate.
    Units:
        `gap_bytes` is what it lacks now. Rates are bytes a second over the last minute, None before `WINDOW_S` has
        passed: `closing` is how fast the gap closes, negative if it grows; `inflow` how fast the leaders' logs grow.
    """

    broker: BrokerId
    gap_bytes: int
    closing: float | None = None
    inflow: float | None = None
    remaining_s: float | None = None

    @property
    def copying(self) -> float | None:
        """What the broker copies, in bytes a second."""
        return None if self.closing is None or self.inflow is None else max(0.0, self.closing + self.inflow)

    @property
    def is_hopeless(self) -> bool:
        """Whether it is known not to come nearer."""
        return self.gap_bytes > 0 and self.closing is not None and self.remaining_s is None


class _Size(NamedTuple):
    """The size of a leader's log at one time."""

    at: float
    total: int


class _Held(NamedTuple):
    """One replica. `earlier` and `later` are sizes of its leader's log within the last minute."""

    copied: int
    total: int
    earlier: _Size
    later: _Size

    @property
    def gap(self) -> int:
        return max(0, self.total - self.copied)

    def inflow(self, now: float) -> float | None:
        passed = now - self.earlier.at
        return max(0.0, (self.total - self.earlier.total) / passed) if passed >= WINDOW_S else None

    def then(self, now: float, copied: int, total: int) -> _Held:
        if total < self.later.total:  # the log was cut off
            return _first(now, copied, total)
        if now - self.later.at < LONGEST_WINDOW_S / 2:
            return _Held(copied, total, self.earlier, self.later)
        return _Held(copied, total, self.later, _Size(now, total))


def _first(now: float, copied: int, total: int) -> _Held:
    return _Held(copied, total, _Size(now, total), _Size(now, total))


class _Point(NamedTuple):
    """Sums since the beginning, at one time; `shared` is what replicas copied that lacked something."""

    at: float
    closed: int
    grown: int
    shared: int

    @property
    def copied(self) -> int:
        return self.closed + self.grown


class _Receiver(Struct):
    held: dict[TopicPartition, _Held] = field(default_factory=dict)
    gap: int = 0
    closed: int = 0
    grown: int = 0
    shared: int = 0
    latest: _Point | None = None
    points: deque[_Point] = field(default_factory=deque)

    def see(self, at: TopicPartition, now: float, copied: int, total: int) -> None:
        before = self.held.get(at)
        if before is None:
            held = self.held[at] = _first(now, copied, total)
            self.gap += held.gap
            return
        held = self.held[at] = before.then(now, copied, total)
        self.gap += held.gap - before.gap
        if copied < before.copied:  # a log that shrank begins again
            return
        self.closed += before.gap - held.gap
        self.grown += total - before.total
        if before.gap:
            self.shared += copied - before.copied

    def finish(self, at: TopicPartition, *, is_complete: bool) -> None:
        held = self.held.pop(at, None)
        if held is not None:
            self.gap -= held.gap
            self.closed += held.gap if is_complete else 0
            self.shared += held.gap if is_complete else 0

    def mark(self, now: float, longest_s: float) -> None:
        if not self.held:
            self.points.clear()
            self.latest = None
            return
        before, self.latest = self.latest, _Point(now, self.closed, self.grown, self.shared)
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

    def see(self, at: TopicPartition, broker: BrokerId, size: tuple[int, int], now: float) -> None:
        """Take in what a receiving replica has, and its leader, in bytes; an in-sync one has everything."""
        self._receivers.setdefault(broker, _Receiver()).see(at, now, *size)

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

    def receiving(self, ours: Collection[BrokerId] = ()) -> dict[BrokerId, Receiving]:
        """The brokers that receive, in order; `ours` are those whose throttle does not count replicas in sync."""
        held = {broker: it for broker, it in sorted(self._receivers.items()) if it.held}
        return {broker: _rated(broker, it, is_ours=broker in ours) for broker, it in held.items()}

    def remaining_s(self, ours: Collection[BrokerId] = ()) -> float | None:
        """The longest time that any broker needs, for they receive in parallel; None if one is unknown or never."""
        return longest(self.receiving(ours))


def longest(receiving: Mapping[BrokerId, Receiving]) -> float | None:
    """The longest of the remaining times; None if one of them is not known.

    >>> first, second = BrokerId(1), BrokerId(2)
    >>> longest({first: Receiving(first, 80, 8.0, 0.0, 10.0), second: Receiving(second, 80, 2.0, 0.0, 40.0)})
    40.0
    >>> longest({first: Receiving(first, 80, 8.0, 0.0, 10.0), second: Receiving(second, 80, -1.0, 9.0, None)})
    """
    found = [one.remaining_s for one in receiving.values()]
    known = [seconds for seconds in found if seconds is not None]
    return max(known, default=0.0) if len(known) == len(found) else None


def _rated(broker: BrokerId, receiver: _Receiver, *, is_ours: bool) -> Receiving:
    unknown = Receiving(broker, receiver.gap, remaining_s=None if receiver.gap else 0.0)
    latest = receiver.latest
    if latest is None:
        return unknown
    first = receiver.points[0]
    passed = latest.at - first.at
    if passed < (WINDOW_S if latest.copied > first.copied else LONGEST_WINDOW_S):
        return unknown
    points = receiver.points if receiver.points[-1] is latest else (*receiver.points, latest)
    times = [point.at - first.at for point in points]
    if is_ours:
        return _sharing(broker, receiver, linear_regression(times, [point.shared for point in points]).slope)
    closing = linear_regression(times, [point.closed for point in points]).slope
    inflow = linear_regression(times, [point.grown for point in points]).slope
    remaining_s = receiver.gap / closing if receiver.gap and closing >= NOTHING else unknown.remaining_s
    return Receiving(broker, receiver.gap, closing, inflow, remaining_s)


def _sharing(broker: BrokerId, receiver: _Receiver, rate: float) -> Receiving:
    """What it lacks, if those replicas alone share the rate that lack something."""
    lacking = list(_lacking(receiver))
    inflow = sum(one.inflow for one in lacking)
    remaining_s = seconds_to_share(rate, lacking) if rate >= NOTHING or not lacking else None
    return Receiving(broker, receiver.gap, rate - inflow, inflow, remaining_s)


def _lacking(receiver: _Receiver) -> Iterator[Lacking]:
    """The replicas that lack something; of one that is new, new data is as of the others."""
    now = receiver.latest.at if receiver.latest is not None else 0.0
    found = [(held.gap, held.inflow(now)) for held in receiver.held.values() if held.gap]
    known = [inflow for _, inflow in found if inflow is not None]
    usual = sum(known) / len(known) if known else 0.0
    for gap, inflow in found:
        yield Lacking(gap, usual if inflow is None else inflow)
