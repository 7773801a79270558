"""Does the reader fail loudly in simulated time, and end quietly with its session?"""

from __future__ import annotations

from random import Random

import pytest

from controller.core.messages.events import Event, Loaded
from tests.simulation.clock import Clock
from tests.simulation.network import Network
from tests.simulation.reader import Reader
from tests.simulation.zookeeper import ZooKeeper
from zk_layout.watched import PERSISTENT

AN_HOUR_S = 3600.0


def a_zookeeper() -> ZooKeeper:
    zookeeper = ZooKeeper(lambda *_: None, lambda *_: None)
    for path in PERSISTENT:
        zookeeper.make_path(path)
    return zookeeper


def reading(clock: Clock, zookeeper: ZooKeeper, events: list[Event]) -> Reader:
    reader = Reader(zookeeper, Network(clock, Random(1)), events.append)
    reader.load()
    return reader


def run(clock: Clock, events: list[Event]) -> None:
    while Loaded() not in events and clock.now < AN_HOUR_S and clock.step():
        pass


def test_what_a_listener_raises_while_reading_stops_the_world() -> None:
    clock, events = Clock(), list[Event]()

    def listener(event: Event) -> None:
        raise ValueError(f"cannot use {event}")

    Reader(a_zookeeper(), Network(clock, Random(1)), listener).load()

    with pytest.raises(ValueError, match="cannot use Observed"):
        run(clock, events)


def test_a_lost_connection_costs_time_and_nothing_else() -> None:
    undisturbed, expected = Clock(), list[Event]()
    reading(undisturbed, a_zookeeper(), expected)
    run(undisturbed, expected)
    clock, events = Clock(), list[Event]()
    reader = reading(clock, a_zookeeper(), events)

    while not reader.is_connected:
        clock.step()
    reader.connection.drop(2.0)
    run(clock, events)

    assert events == expected
    assert clock.now > 2.0 > undisturbed.now


def test_the_end_of_the_session_ends_the_load() -> None:
    clock, events, zookeeper = Clock(), list[Event](), a_zookeeper()
    reader = reading(clock, zookeeper, events)
    while not reader.is_connected:
        clock.step()

    for session in tuple(zookeeper.sessions):
        zookeeper.close_session(session)
    run(clock, events)

    assert not events
