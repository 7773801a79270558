"""What do crowds of demanding or hostile clients cost a controller that leads a large cluster?

A crowd runs in a separate process. Beside it, one client requests the list of brokers again and again:
it shows how long other clients wait.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from controller.core.messages.requests import (
    AlterReassignments,
    CreateTopics,
    DescribeCluster,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.wire.frames import RequestHeader
from tests.benchmarks.contenders import Contender
from tests.benchmarks.filling import Shape
from tests.benchmarks.machine import peak_resident_mib, wait_until_quiet
from tests.benchmarks.stage import SETTLE_S, Stage
from tests.equipment.client_side import api_key_of, encode_request
from tests.fuzz.frames import Frames
from zk_layout.ids import PartitionId, TopicName, TopicPartition

HEALTHY_EVERY_S = 0.05
PATIENCE_S = 60.0
_LIST_OF_BROKERS = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)


class Endured(Struct, frozen=True):
    """One crowd, and what it cost.

    Units:
        Seconds; MiB. `others_...`: how long the client with the list of brokers waited.

    Shape:
        `held`: requests without an answer when the crowd left, `closed`: connections closed instead of an answer.
    """

    contender: str
    crowd: str
    clients: int
    answered: int
    held: int
    closed: int
    received_bytes: int
    took_s: float
    others_median_s: float
    others_longest_s: float
    before_mib: float
    peak_mib: float


class Crowd(Struct, frozen=True):
    """Several clients, each with its own requests, one after the other.

    Shape:
        `requests`: of one client, with their sizes. `is_reading`: False: answers are left unread.

    Units:
        `patience_s`: after it a client gives its connection up.
    """

    clients: int
    requests: Callable[[Shape, int], Iterator[bytes]]
    is_reading: bool = True
    patience_s: float = PATIENCE_S


def _frame(version: int, request: Request) -> bytes:
    return encode_request(RequestHeader(int(api_key_of(request)), version, 7, "crowd"), request)


def _partitions(shape: Shape) -> Iterator[TopicPartition]:
    for name in shape.names:
        for number in range(shape.partitions_per_topic):
            yield TopicPartition(name, PartitionId(number))


def _all_topics(_shape: Shape, _client: int) -> Iterator[bytes]:
    yield _frame(9, DescribeCluster(None))


def _unknown_topics(_shape: Shape, client: int) -> Iterator[bytes]:
    names = (TopicName(f"{client}-{number}-".ljust(200, "x")) for number in range(50_000))
    yield _frame(9, DescribeCluster(tuple(TopicReference(name) for name in names)))


def _cancels(shape: Shape, _client: int) -> Iterator[bytes]:
    yield _frame(0, AlterReassignments(tuple(PartitionReassignment(at, None) for at in _partitions(shape))))


def _lists(shape: Shape, _client: int) -> Iterator[bytes]:
    yield _frame(0, ListReassignments(tuple(_partitions(shape))))


def _new_topics(_shape: Shape, client: int) -> Iterator[bytes]:
    topics = tuple(NewTopic(TopicName(f"new-{client}-{number}"), 3, 3) for number in range(10_000))
    yield _frame(5, CreateTopics(topics, 60_000, True))


def _nothing(_shape: Shape, _client: int) -> Iterator[bytes]:
    yield b""


def _halves(_shape: Shape, _client: int) -> Iterator[bytes]:
    yield struct.pack(">ihhih", 12_000_000, 3, 1, 7, -1) + bytes(6_000_000)


def _mutated(_shape: Shape, client: int) -> Iterator[bytes]:
    for frame in islice(Frames(client), 1_000):
        yield struct.pack(">i", len(frame)) + frame


CROWDS = {
    "ask for all topics": Crowd(400, _all_topics),
    "ask for all topics, never read": Crowd(400, _all_topics, is_reading=False, patience_s=15.0),
    "name 50,000 unknown topics": Crowd(20, _unknown_topics),
    "cancel the moves of all partitions": Crowd(20, _cancels),
    "list the moves of all partitions": Crowd(20, _lists),
    "try 10,000 new topics": Crowd(20, _new_topics),
    "say nothing": Crowd(1_500, _nothing, is_reading=False, patience_s=15.0),
    "send half a request of 12 MB": Crowd(200, _halves, is_reading=False, patience_s=15.0),
    "send mutated requests": Crowd(8, _mutated, patience_s=0.2),
}


def measure(
    stage: Stage, contender: Contender, only: tuple[str, ...], *, timeout_s: float, patience_s: float
) -> Iterator[Endured]:
    """Let a contender win, and send it one crowd after the other.

    Raises:
        TimeoutError: it does not lead, or does not answer the healthy client.
        AssertionError: a crowd has ended its term.
    """
    stage.occupy()
    contender.start()
    try:
        time.sleep(SETTLE_S)
        stage.fleet.reset()
        claim = stage.vacate_for(contender)
        stage.wait_until_silent(contender, 10.0, timeout_s)
        for name in only or CROWDS:
            wait_until_quiet(patience_s)
            yield _endured(stage.shape, contender, name)
            _check_leads(stage, contender, claim.zxid, name)
    finally:
        stage.dismiss(contender)


def _endured(shape: Shape, contender: Contender, name: str) -> Endured:
    pid = contender.process.pid
    assert pid is not None
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # reset VmHWM
    before_mib = peak_resident_mib(pid)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_live, args=(theirs, name, shape, contender.port), daemon=True)
    process.start()
    theirs.close()
    ours.recv()  # build its requests
    ours.send("begin")
    began, over, waits = time.monotonic(), threading.Event(), [0.0]
    healthy = threading.Thread(target=_stay_healthy, args=(contender.port, over, waits))
    healthy.start()
    try:
        if not ours.poll(4 * PATIENCE_S):
            raise TimeoutError(f"the crowd that wants to {name} does not end: {contender.name}")
        counts, failure = ours.recv()
        if failure:
            raise RuntimeError(failure)
    finally:
        over.set()
        healthy.join()
        process.join(30)
    return Endured(
        contender.name,
        name,
        CROWDS[name].clients,
        counts.answered,
        counts.held,
        counts.closed,
        counts.received_bytes,
        round(time.monotonic() - began, 2),
        round(statistics.median(waits), 4),
        round(max(waits), 3),
        round(before_mib, 1),
        round(peak_resident_mib(pid), 1),
    )


def _check_leads(stage: Stage, contender: Contender, zxid: int, crowd: str) -> None:
    stat = stage.zookeeper.exists("/controller")
    assert (stat.czxid if stat else 0) == zxid, f"{contender.name} leads no more after clients that {crowd}"


def _stay_healthy(port: int, over: threading.Event, waits: list[float]) -> None:
    """Ask and wait, and reconnect if the connection is lost; a request without an answer counts until the end."""
    while not over.is_set():
        began = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
                while not over.is_set():
                    client.sendall(_LIST_OF_BROKERS)
                    _receive_all(client)
                    waits.append(time.monotonic() - began)
                    over.wait(HEALTHY_EVERY_S)
                    began = time.monotonic()
        except OSError:
            waits.append(time.monotonic() - began)
            over.wait(HEALTHY_EVERY_S)


def _receive_all(client: socket.socket) -> None:
    (size,) = struct.unpack(">i", _exactly(client, 4))
    _exactly(client, size)


def _exactly(client: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = client.recv(count - len(received))
        if not piece:
            raise ConnectionResetError
        received += piece
    return received


class _Counts(Struct):
    """The outcomes of the requests."""

    answered: int = 0
    held: int = 0
    closed: int = 0
    received_bytes: int = 0


def _live(wire: Connection[Any, Any], name: str, shape: Shape, port: int) -> None:
    crowd = CROWDS[name]
    counts, failure = _Counts(), ""
    try:
        requests = [crowd.requests(shape, number) for number in range(crowd.clients)]
        first = [next(each) for each in requests]
        wire.send("ready")
        wire.recv()
        asyncio.run(_press(crowd, first, requests, port, counts))
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    wire.send((counts, failure))


async def _press(crowd: Crowd, first: list[bytes], requests: list[Iterator[bytes]], port: int, counts: _Counts) -> None:
    async with asyncio.TaskGroup() as tasks:
        for request, later in zip(first, requests, strict=True):
            tasks.create_task(_one(crowd, request, later, port, counts))


async def _one(crowd: Crowd, request: bytes | None, later: Iterator[bytes], port: int, counts: _Counts) -> None:
    while request is not None:
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setblocking(False)
            try:
                async with asyncio.timeout(crowd.patience_s):
                    await loop.sock_connect(client, ("127.0.0.1", port))
                    while request is not None:
                        await loop.sock_sendall(client, request)
                        if not crowd.is_reading:
                            await asyncio.Event().wait()
                        size = await _read_answer(client)
                        counts.received_bytes += size
                        counts.answered += 1
                        request = next(later, None)
            except TimeoutError:
                counts.held += 1
                request = next(later, None)
            except OSError:
                counts.closed += 1
                request = next(later, None)


async def _read_answer(client: socket.socket) -> int:
    """Read an answer; return its length."""
    loop = asyncio.get_running_loop()
    head = b""
    while len(head) < 4:
        piece = await loop.sock_recv(client, 4 - len(head))
        if not piece:
            raise ConnectionResetError
        head += piece
    (size,) = struct.unpack(">i", head)
    missing = size
    while missing:
        piece = await loop.sock_recv(client, min(missing, 1 << 20))
        if not piece:
            raise ConnectionResetError
        missing -= len(piece)
    return int(size)
