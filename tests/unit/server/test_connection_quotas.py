"""Who is admitted, and which connection is closed for it?"""

from __future__ import annotations

import pytest

from controller.server.connection_quotas import (
    ADDRESS_FULL,
    LISTENER_FULL,
    NO_ROOM,
    ConnectionQuotas,
    OpenConnection,
    TurnedAway,
)
from controller.settings.limits import Limits

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"


class House:
    """Connections by name, each of which records that it was closed."""

    def __init__(self, *, most: int = 3, newcomers: int = 0, **limits: object) -> None:
        known = Limits(most_connections=most, most_newcomers=newcomers, **limits)  # type: ignore[arg-type] # by name
        self.quotas = ConnectionQuotas(known, INSIDE)
        self.gone: list[str] = []

    def enter(
        self, name: str, listener: str = OUTSIDE, since: float = 0.0, address: str = "10.0.0.1"
    ) -> OpenConnection:
        connection = OpenConnection(listener, address, since)
        connection.leave = lambda: self.gone.append(name)
        self.quotas.enter(connection)
        return connection


def test_clients_beyond_the_limit_are_turned_away_until_others_leave() -> None:
    house = House()
    first, *_ = [house.enter(name) for name in "abc"]
    with pytest.raises(TurnedAway, match=NO_ROOM):
        house.enter("d")

    house.quotas.left(first)
    house.quotas.left(first)
    house.enter("d")

    assert (len(house.quotas), house.gone) == (3, [])


def test_a_broker_always_gets_in_and_the_client_that_was_idle_for_longest_goes() -> None:
    house = House()
    for name, since in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        house.enter(name, since=since).is_known = True

    house.enter("broker", INSIDE)

    assert (len(house.quotas), house.gone) == (3, ["b"])


def test_who_goes_first_is_idle_then_a_client_elsewhere_then_silent_so_far() -> None:
    house = House(most=4)
    busy = house.enter("busy", since=0.0)
    inside = house.enter("a client on the brokers' listener", INSIDE, since=1.0)
    silent, known = house.enter("silent", since=9.0), house.enter("known", since=2.0)
    busy.is_busy = True
    known.is_known = inside.is_known = busy.is_known = True
    assert silent.is_known is False

    for number in range(4):
        house.enter(f"broker {number}", INSIDE, since=10.0).is_broker = True

    assert house.gone == ["silent", "known", "a client on the brokers' listener", "busy"]


def test_who_has_hung_up_goes_before_a_client_that_has_asked_something() -> None:
    house = House()
    known = house.enter("known")
    waiting, gone = house.enter("waiting"), house.enter("hung up")
    known.is_known = waiting.is_busy = gone.is_busy = True
    gone.has_hung_up = lambda: True

    house.enter("broker", INSIDE).is_broker = True
    house.enter("broker", INSIDE).is_broker = True

    assert house.gone == ["hung up", "known"]


def test_brokers_do_not_push_each_other_out() -> None:
    house = House()
    for name in "abc":
        house.enter(name, INSIDE).is_broker = True

    with pytest.raises(TurnedAway, match=NO_ROOM):
        house.enter("d", INSIDE)


def test_a_listener_and_an_address_have_limits_of_their_own() -> None:
    house = House(most=9, most_per_listener={OUTSIDE: 2}, most_per_address=2, most_for_address={"10.0.0.9": 3})
    house.enter("a")
    house.enter("b")
    with pytest.raises(TurnedAway, match=ADDRESS_FULL):
        house.enter("c", INSIDE)
    with pytest.raises(TurnedAway, match=LISTENER_FULL):
        house.enter("d", OUTSIDE, address="10.0.0.2")
    for name in "efg":
        house.enter(name, INSIDE, address="10.0.0.9")
    with pytest.raises(TurnedAway, match=ADDRESS_FULL):
        house.enter("h", INSIDE, address="10.0.0.9")


def test_when_answers_pile_up_the_one_who_has_not_taken_its_own_for_longest_goes() -> None:
    house = House(unsent_bytes=250)
    slow, quick, third = (house.enter(name) for name in ("slow", "quick", "third"))
    shared, own = b"s" * 200, b"o" * 100

    assert house.quotas.hold(slow, shared, 1.0) is None
    assert house.quotas.hold(quick, shared, 2.0) is None
    assert house.quotas.unsent_bytes == 200
    house.quotas.release(quick, shared)
    assert house.quotas.hold(third, own, 3.0) is slow

    house.quotas.release(slow, shared)
    assert (house.gone, house.quotas.unsent_bytes) == (["slow"], 100)


def test_newcomers_push_each_other_out_and_no_client_until_they_show_who_they_are() -> None:
    house = House(most=60, newcomers=3)
    for number in range(60):
        ann = house.enter(f"ann {number}", since=float(number))
        ann.is_known = ann.is_identified = True
    broker = house.enter("broker", INSIDE, since=100.0, address="10.0.0.2")
    for number in range(60):
        house.enter(f"stranger {number}", INSIDE, since=100.0 + number / 100)
    assert [name for name in house.gone if "stranger" not in name] == []
    assert (len(house.gone), len(house.quotas)) == (58, 63)

    broker.since, broker.is_known, broker.is_identified = 101.0, True, True
    leaving = house.quotas.settle(broker)

    assert house.gone[58:] == ["ann 0"]
    assert leaving is not None


def test_strangers_that_have_had_their_time_go_before_any_client() -> None:
    house = House(most=2, newcomers=2)
    ann = house.enter("ann")
    ann.is_known = ann.is_identified = True
    house.enter("stranger", INSIDE)
    broker = house.enter("broker", INSIDE, since=9.0)
    broker.is_known = broker.is_identified = True

    house.quotas.settle(broker)

    assert house.gone == ["stranger"]


def test_who_has_only_asked_something_pushes_out_no_client_that_has_logged_in() -> None:
    house = House(most=1, newcomers=2)
    ann = house.enter("ann")
    ann.is_known = ann.is_identified = True
    anonymous = [house.enter("anonymous 0", INSIDE)]
    for number in (1, 2):
        anonymous[-1].is_known = True
        house.quotas.settle(anonymous[-1])
        anonymous.append(house.enter(f"anonymous {number}", INSIDE, since=float(number)))
    anonymous[-1].is_known = True
    house.quotas.settle(anonymous[-1])
    assert (house.gone, len(house.quotas)) == (["anonymous 0", "anonymous 1"], 2)

    anonymous[-1].is_broker = True
    house.quotas.settle(anonymous[-1])

    assert house.gone[2:] == ["ann"]
