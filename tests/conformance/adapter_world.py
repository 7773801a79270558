"""What do the tests of the ZooKeeper adapter share: connections, a listener, and a line with faults?"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import TypeVar

from kazoo.client import KazooClient

from controller.core.messages.events import Event, Loaded, Observed
from controller.lab.zookeeper import zookeeper_client
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.bridge import Bridge
from controller.zk.reader import Reader
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId
from zk_layout.watched import watched
from zk_layout.znodes import brokers
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.topics import Topic

T = TypeVar("T")

STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":%d,"isr":[1,2]}'


async def started(connect: str, session_timeout_ms: int = 10_000) -> Bridge:
    """A bridge that has a session."""
    bridge = Bridge(ZooKeeperSettings(connect, session_timeout_ms))
    await bridge.start()
    return bridge


@asynccontextmanager
async def connected(connect: str, session_timeout_ms: int = 10_000) -> AsyncIterator[Bridge]:
    """A bridge that is stopped at the end."""
    bridge = await started(connect, session_timeout_ms)
    try:
        yield bridge
    finally:
        await bridge.stop()


def someone(connect: str) -> AbstractContextManager[KazooClient]:
    """Another process: a broker, a tool."""
    return zookeeper_client(connect)


async def until(holds: Callable[[], T | None], timeout_s: float = 15.0) -> T:
    """Wait until a condition holds; fail with its description."""
    async with asyncio.timeout(timeout_s):
        while not (result := holds()):
            await asyncio.sleep(0.01)
        return result


def create_parents(client: KazooClient) -> None:
    """Create the znodes that exist before a controller reads."""
    what = watched(follows_reassignments=False)
    for parent in (*what.parents, *what.listed_once):
        client.ensure_path(parent)


def topic_data(partitions: int) -> bytes:
    """A topic's znode with both replicas on brokers 1 and 2."""
    return b'{"version":2,"partitions":{%s},"adding_replicas":{},"removing_replicas":{}}' % b",".join(
        b'"%d":[1,2]' % partition for partition in range(partitions)
    )


def create_topic(client: KazooClient, name: str, partitions: int, with_states: bool = True) -> None:
    """Create a topic like a broker and then a controller."""
    path = f"/brokers/topics/{name}"
    client.create(path, topic_data(partitions))
    if with_states:
        create_states(client, name, range(partitions))


def create_states(client: KazooClient, name: str, partitions: Sequence[int]) -> None:
    """State znodes with their parents."""
    path = f"/brokers/topics/{name}/partitions"
    client.ensure_path(path)
    for at in range(0, len(partitions), 200):
        transaction = client.transaction()
        for partition in partitions[at : at + 200]:
            transaction.create(f"{path}/{partition}")
            transaction.create(f"{path}/{partition}/state", STATE % 0)
        transaction.commit()


def registration(port: int = 9092) -> Registration:
    """One PLAINTEXT listener."""
    return Registration((Endpoint("PLAINTEXT", "127.0.0.1", port),))


def register(client: KazooClient, broker: int, port: int = 9092) -> None:
    """Register a broker like brokers."""
    client.create(BrokerAddress(BrokerId(broker)).path, brokers.encode(registration(port)), ephemeral=True)


class Seen:
    """Everything a reader emitted, and its last fact about each znode."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.facts: dict[Address, Fact] = {}

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Observed):
            for fact in event.facts:
                held = self.facts.get(fact.address)
                if held is None or fact.as_of >= held.as_of:
                    self.facts[fact.address] = fact

    @property
    def is_loaded(self) -> bool:
        return Loaded() in self.events

    def present(self) -> dict[str, int]:
        """By path, the version of each znode that was read as present."""
        return {a.path: f.stat.version for a, f in self.facts.items() if f.stat is not None}

    def fact(self, path: str) -> Fact | None:
        address = catalog.address_of(path)
        return None if address is None else self.facts.get(address)

    def version(self, path: str) -> int | None:
        """The version last read; None for a znode that is absent or was never read."""
        fact = self.fact(path)
        return None if fact is None or fact.stat is None else fact.stat.version

    def is_gone(self, path: str) -> bool:
        fact = self.fact(path)
        return fact is not None and not fact.is_present


def held(client: KazooClient) -> dict[str, int]:
    """By path, the version of each znode in the families whose data are watched."""
    return {
        f"{parent}/{name}": client.exists(f"{parent}/{name}").version
        for parent in watched(follows_reassignments=False).families
        for name in client.get_children(parent)
    }


def present_facts(seen: Seen, truth: dict[str, int]) -> dict[str, int]:
    """The facts about those that were read as present, and all others of their level."""
    return {path: version for path, version in seen.present().items() if path in truth or path.count("/") == 3}


def every_state_is_known(seen: Seen, truth: dict[str, int]) -> bool:
    """Whether there is a fact about each partition of these topics, even if it is absent."""
    topics = [(path, fact.value) for path in truth if (fact := seen.fact(path)) is not None]
    return all(
        seen.fact(f"{path}/partitions/{number}/state") is not None
        for path, topic in topics
        if isinstance(topic, Topic)
        for number in topic.partitions
    )


@asynccontextmanager
async def loaded(connect: str, chunk: int = 2_000) -> AsyncIterator[tuple[Seen, Reader]]:
    """A reader that has loaded everything."""
    async with connected(connect) as bridge:
        seen = Seen()
        reader = Reader(bridge, seen, chunk=chunk)
        await reader.load()
        try:
            yield seen, reader
        finally:
            reader.stop()


class Line:
    """A TCP line to ZooKeeper. `on_request` is asked about every operation code before it is passed on."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.partition("/")[0].rpartition(":")
        self._port = int(port)
        self._chroot = target[len(target.partition("/")[0]) :]
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.on_request: Callable[[int], str | None] = lambda _: None
        self.is_mute = False
        self.requests: list[int] = []
        self.connect = ""

    async def __aenter__(self) -> "Line":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.connect = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self._chroot}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Drop every connection."""
        for writer in tuple(self._writers):
            writer.close()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, up_writer}
        for pump in (self._requests(reader, writer, up_writer), self._answers(up_reader, writer)):
            task = asyncio.create_task(self._until_closed(pump, writer, up_writer))
            self._tasks.add(task)

    async def _until_closed(self, pump: Awaitable[None], *writers: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await pump
        for writer in writers:
            writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: asyncio.StreamWriter
    ) -> None:
        is_first = True
        while True:
            size = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack(">i", size)[0])
            if not is_first:
                xid, operation = struct.unpack_from(">ii", body)
                self.requests.append(operation)
                match self.on_request(operation):
                    case "close":
                        return
                    case "unimplemented":
                        writer.write(struct.pack(">iiqi", 16, xid, 0, -6))
                        await writer.drain()
                        return
            is_first = False
            up.write(size + body)
            await up.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.is_mute:
                writer.write(data)
                await writer.drain()
