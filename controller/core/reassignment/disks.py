"""Have the disks of each broker that would receive a replica room for what a move copies?

Where the settings ask for it. What is not known is said to be not known; whether moves wait for that is a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

from controller.core.messages.outbox import Outbox
from controller.core.quantities import size
from controller.core.reassignment.disk_room import DiskRoom, spare_bytes
from controller.core.reassignment.places import DISKS, INTO, Place, Places
from controller.core.settings import MachineSettings
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, TopicPartition

HELD = "moves held up"
UNKNOWN = "unknown disks"
NAMED = 5
SHARP_BITS = 4


class Disks:
    """What the settings ask of disks, and whether they have it."""

    def __init__(self, shared: Shared, size_of: Callable[[TopicPartition], int | None]) -> None:
        """`size_of` is how large a partition is whose move waits, if that is known."""
        self._shared = shared
        self._size_of = size_of
        self.room = DiskRoom(shared)
        # For whose disks moves wait, and the one of these moves that needs the least.
        self._held: dict[BrokerId, Place] = {}
        self._said: dict[BrokerId, None] = {}
        self._said_unknown: dict[BrokerId, None] = {}

    @property
    def are_waited_for(self) -> bool:
        """Whether moves wait for room on disks."""
        return self._shared.settings.moves_need_disks_percent > 0

    def adjust(self, before: MachineSettings) -> bool:
        """Ask for what the settings now say; returns whether it is asked for now and was not, or the reverse."""
        was_on = before.moves_need_disks_percent > 0
        if not self.are_waited_for:
            self.room.clear()
            self._held, self._said, self._said_unknown = {}, {}, {}
        return was_on != self.are_waited_for

    def before(self, at: TopicPartition, places: Places) -> Places:
        """The disks that a move must wait for, given the places where it takes room; none if it copies nothing."""
        if not self.are_waited_for:
            return ()
        size_bytes = self._size_of(at)
        name = "" if size_bytes is None else str(rounded_up(size_bytes))
        return tuple(Place(DISKS, place.broker, name) for place in places if place.kind == INTO)

    def taken(self, at: TopicPartition, in_flight: Places, kept: Places) -> None:
        """Take in where a partition copies to, and is about to."""
        if not self.are_waited_for:
            return
        about_to = [place for place in kept if place.kind == DISKS]
        receivers = dict.fromkeys((place.broker for place in about_to), False)
        receivers.update(dict.fromkeys((place.broker for place in in_flight if place.kind == INTO), True))
        self.room.copies(at, receivers, next((int(place.name) for place in about_to if place.name), None))

    def stands(self, at: TopicPartition, places: Places) -> None:
        """A move waits that would take room at these places."""
        if self.are_waited_for:
            self.room.stands(at, tuple(place.broker for place in places if place.kind == INTO))

    def forget(self, at: TopicPartition) -> None:
        """A move waits no longer."""
        self.room.stands(at, ())

    def is_shut(self, place: Place) -> bool:
        """Whether a broker has too little room for a move, or is asked for the first time, or it is not known and moves
        wait for that.
        """
        return self._is_short(place, self._seen(place.broker))

    def shut(self, places: Iterable[Place]) -> Iterator[tuple[Place, bool]]:
        """Those of these places that are about disks, and whether each is shut. Looks at each broker once."""
        seen: dict[BrokerId, tuple[int | None, bool]] = {}
        for place in places:
            if place.kind == DISKS:
                if place.broker not in seen:
                    seen[place.broker] = self._seen(place.broker)
                yield place, self._is_short(place, seen[place.broker])

    def _is_short(self, place: Place, seen: tuple[int | None, bool]) -> bool:
        spare, is_awaited = seen
        if is_awaited:
            return True
        if spare is None or not place.name:
            return not self._shared.settings.moves_ignore_unknown_disks
        return spare < int(place.name)

    def _seen(self, broker: BrokerId) -> tuple[int | None, bool]:
        spare = self._spare(broker)
        return spare, spare is None and self.room.is_awaited(broker)

    def _spare(self, broker: BrokerId) -> int | None:
        """How much may still begin to be copied to a broker; None if that is not known."""
        percent = self._shared.settings.moves_need_disks_percent
        found = self.room.least(broker, percent)
        return None if found is None else spare_bytes(found[0], percent) - found[1]

    # ---- what is said ---------------------------------------------------------------------------------------

    def sentence(self, place: Place) -> str:
        """What a move waits for behind this place."""
        broker, percent = place.broker, self._shared.settings.moves_need_disks_percent
        found = self.room.least(broker, percent)
        if found is None:
            return f"how much room broker {broker} has on its disks is not known ({self.room.why_unknown(broker)})"
        if not place.name:
            return f"how much would be copied to broker {broker} is not known"
        directory, coming = found
        has = f"{size(directory.usable_bytes)} of {size(directory.total_bytes)} left in {directory.path}"
        also = f", {size(coming)} are on their way there" if coming else ""
        needs = f"{size(int(place.name))} would follow, and {percent} % are to stay"
        return f"broker {broker} has {has}{also}, {needs}"

    def say(self, waiting: Iterable[Place], out: Outbox, *, is_anything_waiting: bool) -> None:
        """Say once for whose disks moves wait that stand behind these places, and once that they do no longer; and who
        does not say how much room there is, though moves begin.
        """
        self._held = {}
        for place, is_shut in self.shut(waiting if self.are_waited_for and is_anything_waiting else ()):
            if is_shut and (least := self._held.setdefault(place.broker, place)) != place:
                self._held[place.broker] = min(least, place, key=_needed)
        self._held = {broker: place for broker, place in self._held.items() if not self.room.is_awaited(broker)}
        new = [broker for broker in self._held if broker not in self._said]
        if new:
            rest = "Moves to other brokers do not wait for that, and those under way go on"
            out.notice(HELD, f"waiting moves do not begin: {self._sentences(new)}. {rest}")
        elif self._said and not self._held and is_anything_waiting:
            out.notice(HELD, "waiting moves begin again: none waits for disks any more")
        self._said = dict.fromkeys(self._held)
        self._say_unknown(out)

    def _say_unknown(self, out: Outbox) -> None:
        is_wanted = self.are_waited_for and self._shared.settings.moves_ignore_unknown_disks
        unknown = dict.fromkeys(self._unknown() if is_wanted else ())
        new = [broker for broker in unknown if broker not in self._said_unknown]
        if new:
            which = self._sentences(new)
            out.notice(UNKNOWN, f"moves begin nevertheless, as the settings say: {which}")
        self._said_unknown = unknown

    def _sentences(self, brokers: Iterable[BrokerId]) -> str:
        named = list(brokers)
        more = f"; and {len(named) - NAMED} more brokers" if len(named) > NAMED else ""
        return "; ".join(self.sentence(self._held.get(broker, Place(DISKS, broker))) for broker in named[:NAMED]) + more

    def held_up(self) -> tuple[str, ...]:
        """What moves wait for, for status pages."""
        held = sorted(self._held)
        return (f"moves that copy wait for room on disks: {self._sentences(held)}",) if held else ()

    def _unknown(self) -> list[BrokerId]:
        every = self.room.receivers() if self.are_waited_for else []
        return [broker for broker in every if not self.room.is_awaited(broker) and self._spare(broker) is None]

    def figures(self) -> dict[str, float]:
        """How many of the brokers to which something waits to be copied have no room, or do not say how much."""
        unknown = self._unknown()
        return {
            "brokers_without_room": sum(
                1 for broker, held in self._held.items() if held.name and broker not in unknown
            ),
            "brokers_with_unknown_room": len(unknown),
        }


def _needed(place: Place) -> float:
    return float(place.name or inf)


def rounded_up(count: int) -> int:
    """A number of bytes that is at most an eighth larger, so that not each move waits in a line of its own.

    >>> rounded_up(7), rounded_up(1000), rounded_up(2**30 + 1) / 2**30
    (7, 1024, 1.125)
    """
    dull = max(0, count.bit_length() - SHARP_BITS)
    return -(-count >> dull) << dull
