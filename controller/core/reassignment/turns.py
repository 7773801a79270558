"""Whose turn is it among the moves that wait?

A move stands in a line, is called when there is room for it, and steps aside if it cannot begin although it was called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice

from controller.core.messages.events import Again, Alarm, DisksDescribed, LogDirsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.lines import Lines
from controller.core.reassignment.obstacles import Obstacles
from controller.core.reassignment.order import Order
from controller.core.reassignment.patience import Patience
from controller.core.reassignment.places import (
    ABSENT,
    AWAY,
    DISKS,
    HOURS,
    INTO,
    MIN_ISR,
    NOWHERE,
    RECENT,
    THE_CLUSTER,
    Place,
    Places,
    Room,
)
from controller.core.reassignment.rate import NEXT_CHANGE
from controller.core.reassignment.waiting_sizes import AskForSizes, WaitingSizes
from controller.core.reassignment.waiting_text import figures
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes
from controller.core.state.waiting_znodes import Waiter
from controller.core.transactions.proposal import topic_subject
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

CALLED_A_TURN = 1_000
ASIDE_S = 10.0


class Turns:
    """The lines of one term, and the room that moves take."""

    alarms = (*Obstacles.alarms, AskForSizes)

    def __init__(self, shared: Shared, waiting: Mapping[TopicName, Mapping[PartitionId, Waiter]]) -> None:
        """Begin without lines; `waiting` are the moves that wait, as others note them."""
        self._shared = shared
        self._cluster = shared.cluster
        self._waiting = waiting
        self.sizes = WaitingSizes(shared)
        self.room = Room(shared.settings, self._open, self._taken)
        self.obstacles = Obstacles(shared, self.room, self.sizes.size_of)
        self.gates, self.hours, self.rate = self.obstacles.gates, self.obstacles.hours, self.obstacles.rate
        self._patience = Patience(self.room, self.obstacles.is_possible)
        self._lines = Lines(self.obstacles.first, self.obstacles.is_closed, self._patience.lost)
        # Moves that copy nothing wait only for each other, and need no room in the cluster.
        self._light = Lines(self.obstacles.first, self.obstacles.is_closed, _never_lost)
        self._order = Order(shared.settings, self.gates.is_below_min_isr, self.sizes.copied)
        # Those whose turn it is: their topic's next step begins them.
        self.called: dict[TopicPartition, None] = {}
        # Those that could not begin although there was room: they are tried again.
        self.aside: dict[TopicPartition, None] = {}
        # Whether some stand in a line since the last call, perhaps although there is room for them.
        self.are_uncalled = False
        # Those whose rank or places may be others since the settings have changed, or a broker came or went.
        self._doubted: dict[TopicPartition, None] = {}

    def __contains__(self, at: TopicPartition) -> bool:
        """Whether a move stands in a line."""
        return at in self._lines or at in self._light

    @property
    def is_on(self) -> bool:
        """Whether moves may have to wait."""
        return self.obstacles.are_set

    def _lines_of(self, places: Places) -> Lines:
        return self._lines if THE_CLUSTER in places else self._light

    def _open(self, place: Place) -> None:
        self._lines.open(place)
        self._light.open(place)

    def _taken(self, at: TopicPartition, in_flight: Places, kept: Places) -> None:
        self.obstacles.disks.taken(at, in_flight, kept)

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Count by the changed settings. What is in flight goes on, also beyond them."""
        settings = self._shared.settings
        self.room.adjust(settings)
        self.gates.adjust(before, out.now)
        self.hours.look(out)
        if settings.moves_need_receivers_s != before.moves_need_receivers_s:
            self.obstacles.receivers.adjust(out)
        if settings.changes_a_second != before.changes_a_second:
            self.rate.adjust()
        self._lines.open_all()
        self._light.open_all()
        are_others_waited_for = self.obstacles.disks.adjust(before)
        if are_others_waited_for:
            self.room.tell_all()
        if settings.moves_order != before.moves_order:
            self._order.adjust(settings)
            are_others_waited_for = True
        if are_others_waited_for:
            self.sizes.adjust()
            for name, waiting in self._waiting.items():
                self._doubted.update(dict.fromkeys(TopicPartition(name, number) for number in waiting))

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Take in which brokers have come and gone."""
        registered = self._shared.state.brokers if changes.is_beginning else changes.brokers
        self.obstacles.receivers.follow(registered, out)
        self.sizes.follow(changes.brokers)
        self.obstacles.disks.room.follow(changes.brokers, out.now)

    def hear(self, described: LogDirsDescribed | DisksDescribed, out: Outbox) -> None:
        """Take in how large replicas are, and how much room there is on disks."""
        if isinstance(described, DisksDescribed):
            self.obstacles.disks.room.hear(described, out)
        elif described.is_of_waiting:
            self.stand_again(self.sizes.hear(described, out))
        elif described.error is None:
            self.obstacles.disks.room.measured(described.broker, described.sizes)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """What others waited for may be over."""
        if isinstance(alarm, AskForSizes):
            self.sizes.woke()
        self.obstacles.woke(alarm, out)

    def may_begin(self, at: TopicPartition, places: Places) -> bool:
        """Whether a move may begin that is not in flight; one that may not loses its turn.

        A move that was not called may begin only if no other stands in a line, no order is set, and its size does not
        matter.
        """
        is_called = at in self.called
        if is_called:
            del self.called[at]
        self.room.release(at)
        lines, copies = self._lines_of(places), THE_CLUSTER in places
        is_alone = len(lines) == (at in lines) and not (copies and self._is_asked_first)
        needed = tuple(place for place in places if place != NEXT_CHANGE) if is_called else places  # it has got that
        is_closed = self.obstacles.first(needed) is not None or (copies and self.room.is_full(THE_CLUSTER))
        if (is_called or is_alone) and not is_closed:
            if NEXT_CHANGE in needed:
                self.rate.take()
            return True
        if is_called:
            self.stand(at)
        return False

    @property
    def _is_asked_first(self) -> bool:
        """Whether a move that copies must stand in a line before it begins."""
        return self._order.is_on or self.sizes.is_on

    def say(self, out: Outbox, *, is_anything_waiting: bool) -> None:
        """Say what waiting moves wait for."""
        self.gates.say(out, is_anything_waiting=is_anything_waiting)
        is_anything_kept = is_anything_waiting and self._cluster.pause is None
        self.obstacles.disks.say(self._lines.sizes, out, is_anything_waiting=is_anything_kept)

    def call(self, out: Outbox) -> None:
        """Call those that may begin now."""
        self.are_uncalled = False
        self.sizes.look(out)
        self.obstacles.disks.room.look(out)
        if self._has_room():
            self._look_at_states()
        if not self.rate.are_used_up:
            self._light.open(NEXT_CHANGE)
        for _ in range(CALLED_A_TURN):
            found = self._next()
            if found is None:
                return
            at, places = found
            self._leave(at)
            if self._shared.transactions.is_waiting(topic_subject(at.topic)):
                self.aside[at] = None  # its topic is not written now: it must not keep room from others
                continue
            if NEXT_CHANGE in places:
                self.rate.take()
            if THE_CLUSTER in places:
                self._order.begins(at)
            self.room.reserve(at, places)
            self.called[at] = None
            self._shared.agenda.add(at.topic, (at.partition,))
        out.wake(Again(), out.now)

    def _look_at_states(self) -> None:
        """What moves wait for, other than room among those in flight, may be over."""
        for place in self._lines.waited_for(ABSENT, RECENT, HOURS, MIN_ISR, AWAY):
            if not self.obstacles.is_closed(place):
                self._lines.open(place)
        for place, is_shut in self.obstacles.disks.shut(self._lines.waited_for(DISKS)):
            if not is_shut:
                self._lines.open(place)

    def _next(self) -> tuple[TopicPartition, Places] | None:
        self._order.favour_oldest(self._lines, self._favour)
        return self._patience.next() or self._lines.next(self._has_room) or self._light.next(_always)

    def _has_room(self) -> bool:
        return self.obstacles.has_room() and not self.sizes.are_awaited

    def _leave(self, at: TopicPartition) -> None:
        self._lines.leave(at)
        self._light.leave(at)

    def _favour(self, at: TopicPartition) -> bool:
        places = self._lines.places(at)
        self._patience.lost(at, places)
        return self.obstacles.is_possible(places)

    def look_again(self, out: Outbox) -> None:
        """Let those stand again, some at a time, that may have to wait for something else now."""
        if changed := self.gates.came_or_went():
            self.doubt(changed)
        some = list(islice(self._doubted, CALLED_A_TURN))
        for at in some:
            del self._doubted[at]
        self.stand_again(some)
        if self._doubted:
            out.wake(Again(), out.now)

    def doubt(self, brokers: Set[BrokerId]) -> None:
        """What comes from or goes to any of these brokers may have to wait for something else now."""
        self._doubted.update(dict.fromkeys(self._concerned(brokers)))

    def _concerned(self, brokers: Set[BrokerId]) -> Iterator[TopicPartition]:
        """The moves that come from or go to any of these brokers. Passes over all that wait."""
        for name, waiting in self._waiting.items():
            for number, waiter in waiting.items():
                held = self._cluster.partition(TopicPartition(name, number))
                replicas = () if held is None else held.assignment.replicas
                if not brokers.isdisjoint((*waiter.to, *replicas)):
                    yield TopicPartition(name, number)

    def stand_again(self, partitions: Iterable[TopicPartition]) -> None:
        """What those in line must wait for, or how soon it is their turn, may be something else now."""
        for at in partitions:
            if at in self:
                self.stand(at)

    def stand_up(self) -> None:
        """Try again what could not begin."""
        for at in tuple(self.aside):
            self.stand(at)

    def stand(self, at: TopicPartition) -> None:
        """Let a move wait in the line where it belongs now, unless its topic is being deleted."""
        waiter, topic = self._waiter(at), self._cluster.topics.get(at.topic)
        places = self.obstacles.places(at, waiter.to) if waiter is not None else NOWHERE
        may_stand = waiter is not None and topic is not None and not topic.is_queued_for_deletion
        if may_stand and THE_CLUSTER in places:
            self.sizes.stands(at, sum(place.kind == INTO for place in places))
        if may_stand:
            self.obstacles.disks.stands(at, places)
        rank = self._order.rank(at, waiter) if waiter is not None else ()
        lines = self._lines_of(places)
        if may_stand and lines.stands(at, rank, places):
            return
        self.withdraw(at)
        if waiter is not None and may_stand:
            lines.stand(at, rank, places)
            if THE_CLUSTER in places:
                self.are_uncalled = self._is_asked_first
                self._order.stands(at, waiter.order)

    def withdraw(self, at: TopicPartition) -> None:
        """Let a move stand nowhere, and keep no room for it."""
        self._leave(at)
        self._patience.forget(at)
        self.aside.pop(at, None)
        if at in self.called:
            del self.called[at]
            self.room.release(at)

    def step_aside(self, at: TopicPartition) -> None:
        """Let a move that was called and could not begin give its place up until it is tried again."""
        self.withdraw(at)
        self.aside[at] = None

    def stand_back(self, at: TopicPartition, place: Place) -> None:
        """Let a move wait that had its turn and found no room there."""
        if self.room.is_full(place):
            self.stand(at)
        elif self._waiter(at) is not None:
            self.step_aside(at)  # what else moves there is not counted

    def forget(self, at: TopicPartition) -> None:
        """A move waits no longer."""
        self.withdraw(at)
        self._order.forget(at)
        self.sizes.forget(at)
        self.obstacles.disks.forget(at)

    def _waiter(self, at: TopicPartition) -> Waiter | None:
        of_topic = self._waiting.get(at.topic)
        return None if of_topic is None else of_topic.get(at.partition)

    def figures(self) -> dict[str, float]:
        """How many moves wait, and for what."""
        aside, is_paused = len(self.aside) + len(self.called), self._cluster.pause is not None
        sizes = Counter(self._lines.sizes) + Counter(self._light.sizes)
        for place, is_shut in self.obstacles.disks.shut(self._lines.sizes):
            if not is_shut:
                sizes[THE_CLUSTER] += sizes.pop(place)
        of_sizes = self.sizes.figures(self._shared.settings.clock_zero_ms)
        of_gates = {**self.gates.figures(), **self.obstacles.disks.figures()}
        return {**figures(sizes, self.room, aside, is_paused=is_paused), **of_gates, **of_sizes}


def _never_lost(at: TopicPartition, places: Places) -> None:
    """What needs one thing only is not passed over."""


def _always() -> bool:
    return True
