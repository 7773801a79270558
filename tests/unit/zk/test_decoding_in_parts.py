"""However much is read at once, the event loop turns while it is decoded."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pytest

from controller.core.messages.events import Event, Loaded, Observed
from controller.zk import reader
from controller.zk.answers import Reply
from controller.zk.bulk import BulkReader, ChunkSize, Found
from controller.zk.protocol import Node, Request
from controller.zk.reader import Reader
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.facts import Fact, Stat
from zk_layout.ids import PartitionId, Replicas, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes import partition_state, topics
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import ROOT, Assignment, Topic

SEEN = Zxid(9)
STAT = Stat(SEEN, SEEN, ZnodeVersion(0))
REPLICAS: Replicas = (1, 2, 3)  # type: ignore[assignment]


def state(epoch: int) -> bytes:
    return partition_state.encode(PartitionState(1, epoch, 1, REPLICAS))  # type: ignore[arg-type]


class Silent:
    """A bridge to a ZooKeeper with nothing but topics."""

    knows_multi_read = True
    seen_zxid = SEEN

    def __init__(self, names: Sequence[str]) -> None:
        self.watch_listeners: list[object] = []
        self.state_listeners: list[object] = []
        self._names = names

    async def ask(self, request: Request) -> Reply:
        return Reply(None, 0, SEEN)

    async def get(self, path: str, *, watch: bool = False) -> tuple[Node | None, Zxid]:
        return None, SEEN

    async def exists(self, path: str, *, watch: bool = False) -> tuple[Stat | None, Zxid]:
        return None, SEEN

    async def children(self, path: str, *, watch: bool = False) -> tuple[list[str] | None, Zxid]:
        return (list(self._names) if path == ROOT else []), SEEN

    def watch_data(self, paths: Iterable[str], since: Zxid) -> None:
        pass

    def full(self, path: str) -> str:
        return path


class AtOnce(BulkReader):
    """All answers come at once; each state is another, or all are alike."""

    def __init__(self, partitions: int, epochs: Iterable[int]) -> None:
        self._epochs = iter(epochs)
        listed = {PartitionId(number): Assignment(REPLICAS) for number in range(partitions)}
        self._topic = topics.encode(Topic(listed))

    async def read(self, paths: Sequence[str], size: ChunkSize) -> list[Found]:
        await asyncio.sleep(0)
        return [
            (Node(state(next(self._epochs)) if path.endswith("/state") else self._topic, STAT), SEEN) for path in paths
        ]


class Decoded(NamedTuple):
    """What was emitted, and how many znodes were decoded: at most between two turns of the event loop, and in all."""

    events: list[Event]
    most_at_once: int
    decoded: int

    @property
    def facts(self) -> list[Fact]:
        """Of all events."""
        return [fact for event in self.events if isinstance(event, Observed) for fact in event.facts]


async def _loaded(count: int, partitions: int, epochs: Callable[[], Iterable[int]] = itertools.count) -> Decoded:
    decoded = most = every = 0

    def counted(address: Address, data: bytes) -> object:
        nonlocal decoded, every
        decoded += 1
        every += 1
        return catalog.decode(address, data)

    async def watch() -> None:
        nonlocal decoded, most
        while True:
            most, decoded = max(most, decoded), 0
            await asyncio.sleep(0)

    events: list[Event] = []
    bulk = AtOnce(partitions, epochs())
    bridge = Silent([f"topic-{n}" for n in range(count)])
    reading = Reader(bridge, events.append, bulk=bulk, chunk=200, decode=counted)  # type: ignore[arg-type]
    watching = asyncio.create_task(watch())
    await reading.load()
    reading.stop()
    watching.cancel()
    return Decoded(events, max(most, decoded), every)


@pytest.mark.parametrize(("count", "partitions"), [(40, 2_000), (3_000, 1)], ids=["wide topics", "many topics"])
def test_what_is_loaded_is_decoded_in_parts(count: int, partitions: int) -> None:
    loaded = asyncio.run(_loaded(count, partitions))

    assert len(loaded.facts) >= count * (1 + partitions)
    assert isinstance(loaded.events[-1], Loaded)
    assert loaded.decoded == count * (1 + partitions)
    assert loaded.most_at_once <= 1_000


def test_states_alike_are_decoded_once() -> None:
    loaded = asyncio.run(_loaded(40, 50, lambda: itertools.repeat(7)))

    states = [fact.value for fact in loaded.facts if isinstance(fact.value, PartitionState)]
    assert len(states) == 2_000
    assert all(value is states[0] for value in states)
    assert loaded.decoded == 40 + 1


def test_only_so_many_states_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STATES_REMEMBERED", 10)

    loaded = asyncio.run(_loaded(40, 50, lambda: itertools.cycle(range(11))))

    states = [fact.value for fact in loaded.facts if isinstance(fact.value, PartitionState)]
    assert [value.leader_epoch for value in states] == [number % 11 for number in range(2_000)]
    assert loaded.decoded > 1_800


def test_a_topic_is_shown_together_with_the_states_of_its_partitions() -> None:
    events = asyncio.run(_loaded(40, 500)).events

    for event in events:
        if isinstance(event, Observed):
            names = {getattr(fact.address, "topic", None) for fact in event.facts} - {None}
            shown = {fact.address.topic for fact in event.facts if isinstance(fact.value, Topic)}  # type: ignore[union-attr]
            assert names == shown or names == set()
    assert TopicName("topic-0") in {
        fact.address.topic  # type: ignore[union-attr]
        for event in events
        if isinstance(event, Observed)
        for fact in event.facts
        if isinstance(fact.value, Topic)
    }
