"""Which commands do many brokers get, and when? Simulated brokers in a separate process."""

from __future__ import annotations

import array
import asyncio
import hashlib
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from kazoo.client import KazooClient
from msgspec import Struct

from controller.connections.broker import BrokerConnection
from controller.core.messages.commands import LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.requests import IsrProposal, TopicReference
from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from controller.wire.apis import COMMANDS, ApiKey
from controller.wire.broker_side import ReceivedCommand, decode_command
from controller.wire.requests import decode_header
from tests.benchmarks.filling import Shape
from zk_layout.ids import NO_LEADER, BrokerId, TopicPartition

_UNDERSTOOD = COMMANDS.keys() | {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS}
_TELLING = {key.to_bytes(2, "big") for key in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA)}
"""How a frame of these requests begins."""


class Progress(Struct, frozen=True):
    """How much has arrived since the last reset; `last_at` is Unix time.

    Shape:
        `size_bytes` is that of LeaderAndIsr and UpdateMetadata.
    """

    commands: int
    last_at: float
    size_bytes: int


class Heard(Struct, frozen=True):
    """The commands to all brokers together since the last reset.

    Units:
        Times are Unix times in seconds, when the last byte of a command had arrived.

    Shape:
        `complete_at`: every broker had got every partition by UpdateMetadata; None: some never did.
        `led_at`: every broker had got each of its replicas by LeaderAndIsr.
    """

    first_leader_and_isr: float | None
    last_leader_and_isr: float | None
    last_update_metadata: float | None
    led_at: float | None
    complete_at: float | None
    commands: dict[str, int]
    size_bytes: dict[str, int]


class Removal(Struct, frozen=True):
    """The end of one move: Unix times in seconds.

    Shape:
        `stopped_at`: the last of the replicas that leave was told to delete its log.
    """

    in_sync_at: float
    stopped_at: float


class _Recorder(SimulatedBroker):
    """Keeps commands as bytes, to be decoded after the measurement."""

    def __init__(self, settings: SimulatedSettings, zookeeper: KazooClient) -> None:
        super().__init__(settings, zookeeper)
        self.heard: list[tuple[float, bytes]] = []

    def _answer(self, frame: bytes) -> bytes:
        self.heard.append((time.time(), frame))
        if decode_header(frame).api_key not in _UNDERSTOOD:
            raise ConnectionResetError  # for clients' requests that a controller passes on
        return super()._answer(frame)


class _Leader(_Recorder):
    """Proposes every added replica as soon as it hears of it; the model of a whole broker would cost more than
    the measured controller."""

    def __init__(self, settings: SimulatedSettings, zookeeper: KazooClient) -> None:
        super().__init__(settings, zookeeper)
        self.in_sync_at: dict[TopicPartition, float] = {}
        self.deleted_at: dict[TopicPartition, float] = {}

    def _answer(self, frame: bytes) -> bytes:
        now = time.time()
        header = decode_header(frame)
        if header.api_key == ApiKey.LEADER_AND_ISR:
            self._lead(decode_command(frame))
        elif header.api_key == ApiKey.UPDATE_METADATA and self.model.controller not in self._brokers:
            received = decode_command(frame)
            assert isinstance(received.command, UpdateMetadata)
            self.model.controller = received.controller
            self._brokers = {broker.broker: broker.endpoints[0] for broker in received.command.brokers}
        elif header.api_key == ApiKey.STOP_REPLICA:
            stop = decode_command(frame).command
            assert isinstance(stop, StopReplica)
            self.deleted_at.update({TopicPartition(s.topic, s.partition): now for s in stop.stops if s.is_deletion})
        return super()._answer(frame)

    async def _ask(
        self, connection: BrokerConnection, changes: dict[TopicPartition, IsrProposal], version: int
    ) -> bool:
        now = time.time()
        for at in changes:
            self.in_sync_at.setdefault(at, now)
        return await super()._ask(connection, changes, version)

    def _lead(self, received: ReceivedCommand) -> None:
        command = received.command
        assert isinstance(command, LeaderAndIsr)
        for view in (*command.partitions, *command.new):
            missing = tuple(replica for replica in view.adding if replica not in view.isr)
            if view.leader != self.settings.broker or not missing:
                continue
            assert view.topic_id is not None
            self._names[view.topic_id] = view.topic
            self._changes[TopicPartition(view.topic, view.partition)] = IsrProposal(
                TopicReference(topic_id=view.topic_id),
                view.partition,
                view.leader_epoch,
                view.partition_epoch,
                (*view.isr, *missing),
            )
            self._stirred.set()


class Fleet:
    """The brokers, as used by the measuring process."""

    def __init__(self, zookeeper: str, shape: Shape, *, are_leading: bool) -> None:
        """Start them, and return when all are registered. As leaders they request ISR changes."""
        context = multiprocessing.get_context("spawn")
        self._wire, theirs = context.Pipe()
        self._process = context.Process(target=_live, args=(theirs, zookeeper, shape, are_leading), daemon=True)
        self._process.start()
        theirs.close()
        self._wire.recv()

    @property
    def pid(self) -> int:
        """Their process' id."""
        assert self._process.pid is not None
        return self._process.pid

    def progress(self) -> Progress:
        """The progress so far, at almost no cost for them."""
        answer = self._ask("progress")
        assert isinstance(answer, Progress)
        return answer

    def heard(self) -> Heard:
        """The commands that arrived; call this after the measurement. They are decoded only now, and no broker reads
        meanwhile: for some twenty seconds with a million partitions."""
        answer = self._ask("heard")
        assert isinstance(answer, Heard)
        return answer

    def reset(self) -> None:
        """Forget all commands."""
        self._ask("reset")

    def fail(self, broker: BrokerId) -> float:
        """End one of them for good; return the Unix time at which its registration began to vanish."""
        answer = self._ask("fail", broker)
        assert isinstance(answer, float)
        return answer

    def learned(self, former: BrokerId) -> float | None:
        """When every broker had got another leader of every partition that this one led, by UpdateMetadata.

        Shape:
            Unix time in seconds; None: some broker never did.
        """
        answer = self._ask("learned", former)
        assert answer is None or isinstance(answer, float)
        return answer

    def deletions(self) -> int:
        """How many replicas have been told to delete their logs."""
        answer = self._ask("deletions")
        assert isinstance(answer, int)
        return answer

    def removals(self) -> list[Removal]:
        """The moves that ended."""
        answer = self._ask("removals")
        assert isinstance(answer, list)
        return answer

    def stop(self) -> None:
        """End them."""
        self._ask("stop")
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()

    def _ask(self, what: str, about: BrokerId | None = None) -> object:
        self._wire.send((what, about))
        return self._wire.recv()


def _live(wire: Connection[Any, Any], zookeeper: str, shape: Shape, are_leading: bool) -> None:
    client = KazooClient(zookeeper, timeout=60)
    client.start()
    try:
        asyncio.run(_run(wire, client, shape, are_leading))
    finally:
        client.stop()
        client.close()


async def _run(wire: Connection[Any, Any], client: KazooClient, shape: Shape, are_leading: bool) -> None:
    kind = _Leader if are_leading else _Recorder
    brokers = [kind(SimulatedSettings(BrokerId(number), counts_only=True), client) for number in range(shape.brokers)]
    for broker in brokers:
        await broker.start()
    wire.send(os.getpid())
    over = asyncio.Event()

    failing: set[asyncio.Task[None]] = set()

    async def fail(lost: BrokerId) -> None:
        (broker,) = (broker for broker in brokers if broker.settings.broker == lost)
        brokers.remove(broker)
        at = time.time()
        await broker.stop()
        wire.send(at)

    def asked() -> None:
        try:
            question, about = wire.recv()
        except EOFError:
            question, about = "stop", None
        if question == "fail":
            task = asyncio.get_running_loop().create_task(fail(about))
            task.add_done_callback(lambda done: over.set() if done.exception() else None)
            failing.add(task)
            return
        if question == "stop":
            asyncio.get_running_loop().remove_reader(wire.fileno())
            over.set()
        answers: dict[str, Callable[[], object]] = {
            "progress": lambda: _progress(brokers),
            "heard": lambda: _summary(brokers, shape),
            "learned": lambda: _learned(brokers, shape, about),
            "deletions": lambda: sum(len(broker.deleted_at) for broker in brokers if isinstance(broker, _Leader)),
            "removals": lambda: _removals(brokers),
            "reset": lambda: _forget(brokers),
        }
        answer = answers.get(question, lambda: None)()
        try:
            wire.send(answer)
        except OSError:
            over.set()

    asyncio.get_running_loop().add_reader(wire.fileno(), asked)
    await over.wait()
    for broker in brokers:
        await broker.stop()
    for task in failing:
        task.result()


def _forget(brokers: Iterable[_Recorder]) -> None:
    for broker in brokers:
        broker.heard.clear()


def _progress(brokers: Iterable[_Recorder]) -> Progress:
    heard = [broker.heard for broker in brokers]
    size_bytes = sum(len(frame) for frames in heard for _, frame in frames if frame[:2] in _TELLING)
    return Progress(sum(map(len, heard)), max((h[-1][0] for h in heard if h), default=0.0), size_bytes)


def _summary(brokers: list[_Recorder], shape: Shape) -> Heard:
    times: dict[ApiKey, list[float]] = {ApiKey.LEADER_AND_ISR: [], ApiKey.UPDATE_METADATA: []}
    commands: Counter[str] = Counter()
    size_bytes: Counter[str] = Counter()
    for broker in brokers:
        for at, frame in broker.heard:
            key = ApiKey(decode_header(frame).api_key)
            times.setdefault(key, []).append(at)
            commands[key.name] += 1
            size_bytes[key.name] += len(frame)
    reading = _Reading(shape)
    led = [reading.completed(broker, ApiKey.LEADER_AND_ISR) for broker in brokers]
    metadata = [reading.completed(broker, ApiKey.UPDATE_METADATA) for broker in brokers]
    leader_and_isr, update_metadata = times[ApiKey.LEADER_AND_ISR], times[ApiKey.UPDATE_METADATA]
    return Heard(
        min(leader_and_isr, default=None),
        max(leader_and_isr, default=None),
        max(update_metadata, default=None),
        _latest(led),
        _latest(metadata),
        dict(commands),
        dict(size_bytes),
    )


def _learned(brokers: list[_Recorder], shape: Shape, former: BrokerId) -> float | None:
    reading = _Reading(shape, former)
    concerned = bytearray(shape.replicas(i % shape.partitions_per_topic)[0] == former for i in range(shape.partitions))
    return _latest([reading.heard_all(broker, ApiKey.UPDATE_METADATA, concerned[:]) for broker in brokers])


def _removals(brokers: list[_Recorder]) -> list[Removal]:
    leaders = [broker for broker in brokers if isinstance(broker, _Leader)]
    stopped: dict[TopicPartition, float] = {}
    for leader in leaders:
        for at, when in leader.deleted_at.items():
            stopped[at] = max(when, stopped.get(at, 0.0))
    in_sync = {at: when for leader in leaders for at, when in leader.in_sync_at.items()}
    return [Removal(in_sync[at], when) for at, when in stopped.items()]


def _latest(times: list[float | None]) -> float | None:
    known = [at for at in times if at is not None]
    return max(known) if len(known) == len(times) else None


class _Reading:
    """Finds when a broker had got everything; equal commands to many brokers are decoded once."""

    def __init__(self, shape: Shape, former: BrokerId | None = None) -> None:
        """What names the former leader, or none, is not counted."""
        self._shape = shape
        self._former = former
        self._topics = {name: number for number, name in enumerate(shape.names)}
        self._known: dict[bytes, array.array[int]] = {}

    def completed(self, broker: _Recorder, wanted: ApiKey) -> float | None:
        missing = bytearray(b"\1" * self._shape.partitions)
        if wanted is ApiKey.LEADER_AND_ISR:
            for index in range(self._shape.partitions):
                replicas = self._shape.replicas(index % self._shape.partitions_per_topic)
                missing[index] = broker.settings.broker in replicas
        return self.heard_all(broker, wanted, missing)

    def heard_all(self, broker: _Recorder, wanted: ApiKey, missing: bytearray) -> float | None:
        """When a broker had got all of these partitions, which are marked with 1."""
        left = sum(missing)
        for at, frame in broker.heard:
            if decode_header(frame).api_key != wanted:
                continue
            for index in self._partitions(frame):
                left -= missing[index]
                missing[index] = 0
            if not left:
                return at
        return None

    def _partitions(self, frame: bytes) -> array.array[int]:
        # The header differs between brokers (correlation id, broker epoch); what follows it often does not.
        key = hashlib.md5(memoryview(frame)[64:]).digest()
        if key not in self._known:
            command = decode_command(frame).command
            assert isinstance(command, LeaderAndIsr | UpdateMetadata)
            views = command.partitions
            if isinstance(command, LeaderAndIsr):
                views = (*views, *command.new)
            width = self._shape.partitions_per_topic
            self._known[key] = array.array(
                "l", (self._topics[v.topic] * width + v.partition for v in views if self._counts(v))
            )
        return self._known[key]

    def _counts(self, view: PartitionView) -> bool:
        return view.topic in self._topics and (self._former is None or view.leader not in (self._former, NO_LEADER))
