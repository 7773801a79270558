"""Which moves have waited too long to begin?"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from controller.core.messages.effects import Notice
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.hours import Hours
from controller.core.reassignment.memory import QueueMemory
from controller.core.reassignment.queue_writes import Plan
from controller.core.settings import MachineSettings
from controller.core.state.placement import discard
from controller.core.state.waiting_znodes import Door
from controller.core.transactions.proposal import Outcome, is_unwritten
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName, TopicPartition
from zk_layout.znodes.waiting_moves import WaitingMove

KIND = "move gave up"
TRIED_AGAIN_S = 10.0
UNUSED = 100


class GiveUp(Alarm, frozen=True):
    """Some moves have waited too long, or could not be dropped yet."""


class GivingUp:
    """The clients' moves that wait, until when, and which of them have waited too long.

    Units:
        Unix milliseconds, by the clock of `hours`.
    """

    def __init__(self, shared: Shared, memory: QueueMemory, hours: Hours) -> None:
        self._shared = shared
        self._waiting = memory.waiting
        self._gave_up = memory.gave_up
        self._hours = hours
        self._until: dict[TopicPartition, int] = {}
        self._by_time: list[tuple[int, TopicPartition]] = []
        self._alarm_at: float | None = None
        self._now_ms = 0
        self.due: dict[TopicPartition, None] = {}

    def accept(self, at: TopicPartition, give_up_ms: int | None) -> int | None:
        """A move is accepted; returns the time that is to be recorded, None where moves do not give up."""
        discard(self._gave_up, at.topic, at.partition)
        return None if self._shared.settings.moves_give_up_s is None and give_up_ms is None else self._now_ms

    def accept_again(self, move: WaitingMove, give_up_ms: int | None, weight: int) -> WaitingMove:
        """A move is asked for that waits already: the time and weight of the later request count from now on."""
        move = replace(move, weight=weight or move.weight)
        if give_up_ms is None or give_up_ms == move.give_up_ms:
            return move
        return replace(move, since_ms=self._now_ms, give_up_ms=give_up_ms)

    def wait(self, at: TopicPartition, move: WaitingMove | None) -> None:
        """A move waits; if it is not recorded since when, from now on. Called again when its record has changed."""
        limit_ms = self._limit_ms(None if move is None else move.give_up_ms)
        if limit_ms is None:
            self.forget(at)
            return
        since_ms = None if move is None else move.since_ms
        if since_ms is None and at in self._until:
            return
        until = (self._now_ms if since_ms is None else since_ms) + limit_ms
        if self._until.get(at) != until:
            self.forget(at)
            self._until[at] = until
            heappush(self._by_time, (until, at))

    def _limit_ms(self, own_ms: int | None) -> int | None:
        """How long a move may wait: as its request says, else as the setting does; None is however long."""
        if own_ms is not None:
            return own_ms or None
        limit_s = self._shared.settings.moves_give_up_s
        return None if limit_s is None else round(limit_s * 1000)

    def forget(self, at: TopicPartition) -> None:
        """A move waits no longer."""
        self._until.pop(at, None)
        self.due.pop(at, None)
        if len(self._by_time) > 2 * len(self._until) + UNUSED:
            self._by_time = [(until, at) for at, until in self._until.items()]
            heapify(self._by_time)

    def forget_topic(self, name: TopicName) -> None:
        """A topic is gone."""
        self._gave_up.pop(name, None)

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Judge all that wait by the changed setting."""
        if self._shared.settings.moves_give_up_s == before.moves_give_up_s:
            return
        self._until, self._by_time, self._alarm_at, self.due = {}, [], None, {}
        self.begin_turn(out.now)
        for at in self._asked_for():
            self.wait(at, self._shared.cluster.waiting_move(at))

    def _asked_for(self) -> Iterator[TopicPartition]:
        for name, waiting in self._waiting.items():
            yield from (TopicPartition(name, n) for n, waiter in waiting.items() if waiter.door is Door.REQUEST)

    # ---- what is dropped ------------------------------------------------------------------------------------

    def give_up(self, plan: Plan, at: TopicPartition, why: str) -> None:
        """A step drops a move."""
        plan.given_up[at] = why
        self._gave_up.setdefault(at.topic, {})[at.partition] = None

    def notices(self, plan: Plan) -> Iterator[Notice]:
        """What operators learn of the moves that a step drops."""
        if plan.given_up:
            more = f" (and {len(plan.given_up) - 1} more of its topic)" if len(plan.given_up) > 1 else ""
            yield Notice(KIND, f"{next(iter(plan.given_up.values()))}{more}")

    def settled(self, plan: Plan, outcome: Outcome) -> None:
        """What a refused step was to drop still waits."""
        for at in plan.given_up if is_unwritten(outcome) else ():
            discard(self._gave_up, at.topic, at.partition)

    # ---- when -----------------------------------------------------------------------------------------------

    def begin_turn(self, now: float) -> None:
        """Look at the clock, by which this turn's moves are accepted."""
        self._now_ms = self._hours.now_ms(now)

    def look(self, out: Outbox) -> None:
        """Have the topics decided of what has waited too long, and set the next alarm."""
        while self._by_time and self._by_time[0][0] <= self._now_ms:
            until, at = heappop(self._by_time)
            if self._until.get(at) == until and at not in self.due:
                self.due[at] = None
                self._shared.agenda.add(at.topic, (at.partition,))
        wanted = [out.now + TRIED_AGAIN_S] if self.due else []
        if self._by_time:
            wanted.append(out.now + (self._by_time[0][0] - self._now_ms) / 1000 + 0.001)
        if wanted and (self._alarm_at is None or min(wanted) < self._alarm_at):
            self._alarm_at = min(wanted)
            out.wake(GiveUp(), self._alarm_at)

    def woke(self) -> None:
        """The alarm rang: what could not be dropped is decided again."""
        self._alarm_at = None
        for at in self.due:
            self._shared.agenda.add(at.topic, (at.partition,))
