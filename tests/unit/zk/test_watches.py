"""Which watches does a new connection set again?"""

from __future__ import annotations

from controller.zk.answers import Change, WatchEvent
from controller.zk.watches import Watches
from zk_layout.ids import Zxid

STATES = [f"/brokers/topics/orders/partitions/{number}/state" for number in range(25)]
TOPIC = "/brokers/topics/orders"


def _watching() -> Watches:
    watches = Watches(most_bytes=100_000)
    assert list(watches.of_data([*STATES[:20], TOPIC], Zxid(1)))
    assert list(watches.of_creation(STATES[20:], Zxid(1)))
    return watches


def _set_again(watches: Watches) -> set[str]:
    return {path for request in watches.of_all(Zxid(9)) for path in (*request.data, *request.existence)}


def test_those_with_a_forgotten_ending_are_not() -> None:
    watches = _watching()

    watches.forget("/state")

    assert _set_again(watches) == {TOPIC}


def test_they_are_sifted_part_by_part() -> None:
    watches = _watching()
    watches.forget("/state")

    parts = 1
    while watches.sift(most=10):
        parts += 1

    assert parts == 3
    assert _set_again(watches) == {TOPIC}


def test_what_is_watched_after_forgetting_is_set_again() -> None:
    watches = _watching()
    watches.forget("/state")
    assert list(watches.of_data(STATES[:1], Zxid(2)))

    assert _set_again(watches) == {TOPIC, STATES[0]}


def test_what_has_fired_before_it_is_sifted_is_not() -> None:
    watches = _watching()
    watches.forget("/state")

    watches.fired(WatchEvent(Change.CHANGED, TOPIC))

    assert _set_again(watches) == set()


def test_nothing_outlives_the_session() -> None:
    watches = _watching()
    watches.forget("/state")

    watches.clear()

    assert not watches.sift()
    assert _set_again(watches) == set()
