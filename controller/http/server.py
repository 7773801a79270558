"""How does this process answer over HTTP: Prometheus, and probes of its health?"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web
from msgspec import Struct, json

from controller.http.limits import Acceptor, AllowedHosts, OneLine, authenticated, bound, polite
from controller.http.status import MoveSource, StatusSource
from metrics.exposition import exposition
from metrics.recorder import Recorder

_log = logging.getLogger(__name__)
_log.addFilter(OneLine())

OPEN_PATHS = frozenset({"/livez", "/readyz"})
LOOK_EVERY_S = 1.0
STUCK_AFTER_S = 10.0
ANSWER_WITHIN_S = 5.0

INDEX = """/metrics  Prometheus
/livez    is the process alive?
/readyz   does it lead, or could it?
/leader   this replica's state, and who leads
/reassignments                  the moves in progress: how far each is, and what it waits for
/reassignments/requests/<id>    the status of a request
"""


class Access(Protocol):
    """Who may read, and the encryption: `controller.http.access.HttpAccess`."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the next connections; None without encryption."""

    def renew(self) -> bool:
        """Reload the rules if they have changed. True if others are in force now. Called from a thread of its own."""

    def knows(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether the client with this header and certificate is already known to be allowed. Returns at once."""

    def admits(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether the client with this header and certificate may read. Called from a thread of its own; may take a
        while."""


class Readers(Struct, frozen=True):
    """Who may read.

    Shape:
        `hosts` are host names of this server besides the machine's own. Without `access`, every client may read.
    """

    hosts: tuple[str, ...] = ()
    access: Access | None = None


EVERY_CLIENT = Readers()


class Exporter:
    """Serves `/metrics`, `/livez`, `/readyz`, `/leader`, `/reassignments`. It never decides anything.

    It has a thread and an event loop of its own: a scrape delays no turn, and a process whose event loop is stuck can
    still report that, and where.
    """

    def __init__(
        self,
        recorder: Recorder,
        source: StatusSource,
        address: tuple[str, int],
        *,
        moves: MoveSource | None = None,
        stuck_after_s: float = STUCK_AFTER_S,
        readers: Readers = EVERY_CLIENT,
    ) -> None:
        """Port 0 disables the server."""
        self._access = readers.access
        self._allowed_hosts = AllowedHosts((*readers.hosts, address[0]))
        self._recorder = recorder
        self._source = source
        self._moves = moves
        self._host, self._port = address
        self._stuck_after_s = stuck_after_s
        self._runner: web.AppRunner | None = None
        self._sockets: list[socket.socket] = []
        self._acceptor: Acceptor | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._watched = threading.get_ident()
        self._watched_loop: asyncio.AbstractEventLoop | None = None
        self._beat = time.monotonic()

    async def start(self) -> None:
        """Listen, and watch the calling thread's event loop.

        Raises:
            OSError: the address is taken or not local.
        """
        if not self._port:
            return
        self._watched = threading.get_ident()
        self._watched_loop = asyncio.get_running_loop()
        self.beat()
        self._thread.start()
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._open(), self._loop))
        except OSError as error:
            await self.stop()
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            what = f"cannot listen on {self._host}:{self._port} (http.host, http.port): {reason}"
            raise OSError(error.errno, what) from error

    async def stop(self) -> None:
        """Stop listening; may be called at any time, and repeatedly."""
        if self._thread.is_alive():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._close(), self._loop))
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
        self._loop.close()

    def beat(self) -> None:
        """The event loop turns; without this call for a while, the process counts as stuck."""
        self._beat = time.monotonic()

    async def _open(self) -> None:
        self._loop.set_exception_handler(_complain)
        middlewares = [polite(self._allowed_hosts, self._asked)]
        if self._access is not None:
            middlewares.append(authenticated(self._access, OPEN_PATHS))
        app = web.Application(middlewares=middlewares)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/metrics", self._metrics),
                web.get("/livez", self._live),
                web.get("/readyz", self._ready),
                web.get("/leader", self._leader),
                web.get("/reassignments", self._reassignments),
                web.get(r"/reassignments/requests/{request:\d{1,18}}", self._request),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, logger=_log)
        await self._runner.setup()
        assert self._runner.server is not None
        infos = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self._sockets = [bound(info) for info in dict.fromkeys(infos)]
        self._acceptor = Acceptor(self._runner.server, lambda: None if self._access is None else self._access.context)
        self._tasks = [self._loop.create_task(self._acceptor.run(one)) for one in self._sockets]
        if self._access is not None:
            self._tasks.append(self._loop.create_task(self._follow(self._access)))

    def _asked(self, request: web.Request) -> None:
        if self._acceptor is not None:
            self._acceptor.asked(request)

    @staticmethod
    async def _follow(access: Access) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await asyncio.to_thread(access.renew)
            except Exception:  # unusable files are reported already; no error may keep old rights in force for ever
                _log.exception("looking for changed access rules failed; trying again")

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._sockets:
            one.close()
        if self._acceptor is not None:
            await self._acceptor.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=INDEX)

    async def _metrics(self, request: web.Request) -> web.Response:
        text, content_type = exposition(self._recorder.registry, request.headers.get("Accept", ""))
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def _live(self, _: web.Request) -> web.Response:
        silent_s = time.monotonic() - self._beat
        if silent_s > self._stuck_after_s:
            text = f"stuck: the event loop last turned {silent_s:.0f} s ago, and is now at {self._place()}\n"
            return web.Response(status=503, text=text)
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        status = self._source.status()
        lines = (
            f"{status.phase}: {status.reason}",
            *(f"paused: {sentence}" for sentence in (status.pause,) if sentence is not None),
            *(f"held up: {sentence}" for sentence in status.held_up),
            *(f"pending: {sentence}" for sentence in status.settings_pending),
            *(f"failing: {sentence}" for sentence in status.failing),
            *(f"set aside: {sentence}" for sentence in status.set_aside),
        )
        text = "".join(f"{line}\n" for line in lines)
        return web.Response(status=200 if status.is_ready else 503, text=text)

    async def _leader(self, _: web.Request) -> web.Response:
        return web.Response(body=json.encode(self._source.status()), content_type="application/json")

    async def _reassignments(self, _: web.Request) -> web.Response:
        if self._moves is None or not self._source.status().knows_moves:
            return self._refusal(503, "this replica does not lead")
        return await self._looked_up(self._moves.moves, "this replica does not lead")

    async def _request(self, request: web.Request) -> web.Response:
        if self._moves is None or not self._source.status().knows_moves:
            return self._refusal(503, "this replica does not lead")
        number = int(request.match_info["request"])
        moves = self._moves
        return await self._looked_up(
            lambda: moves.request(number), f"no request {number}: it never existed, or its status has been deleted"
        )

    async def _looked_up(self, look: Callable[[], Coroutine[None, None, bytes | None]], otherwise: str) -> web.Response:
        """Look up on the event loop of the turns, which owns the facts."""
        assert self._watched_loop is not None
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                found = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(look(), self._watched_loop))
        except TimeoutError:
            return self._refusal(503, f"no answer within {ANSWER_WITHIN_S:g} s; see /livez")
        if found is None:
            return self._refusal(404, otherwise)
        return web.Response(body=found, content_type="application/json")

    def _refusal(self, status: int, reason: str) -> web.Response:
        body = json.encode({"error": reason, "controller": self._source.status().controller})
        return web.Response(status=status, body=body, content_type="application/json")

    def _place(self) -> str:
        """Where the watched thread is."""
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return "its end"
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"


def _complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log asyncio's complaints about the HTTP server's loop, above all that no descriptor is left; one line in a
    while."""
    error = context.get("exception")
    _log.error(context["message"], exc_info=(type(error), error, None) if error is not None else None)
