"""What keeps a move from beginning: no room, a broker that is away, new or full, the cluster, time or rate?"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.disk_room import AskForRoom
from controller.core.reassignment.disks import Disks
from controller.core.reassignment.gates import Gates
from controller.core.reassignment.hours import Hours, HoursChange
from controller.core.reassignment.places import (
    ABSENT,
    AWAY,
    CHANGES,
    DISKS,
    HOURS,
    INTO,
    MIN_ISR,
    RECENT,
    THE_CLUSTER,
    Place,
    Places,
    Room,
    places_of,
)
from controller.core.reassignment.racks import Racks
from controller.core.reassignment.rate import ChangesAllowed, Rate
from controller.core.reassignment.receivers import Receivers, ReceiverStayed
from controller.core.reassignment.topic_room import TopicRoom
from controller.core.reassignment.waiting_text import reason
from controller.core.stage import in_force, toward
from controller.core.state.topics import Partition
from controller.core.turn.shared import Shared
from zk_layout.ids import Replicas, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Obstacles:
    """One answer from all that may be in the way."""

    alarms = (HoursChange, ChangesAllowed, ReceiverStayed, AskForRoom)

    def __init__(self, shared: Shared, room: Room, size_of: Callable[[TopicPartition], int | None]) -> None:
        """`size_of` is how large a partition is whose move waits, if that is known."""
        self._cluster = shared.cluster
        self._room = room
        self.gates = Gates(shared)
        self.hours = Hours(shared)
        self.racks = Racks(shared.cluster)
        self.receivers = Receivers(shared)
        self.disks = Disks(shared, size_of)
        self.rate = Rate(shared)
        self.in_znodes = TopicRoom(shared, room)

    @property
    def are_set(self) -> bool:
        """Whether moves may have to wait for anything."""
        is_any = self.gates.is_on or self.receivers.are_waited_for or self.disks.are_waited_for
        return (
            is_any
            or self.hours.are_set
            or self.rate.is_limited
            or self._room.is_limited
            or self.in_znodes.is_waited_for
        )

    def taken(self, at: TopicPartition, held: Partition) -> Places:
        """Where a partition takes room now."""
        places = places_of(held.assignment, held.state, self.racks.of)
        return (*places, *self.in_znodes.before(at.topic)) if held.assignment.is_moving else places

    def places(self, at: TopicPartition, target: Replicas) -> Places:
        """Where a move would take room if it began now, and what it must wait for before."""
        held = self._cluster.partition(at)
        if held is None:
            return ()
        return self.places_of(at, toward(in_force(held.assignment, held.state), target), held.state)

    def places_of(self, at: TopicPartition, to: Assignment, state: PartitionState | None) -> Places:
        """The same, of the replicas that it would have then."""
        places = places_of(to, state, self.racks.of)
        if not places:
            return (*self.rate.before(), *self.in_znodes.before(at.topic))
        before = (*self.hours.before(), *self.gates.before(at, to.target), *self.disks.before(at, places))
        return (*before, *places, *self.in_znodes.before(at.topic))

    def first(self, places: Places) -> Place | None:
        """What a move with these places must wait for; the room in the cluster does not count."""
        for place in places:
            if place.kind == INTO and not self._cluster.is_live(place.broker):
                return Place(ABSENT, place.broker)
            if place.kind == INTO and self.receivers.is_recent(place.broker):
                return Place(RECENT, place.broker)
        return next((place for place in places if place != THE_CLUSTER and self.is_closed(place)), None)

    def is_possible(self, places: Places) -> bool:
        """Whether nothing but room keeps a move with these places from beginning."""
        first = self.first(tuple(place for place in places if place.kind in (INTO, DISKS, MIN_ISR, AWAY, HOURS)))
        return first is None or first.kind == INTO

    def reason(self, at: TopicPartition, target: Replicas) -> str:
        """What a move waits for, in words."""
        first = self.first(self.places(at, target))
        if first is not None and first.kind == RECENT:
            return self.receivers.sentence(first.broker)
        if first is not None and first.kind == DISKS:
            return self.disks.sentence(first)
        return reason(first, self._room, self.gates.sentence())

    def held_up(self) -> tuple[str, ...]:
        """What in the cluster keeps moves from beginning, for status pages, whether or not any move waits."""
        return (*self.gates.held_up(), *self.receivers.held_up(), *self.disks.held_up())

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """A window opens or shuts, more changes are allowed, a broker has been registered for long enough or is to be
        asked for the room of its disks.
        """
        if isinstance(alarm, HoursChange):
            self.hours.look(out)
        elif isinstance(alarm, ChangesAllowed):
            self.rate.woke()
        elif isinstance(alarm, ReceiverStayed):
            self.receivers.woke(out)
        elif isinstance(alarm, AskForRoom):
            self.disks.room.woke()

    def has_room(self) -> bool:
        """Whether one more move may be in flight in the cluster."""
        return not self._room.is_full(THE_CLUSTER)

    def is_closed(self, place: Place) -> bool:
        """Whether a move must wait that needs this place."""
        if place.kind == ABSENT:
            return not self._cluster.is_live(place.broker)
        if place.kind == RECENT:
            return self._cluster.is_live(place.broker) and self.receivers.is_recent(place.broker)
        if place.kind == DISKS:
            return self.disks.is_shut(place)
        if place.kind == HOURS:
            return self.hours.are_shut
        if place.kind == CHANGES:
            return self.rate.are_used_up
        return self.gates.is_shut(place) if place.kind in (MIN_ISR, AWAY) else self._room.is_full(place)
