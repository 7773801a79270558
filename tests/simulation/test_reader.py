"""Does the reader fail loudly in simulated time, and is one whose session ends simply over?"""

from __future__ import annotations

from random import Random

import pytest

from controller.core.events import Event
from tests.simulation.clock import Clock
from tests.simulation.network import Network, ZkConnection
from tests.simulation.reader import Reader
from tests.simulation.zookeeper import ZooKeeper
from zk_layout.watched import PERSISTENT


def loading(clock: Clock) -> tuple[Reader, ZooKeeper, ZkConnection, list[Event]]:
    zookeeper = ZooKeeper(lambda *_: None, lambda *_: None)
    for path in PERSISTENT:
        zookeeper.make_path(path)
    connection = ZkConnection(Network(clock, Random(1)))
    events: list[Event] = []
    return Reader(zookeeper, zookeeper.open_session(), connection, events.append), zookeeper, connection, events


def run(clock: Clock) -> None:
    while clock.step():
        pass


def test_what_a_listener_raises_while_reading_stops_the_world() -> None:
    clock = Clock()
    _, zookeeper, connection, _ = loading(clock)

    def listener(event: Event) -> None:
        raise ValueError(f"cannot use {event}")

    Reader(zookeeper, zookeeper.open_session(), connection, listener).load()

    with pytest.raises(ValueError, match="cannot use Observed"):
        run(clock)


def test_a_lost_connection_costs_time_and_nothing_else() -> None:
    clock = Clock()
    reader, _, connection, events = loading(clock)
    undisturbed = Clock()
    other, _, _, expected = loading(undisturbed)
    other.load()
    run(undisturbed)

    reader.load()
    connection.drop(2.0)
    run(clock)

    assert events == expected
    assert clock.now > 2.0 > undisturbed.now


def test_the_end_of_the_session_ends_the_load() -> None:
    clock = Clock()
    reader, zookeeper, _, events = loading(clock)

    reader.load()
    for session in tuple(zookeeper.sessions):
        zookeeper.close_session(session)
    run(clock)

    assert not events
