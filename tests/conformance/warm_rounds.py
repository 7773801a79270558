"""Does a warm standby miss nothing on a real ZooKeeper? Others write all the time, and it claims again and again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from msgspec import Struct

from controller.core.candidacy.events import Claimed
from controller.core.messages.events import Event, Loaded
from controller.core.state.cluster import ClusterState
from controller.following.standby import WarmFacts
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader
from controller.zk.session import Session
from tests.conformance.adapter_world import STATE, connected, create_topic, registration, topic_data
from zk_layout import catalog
from zk_layout.ids import BrokerId, TopicName
from zk_layout.watched import watched
from zk_layout.znodes import topics
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

TOPICS = tuple(f"topic-{number}" for number in range(6))
PARTITIONS = 5
AT_ONCE = 20


class Round(Struct):
    """One claim: how many writes came in all, how many of them between the last read and the claim, and whether one
    watch told of all."""

    writes: int
    due: int
    is_recursive: bool


class Writer(threading.Thread):
    """Writes topics and states, one after the other, until it is told to stop."""

    def __init__(self, client: KazooClient, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._random = Random(seed)
        self._is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(KazooException):  # there already, or gone
                self._write()

    def stop(self) -> None:
        """Return when the last write has been answered."""
        self._is_over.set()
        self.join()

    def _write(self) -> None:
        name = self._random.choice(TOPICS)
        path = f"{topics.ROOT}/{name}"
        kind = self._random.random()
        if kind < 0.8:
            self._write_states()
        elif kind < 0.9:
            self._client.set(path, topic_data(self._random.randint(1, PARTITIONS)))
        elif self._client.exists(path):
            self._client.delete(path, recursive=True)
        else:
            create_topic(self._client, name, PARTITIONS)

    def _write_states(self) -> None:
        """Many are on their way at once: some arrive just before a claim."""
        answers = []
        for _ in range(AT_ONCE):
            name, number = self._random.choice(TOPICS), self._random.randrange(PARTITIONS)
            at = f"{topics.ROOT}/{name}/partitions/{number}/state"
            answers.append(self._client.set_async(at, STATE % self._random.randrange(1000)))
        for answer in answers:
            answer.wait()
            self.count += answer.successful()


@contextlib.contextmanager
def writing(client: KazooClient, seed: int) -> Iterator[Writer]:
    """Others who write meanwhile."""
    writer = Writer(client, seed)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


async def claim_again_and_again(
    connect: str,
    client: KazooClient,
    rounds: int,
    *,
    is_recursive: bool = False,
    cut: Callable[[Bridge], None] = lambda _: None,
    seed: int = 0,
) -> list[Round]:
    """Follow, claim at some moment, load, and compare with what ZooKeeper holds; `client` is that of the others. `cut`
    is called before each claim."""
    random = Random(seed)
    async with connected(connect) as bridge:
        session = Session(bridge, lambda _: None, BrokerId(100))
        await session.prepare()
        standing = _Standing(bridge, session, client, random, is_recursive, cut)
        return [await _claim(standing) for _ in range(rounds)]


class _Standing(NamedTuple):
    bridge: Bridge
    session: Session
    client: KazooClient
    random: Random
    is_recursive: bool
    cut: Callable[[Bridge], None]


async def _claim(standing: _Standing) -> Round:
    bridge, session, client, random = standing[:4]
    with writing(client, random.randrange(1_000_000)) as writer:
        facts = WarmFacts(bridge, watched(), BulkReader(bridge), is_recursive=standing.is_recursive)
        await facts.prepare()
        await asyncio.sleep(random.uniform(0, 0.15))
        standing.cut(bridge)
        await asyncio.sleep(random.choice((0, random.uniform(0, 0.15))))
        claimed = await session.claim(registration(), replace=False)
        assert isinstance(claimed, Claimed)
        due = facts.states.due_count
        heard: list[Event] = []
        state = facts.hand_over(heard.append, lambda _: None)
        state.was_followed = True  # as a machine has it
        await facts.load()
    for event in heard[: heard.index(Loaded()) + 1]:
        state.fold(event)
    facts.stop()
    compare(client, state)
    await session.release(claimed.fence_version)
    return Round(writer.count, due, facts.states.is_recursive)


def compare(client: KazooClient, state: ClusterState) -> None:
    """Each znode last written before the claim is held as it is, and no topic that was deleted before it."""
    client.sync("/")
    claimed = client.exists("/controller").czxid
    names, folder = client.get_children(topics.ROOT, include_data=True)
    if folder.pzxid < claimed:
        assert set(state.topics.views) == set(names)
    for name in names:
        address = TopicAddress(TopicName(name))
        data, stat = client.get(address.path)
        if stat.mzxid > claimed:
            continue
        view = state.topics.views[address.topic]
        assert (view.czxid, view.as_of) == (stat.czxid, stat.mzxid), name
        topic = catalog.decode(address, data)
        assert isinstance(topic, Topic)
        for number in topic.partitions:
            held = client.exists(StateAddress(address.topic, number).path)
            seen = view.partitions[number]
            if held is None or held.mzxid > claimed:
                continue
            assert seen.as_of == held.mzxid, (name, number)
