"""How much room have the disks of brokers that would receive, and how much is on its way there?

A broker is asked for the room of all its log directories, and at the same moment for what it has of the moves that copy
to it. What these lack is on its way, and so is all of what has begun since. What has ended since the question counts as
well, until the broker has said how much room it has after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf

from msgspec import Struct, field

from controller.core.messages.effects import DescribeDisks
from controller.core.messages.events import Alarm, Directory, DisksDescribed, ReplicaSize
from controller.core.messages.outbox import Outbox
from controller.core.scheduling.log_dir_questions import GIVEN_UP_S, REPLICAS_A_SECOND, Question
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerEpoch, BrokerId, TopicPartition

AT_ONCE = 1_000
"""For so many moves that copy to a broker it is asked what it has of them; the others count in full."""
AGAIN_S = 30.0
COUNTS_S = 120.0
"""For so long what a broker has said counts, from when it was asked."""
AWAITED_S = 10.0
"""For so long nothing begins to a broker that is asked for the first time, whatever is said of what is not known."""
NOT_YET = "it has not answered yet"

Bytes = dict[TopicPartition, int | None]
"""What moves have yet to copy to a broker; None where it is not known."""


class AskForRoom(Alarm, frozen=True):
    """It is time to ask brokers for their room, or what they said counts no longer."""


class _Disks(Struct, eq=False):
    """One broker's disks.

    Shape:
        `least` is the directory with the least to spare for a percentage. `waiting` counts the moves that wait to copy
        there. `ended` since the last question, and `ended_before` it, may be in no answer yet. `bytes` is the sum of
        these and of what is `coming`, `unknown` how many are not in it.
    """

    epoch: BrokerEpoch | None = None
    directories: tuple[Directory, ...] = ()
    least: tuple[int, Directory] | None = None
    asked_at: float = -inf
    error: str = ""
    waiting: int = 0
    waiting_since: float | None = None
    question: Question | None = None
    next_at: float = -inf
    has: dict[TopicPartition, int] = field(default_factory=dict)
    coming: Bytes = field(default_factory=dict)
    ended: Bytes = field(default_factory=dict)
    ended_before: Bytes = field(default_factory=dict)
    bytes: int = 0
    unknown: int = 0

    def put(self, kept: Bytes, at: TopicPartition, count: int | None) -> None:
        """Count a move there."""
        self.take(kept, at)
        kept[at] = count
        self._count(count, 1)

    def take(self, kept: Bytes, at: TopicPartition) -> int | None:
        """Count it no longer."""
        if at not in kept:
            return 0
        count = kept.pop(at)
        self._count(count, -1)
        return count

    def _count(self, count: int | None, by: int) -> None:
        if count is None:
            self.unknown += by
        else:
            self.bytes += by * count

    def add(self, kept: Bytes, at: TopicPartition, more: int | None) -> None:
        """Count a move there beside what is counted there of the same partition."""
        before = kept.get(at, 0)
        self.put(kept, at, None if before is None or more is None else before + more)

    def clear(self, kept: Bytes) -> None:
        """Count nothing there."""
        for at in tuple(kept):
            self.take(kept, at)


class DiskRoom:
    """What brokers have said in one term, and what is on its way to them. Losing it costs some seconds of asking."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._disks: dict[BrokerId, _Disks] = {}
        # To whom a move that waits would copy; and to whom one copies that has begun, or is about to: then False.
        self._waiting: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._receivers: dict[TopicPartition, dict[BrokerId, bool]] = {}
        # How large the partitions of these are, on their leaders' disks.
        self._sizes: dict[TopicPartition, int] = {}
        self._alarm_at: float | None = None
        self._now = 0.0

    def clear(self) -> None:
        """Forget everything."""
        self._disks, self._waiting, self._receivers, self._sizes = {}, {}, {}, {}

    def _of(self, broker: BrokerId) -> _Disks:
        return self._disks.setdefault(broker, _Disks())

    # ---- what is known --------------------------------------------------------------------------------------

    def least(self, broker: BrokerId, percent: int) -> tuple[Directory, int] | None:
        """The log directory in which the least may be written until only so many percent of it are left, and how much
        is on its way to the broker; None where any of it is not known. No one knows which directory a broker chooses.
        """
        disks = self._disks.get(broker)
        if disks is None or disks.unknown or not self._counts(disks):
            return None
        if disks.least is None or disks.least[0] != percent:
            disks.least = percent, min(disks.directories, key=lambda held: spare_bytes(held, percent))
        return disks.least[1], disks.bytes

    def is_awaited(self, broker: BrokerId) -> bool:
        """Whether a broker has not had the time to answer a first question."""
        disks = self._disks.get(broker)
        if disks is None or disks.waiting_since is None:
            return disks is None or not self._counts(disks)
        return not disks.error and not self._counts(disks) and self._now < disks.waiting_since + AWAITED_S

    def why_unknown(self, broker: BrokerId) -> str:
        """Why it is not known how much room a broker has."""
        disks = self._disks.get(broker)
        if disks is None or not self._counts(disks):
            return NOT_YET if disks is None or not disks.error else disks.error
        every = (*disks.coming.items(), *disks.ended.items(), *disks.ended_before.items())
        at = next(at for at, count in every if count is None)
        return f"how much of {at} it has yet to copy is not known"

    def receivers(self) -> list[BrokerId]:
        """The brokers to which anything waits to be copied."""
        return [broker for broker, disks in self._disks.items() if disks.waiting]

    def _counts(self, disks: _Disks) -> bool:
        return bool(disks.directories) and self._now < disks.asked_at + COUNTS_S

    # ---- what moves, and what waits -------------------------------------------------------------------------

    def stands(self, at: TopicPartition, receivers: tuple[BrokerId, ...]) -> None:
        """A move waits that would copy to these brokers."""
        before = self._waiting.get(at, ())
        if before == receivers:
            return
        for broker in receivers:
            self._of(broker).waiting += 1
        for broker in before:
            disks = self._disks[broker]
            disks.waiting -= 1
            if not disks.waiting:
                disks.waiting_since = None
        self._waiting[at] = receivers
        if not receivers:
            del self._waiting[at]

    def copies(self, at: TopicPartition, receivers: dict[BrokerId, bool], size_bytes: int | None) -> None:
        """A move copies to these brokers, or is about to, and copies to no others any more; `receivers` tells for each
        whether it has begun. `size_bytes` is how large its partition is, if that is known.
        """
        before = self._receivers.get(at, {})
        if size_bytes is not None:
            self._sizes[at] = size_bytes
        for broker, has_begun in before.items():
            if broker not in receivers:
                self._ends(self._disks[broker], at, has_begun=has_begun)
        for broker in receivers:
            if broker not in before or size_bytes is not None:
                self._comes(self._of(broker), at)
        if receivers:
            self._receivers[at] = dict(receivers)
        else:
            self._receivers.pop(at, None)
            self._sizes.pop(at, None)

    def _comes(self, disks: _Disks, at: TopicPartition) -> None:
        size = self._sizes.get(at)
        disks.put(disks.coming, at, None if size is None else max(0, size - disks.has.get(at, 0)))

    def _ends(self, disks: _Disks, at: TopicPartition, *, has_begun: bool) -> None:
        left = disks.take(disks.coming, at)
        if has_begun and (disks.question is not None or self._counts(disks)):
            disks.add(disks.ended, at, left)

    def measured(self, broker: BrokerId, sizes: Mapping[TopicPartition, ReplicaSize]) -> None:
        """A broker has said how large its replicas of moving partitions are: that counts for those that it leads."""
        for at, said in sizes.items() if self._receivers else ():
            held = self._cluster.partition(at) if at in self._receivers else None
            if held is not None and held.state is not None and held.state.leader == broker:
                self._sizes[at] = said.size_bytes
                for receiver in self._receivers[at]:
                    self._comes(self._disks[receiver], at)

    # ---- asking ---------------------------------------------------------------------------------------------

    def follow(self, brokers: Iterable[BrokerId], now: float) -> None:
        """Take in that these have come, gone or restarted: what was said in a former life does not count."""
        self._now = now
        for broker in brokers:
            held, disks = self._cluster.brokers.get(broker), self._disks.get(broker)
            if disks is None or (held is not None and held.epoch == disks.epoch):
                continue
            disks.directories, disks.asked_at, disks.error, disks.question = (), -inf, "", None
            disks.next_at, disks.waiting_since, disks.has = -inf, None, {}
            disks.clear(disks.ended)
            disks.clear(disks.ended_before)
            for at in tuple(disks.coming):
                self._comes(disks, at)

    def look(self, out: Outbox) -> None:
        """Ask whom it is time to ask: those to whom something waits to be copied."""
        self._now = out.now
        times = []
        for broker, disks in tuple(self._disks.items()):
            if disks.waiting:
                disks.waiting_since = out.now if disks.waiting_since is None else disks.waiting_since
                self._ask(broker, disks, out)
                times += self._times(disks)
            elif not (disks.coming or disks.question) and out.now >= max(disks.next_at, disks.asked_at + COUNTS_S):
                del self._disks[broker]
        due = min((at for at in times if at > out.now), default=None)
        if due is not None and due != self._alarm_at:
            self._alarm_at = due
            out.wake(AskForRoom(), due)

    def woke(self) -> None:
        """The alarm rang."""
        self._alarm_at = None

    def hear(self, event: DisksDescribed, out: Outbox) -> None:
        """Take in what a broker says, or that it says nothing: then what it said before counts for its time."""
        self._now = out.now
        disks = self._disks.get(event.broker)
        question = None if disks is None else disks.question
        if disks is None or question is None or question.epoch != event.broker_epoch:
            return
        disks.question = None
        error = event.error if event.error is not None else _fault(event.directories)
        if error:
            disks.error = error
            return
        disks.directories, disks.least, disks.asked_at, disks.error = event.directories, None, question.asked_at, ""
        disks.has = {at: event.sizes[at].size_bytes for at in question.partitions if at in event.sizes}
        disks.clear(disks.ended_before)
        for at in tuple(disks.coming):
            self._comes(disks, at)

    def _ask(self, broker: BrokerId, disks: _Disks, out: Outbox) -> None:
        held = self._cluster.brokers.get(broker)
        if disks.question is not None and out.now >= disks.question.asked_at + GIVEN_UP_S:
            disks.question, disks.error = None, "no answer"
        if held is None or disks.question is not None or out.now < disks.next_at:
            return
        some = tuple(sorted(islice(disks.coming, AT_ONCE)))
        disks.epoch, disks.question = held.epoch, Question(held.epoch, out.now, some)
        disks.next_at = out.now + AGAIN_S + self._cluster.replica_counts.get(broker, 0) / REPLICAS_A_SECOND
        for at in tuple(disks.ended):
            disks.add(disks.ended_before, at, disks.take(disks.ended, at))
        out.add(DescribeDisks(broker, held.epoch, held.registration, some))

    def _times(self, disks: _Disks) -> list[float]:
        """When something is due about a broker."""
        asks = disks.next_at if disks.question is None else disks.question.asked_at + GIVEN_UP_S
        since = disks.waiting_since
        return [asks, disks.asked_at + COUNTS_S, self._now if since is None else since + AWAITED_S]


def _fault(directories: tuple[Directory, ...]) -> str:
    if not directories:
        return "it has no log directory that is online"
    silent = [held.path for held in directories if held.total_bytes <= 0 or held.usable_bytes < 0]
    return f"it does not say it of {silent[0]}" if silent else ""


def spare_bytes(directory: Directory, percent: int) -> int:
    """How much may be written until only so many percent are left; negative if they are no longer.

    >>> spare_bytes(Directory("/data", 1000, 150), 10), spare_bytes(Directory("/data", 1000, 99), 10)
    (50, -1)
    """
    return directory.usable_bytes - -(-directory.total_bytes * percent // 100)
