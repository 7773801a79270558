"""How do answers and watch events of kazoo's threads reach the event loop in the order of the session?

One queue takes everything from kazoo's connection thread: answers with the zxid of their header, watch events, states
of the connection. The event loop drains it, one wake-up for many items. Watches survive a lost connection: on
reconnection the server receives all that were held and reports what has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import kazoo.exceptions as kazoo_errors
import structlog
from kazoo.client import KazooClient, KazooState

from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import kazoo_internals, protocol
from controller.zk.acls import acl_of
from controller.zk.answers import (
    Change,
    ConnectionState,
    Disconnected,
    Done,
    Refused,
    Reply,
    SessionEnded,
    TurnedAway,
    WatchEvent,
)
from controller.zk.client import client_of
from controller.zk.life import SessionLife
from controller.zk.protocol import Exists, GetChildren, GetData, MultiRead, Node, Request, Sync
from controller.zk.watches import Watches
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, Zxid

SILENT_S: Final = 2.0
_SIFTED_EVERY_S: Final = 1.0
_DRAINED_AT_ONCE: Final = 64
_PROBES_TO_LOSE: Final = 2
_WATCH_BYTES: Final = 128 * 1024

_log = structlog.get_logger(__name__)
_Heard = TypeVar("_Heard")

_CHANGES: Final = {1: Change.CREATED, 2: Change.DELETED, 3: Change.CHANGED, 4: Change.CHILDREN}
_NO_SESSION: Final = (
    kazoo_errors.SessionExpiredError,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.AuthFailedError,
)
_NO_CONNECTION: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.SessionMovedError,
    kazoo_errors.OperationTimeoutError,
)


class _Call:
    """Takes the place of kazoo's asynchronous result; the connection's thread completes it."""

    __slots__ = ("_bridge", "_is_completed", "done", "request")

    def __init__(self, bridge: Bridge, request: Request, done: Done) -> None:
        self._bridge = bridge
        self._is_completed = False
        self.request = request
        self.done = done

    def set(self, value: object = None) -> None:
        """Kazoo has the answer; its client still holds that answer's zxid."""
        self._tell(Reply(value, protocol.OK, self._bridge.header_zxid))

    def set_exception(self, error: Exception) -> None:
        """Kazoo has an error, the server's or its own."""
        why = str(error) or type(error).__name__
        if isinstance(error, _NO_SESSION):
            self._tell(Reply(None, protocol.SESSION_EXPIRED, Zxid(0), SessionEnded(why)))
        elif isinstance(error, _NO_CONNECTION) or not isinstance(error, kazoo_errors.ZookeeperError):
            self._tell(Reply(None, protocol.CONNECTION_LOSS, Zxid(0), Disconnected(why)))
        else:
            self._tell(Reply(None, error.code, self._bridge.header_zxid))

    def _tell(self, reply: Reply) -> None:
        if not self._is_completed:
            self._is_completed = True
            self._bridge.put((self, reply))


class _Barred(NamedTuple):
    """A server that was reached, and why it gives us no session."""

    why: str


class Bridge:
    """One session with ZooKeeper, on the event loop. When a session expires, kazoo opens another."""

    def __init__(self, settings: ZooKeeperSettings, client: KazooClient | None = None) -> None:
        """`client` must not be used elsewhere. Connects to nothing yet."""
        self.settings = settings
        self.state: ConnectionState | None = None
        self.session = SessionId(0)
        self.seen_zxid = Zxid(0)
        self._open_since = 0.0
        self.watch_listeners: list[Callable[[WatchEvent], None]] = []
        self.state_listeners: list[Callable[[ConnectionState], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fifo: collections.deque[Any] = collections.deque()
        self._is_woken = False
        self._is_connected = asyncio.Event()
        self._waiting: collections.deque[_Call] = collections.deque()
        self._in_flight = 0
        self._restore_since: Zxid | None = None
        self._is_open = False
        self._lost_probes = 0
        self.knows_multi_read: bool | None = None
        self._turned_away: list[str] = []
        self._patience: asyncio.Timeout | None = None
        self._client = client or client_of(
            settings.connect,
            settings.security,
            self._barred,
            timeout=settings.session_timeout_ms / 1000,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 2.0},
        )
        self._chroot: str = self._client.chroot
        self._watches = Watches(min(_WATCH_BYTES, settings.request_limit_bytes // 2))
        self._client.add_listener(self._state_changed)
        self._life = SessionLife(self._client, settings.session_timeout_ms / 1000, self._renew, self._barred)
        kazoo_internals.keep_connecting(self._client)
        kazoo_internals.take_watch_events(self._client, self._watch_fired)

    async def start(self, when_silent: Callable[[str], None] = lambda _: None) -> None:
        """Connect. `when_silent` is called early if no server answers, so that an operator who mistyped an address need
        not wait for the timeout.

        Raises:
            Disconnected: no server answered in time.
            TurnedAway: as many attempts as there are servers failed because of stores or logins.
        """
        self._loop = asyncio.get_running_loop()
        self._life.begin(self._loop)
        self._client.start_async()
        silence = f"no ZooKeeper server has answered at {self.settings.connect} for {SILENT_S:g} s"
        saying = self._loop.call_later(SILENT_S, when_silent, silence)
        try:
            async with asyncio.timeout(self.settings.connection_timeout_ms / 1000) as self._patience:
                await self._is_connected.wait()
        except TimeoutError:
            await self.stop()
            if self._turned_away:
                raise TurnedAway(f"ZooKeeper at {self.settings.connect}: {self._turned_away[-1]}") from None
            raise Disconnected(f"no ZooKeeper server answers at {self.settings.connect}") from None
        finally:
            saying.cancel()
            self._patience = None

    async def stop(self) -> None:
        """Close the session; its ephemeral znodes vanish now or, if no server answers, when the session expires."""
        self.state_listeners.clear()
        self.watch_listeners.clear()
        await self._life.end()
        while self._fifo:
            self._drain()
        self._drop_waiting("closed")

    def submit(self, request: Request, done: Done, *, ahead: bool = False) -> None:
        """Send a request after all earlier ones; `done` is called on the event loop, in session order.

        `ahead`: send it before all that wait to be sent, however many are in flight. Until watches are restored after a
        lost connection, send it in its turn: the events of earlier changes must come before its answer.
        """
        call = _Call(self, request, done)
        if ahead and self._is_open and self._restore_since is None:
            self._send(call)
        else:
            self._waiting.append(call)
            self._send_waiting()

    async def ask(self, request: Request, *, ahead: bool = False) -> Reply:
        """Send a request, as `submit` does, and return the answer, or the server's error code.

        Raises:
            Disconnected, SessionEnded: no answer came.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def done(reply: Reply) -> None:
            if not future.done():
                future.set_result(reply)

        self.submit(request, done, ahead=ahead)
        reply = await future
        if reply.failure is not None:
            raise reply.failure
        return reply

    async def read(self, request: Request, *, ahead: bool = False) -> Reply:
        """Send a repeatable request, again whenever the connection is lost, and return the answer.

        Raises:
            SessionEnded: the session has ended.
        """
        while True:
            try:
                return await self.ask(request, ahead=ahead)
            except Disconnected:
                await asyncio.sleep(0.01)  # the next attempt waits for the connection

    async def get(self, path: str, *, watch: bool = False, ahead: bool = False) -> tuple[Node | None, Zxid]:
        """A znode, or None, and the zxid of that answer. A missing znode gets no watch."""
        reply = await self.read(GetData(self.full(path), watch), ahead=ahead)
        self._only(reply, protocol.NO_NODE, path)
        return reply.value, reply.zxid

    async def exists(self, path: str, *, watch: bool = False) -> tuple[Stat | None, Zxid]:
        """The znode's stat, or None, and the zxid of that answer. A missing znode is watched too."""
        reply = await self.read(Exists(self.full(path), watch))
        self._only(reply, protocol.NO_NODE, path)
        return reply.value, reply.zxid

    async def children(self, path: str, *, watch: bool = False) -> tuple[list[str] | None, Zxid]:
        """The names of a znode's children, None without the znode, and the zxid of that answer."""
        reply = await self.read(GetChildren(self.full(path), watch))
        self._only(reply, protocol.NO_NODE, path)
        return reply.value, reply.zxid

    def watch_data(self, paths: Iterable[str], since: Zxid) -> None:
        """Watch the data of many znodes. One that has changed since, or is missing, causes an event at once."""
        for request in self._watches.of_data(map(self.full, paths), since):
            self.submit(request, lambda _: None)

    async def watch_data_since(self, paths: Iterable[str], since: Zxid) -> None:
        """The same, and wait until all are watched, however often the connection is lost: no change since is missed.

        Raises:
            SessionEnded: the session has ended.
        """
        for request in self._watches.of_data(map(self.full, paths), since):
            await self.read(request)

    def watch_creation(self, paths: Iterable[str]) -> None:
        """Watch many missing znodes. One that exists by now causes an event at once."""
        for request in self._watches.of_creation(map(self.full, paths), self.seen_zxid):
            self.submit(request, lambda _: None)

    async def watch_below(self, path: str, ending: str) -> bool:
        """Have one recursive watch tell of everything below a znode, on this connection and each later one of the
        session, instead of one watch for each path with this ending. Changes made between two connections cause events
        as they do with those watches.

        Return whether the server knows such watches; where it does not, each path is watched. While there is one, no
        other watch may be set at `path` itself: servers before 3.9 hold one a path.
        """
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def tell(is_there: bool) -> None:
            if not answer.done():
                answer.set_result(is_there)

        self._watches.recursive.want(self.full(path), ending, tell)
        if self._is_open:
            self._watches.recursive.connected(knows_multi_read=bool(self.knows_multi_read))
            self._send_waiting()
        return await answer

    def unwatch_below(self) -> None:
        """Remove the recursive watch. Nothing watches the paths for which it stood."""
        root = self._watches.recursive.root
        if self._watches.recursive.drop():
            self._remove_watch(root)

    def restore_none(self, ending: str) -> None:
        """Set watches on paths with this ending not again after a lost connection. Until then they may still fire."""
        self._watches.forget(ending)
        self._sift_later()

    def _sift_later(self) -> None:
        def sift() -> None:
            if self._watches.sift():
                self._sift_later()

        if self._loop is not None:
            self._loop.call_later(_SIFTED_EVERY_S, sift)

    def acl(self, path: str) -> bytes:
        """The ACL for a znode that we create at this path."""
        return acl_of(path, is_protected=self.settings.security.sets_acl)

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return self._chroot + path if path != "/" else self._chroot or "/"

    @property
    def open_for_s(self) -> float:
        """How long requests have been sent at once; 0 while they wait for a connection."""
        return asyncio.get_running_loop().time() - self._open_since if self._is_open else 0.0

    @property
    def header_zxid(self) -> Zxid:
        """The zxid of the answer the connection's thread has just read."""
        return Zxid(self._client.last_zxid)

    def put(self, item: object) -> None:
        """Put an item into the event loop's queue, from any thread."""
        self._fifo.append(item)
        if not self._is_woken and self._loop is not None:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed and needs no more items
                self._fifo.clear()

    @staticmethod
    def _only(reply: Reply, expected: int, path: str) -> None:
        if reply.code not in (protocol.OK, expected):
            raise Refused(path, reply.code)

    def _renew(self) -> None:
        """Send a request in place of a ping; the server renews the session on either."""
        if self._is_open:
            self.submit(Exists(self.full("/")), lambda _: None)

    def _send_waiting(self) -> None:
        if self._is_open and self._watches.recursive.is_due:
            if not self._in_flight:
                self._ask_for_recursive_watch()
            return
        while self._is_open and self._waiting and self._in_flight < self.settings.max_in_flight:
            self._send(self._waiting.popleft())

    def _send(self, call: _Call) -> None:
        self._in_flight += 1
        kazoo_internals.send(self._client, call.request, call)

    def _ask_for_recursive_watch(self) -> None:
        """Like the multi-read, while nothing else is in flight; and before all that a new connection has to catch up
        with, so that no later change goes unreported."""
        root = self._watches.recursive.root

        def answered(reply: Reply) -> None:
            if self._watches.recursive.answered(root, reply):
                self._remove_watch(root)

        self._send(_Call(self, protocol.AddRecursiveWatch(root), answered))

    def _remove_watch(self, root: str) -> None:
        # Not behind what waits: that may be sent over the next connection, which can have a watch of its own.
        if self._is_open:
            self._send(_Call(self, protocol.RemoveWatches(root), lambda _: None))

    def _probe(self) -> None:
        """Find out whether this server knows the multi-read, while nothing else is in flight.

        A server before ZooKeeper 3.6 answers out of turn and hangs up, which would end kazoo's client if it waited for
        another answer.
        """
        self._send(_Call(self, MultiRead([self.full("/")]), self._probed))

    def _probed(self, reply: Reply) -> None:
        if reply.failure is not None:
            # It may also hang up without an answer; once may be chance.
            self._lost_probes += 1
            if self._lost_probes >= _PROBES_TO_LOSE:
                self.knows_multi_read = False
            return
        if reply.code == protocol.LOGIN_WANTED:
            self._on_barred(protocol.error_name(reply.code))
            return
        self._lost_probes = 0
        self.knows_multi_read = reply.code == protocol.OK
        if self.knows_multi_read:
            self._open()

    def _open(self) -> None:
        self._is_open = True
        self._open_since = asyncio.get_running_loop().time()
        self._turned_away.clear()
        self._watches.recursive.connected(knows_multi_read=bool(self.knows_multi_read))
        self._is_connected.set()
        self._restore_watches()

    def _drop_waiting(self, why: str) -> None:
        waiting = tuple(self._waiting)
        self._waiting.clear()
        for call in waiting:
            call.done(Reply(None, protocol.SESSION_EXPIRED, Zxid(0), SessionEnded(why)))

    def _state_changed(self, state: str) -> None:
        # In the connection's thread: the ids match the state only here. Whatever was in flight has been answered.
        session, _ = self._client.client_id or (0, b"")
        self.put((state, session, self.header_zxid))

    def _watch_fired(self, kind: int, path: str) -> None:
        # Also in the connection's thread.
        if kind in _CHANGES:
            self.put(WatchEvent(_CHANGES[kind], path))

    def _drain(self) -> None:
        self._is_woken = False
        for _ in range(_DRAINED_AT_ONCE):
            if not self._fifo:
                break
            try:
                self._take(self._fifo.popleft())
            except Exception:  # an error of one receiver must not keep later items from being received
                _log.exception("an item from ZooKeeper was not processed")
        self._send_waiting()
        if self._fifo and not self._is_woken and self._loop is not None:
            self._is_woken = True
            self._loop.call_soon(self._drain)

    def _barred(self, why: str) -> None:
        # Also in the connection's thread.
        self.put(_Barred(why))

    def _take(self, item: Any) -> None:
        if isinstance(item, WatchEvent):
            self._on_event(item)
        elif isinstance(item, _Barred):
            self._on_barred(item.why)
        elif isinstance(item[0], _Call):
            self._on_reply(*item)
        else:
            self._on_state(*item)

    def _on_barred(self, why: str) -> None:
        if self._is_connected.is_set() and why not in self._turned_away:
            _log.warning("ZooKeeper does not let this process in again; still trying", reason=why)
        self._turned_away = [*self._turned_away, why][-len(self._client.hosts) :]
        if self._patience is not None and len(self._turned_away) == len(self._client.hosts):
            self._patience.reschedule(0.0)

    def _on_reply(self, call: _Call, reply: Reply) -> None:
        self._in_flight -= 1
        if reply.failure is None:
            self.seen_zxid = max(self.seen_zxid, reply.zxid)
            self._watches.answered(call.request, reply)
        call.done(reply)

    def _on_event(self, event: WatchEvent) -> None:
        self._watches.fired(event)
        below = WatchEvent(event.change, event.path[len(self._chroot) :] or "/")
        for listener in tuple(self.watch_listeners):
            _tell(listener, below)

    def _on_state(self, kazoo_state: str, session: int, zxid: Zxid) -> None:
        match kazoo_state:
            case KazooState.CONNECTED:
                self.state = ConnectionState.CONNECTED
                self.session = SessionId(session)
                if self.knows_multi_read is False:
                    self._open()
                else:
                    self._probe()
            case KazooState.SUSPENDED:
                self.state = ConnectionState.SUSPENDED
                self._is_open = False
                self._watches.recursive.lost()
                if self._restore_since is None:
                    self._restore_since = zxid
            case _:
                self.state = ConnectionState.LOST
                self._is_open = False
                self._restore_since = None
                self.seen_zxid = Zxid(0)
                self._watches.clear()
                # Kazoo would carry these requests into the next session.
                self._drop_waiting("expired")
        for listener in tuple(self.state_listeners):
            _tell(listener, self.state)

    def _restore_watches(self) -> None:
        since = self._restore_since
        if since is None:
            return
        pieces = self._watches.of_all(since)
        left = len(pieces)
        if not pieces:
            self._restore_since = None

        def done(reply: Reply) -> None:
            nonlocal left
            # Lost again before all were set: the next attempt restores from the same zxid.
            left -= 1 if reply.failure is None else len(pieces) + 1
            if left == 0:
                self._restore_since = None

        # Ahead of waiting requests: a read answered before its watch is set would be reported as changed.
        self._waiting.extendleft(_Call(self, piece, done) for piece in pieces)
        # Another server may not show yet what this session has written without an answer.
        self._waiting.appendleft(_Call(self, Sync(self.full("/")), lambda _: None))
        self._send_waiting()


def _tell(listener: Callable[[_Heard], None], heard: _Heard) -> None:
    """Call a listener. Its error must not keep others from hearing, for example, that the session is lost."""
    try:
        listener(heard)
    except Exception:
        _log.exception("a listener to ZooKeeper has failed", heard=str(heard))
