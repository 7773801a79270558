"""Is every change seen, whenever it comes: between two requests, during a round, while the connection is lost?

What real servers make of it: `tests/conformance/test_zookeeper_adapter_reading.py` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.events import Event, Loaded, Observed
from tests.simulation.reader import Reader
from tests.simulation.zookeeper import MakeNode
from tests.unit.zk.simulated import Ensemble
from zk_layout.znodes.admin import LegacyReassignmentAddress

LEGACY = LegacyReassignmentAddress().path
MOVES = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2]}]}'
TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
WHILE_LOADING_MS = range(0, 1_000, 10)
MOMENTS_MS = range(40)


class Reading:
    """A reader, and what it has emitted."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self._events: list[Event] = []
        self.reader = Reader(self.ensemble.zookeeper, self.ensemble.network, self._events.append)
        self.reader.load()

    @property
    def is_loaded(self) -> bool:
        """Whether everything was read once."""
        return Loaded() in self._events

    def is_told(self, path: str) -> bool:
        """Whether a znode was last reported as existing."""
        seen = [fact for e in self._events if isinstance(e, Observed) for fact in e.facts if fact.address.path == path]
        return bool(seen) and seen[-1].is_present


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    yield reading
    reading.reader.close()


@pytest.mark.parametrize("after_ms", WHILE_LOADING_MS)
def test_a_znode_that_need_not_exist_is_seen_whenever_it_comes(reading: Reading, after_ms: int) -> None:
    reading.ensemble.until(lambda: reading.reader.is_connected)

    reading.ensemble.write_later(after_ms / 1000, MakeNode(LEGACY, MOVES))

    reading.ensemble.until(lambda: reading.is_loaded and reading.is_told(LEGACY))


@pytest.mark.parametrize("after_ms", MOMENTS_MS)
def test_what_comes_while_something_else_is_read_is_seen(reading: Reading, after_ms: int) -> None:
    reading.ensemble.until(lambda: reading.is_loaded)

    reading.ensemble.write(MakeNode("/brokers/topics/orders", TOPIC))
    reading.ensemble.write_later(after_ms / 1000, MakeNode("/brokers/topics/payments", TOPIC))

    reading.ensemble.until(lambda: reading.is_told("/brokers/topics/orders"))
    reading.ensemble.until(lambda: reading.is_told("/brokers/topics/payments"))


def test_what_comes_while_the_connection_is_lost_is_seen_when_it_is_back(reading: Reading) -> None:
    reading.ensemble.until(lambda: reading.is_loaded)

    reading.reader.connection.drop(1.0)
    reading.ensemble.write(MakeNode("/brokers/topics/orders", TOPIC))

    reading.ensemble.until(lambda: reading.is_told("/brokers/topics/orders"))
