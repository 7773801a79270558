"""How does one reader run on a real and on the simulated ZooKeeper? Only this module knows their differences."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from kazoo.client import KazooClient

from controller.core.messages.effects import Notice, Read, Survey
from controller.zk.reader import Reader
from tests.conformance import adapter_world
from tests.conformance.adapter_world import Seen, someone
from tests.simulation.clock import Clock
from tests.simulation.network import Network
from tests.simulation.reader import Reader as SimulatedReader
from tests.simulation.zookeeper import MakeNode, Multi, Operation, RemoveNode, SetData, ZooKeeper
from zk_layout.catalog import Address
from zk_layout.facts import Stat
from zk_layout.ids import TopicName
from zk_layout.watched import watched

T = TypeVar("T")
PATIENCE_S = 30.0


class Reading(NamedTuple):
    """A reader that has loaded everything, and the facts that it emitted."""

    seen: Seen
    notices: list[Notice]
    read: Callable[[Sequence[Address], bool], None]
    survey: Callable[[TopicName], None]
    stop: Callable[[], None]


class World(Protocol):
    """A ZooKeeper, a client that writes to it, and readers."""

    other: KazooClient

    def loaded(self, *, chunk: int = 2_000, follows: bool = False) -> AbstractContextManager[Reading]:
        """A reader, for a while; with `follows` one that reads `/admin/reassignments`."""

    def until(self, holds: Callable[[], T | None]) -> T:
        """Let time pass until a condition holds; fail with its description."""

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""

    def meddling(self, acts: Callable[[KazooClient], Iterator[None]]) -> AbstractContextManager[None]:
        """A client acts again and again, also in the middle of a reader's work."""


class RealWorld:
    """A real server. Between the calls the event loop stands still."""

    def __init__(self, connect: str, other: KazooClient, runner: asyncio.Runner) -> None:
        self.other = other
        self._connect = connect
        self._runner = runner

    @contextmanager
    def loaded(self, *, chunk: int = 2_000, follows: bool = False) -> Iterator[Reading]:
        """A reader with its own session."""
        bridge = self._runner.run(adapter_world.started(self._connect))
        seen, notices = Seen(), list[Notice]()
        reader = Reader(bridge, seen, notice=notices.append, chunk=chunk, what=watched(follows_reassignments=follows))
        self._runner.run(reader.load())
        try:
            yield Reading(
                seen,
                notices,
                lambda addresses, watch: reader.read(Read(tuple(addresses), watch)),
                lambda topic: reader.survey(Survey(topic)),
                reader.stop,
            )
        finally:
            reader.stop()
            self._runner.run(reader.wait())
            self._runner.run(bridge.stop())

    def until(self, holds: Callable[[], T | None]) -> T:
        """Let time pass until a condition holds."""
        return self._runner.run(adapter_world.until(holds, PATIENCE_S))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._runner.run(asyncio.sleep(seconds))

    @contextmanager
    def meddling(self, acts: Callable[[KazooClient], Iterator[None]]) -> Iterator[None]:
        """A thread with its own client."""
        is_over = threading.Event()

        def act() -> None:
            with someone(self._connect) as client:
                for _ in acts(client):
                    if is_over.is_set():
                        return

        thread = threading.Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


class SimulatedWorld:
    """The simulated ZooKeeper, over simulated connections."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._network = Network(self._clock, Random(1))
        self._zookeeper = ZooKeeper(lambda *_: None, lambda *_: None)
        self.other = _Client(self._zookeeper)

    @contextmanager
    def loaded(self, *, chunk: int = 2_000, follows: bool = False) -> Iterator[Reading]:
        """A reader with its own session, over simulated lines."""
        seen, notices = Seen(), list[Notice]()
        reader = SimulatedReader(
            self._zookeeper,
            self._network,
            seen,
            notice=notices.append,
            chunk=chunk,
            what=watched(follows_reassignments=follows),
        )
        reader.load()
        self.until(lambda: seen.is_loaded)
        yield Reading(seen, notices, reader.read, reader.survey, reader.stop)
        reader.close()
        self._zookeeper.close_session(reader.session)

    def until(self, holds: Callable[[], T | None]) -> T:
        """Run one callback after the other until a condition holds."""
        end = self._clock.now + PATIENCE_S
        while not (result := holds()):
            if self._clock.now > end or not self._clock.step():
                raise TimeoutError
        return result

    def pass_time(self, seconds: float) -> None:
        """Run all callbacks that are due."""
        is_over: list[bool] = []
        self._clock.after(seconds, lambda: is_over.append(True))
        self.until(lambda: is_over)

    @contextmanager
    def meddling(self, acts: Callable[[KazooClient], Iterator[None]]) -> Iterator[None]:
        """One act every millisecond or two."""
        is_over = False
        todo = acts(self.other)

        def act() -> None:
            if not is_over:
                next(todo)
                self._clock.after(self._network.random.uniform(0.0005, 0.002), act)

        act()
        yield
        is_over = True


class _Client:
    """The parts of kazoo's client that tests use, on the simulated ZooKeeper and without delay."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._session = zookeeper.open_session()

    def ensure_path(self, path: str) -> None:
        self._zookeeper.make_path(path)

    def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> None:
        self._zookeeper.write(self._session, MakeNode(path, value, ephemeral))

    def set(self, path: str, value: bytes) -> Stat:
        stat = self._zookeeper.write(self._session, SetData(path, value))
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, *, recursive: bool = False) -> None:
        for child in self.get_children(path) if recursive else ():
            self.delete(f"{path}/{child}", recursive=True)
        self._zookeeper.write(self._session, RemoveNode(path))

    def get(self, path: str) -> tuple[bytes, Stat]:
        found = self._zookeeper.get(self._session, path)
        assert found is not None
        return found

    def exists(self, path: str) -> Stat | None:
        found = self._zookeeper.get(self._session, path)
        return None if found is None else found[1]

    def get_children(self, path: str) -> Sequence[str]:
        return self._zookeeper.children(self._session, path) or ()

    def transaction(self) -> _Transaction:
        return _Transaction(lambda operations: self._zookeeper.multi(self._session, operations))


class _Transaction:
    def __init__(self, multi: Callable[[Sequence[Operation]], Multi]) -> None:
        self._multi = multi
        self._operations: list[Operation] = []

    def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> None:
        self._operations.append(MakeNode(path, value, ephemeral))

    def delete(self, path: str) -> None:
        self._operations.append(RemoveNode(path))

    def commit(self) -> Sequence[Any]:
        done = self._multi(self._operations)
        assert not done.errors
        return done.results
