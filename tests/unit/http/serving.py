"""A process that is monitored, seen from outside."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from controller.http.server import Access, Exporter, Readers
from controller.http.status import Status
from controller.lab.ports import free_port
from metrics.recorder import Recorder

LEADING = Status(
    phase="active",
    broker=900,
    controller=900,
    controller_epoch=7,
    is_leader=True,
    is_ready=True,
    since=1_700_000_000.0,
    reason="loaded in 0.42 s",
)
STANDBY = msgspec.structs.replace(
    LEADING, phase="standby", controller=3, is_leader=False, reason="broker 3 holds /controller"
)
LOADING = msgspec.structs.replace(LEADING, phase="loading", is_leader=False, is_ready=False, reason="won the election")


class Process:
    """A source whose status a test may change."""

    def __init__(self, now: Status) -> None:
        self.now = now

    def status(self) -> Status:
        """The status that was set."""
        return self.now


class Moves:
    """A source that knows no move, and the request 42; it records which threads asked."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    async def moves(self) -> bytes | None:
        """No moves."""
        self.threads.add(threading.get_ident())
        return b"[]"

    async def request(self, number: int) -> bytes | None:
        """Only one is known."""
        self.threads.add(threading.get_ident())
        return b'{"request_id":42}' if number == 42 else None


class Answer(msgspec.Struct, frozen=True):
    """An HTTP response."""

    code: int
    text: str
    content_type: str


class Served(msgspec.Struct, frozen=True):
    """A running exporter."""

    exporter: Exporter
    recorder: Recorder
    process: Process
    moves: Moves
    url: str


@asynccontextmanager
async def serving(
    status: Status = LEADING, *, stuck_after_s: float = 10.0, access: Access | None = None
) -> AsyncIterator[Served]:
    """An exporter on a free port."""
    port = free_port()
    recorder, process, moves = Recorder(), Process(status), Moves()
    exporter = Exporter(
        recorder, process, ("127.0.0.1", port), moves=moves, stuck_after_s=stuck_after_s, readers=Readers(access=access)
    )
    await exporter.start()
    try:
        yield Served(exporter, recorder, process, moves, f"http://127.0.0.1:{port}")
    finally:
        await exporter.stop()


def get(url: str, **headers: str) -> Answer:
    """Ask over HTTP, blocking the calling thread until the answer arrives."""
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as found:
            return Answer(found.status, found.read().decode(), found.headers["Content-Type"])
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode(), error.headers["Content-Type"])
