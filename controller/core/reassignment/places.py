"""How many moves are in flight, and is there room for another: in the cluster, into and out of a broker, into a rack?

A move copies from when its partition gets replicas to add until it ends. It takes room into a broker, and once into
that broker's rack, until its replica there is in sync, and out of the broker that leads the partition as long as any
added replica is not in sync. Limits apply to what begins; they stop nothing that has begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from controller.core.settings import MachineSettings
from zk_layout.ids import NO_LEADER, BrokerId, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

CLUSTER, INTO, OUT, ABSENT, ANYWHERE = "cluster", "into", "out", "absent", "anywhere"
MIN_ISR, AWAY, HOURS = "min isr", "away", "hours"
RACK, ZNODE, CHANGES, RECENT, DISKS = "rack", "znode", "changes", "recent", "disks"
ROOM = (INTO, RACK, OUT, ZNODE)


class Place(NamedTuple):
    """Where moves take room, or what one waits for: an `ABSENT` broker that it needs, or a better state of the cluster:
    `MIN_ISR` of all partitions, and no broker `AWAY`; or a `RECENT` broker that would receive and has not been
    registered for long, or one whose `DISKS` may be too full; or the `HOURS` in which moves may begin. What copies
    nothing may wait for the next of so many `CHANGES` a second.

    Shape:
        `name` is that of a `RACK`, or of the topic whose `ZNODE` grows while its partitions move; of `DISKS` it is how
        many bytes a move copies there, empty if that is not known.
    """

    kind: str
    broker: BrokerId = NO_LEADER
    name: str = ""


Places = tuple[Place, ...]
THE_CLUSTER = Place(CLUSTER)
NOWHERE: Places = ()
NO_RACKS: Mapping[BrokerId, str] = MappingProxyType({})


def places_of(assignment: Assignment, state: PartitionState | None, racks: Mapping[BrokerId, str] = NO_RACKS) -> Places:
    """Where a move takes room; nowhere if it copies nothing. `racks` are those of brokers, as far as known.

    >>> moving = Assignment((3, 1, 2), adding=(3,), removing=(2,))
    >>> [place[:2] for place in places_of(moving, PartitionState(1, 7, 1, (1, 2)))]
    [('cluster', -1), ('into', 3), ('out', 1)]
    >>> [place[:2] for place in places_of(moving, PartitionState(1, 7, 1, (1, 2, 3)))]
    [('cluster', -1)]
    >>> places_of(moving, None, {3: "west"})[-1].name
    'west'
    """
    if not assignment.adding:
        return NOWHERE
    in_sync = () if state is None else state.isr
    receiving = [r for r in assignment.adding if r not in in_sync]
    into = (Place(INTO, r) for r in receiving)
    rack = dict.fromkeys(Place(RACK, name=racks[r]) for r in receiving if r in racks)
    out = () if state is None or state.leader == NO_LEADER or not receiving else (Place(OUT, state.leader),)
    return (THE_CLUSTER, *into, *rack, *out)


Changed = Callable[[TopicPartition, Places, Places], None]


class Room:
    """The places of moves in flight, and of those decided whose transaction has no outcome yet."""

    def __init__(
        self, settings: MachineSettings, freed: Callable[[Place], None], changed: Changed = lambda *_: None
    ) -> None:
        """Begin with nothing in flight; `freed` is called with each place that has room again, `changed` when the
        places of a partition have changed: with those in flight, and those kept for it.
        """
        self._freed = freed
        self._changed = changed
        self._in_flight: dict[TopicPartition, Places] = {}
        self._reserved: dict[TopicPartition, Places] = {}
        # The places of the one move that collects them, and whether it has them.
        self._collected: dict[Place, bool] = {}
        self._taken: Counter[Place] = Counter()
        # How many moves of a topic fit into its znode, once one did not.
        self._fitting: dict[Place, int] = {}
        self.adjust(settings)

    def adjust(self, settings: MachineSettings) -> None:
        """Count by these limits from now on."""
        self._limits = {
            CLUSTER: settings.moves_at_once,
            INTO: settings.moves_into_broker,
            RACK: settings.moves_into_rack,
            OUT: settings.moves_out_of_broker,
        }
        if not settings.moves_wait_for_znodes:
            self._fitting.clear()
        self._collect()

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in self._limits.values())

    def limit(self, place: Place) -> int | None:
        """How many moves may take room there."""
        return self._fitting.get(place) if place.kind == ZNODE else self._limits.get(place.kind)

    def fit(self, place: Place, most: int) -> None:
        """Let no more than so many moves of a topic be in flight, since its znode has no room for more."""
        was_full = self.is_full(place)
        self._fitting[place] = most
        if was_full and not self.is_full(place):
            self._freed(place)

    def forget(self, place: Place) -> None:
        """A topic is gone."""
        self._fitting.pop(place, None)

    def taken(self, place: Place) -> int:
        """How many moves take room there."""
        return self._taken[place]

    def is_full(self, place: Place) -> bool:
        """Whether nothing more may begin there."""
        limit = self.limit(place)
        return limit is not None and self._taken[place] >= limit

    def first_full(self, places: Iterable[Place]) -> Place | None:
        """The first of these places that is full."""
        return next((place for place in places if self.is_full(place)), None)

    def fly(self, at: TopicPartition, places: Places) -> None:
        """Note where a partition takes room according to ZooKeeper."""
        self._change(self._in_flight, at, places)

    def reserve(self, at: TopicPartition, places: Places) -> None:
        """Keep room for a move until its outcome is known."""
        self._change(self._reserved, at, places)

    def release(self, at: TopicPartition) -> None:
        """Keep no room for a partition beyond what ZooKeeper shows."""
        self._change(self._reserved, at, NOWHERE)

    def collect(self, places: Places) -> None:
        """Keep room at each of these as soon as there is any, until `stop_collecting`. One move at a time may do so."""
        self._collected = dict.fromkeys(places, False)
        self._collect()

    def stop_collecting(self) -> None:
        """Keep no room any more for the move that collected it."""
        held, self._collected = [place for place, is_held in self._collected.items() if is_held], {}
        for place in held:
            self._leave(place)

    @property
    def has_collected(self) -> bool:
        """Whether there is room everywhere for the move that collects it."""
        return bool(self._collected) and all(self._collected.values())

    def _collect(self) -> None:
        for place, is_held in self._collected.items():
            if not is_held and not self.is_full(place):
                self._collected[place] = True
                self._taken[place] += 1

    def in_flight(self, at: TopicPartition) -> Places:
        """Where a partition takes room according to ZooKeeper."""
        return self._in_flight.get(at, NOWHERE)

    def _change(self, kept: dict[TopicPartition, Places], at: TopicPartition, places: Places) -> None:
        if kept.get(at, NOWHERE) == places:
            return
        before = self._of(at)
        if places:
            kept[at] = places
        else:
            del kept[at]
        after = self._of(at)
        for place in after:
            if place not in before:
                self._taken[place] += 1
        for place in before:
            if place not in after:
                self._leave(place)
        self._tell(at)

    def tell_all(self) -> None:
        """Call `changed` with all partitions that have places."""
        for at in tuple({**self._in_flight, **self._reserved}):
            self._tell(at)

    def _tell(self, at: TopicPartition) -> None:
        self._changed(at, self.in_flight(at), self._reserved.get(at, NOWHERE))

    def _leave(self, place: Place) -> None:
        was_full = self.is_full(place)
        self._taken[place] -= 1
        if not self._taken[place]:
            del self._taken[place]
        if was_full and not self.is_full(place):
            self._collect()
            if not self.is_full(place):
                self._freed(place)

    def _of(self, at: TopicPartition) -> Places:
        return tuple(dict.fromkeys((*self._in_flight.get(at, NOWHERE), *self._reserved.get(at, NOWHERE))))
