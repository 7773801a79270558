"""A simulated ZooKeeper, and processes that reach it as the daemon does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from kazoo.client import KazooClient

from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.bridge import Bridge
from tests.simulation.clock import Clock
from tests.simulation.kazoo_client import Connection, kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line, Network
from tests.simulation.zookeeper import Multi, Operation, ZooKeeper
from tests.simulation.zookeeper_server import ServerConnection
from zk_layout.ids import SessionId, Zxid
from zk_layout.watched import PERSISTENT
from zk_layout.znodes.controller import ControllerEpochAddress

T = TypeVar("T")

EPOCH = ControllerEpochAddress().path
PATIENCE_S = 30.0


class Ensemble:
    """What a controller finds: the parents, and the first controller epoch."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, Random(1))
        self.epochs = [1]
        self.zookeeper = ZooKeeper(lambda *_: None, self._wrote)
        for path in (*PERSISTENT, EPOCH):
            self.zookeeper.make_path(path)
        self.zookeeper.nodes[EPOCH].data = b"1"
        self._other = self.zookeeper.open_session()

    def _wrote(self, _: SessionId, operation: Operation, __: Zxid) -> None:
        if operation.path == EPOCH and self.zookeeper.nodes[EPOCH].data:
            self.epochs.append(int(self.zookeeper.nodes[EPOCH].data))

    def write(self, *operations: Operation) -> None:
        """Another client writes, at once."""
        done: Multi = self.zookeeper.multi(self._other, operations)
        assert not done.errors

    def write_later(self, after_s: float, *operations: Operation) -> None:
        """Another client writes in a moment."""
        self.clock.after(after_s, lambda: self.write(*operations))

    def until(self, holds: Callable[[], T | None]) -> T:
        """Let one thing happen after another until a condition holds."""
        end = self.clock.now + PATIENCE_S
        while not (result := holds()):
            if self.clock.now > end or not self.clock.step():
                raise TimeoutError
        return result


class Process:
    """A process with a session."""

    def __init__(
        self,
        ensemble: Ensemble,
        connect: str = "simulated:2181",
        new_bridge: Callable[[ZooKeeperSettings, KazooClient], Bridge] = Bridge,
    ) -> None:
        def dial(line: Line) -> ServerConnection:
            return ServerConnection(ensemble.zookeeper, line.answer, line.hang_up)

        self._ensemble = ensemble
        self._loop = SimulatedLoop(ensemble.clock)  # type: ignore[abstract]  # it asks for no more
        settings = ZooKeeperSettings(connect)
        self._client = kazoo_client(settings, ensemble.network, self._loop, dial)
        self.bridge = new_bridge(settings, self._client)
        self.do(self.bridge.start())

    @property
    def connection(self) -> Connection:
        """Its connection to ZooKeeper."""
        connection = self._client._connection
        assert isinstance(connection, Connection)
        return connection

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        task = self._loop.start(coroutine)
        self._ensemble.until(task.done)
        result: T = task.result()
        return result

    def end(self) -> None:
        """Nothing runs any more."""
        self.connection.die()
        self._loop.kill()
