"""However much is read at once, the event loop turns while it is decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from controller.core.messages.events import Event, Loaded, Observed
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
STATE = partition_state.encode(PartitionState(1, 0, 1, REPLICAS))  # type: ignore[arg-type]


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
    """All answers come at once."""

    def __init__(self, partitions: int) -> None:
        listed = {PartitionId(number): Assignment(REPLICAS) for number in range(partitions)}
        self._topic = topics.encode(Topic(listed))

    async def read(self, paths: Sequence[str], size: ChunkSize) -> list[Found]:
        await asyncio.sleep(0)
        return [(Node(STATE if path.endswith("/state") else self._topic, STAT), SEEN) for path in paths]


async def _loaded(count: int, partitions: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Event], int]:
    """What was emitted, and how many znodes were decoded at most between two turns of the event loop."""
    decoded = most = 0
    decode = catalog.decode

    def counted(address: Address, data: bytes) -> object:
        nonlocal decoded
        decoded += 1
        return decode(address, data)

    async def watch() -> None:
        nonlocal decoded, most
        while True:
            most, decoded = max(most, decoded), 0
            await asyncio.sleep(0)

    monkeypatch.setattr(catalog, "decode", counted)
    events: list[Event] = []
    bulk = AtOnce(partitions)
    reading = Reader(Silent([f"topic-{n}" for n in range(count)]), events.append, bulk=bulk, chunk=200)  # type: ignore[arg-type]
    watching = asyncio.create_task(watch())
    await reading.load()
    reading.stop()
    watching.cancel()
    return events, max(most, decoded)


@pytest.mark.parametrize(("count", "partitions"), [(40, 2_000), (3_000, 1)], ids=["wide topics", "many topics"])
def test_what_is_loaded_is_decoded_in_parts(count: int, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events, most = asyncio.run(_loaded(count, partitions, monkeypatch))

    facts: list[Fact] = [fact for event in events if isinstance(event, Observed) for fact in event.facts]
    assert len(facts) >= count * (1 + partitions)
    assert isinstance(events[-1], Loaded)
    assert most <= 1_000


def test_a_topic_is_shown_together_with_the_states_of_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    events, _ = asyncio.run(_loaded(40, 500, monkeypatch))

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
