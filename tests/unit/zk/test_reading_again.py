"""How long does it take to find out what became of many transactions?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.effects import Read
from controller.core.messages.events import Event, Observed
from controller.zk.reader import Reader
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout.ids import PartitionId, TopicName
from zk_layout.znodes.partition_state import StateAddress

ORDERS = TopicName("orders")
MANY = 32


class Rereading:
    """A reader that has loaded an empty ZooKeeper."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble)
        self.emitted: list[Event] = []
        self.reader = Reader(self.process.bridge, self.emitted.append)
        self.process.do(self.reader.load())

    def duration_s(self, transactions: int) -> float:
        """The time until the znodes of so many transactions, one each, have been read again."""
        wanted = [StateAddress(ORDERS, PartitionId(number)) for number in range(transactions)]
        self.emitted.clear()
        began = self.ensemble.clock.now
        for address in wanted:
            self.reader.read(Read((address,)))
        self.ensemble.until(lambda: {*wanted} <= self.seen())
        return self.ensemble.clock.now - began

    def seen(self) -> set[object]:
        return {fact.address for event in self.emitted if isinstance(event, Observed) for fact in event.facts}


@pytest.fixture
def rereading() -> Iterator[Rereading]:
    made = Rereading()
    yield made
    made.process.end()


def test_the_znodes_of_many_transactions_are_read_together(rereading: Rereading) -> None:
    one_by_one = sum(rereading.duration_s(1) for _ in range(MANY))

    assert rereading.duration_s(MANY) < one_by_one / 2
