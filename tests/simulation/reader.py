"""How does the controller's own reader run by itself on the simulated ZooKeeper? In its own session."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.core.messages.effects import Notice, Read, ReadAgain, ReadChildren, Survey
from controller.core.messages.events import Event
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import reader
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from tests.simulation.kazoo_client import Connection, kazoo_client
from tests.simulation.loop import WAKE_S, SimulatedLoop
from tests.simulation.network import Line, Network
from tests.simulation.zookeeper import ZooKeeper
from tests.simulation.zookeeper_server import ServerConnection
from zk_layout.catalog import Address
from zk_layout.ids import SessionId, TopicName
from zk_layout.watched import Watched


class Reader:
    """`controller.zk.reader` over `controller.zk.bridge` in simulated time."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        network: Network,
        emit: Callable[[Event], None],
        *,
        notice: Callable[[Notice], None] = lambda _: None,
        chunk: int = 2_000,
        what: Watched | None = None,
        wake_s: float = WAKE_S,
    ) -> None:
        def dial(line: Line) -> ServerConnection:
            return ServerConnection(zookeeper, line.answer, line.hang_up)

        self._loop = SimulatedLoop(network.clock, wake_s=wake_s)  # type: ignore[abstract]  # it asks for no more
        settings = ZooKeeperSettings("simulated:2181")
        self._client = kazoo_client(settings, network, self._loop, dial)
        self._bridge = Bridge(settings, self._client)
        self._reader = reader.Reader(self._bridge, emit, notice=notice, chunk=chunk, what=what)

    @property
    def session(self) -> SessionId:
        """Its session; 0 before it is connected."""
        return self._bridge.session

    @property
    def is_connected(self) -> bool:
        """Whether it may send requests."""
        return self._bridge._is_connected.is_set()

    @property
    def connection(self) -> Connection:
        """Its connection to ZooKeeper."""
        connection = self._client._connection
        assert isinstance(connection, Connection)
        return connection

    def connect(self) -> None:
        """Open a session."""
        self._loop.start(self._bridge.start())

    def load(self) -> None:
        """Read everything once, watching it; then report."""
        self._loop.start(self._load())

    async def _load(self) -> None:
        if self._bridge.state is None:
            await self._bridge.start()
        try:
            await self._reader.load()
        except SessionEnded:
            self._reader.stop()
            return
        await self._reader.wait()

    def read(self, addresses: Iterable[Address], watch: bool) -> None:
        """Carry out a `Read` effect."""
        self._reader.read(Read(tuple(addresses), watch))

    def read_children(self, parent: str) -> None:
        """Carry out a `ReadChildren` effect."""
        self._reader.read_children(ReadChildren(parent))

    def read_again(self, paths: Iterable[str]) -> None:
        """Carry out a `ReadAgain` effect."""
        self._reader.read_again(ReadAgain(tuple(paths)))

    def survey(self, topic: TopicName) -> None:
        """Carry out a `Survey` effect."""
        self._reader.survey(Survey(topic))

    def stop(self) -> None:
        """Emit nothing from now on."""
        self._reader.stop()

    def close(self) -> None:
        """The process is gone; the session lives on."""
        self.connection.die()
        self._loop.kill()
