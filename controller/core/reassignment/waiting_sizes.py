"""How many bytes would each waiting move copy? Asks the leaders of their partitions, where that matters.

Each leader is asked for some partitions at a time, and for more when it has answered. After a while it is asked again,
and what it said before counts until then. What no one has said is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from controller.core.messages.effects import DescribeLogDirs
from controller.core.messages.events import Alarm, LogDirsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.quantities import size, span
from controller.core.scheduling.log_dir_questions import GIVEN_UP_S, REPLICAS_A_SECOND, Question
from controller.core.settings import LARGE, SMALL
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, TopicPartition

KIND = "unknown sizes"
AT_ONCE = 1_000
"""For how many partitions a broker is asked at once; as many are taken up in a turn whose time has come."""
PACE_S = 1.0
AGAIN_S = 600.0
"""After this time a broker is asked again for what it has said."""
RETRIED_S = 60.0
AWAITED_S = 10.0
"""For so long no move that copies begins while sizes are asked for the first time: an answer may say which is next."""


class AskForSizes(Alarm, frozen=True):
    """It is time to ask for sizes, or to wait for them no longer."""


class WaitingSizes:
    """The sizes of what waits in one term. Losing them costs some seconds of asking."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        # How many replicas each move copies to.
        self._moves: dict[TopicPartition, int] = {}
        # What was said last, and when; the longest ago first.
        self._sizes: dict[TopicPartition, tuple[int, float]] = {}
        # When it was said, or asked for in vain, the longest ago first; without what is being asked for.
        self._said: dict[TopicPartition, float] = {}
        self._unsaid: dict[TopicPartition, float] = {}
        # Who is asked for what, or is to be; a broker has one question at a time.
        self._asked: dict[TopicPartition, BrokerId] = {}
        self._to_ask: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._questions: dict[BrokerId, Question] = {}
        self._next_at: dict[BrokerId, float] = {}
        self._silent: dict[BrokerId, None] = {}
        # What is asked for the first time, and since when there is any.
        self._awaited: dict[TopicPartition, None] = {}
        self._awaited_since: float | None = None
        self._alarm_at: float | None = None
        self._now = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the order of moves depends on sizes, or there must be room for them on disks."""
        return self._are_ordered or self._shared.settings.moves_need_disks_percent > 0

    @property
    def _are_ordered(self) -> bool:
        order = self._shared.settings.moves_order
        return SMALL in order or LARGE in order

    @property
    def are_awaited(self) -> bool:
        """Whether moves should wait a moment, because an answer may change which comes first."""
        since = self._awaited_since
        return bool(self._awaited) and (since is None or self._now < since + AWAITED_S)

    def copied(self, at: TopicPartition) -> int | None:
        """How many bytes a move copies, to all its receivers together; None if that is not known."""
        known = self._sizes.get(at)
        return None if known is None else known[0] * self._moves[at]

    def size_of(self, at: TopicPartition) -> int | None:
        """How many bytes it copies to each of them; None if that is not known."""
        known = self._sizes.get(at)
        return None if known is None else known[0]

    def text(self, at: TopicPartition) -> str:
        """The same in words, with its age; empty where it does not matter."""
        if at not in self._moves:
            return ""
        copied = self.copied(at)
        if copied is None:
            return ", and how much it copies is not known"
        return f", and copies {size(copied)} as of {span(self._now - self._sizes[at][1])} ago"

    # ---- what waits -----------------------------------------------------------------------------------------

    def stands(self, at: TopicPartition, receivers: int) -> None:
        """A move waits that copies to so many replicas."""
        if not self.is_on:
            return
        self._moves[at] = receivers
        if at not in self._said and at not in self._unsaid and at not in self._asked and self._want(at):
            self._awaited[at] = None

    def forget(self, at: TopicPartition) -> None:
        """A move waits no longer."""
        self._moves.pop(at, None)
        self._sizes.pop(at, None)
        self._said.pop(at, None)
        self._unsaid.pop(at, None)
        self._end(at)

    def adjust(self) -> None:
        """Forget all if nothing depends on sizes any more."""
        if not self.is_on:
            for at in tuple(self._moves):
                self.forget(at)

    def follow(self, brokers: Iterable[BrokerId]) -> None:
        """Take in that these have come, gone or restarted: none answers a question of a former life."""
        for broker in brokers:
            held, question = self._cluster.brokers.get(broker), self._questions.get(broker)
            if question is not None and (held is None or held.epoch != question.epoch):
                del self._questions[broker]
                self._fail(broker, question.partitions)
            if held is None:
                self._fail(broker, tuple(self._to_ask.get(broker, ())))
                self._silent.pop(broker, None)
                self._next_at.pop(broker, None)

    # ---- asking ---------------------------------------------------------------------------------------------

    def look(self, out: Outbox) -> None:
        """Ask whom it is time to ask."""
        self._now = out.now
        for since, after_s in ((self._said, AGAIN_S), (self._unsaid, RETRIED_S)):
            self._come_due(since, after_s)
        for broker in tuple(self._to_ask.keys() | self._questions.keys()):
            self._ask(broker, out)
        if not self._awaited:
            self._awaited_since = None
        elif self._awaited_since is None:
            self._awaited_since = out.now
        self._wake(out)

    def woke(self) -> None:
        """The alarm rang."""
        self._alarm_at = None

    def hear(self, event: LogDirsDescribed, out: Outbox) -> list[TopicPartition]:
        """Take in what a broker says, or that it says nothing; returns those whose size is another now."""
        question = self._questions.get(event.broker)
        if not event.is_of_waiting or question is None or question.epoch != event.broker_epoch:
            return []
        self._now = out.now
        del self._questions[event.broker]
        if event.error is not None:
            self._fail(event.broker, question.partitions)
            self._tell(event.broker, event.error, out)
            return []
        self._silent.pop(event.broker, None)
        self._fail(event.broker, tuple(at for at in question.partitions if at not in event.sizes))
        return [at for at in question.partitions if at in event.sizes and self._take(at, event.sizes[at].size_bytes)]

    def _take(self, at: TopicPartition, size_bytes: int) -> bool:
        if self._asked.get(at) is None:
            return False
        self._end(at)
        before = self._sizes.pop(at, None)
        self._sizes[at] = size_bytes, self._now
        self._said[at] = self._now
        return before is None or before[0] != size_bytes

    def _fail(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            if self._asked.get(at) == broker:
                self._end(at)
                self._unsaid[at] = self._now

    def _end(self, at: TopicPartition) -> None:
        """No one is to be asked for this."""
        self._awaited.pop(at, None)
        broker = self._asked.pop(at, None)
        if broker is not None and broker in self._to_ask:
            self._to_ask[broker].pop(at, None)
            if not self._to_ask[broker]:
                del self._to_ask[broker]

    def _want(self, at: TopicPartition) -> bool:
        """Have the leader asked; returns whether there is one."""
        held = self._cluster.partition(at)
        if held is None or held.state is None or held.state.leader not in self._cluster.brokers:
            return False
        self._asked[at] = held.state.leader
        self._to_ask.setdefault(held.state.leader, {})[at] = None
        return True

    def _come_due(self, since: dict[TopicPartition, float], after_s: float) -> None:
        for at in tuple(islice(since, AT_ONCE)):
            if self._now < since[at] + after_s:
                return
            del since[at]
            if not self._want(at):
                self._unsaid[at] = self._now

    def _ask(self, broker: BrokerId, out: Outbox) -> None:
        question, held = self._questions.get(broker), self._cluster.brokers.get(broker)
        if question is not None:
            if out.now < question.asked_at + GIVEN_UP_S:
                return
            del self._questions[broker]
            self._fail(broker, question.partitions)
        to_ask = self._to_ask.get(broker, {})
        if held is None:
            self._fail(broker, tuple(to_ask))
            return
        if not to_ask or out.now < self._next_at.get(broker, 0.0):
            return
        some = tuple(islice(to_ask, AT_ONCE))
        for at in some:
            del to_ask[at]
        if not to_ask:
            del self._to_ask[broker]
        self._questions[broker] = Question(held.epoch, out.now, some)
        self._next_at[broker] = out.now + PACE_S + self._cluster.replica_counts.get(broker, 0) / REPLICAS_A_SECOND
        out.add(DescribeLogDirs(broker, held.epoch, held.registration, some, is_of_waiting=True))

    def _wake(self, out: Outbox) -> None:
        """Have the clock looked at again when something is due."""
        times = [self._next_at.get(broker, 0.0) for broker in self._to_ask if broker not in self._questions]
        times += [question.asked_at + GIVEN_UP_S for question in self._questions.values()]
        for since, after_s in ((self._said, AGAIN_S), (self._unsaid, RETRIED_S)):
            times += [first + after_s for first in islice(since.values(), 1)]
        if self.are_awaited and self._awaited_since is not None:
            times.append(self._awaited_since + AWAITED_S)
        if times and min(times) != self._alarm_at:
            self._alarm_at = min(times)
            out.wake(AskForSizes(), self._alarm_at)

    # ---- what is said ---------------------------------------------------------------------------------------

    def _tell(self, broker: BrokerId, error: str, out: Outbox) -> None:
        """Say once that a broker does not answer."""
        if broker not in self._silent:
            self._silent[broker] = None
            what = f"broker {broker} does not say how large its replicas are ({error})"
            out.notice(KIND, f"{what}: of waiting moves, those of partitions that it leads {self._consequence()}")

    def _consequence(self) -> str:
        settings = self._shared.settings
        if settings.moves_need_disks_percent and not settings.moves_ignore_unknown_disks:
            return "do not begin, for it is not known whether disks have room for them"
        return "begin last" if self._are_ordered else "begin whether or not disks have room for them"

    def figures(self, clock_zero_ms: int) -> dict[str, float]:
        """How many sizes are not known, and since when the oldest one is."""
        oldest = next((since for _, since in self._sizes.values()), None)
        return {
            "waiting_moves_without_size": len(self._moves) - len(self._sizes),
            "waiting_moves_oldest_size_timestamp_seconds": 0 if oldest is None else clock_zero_ms / 1000 + oldest,
        }
