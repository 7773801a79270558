"""What stands behind a listener while it is tried? A term in this process, on a ZooKeeper that accepts all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from msgspec import Struct

from controller.core.machine import Machine
from controller.core.messages.effects import Answer, Commit, Effect, Read, StepDown, Wake
from controller.core.messages.events import Committed, Event, Loaded, Observed
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.runtime.clock import Clock
from controller.runtime.pump import Pump
from controller.runtime.reclaiming import collect, spare
from controller.server.listener import ListenerSettings, Server, Unobserved
from controller.settings.limits import Limits
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.configs import TopicConfigAddress, UserConfigAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OWN = BrokerId(900)
LISTENER = "PLAINTEXT"
FIRST = Stat(Zxid(5), Zxid(5), ZnodeVersion(0))
_BROKERS = tuple(map(BrokerId, (1, 2, 3)))
_EPOCH = ControllerEpoch(7)


class Shape(Struct, frozen=True):
    """How large the cluster is."""

    topics: int = 20
    partitions: int = 5


class _Errors(Unobserved):
    def __init__(self, found: list[str]) -> None:
        self._found = found

    def client_disconnected(self, reason: str) -> None:
        if reason == "internal error":
            self._found.append(reason)


class Reign:
    """A server with a term behind it. Brokers hear nothing; ZooKeeper takes every transaction."""

    def __init__(self, shape: Shape | None = None, limits: Limits | None = None) -> None:
        self.ended: list[str] = []
        self.internal_errors: list[str] = []
        self._zxid = 1000
        settings = MachineSettings(OWN, cluster_id="c" * 22)
        self._machine = Machine(settings, _EPOCH, SeededRandom(b"0"))
        performers: dict[type, Any] = dict.fromkeys(get_args(Effect), _look_away)
        performers |= {Commit: self._commit, Read: self._read, Answer: self._answer, StepDown: self._step_down}
        del performers[Wake]
        loop = asyncio.get_running_loop()
        self.server = Server(
            OWN,
            [ListenerSettings(LISTENER, "127.0.0.1", 0)],
            limits=limits,
            inter_broker_listener=LISTENER,
            observer=_Errors(self.internal_errors),
        )
        self.turns = Timed(self._machine)
        self._pump = Pump(self.turns, performers, Clock(loop), self._broken, observers=(self.server,))
        self._facts = tuple(_facts(shape or Shape()))
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.ports[LISTENER]

    async def begin(self) -> None:
        """Load, listen, and let clients in; as in the daemon, the collector then spares what is there already."""
        self._pump.emit(Observed(self._facts))
        self._pump.emit(Loaded())
        self._facts = ()
        self._task = asyncio.create_task(self._pump.run())
        while not self._machine.snapshot().is_loaded or self._pump.depth:
            await asyncio.sleep(0.01)
        spare()
        await self.server.start()
        self.server.begin_term(self._pump.emit)

    async def end(self) -> None:
        """Hang up and decide nothing more."""
        await self.server.close()
        self._pump.stop()
        if self._task is not None:
            await self._task
        collect()

    def _commit(self, commit: Commit) -> None:
        self._zxid += 1
        asyncio.get_running_loop().call_soon(self._pump.emit, Committed(commit.commit, Zxid(self._zxid)))

    def _read(self, read: Read) -> None:
        self._zxid += 1
        settings = (a for a in read.addresses if isinstance(a, TopicConfigAddress | UserConfigAddress))
        found = tuple(absent(address, Zxid(self._zxid)) for address in settings)
        asyncio.get_running_loop().call_soon(self._pump.emit, Observed(found))

    def _answer(self, answer: Answer) -> None:
        self.server.answer(answer)

    def _broken(self, error: Exception) -> None:
        self.ended.append(repr(error))

    def _step_down(self, effect: StepDown) -> None:
        self.ended.append(effect.reason)


class Timed:
    """Measures the processor time of turns."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.spent_s = self.longest_s = 0.0

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        """What follows from these events."""
        began = time.thread_time()
        try:
            return self._machine.turn(events, now)
        finally:
            took_s = time.thread_time() - began
            self.spent_s += took_s
            self.longest_s = max(self.longest_s, took_s)


class Heartbeat:
    """Measures how long the event loop of this thread was held up, at worst.

    Units:
        `longest_s` is the wall time between two beats beyond the pause; `longest_cpu_s` is this thread's processor time
        in such a gap, which other processes on the machine cannot lengthen; without that of turns, if they are given.
    """

    def __init__(self, turns: Timed | None = None, pause_s: float = 0.005) -> None:
        """Not beating yet."""
        self._turns = turns
        self._pause_s = pause_s
        self.longest_s = self.longest_cpu_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Beat from now on."""
        self._task = asyncio.create_task(self._beat())

    def end(self) -> None:
        """Beat no more."""
        if self._task is not None:
            self._task.cancel()

    def reset(self) -> None:
        """Forget the worst so far."""
        self.longest_s = self.longest_cpu_s = 0.0

    def _spent_s(self) -> float:
        return time.thread_time() - (self._turns.spent_s if self._turns is not None else 0.0)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            called = loop.create_future()
            due, cpu = time.monotonic() + self._pause_s, self._spent_s()
            loop.call_later(self._pause_s, _resolve, called)
            await called
            self.longest_s = max(self.longest_s, time.monotonic() - due)
            self.longest_cpu_s = max(self.longest_cpu_s, self._spent_s() - cpu)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _look_away(effect: Effect) -> None:
    """Nobody carries it out."""


def _facts(shape: Shape) -> Iterator[Fact]:
    for broker in (*_BROKERS, OWN):
        at = Zxid(broker)
        value = Registration((Endpoint(LISTENER, "127.0.0.1", 9000 + broker),))
        yield present(BrokerAddress(broker), value, Stat(at, at, ZnodeVersion(1)))
    for number in range(shape.topics):
        name = TopicName(f"topic-{number:05}")
        replicas = tuple(_BROKERS[(number + shift) % 3] for shift in range(2))
        held = {PartitionId(partition): Assignment(replicas) for partition in range(shape.partitions)}
        yield present(TopicAddress(name), Topic(held, TopicId(f"{number:022}")), FIRST)
        for partition in held:
            state = PartitionState(replicas[0], LeaderEpoch(0), _EPOCH, replicas)
            yield present(StateAddress(name, partition), state, FIRST)
