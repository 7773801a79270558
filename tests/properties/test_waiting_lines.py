"""Whatever happens to waiting moves, limits hold, and none waits that has room everywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.core.reassignment.lines import Lines
from controller.core.reassignment.places import ABSENT, INTO, OUT, THE_CLUSTER, Place, Places, Room
from controller.core.settings import MachineSettings
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

BROKERS = tuple(BrokerId(b) for b in range(1, 5))
MOVES = 12
brokers = st.sampled_from(BROKERS)
limits = st.none() | st.integers(1, 3)
# What a move takes: the leader it copies from, and the brokers it copies to.
moves = st.tuples(brokers, st.sets(brokers, min_size=1, max_size=2).map(sorted))
events = st.tuples(
    st.sampled_from(("ask", "ask", "end", "take back", "arrive", "die", "return", "adjust")), st.integers(0, MOVES - 1)
)


class Twin:
    """The lines beside a plain list of who waits, and of who moves."""

    def __init__(self, settings: MachineSettings) -> None:
        self.absent: set[BrokerId] = set()
        self.waiting: dict[TopicPartition, tuple[int, Places]] = {}
        self.moving: dict[TopicPartition, Places] = {}
        self.lines = Lines(self.obstacle, self.is_closed)
        self.room = Room(settings, self.lines.open)

    def is_closed(self, place: Place) -> bool:
        return place.broker in self.absent if place.kind == ABSENT else self.room.is_full(place)

    def obstacle(self, places: Places) -> Place | None:
        for place in places:
            if place.kind == INTO and place.broker in self.absent:
                return Place(ABSENT, place.broker)
        return self.room.first_full(place for place in places if place != THE_CLUSTER)

    def call(self) -> None:
        """Begin all that may."""
        for place in self.lines.waited_for(ABSENT):
            if not self.is_closed(place):
                self.lines.open(place)
        while (found := self.lines.next(lambda: not self.room.is_full(THE_CLUSTER))) is not None:
            at, places = found
            order, _ = self.waiting.pop(at)
            fitting = [o for o, p in self.waiting.values() if p == places]
            assert all(order < other for other in fitting), "a later move of the same places went first"
            assert self.obstacle(places) is None
            assert not self.room.is_full(THE_CLUSTER)
            self.room.fly(at, places)
            self.moving[at] = places


def places_of(move: tuple[BrokerId, list[BrokerId]]) -> Places:
    """Where a move takes room."""
    leader, receiving = move
    return (THE_CLUSTER, *(Place(INTO, b) for b in receiving), Place(OUT, leader))


@given(limits, limits, limits, st.lists(moves, min_size=MOVES, max_size=MOVES), st.lists(events, max_size=60))
def test_limits_hold_and_whoever_has_room_everywhere_begins(
    at_once: int | None,
    into: int | None,
    out_of: int | None,
    drawn: list[tuple[BrokerId, list[BrokerId]]],
    happened: list[tuple[str, int]],
) -> None:
    kept = (at_once, into, out_of)
    twin = Twin(
        MachineSettings(BrokerId(9), moves_at_once=kept[0], moves_into_broker=kept[1], moves_out_of_broker=kept[2])
    )
    for order, (what, n) in enumerate(happened):
        at, places = TopicPartition(TopicName("t"), PartitionId(n)), places_of(drawn[n])
        broker = BROKERS[n % len(BROKERS)]
        match what:
            case "ask" if at not in twin.waiting and at not in twin.moving:
                twin.waiting[at] = order, places
                twin.lines.stand(at, order, places)
            case "end" if at in twin.moving:
                del twin.moving[at]
                twin.room.fly(at, ())
            case "arrive" if len(twin.moving.get(at, ())) > 1:  # its first replica is in sync
                twin.moving[at] = tuple(p for p in twin.moving[at] if p != twin.moving[at][1])
                twin.room.fly(at, twin.moving[at])
            case "take back" if at in twin.waiting:
                del twin.waiting[at]
                twin.lines.leave(at)
            case "die":
                twin.absent.add(broker)
            case "return":
                twin.absent.discard(broker)
            case "adjust":
                limit = n % 3 + 1
                twin.room.adjust(MachineSettings(BrokerId(9), moves_into_broker=limit, moves_out_of_broker=limit))
                twin.lines.open_all()
            case _:
                pass

        twin.call()

        assert len(twin.lines) == len(twin.waiting) == sum(twin.lines.sizes.values())
        for _, wanted in twin.waiting.values():
            assert twin.obstacle(wanted) is not None or twin.room.is_full(THE_CLUSTER)
