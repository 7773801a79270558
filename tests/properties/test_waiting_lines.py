"""Whatever happens to waiting moves, limits hold, and none waits that has room everywhere."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.reassignment.lines import Lines
from controller.core.reassignment.patience import Patience
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
        self.is_adjusted = False  # lower limits stop nothing that has begun
        self.waiting: dict[TopicPartition, tuple[int, Places]] = {}
        self.moving: dict[TopicPartition, Places] = {}
        self.room = Room(settings, self.freed)
        self.patience = Patience(self.room, self.is_possible)
        self.lines = Lines(self.obstacle, self.is_closed, self.patience.lost)

    def is_closed(self, place: Place) -> bool:
        return place.broker in self.absent if place.kind == ABSENT else self.room.is_full(place)

    def obstacle(self, places: Places) -> Place | None:
        for place in places:
            if place.kind == INTO and place.broker in self.absent:
                return Place(ABSENT, place.broker)
        return self.room.first_full(place for place in places if place != THE_CLUSTER)

    def freed(self, place: Place) -> None:
        self.lines.open(place)

    def is_possible(self, places: Places) -> bool:
        return not any(place.kind == INTO and place.broker in self.absent for place in places)

    def ask(self, at: TopicPartition, order: int, places: Places) -> None:
        self.waiting[at] = order, places
        self.lines.stand(at, (order,), places)

    def end(self, at: TopicPartition) -> None:
        del self.moving[at]
        self.room.fly(at, ())

    def next(self) -> tuple[TopicPartition, Places] | None:
        return self.patience.next() or self.lines.next(lambda: not self.room.is_full(THE_CLUSTER))

    def taken(self, place: Place) -> int:
        return sum(place in places for places in self.moving.values())

    def call(self) -> None:
        """Begin all that may."""
        for place in self.lines.waited_for(ABSENT):
            if not self.is_closed(place):
                self.lines.open(place)
        while (found := self.next()) is not None:
            at, places = found
            self.lines.leave(at)
            order, _ = self.waiting.pop(at)
            if len(self.waiting) <= MOVES:
                fitting = [o for o, p in self.waiting.values() if p == places]
                assert all(order < other for other in fitting), "a later move of the same places went first"
            assert self.obstacle(places) is None
            assert not self.room.is_full(THE_CLUSTER)
            self.room.fly(at, places)
            self.moving[at] = places
        for place in {place for places in self.moving.values() for place in places}:
            limit = self.room.limit(place)
            assert self.is_adjusted or limit is None or self.taken(place) <= limit


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
                twin.ask(at, order, places)
            case "end" if at in twin.moving:
                twin.end(at)
            case "arrive" if len(twin.moving.get(at, ())) > 1:  # its first replica is in sync
                twin.moving[at] = tuple(p for p in twin.moving[at] if p != twin.moving[at][1])
                twin.room.fly(at, twin.moving[at])
            case "take back" if at in twin.waiting:
                del twin.waiting[at]
                twin.lines.leave(at)
                twin.patience.forget(at)
            case "die":
                twin.absent.add(broker)
            case "return":
                twin.absent.discard(broker)
            case "adjust":
                limit, twin.is_adjusted = n % 3 + 1, True
                twin.room.adjust(MachineSettings(BrokerId(9), moves_into_broker=limit, moves_out_of_broker=limit))
                twin.lines.open_all()
            case _:
                pass

        twin.call()

        assert len(twin.lines) == len(twin.waiting) == sum(twin.lines.sizes.values())
        for _, wanted in twin.waiting.values():
            assert twin.obstacle(wanted) is not None or twin.room.is_full(THE_CLUSTER)


@given(
    st.integers(1, 2),
    st.lists(st.tuples(brokers, st.sets(brokers, min_size=1, max_size=3).map(sorted)), min_size=2, max_size=6),
    st.integers(0),
)
def test_every_move_whose_brokers_live_begins_in_the_end_however_many_come_after_it(
    limit: int, drawn: list[tuple[BrokerId, list[BrokerId]]], seed: int
) -> None:
    """Others come for ever, and which of those in flight ends is left to chance; but none is in flight for ever."""
    twin, chance = Twin(MachineSettings(BrokerId(9), moves_into_broker=limit, moves_out_of_broker=limit)), Random(seed)
    first, since = TopicPartition(TopicName("first"), PartitionId(0)), dict[TopicPartition, int]()
    for step in range(2_000):
        is_first = step == MOVES
        at = first if is_first else TopicPartition(TopicName("t"), PartitionId(step))
        twin.ask(at, step, places_of(drawn[0] if is_first else drawn[1 + step % (len(drawn) - 1)]))
        twin.call()
        if first in twin.moving:
            return
        since.update({moving: step for moving in twin.moving if moving not in since})
        oldest = min(twin.moving, key=lambda moving: since[moving])
        twin.end(oldest if step - since[oldest] > MOVES else chance.choice(sorted(twin.moving)))

    raise AssertionError(f"{first} never began")


def test_a_move_of_two_places_gets_both_though_others_always_want_one_of_them() -> None:
    twin = Twin(MachineSettings(BrokerId(9), moves_into_broker=1))
    one, two = (Place(INTO, b) for b in BROKERS[:2])
    first = TopicPartition(TopicName("first"), PartitionId(0))
    name = TopicName("t")
    twin.ask(TopicPartition(name, PartitionId(0)), 0, (THE_CLUSTER, one))
    twin.ask(TopicPartition(name, PartitionId(1)), 1, (THE_CLUSTER, two))
    twin.call()
    twin.ask(first, 2, (THE_CLUSTER, one, two))
    for step in range(40):
        twin.ask(TopicPartition(name, PartitionId(2 + step)), 3 + step, (THE_CLUSTER, (one, two)[step % 2]))
        twin.end(min(twin.moving, key=lambda at: at.partition))
        twin.call()
        if first in twin.moving:
            return

    raise AssertionError(f"{first} was passed over for ever")


def best_possible(moves_of_plan: list[Places], twin: Twin) -> int:
    """The fewest rounds in which so many moves can be made where each takes one."""
    wanted = Counter(place for places in moves_of_plan for place in places)
    return max(-(-count // limit) for place, count in wanted.items() if (limit := twin.room.limit(place)))


@pytest.mark.parametrize("plan", ["add", "drain", "mixed"])
def test_ten_thousand_moves_take_hardly_longer_than_they_must(plan: str) -> None:
    """25 brokers, 50 in flight, 5 into and 5 out of each; in a plan's order, in which neighbours go to one broker."""
    twin = Twin(MachineSettings(BrokerId(99), moves_at_once=50, moves_into_broker=5, moves_out_of_broker=5))
    chance, planned = Random(plan), list[Places]()
    for n in range(10_000):
        leader = {"add": n % 20, "drain": 20 + n % 2, "mixed": chance.randrange(25)}[plan]
        into = {"add": 20 + n // 2_000, "drain": n // 500, "mixed": chance.randrange(25)}[plan]
        planned.append(places_of((BrokerId(leader), [BrokerId(into)])))
        twin.ask(TopicPartition(TopicName("t"), PartitionId(n)), n, planned[-1])
    rounds = 0
    while twin.waiting or twin.moving:
        twin.call()
        assert twin.moving
        for at in tuple(twin.moving):
            twin.end(at)
        rounds += 1

    assert rounds <= 1.1 * best_possible(planned, twin)
