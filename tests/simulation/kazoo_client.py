"""How does kazoo's client run where time is simulated? All of it but its thread, its socket and its heartbeats.

The states of kazoo's client, its queues and its handling of answers are kazoo's own code; here is the loop that
`ConnectionHandler.zk_loop` runs in a thread, turned inside out: a frame comes in, a request goes out, a line is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Connect, ReplyHeader, int_int_struct
from kazoo.protocol.states import KeeperState

from controller.settings.zookeeper import ZooKeeperSettings
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line, Network
from zk_layout.ids import SessionId

_WATCH_XID = -1
_RETRY_S = 0.05

Dial = Callable[[Line], "Server"]


class Server(Protocol):
    """The other end of a line."""

    def take(self, frame: bytes) -> None:
        """Take one frame without its length."""

    def close(self) -> None:
        """The connection is gone."""


class _NoThreads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler, without threads."""

    def start(self) -> None:
        """No thread."""

    def stop(self) -> None:
        """None runs."""

    def spawn(self, act: Callable[..., None], *arguments: Any, **named: Any) -> None:
        """Run it here and now."""
        act(*arguments, **named)

    def dispatch_callback(self, callback: Any) -> None:
        """Not used: kazoo's own watches."""


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """One client's connection to ZooKeeper, over one line after the other. `loop` is that of the client's process."""

    def __init__(self, client: KazooClient, network: Network, loop: SimulatedLoop, dial: Dial) -> None:
        super().__init__(client, None)
        self._network = network
        self._clock = network.clock
        self._loop = loop
        self._dial = dial
        self._line: Line | None = None
        self._server: Server | None = None
        self._is_greeted = self._is_to_connect = False
        self._down_until = 0.0
        self._write_sock = self
        self.abandoned: Callable[[SessionId], None] = lambda _: None

    @property
    def is_down(self) -> bool:
        """Whether no server can be reached."""
        return self._clock.now < self._down_until

    # what kazoo's client calls

    def start(self) -> None:
        """Connect, again and again."""
        self._connect_after(0.0)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop; unlike kazoo, without waiting for the answer to the last request, or to an attempt to connect."""
        self._flush()
        if not self._is_greeted:
            self._abandon_line()
        self.client._session_callback(KeeperState.CLOSED)
        return True

    def close(self) -> None:
        """Nothing to release."""

    def send(self, _: bytes) -> None:
        """A request has been queued."""
        self._flush()

    # what goes wrong

    def drop(self, down_s: float) -> None:
        """Lose the line; no other server can be reached for a while."""
        self._down_until = max(self._down_until, self._clock.now + down_s)
        self._abandon_line()
        self._soon(self._lost)

    def die(self) -> None:
        """The process is gone; the server notices that its end of the line is closed."""
        self._abandon_line()

    # the loop

    def _abandon_line(self) -> None:
        line, server, self._line, self._server = self._line, self._server, None, None
        self._is_greeted = False
        if line is not None and server is not None:
            line.cut()
            server.close()

    def _connect_after(self, delay_s: float) -> None:
        """Connect once, like kazoo's one thread, however many callers noticed the lost line."""
        if not self._is_to_connect:
            self._is_to_connect = True
            self._later(delay_s, self._connect_once)

    def _connect_once(self) -> None:
        client, self._is_to_connect = self.client, False
        if client._stopped.is_set() or self._line is not None:
            return
        if client._state != KeeperState.CONNECTING:
            client._session_callback(KeeperState.CONNECTING)
        if self.is_down:
            self._connect_after(self._down_until - self._clock.now + self._network.delay())
            return
        self._xid = 0
        line = Line(self._network, lambda frame: self._soon(lambda: self._take(line, frame)), self._hung_up)
        self._line, self._server = line, self._dial(line)
        line.to_server = self._server.take
        connect = Connect(
            0,
            client.last_zxid,
            client._session_timeout,
            client._session_id or 0,
            client._session_passwd,
            client.read_only,
        )
        line.send(bytes(connect.serialize()))

    def _hung_up(self) -> None:
        was_greeted = self._is_greeted
        self._abandon_line()
        self._soon(self._lost if was_greeted else self._refused)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """The end of an attempt on which a server hung up: it only refuses a client because of its zxid."""
        if self.client.last_zxid:
            raise ConnectionDropped("the server hung up")
        return 1.0, 1.0

    def _refused(self) -> None:
        """As `_connect_attempt` ends when it could not connect."""
        if self._line is not None or self.client._stopped.is_set():
            return
        session = self.client._session_id
        try:
            self._connect("simulated", "simulated", 2181)
        except SessionExpiredError:
            self.abandoned(SessionId(session))
            self.client._session_callback(KeeperState.EXPIRED_SESSION)
        except ConnectionDropped:
            pass
        self._lost()

    def _lost(self) -> None:
        """As `_connect_attempt` ends when the connection is dropped."""
        if self._line is None and not self.client._stopped.is_set():
            if self.client._state != KeeperState.CONNECTING:
                self.client._session_callback(KeeperState.CONNECTING)
            self._connect_after(_RETRY_S)

    def _take(self, line: Line, frame: bytes) -> None:
        if line is not self._line or self.client._stopped.is_set():
            return  # a client that has stopped waits for no answer
        if not self._is_greeted:
            self._greeted(frame)
            return
        header, offset = ReplyHeader.deserialize(frame, 0)
        if header.xid == _WATCH_XID:
            self._read_watch_event(frame, offset)
        elif self._read_response(header, frame, offset) == CLOSE_RESPONSE:
            self._abandon_line()

    def _greeted(self, frame: bytes) -> None:
        """As `_connect` reads the server's answer."""
        client = self.client
        result, _ = Connect.deserialize(frame, 0)
        if result.time_out <= 0:
            self._abandon_line()
            client._session_callback(KeeperState.EXPIRED_SESSION)
            self._connect_after(_RETRY_S)
            return
        client._session_id, client._session_passwd = result.session_id, result.passwd
        client._protocol_version = result.protocol_version
        self._is_greeted = True
        client._session_callback(KeeperState.CONNECTED)
        self._flush()

    def _flush(self) -> None:
        """As `_send_request` for everything that is queued."""
        client = self.client
        while self._is_greeted and self._line is not None and client._queue:
            request, handle = client._queue.popleft()
            self._xid += 1
            client._pending.append((request, handle, self._xid))
            self._line.send(int_int_struct.pack(self._xid, request.type) + bytes(request.serialize()))

    def _soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, act)


def kazoo_client(settings: ZooKeeperSettings, network: Network, loop: SimulatedLoop, dial: Dial) -> KazooClient:
    """A client as `controller.zk.bridge` makes it, over simulated lines."""
    client = KazooClient(
        hosts=settings.connect,
        timeout=settings.session_timeout_ms / 1000,
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 2.0},
        handler=_NoThreads(),
    )
    client._connection = Connection(client, network, loop, dial)
    return client
