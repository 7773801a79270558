"""How does the controller's own reader read the simulated ZooKeeper? Over a connection that is late, or is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controller.core.effects import Notice, Read, ReadAgain, ReadChildren, Survey
from controller.core.events import Event
from controller.zk import protocol, reader
from controller.zk.answers import Change, ConnectionState, Disconnected, Refused, Reply, SessionEnded
from controller.zk.answers import WatchEvent as Fired
from controller.zk.protocol import MultiRead, Node, Request
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import LOST, ZkConnection
from tests.simulation.zookeeper import WatchEvent, ZooKeeper
from zk_layout.catalog import Address
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, TopicName, Zxid

_NO_PERMISSION = -102
_REFUSED = object()


class Reader:
    """`controller.zk.reader` in simulated time."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        session: SessionId,
        connection: ZkConnection,
        emit: Callable[[Event], None],
        *,
        notice: Callable[[Notice], None] = lambda _: None,
        chunk: int = 2_000,
        follows_reassignments: bool = False,
    ) -> None:
        self._loop = SimulatedLoop()  # type: ignore[abstract]  # nothing that reads asks a loop for more
        self._reads = _Reads(zookeeper, session, connection, self._loop)
        self._reader = reader.Reader(
            self._reads, emit, notice=notice, chunk=chunk, follows_reassignments=follows_reassignments
        )

    def load(self) -> None:
        """Read everything once, watching it; then say so."""
        self._loop.start(self._load())
        self._loop.run_ready()

    async def _load(self) -> None:
        try:
            await self._reader.load()
        except SessionEnded:
            self._reader.stop()
            return
        await self._reader.wait()

    def read(self, addresses: Iterable[Address], watch: bool) -> None:
        """What a `Read` effect asks for."""
        self._reader.read(Read(tuple(addresses), watch))
        self._loop.run_ready()

    def read_children(self, parent: str) -> None:
        """What a `ReadChildren` effect asks for."""
        self._reader.read_children(ReadChildren(parent))
        self._loop.run_ready()

    def read_again(self, paths: Iterable[str]) -> None:
        """What a `ReadAgain` effect asks for."""
        self._reader.read_again(ReadAgain(tuple(paths)))
        self._loop.run_ready()

    def survey(self, topic: TopicName) -> None:
        """What a `Survey` effect asks for."""
        self._reader.survey(Survey(topic))
        self._loop.run_ready()

    def fired(self, event: WatchEvent) -> None:
        """A watch of this session fired."""
        for listener in self._reads.watch_listeners:
            listener(Fired(Change(event.happened), event.path))
        self._loop.run_ready()

    def stop(self) -> None:
        """Emit nothing from now on."""
        self._reader.stop()
        self._loop.run_ready()


class _Reads:
    """One session's reads. A request that was lost is repeated as long as there is a session."""

    def __init__(self, zookeeper: ZooKeeper, session: SessionId, connection: ZkConnection, loop: SimulatedLoop) -> None:
        self.seen_zxid = Zxid(0)
        self.watch_listeners: list[Callable[[Fired], None]] = []
        self.state_listeners: list[Callable[[ConnectionState], None]] = []
        self.knows_multi_read: bool | None = True
        self._zookeeper = zookeeper
        self._session = session
        self._connection = connection
        self._loop = loop

    async def ask(self, request: Request) -> Reply:
        """Answer the one request that is not made by its name here: a multi-read."""
        assert isinstance(request, MultiRead)
        found, zxid = await self._once(lambda: [self._node(path) for path in request.paths])
        entries = [
            _NO_PERMISSION if path in self._zookeeper.hidden else protocol.NO_NODE if node is None else node
            for path, node in zip(request.paths, found, strict=True)
        ]
        return Reply(entries, protocol.OK, zxid)

    async def get(self, path: str, *, watch: bool = False) -> tuple[Node | None, Zxid]:
        """A znode, or None. A missing one gets no watch."""
        return await self._permitted(path, lambda: self._node(path, watch and path in self._zookeeper.nodes))

    async def exists(self, path: str, *, watch: bool = False) -> tuple[Stat | None, Zxid]:
        """Its stat, or None. A missing one is watched too."""
        node, zxid = await self._permitted(path, lambda: self._node(path, watch))
        return None if node is None else node.stat, zxid

    async def children(self, path: str, *, watch: bool = False) -> tuple[list[str] | None, Zxid]:
        """The names below a znode, or None."""
        names, zxid = await self._permitted(path, lambda: self._zookeeper.children(self._session, path, watch))
        return None if names is None else list(names), zxid

    def watch_data(self, paths: Iterable[str], since: Zxid) -> None:
        """Watch many znodes' data; what has changed since is told at once."""
        names = sorted(paths)

        def perform() -> None:
            self._zookeeper.set_watches(self._session, names, since)

        def replied(result: object) -> None:
            if result is LOST and self._session in self._zookeeper.sessions:
                self._connection.call(perform, replied)

        self._connection.call(perform, replied)

    def full(self, path: str) -> str:
        """The path; there is no chroot."""
        return path

    def _node(self, path: str, watch: bool = False) -> Node | None:
        found = self._zookeeper.get(self._session, path, watch)
        return None if found is None else Node(*found)

    async def _permitted(self, path: str, perform: Callable[[], Any]) -> tuple[Any, Zxid]:
        hidden = self._zookeeper.hidden

        def performed() -> Any:
            return _REFUSED if path in hidden and path in self._zookeeper.nodes else perform()

        result, zxid = await self._again_and_again(performed)
        if result is _REFUSED:
            raise Refused(path, _NO_PERMISSION)
        return result, zxid

    async def _again_and_again(self, perform: Callable[[], Any]) -> tuple[Any, Zxid]:
        while True:
            try:
                return await self._once(perform)
            except Disconnected:
                continue

    async def _once(self, perform: Callable[[], Any]) -> tuple[Any, Zxid]:
        future = self._loop.create_future()

        def replied(result: Any) -> None:
            if not future.done():
                future.set_result(result)
                self._loop.run_ready()

        self._connection.call(lambda: (perform(), self._zookeeper.zxid), replied)
        result = await future
        if result is not LOST:
            self.seen_zxid = max(self.seen_zxid, result[1])
            return result[0], result[1]
        if self._session in self._zookeeper.sessions:
            raise Disconnected("the simulated connection was lost")
        raise SessionEnded("expired")
