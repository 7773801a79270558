"""Are bytes that Kafka's decoder passes over read, and named once a znode?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.effects import Notice
from controller.core.messages.events import Event, Loaded, Observed
from controller.zk import oddities
from tests.simulation.reader import Reader
from tests.simulation.zookeeper import MakeNode, SetData
from tests.unit.zk.simulated import Ensemble
from zk_layout.codec import Malformed

TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
MARK = b"\xef\xbb\xbf"


class Reading:
    """A reader with what it has emitted and named."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self._events: list[Event] = []
        self.notices: list[Notice] = []
        zookeeper, network = self.ensemble.zookeeper, self.ensemble.network
        self.reader = Reader(zookeeper, network, self._events.append, notice=self.notices.append)

    def load(self) -> None:
        self.reader.load()
        self.ensemble.until(lambda: Loaded() in self._events)

    def seen(self, path: str) -> list[object]:
        """The values of a znode, one for each reading."""
        facts = (fact for e in self._events if isinstance(e, Observed) for fact in e.facts)
        return [fact.value for fact in facts if fact.address.path == path]


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    yield reading
    reading.reader.close()


def test_each_znode_is_read_and_named_once_however_often_it_is_written(reading: Reading) -> None:
    topic, state = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"
    reading.ensemble.zookeeper.make_path(f"{topic}/partitions/0")
    reading.ensemble.write(SetData(topic, MARK + TOPIC), MakeNode(state, STATE + b"}"))

    reading.load()
    reading.ensemble.write(SetData(topic, TOPIC + b"\0\0"))
    reading.ensemble.until(lambda: len(reading.seen(topic)) == 2)

    assert not any(value is None or isinstance(value, Malformed) for value in reading.seen(topic) + reading.seen(state))
    assert reading.notices == [
        Notice(
            "odd znode",
            f"{topic} has a byte order mark, which is passed over, as Kafka does; its next write is clean",
        ),
        Notice(
            "odd znode",
            f"{state} has 1 byte behind the JSON value, which is passed over, as Kafka does; its next write is clean",
        ),
    ]


def test_each_of_several_states_alike_is_named(reading: Reading) -> None:
    topic = "/brokers/topics/orders"
    states = [f"{topic}/partitions/{number}/state" for number in range(2)]
    for number in range(2):
        reading.ensemble.zookeeper.make_path(f"{topic}/partitions/{number}")
    reading.ensemble.write(
        SetData(topic, TOPIC.replace(b'{"0":[1]}', b'{"0":[1],"1":[1]}')),
        *(MakeNode(at, STATE + b"}") for at in states),
    )

    reading.load()

    assert [notice.text.split()[0] for notice in reading.notices] == states


def test_what_is_clean_or_cannot_be_read_is_not_odd(reading: Reading) -> None:
    reading.ensemble.write(
        MakeNode("/brokers/topics/clean", TOPIC), MakeNode("/brokers/topics/broken", MARK + TOPIC[:-1])
    )

    reading.load()

    assert reading.notices == []


def test_of_very_many_only_the_first_are_named(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oddities, "_ODD_NAMED", 2)
    reading.ensemble.write(*(MakeNode(f"/brokers/topics/odd-{n}", TOPIC + b"}") for n in range(5)))

    reading.load()

    assert [notice.text.split()[0] for notice in reading.notices] == [
        "/brokers/topics/odd-0",
        "/brokers/topics/odd-1",
        "more",
    ]
