"""Which of kazoo's private names do we rely on, and why?

kazoo's public calls create an object and a thread hand-over for each answer, accept only kazoo's own requests, and
report watch events from another thread than answers, so that an event can come after answers to later requests. We need
multi-reads, hundreds of thousands of answers, and session order. So requests enter one step below the public calls, and
events are taken where they are read.

These names may change in any release of kazoo: the versions allowed in `pyproject.toml` are the tested ones, and
`tests/unit/zk/test_kazoo_internals.py` shows which name a new version lacks or changes.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection
from typing import Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, SessionExpiredError, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import AUTH_XID
from kazoo.protocol.serialization import SASL, Auth, Watch
from kazoo.protocol.states import KeeperState

from controller.zk.protocol import Request

_OPEN: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
_SASL_XID: Final = 1
_RESTORED: Final = (
    "{}:{} accepts new clients, but not this session: the server has older data than this process has seen, as after "
    "a restore from an older copy"
)
_REFUSALS: Final = {-115: "user or password is wrong", -124: "user or password is wrong"}


class Completion(Protocol):
    """Takes the place of kazoo's asynchronous result; called in the connection's thread, in the order of answers.

    During a call, `KazooClient.last_zxid` is the one of this answer's header.
    """

    def set(self, value: object = None) -> None:
        """The decoded answer; None where a znode asked about does not exist."""

    def set_exception(self, error: Exception) -> None:
        """The server's error, or kazoo's own."""


def send(client: KazooClient, request: Request, callback: Completion) -> None:
    """Queue a request of any kind behind all others, whatever the connection's state.

    `KazooClient._call` is where all of kazoo's public calls end; those accept only kazoo's own requests.
    """
    client._call(request, callback)


def send_only(client: KazooClient, kinds: Collection[int]) -> None:
    """Refuse every request of another kind with `PermissionError`, ours and kazoo's own, before it is queued.

    All of kazoo's public calls end in `KazooClient._call`. Past it go only what opens, renews and closes a session, and
    logins.
    """
    call = client._call

    def call_if_allowed(request: Request, callback: object) -> object:
        if request.type not in kinds:
            raise PermissionError(f"this client may not send {type(request).__name__}")
        return call(request, callback)

    client._call = call_if_allowed


def take_watch_events(client: KazooClient, take: Callable[[int, str], None]) -> None:
    """Have the connection's thread pass on each watch event (type, path with the chroot) where it reads it.

    `ConnectionHandler._read_watch_event` would pass it to another thread, behind answers that came later. Kazoo's own
    watches no longer work on this client.
    """

    def read(buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        take(watch.type, watch.path)

    client._connection._read_watch_event = read


def renew_only_while(client: KazooClient, may_renew: Callable[[], bool]) -> None:
    """Let the connection's thread renew the session only while `may_renew`, called in that thread, returns True.

    `ConnectionHandler._send_ping` renews it, and so does `_connect` after a lost connection. Queued requests renew it
    too.
    """
    connection = client._connection
    ping, connect = connection._send_ping, connection._connect

    def send_ping(connect_timeout: float) -> None:
        if may_renew():
            ping(connect_timeout)

    def connect_if_renewing(host: str, address: str, port: int) -> tuple[float, float]:
        if not may_renew():
            raise ConnectionDropped("the session must not be renewed now")
        timeouts: tuple[float, float] = connect(host, address, port)
        return timeouts

    connection._send_ping = send_ping
    connection._connect = connect_if_renewing


def give_up_where_only_new_clients_are_accepted(
    client: KazooClient, is_over: Callable[[], bool], failed: Callable[[str], None]
) -> None:
    """Have the connection's thread give up a session that `is_over` if a server accepts new clients but not this one.
    `failed` receives the reason; both are called in that thread.

    A server hangs up on a client that has seen a higher zxid than its own, and on every client while it starts. A
    server restored from an older copy would hang up on this client forever, because `KazooClient.last_zxid` is reset
    only with a new session. So the same server is tried as a new client; the session of that attempt expires unused.
    """
    connection = client._connection
    connect = connection._connect

    def is_new_client_accepted(host: str, address: str, port: int) -> bool:
        known = client._session_id, client._session_passwd, client.last_zxid
        callback, client._session_callback = client._session_callback, lambda _: None
        client._reset_session()
        client.last_zxid = 0
        try:
            connect(host, address, port)
        except (ConnectionDropped, KazooTimeoutError):
            return False
        finally:
            client._session_callback = callback
            client._session_id, client._session_passwd, client.last_zxid = known
        return True

    def connect_to(host: str, address: str, port: int) -> tuple[float, float]:
        try:
            timeouts: tuple[float, float] = connect(host, address, port)
        except ConnectionDropped:
            if client._session_id is None or not is_over():
                raise
            if connection._socket is not None:
                connection._socket.close()
            if not is_new_client_accepted(host, address, port):
                raise
            failed(_RESTORED.format(host, port))
            raise SessionExpiredError("a server accepts new clients, but not this one") from None
        return timeouts

    connection._connect = connect_to


def keep_connecting(client: KazooClient) -> None:
    """Keep the connection's thread trying after any error, as after a dropped connection.

    `ConnectionHandler._connect_attempt` lets unknown errors, such as those of a TLS library or of a login, end the
    thread, after which the client would never reconnect. kazoo has logged the error.
    """
    connection = client._connection
    attempt = connection._connect_attempt

    def attempt_again(*arguments: object) -> object:
        try:
            return attempt(*arguments)
        except Exception:
            if client._state != KeeperState.CONNECTING:
                client._session_callback(KeeperState.CONNECTING)
            return None

    connection._connect_attempt = attempt_again


class LoginRefused(Exception):
    """A server refuses our login; the text says why."""


class Opened:
    """A connection with a session, before kazoo's client learns of it."""

    def __init__(self, client: KazooClient, host: str) -> None:
        self._client = client
        self._timeout_s = client._session_timeout / 1000 / len(client.hosts)
        self.host = host

    def sasl(self, token: bytes) -> bytes:
        """Send a token and return the server's answer.

        Raises:
            LoginRefused: the server says so or, as old servers do, hangs up.
        """
        connection = self._client._connection
        try:
            connection._submit(SASL(token), self._timeout_s, _SASL_XID)
            header, body, offset = connection._read_header(self._timeout_s)
        except ConnectionDropped:
            raise LoginRefused("the server hangs up") from None
        except KazooTimeoutError:
            raise LoginRefused("the server does not answer") from None
        if header.err:
            raise LoginRefused(_REFUSALS.get(header.err, f"error {header.err}"))
        answer, _ = SASL.deserialize(body, offset)
        return bytes(answer or b"")

    def add_auth(self, scheme: str, credentials: str) -> None:
        """Add another id to the session.

        Raises:
            LoginRefused: the server does not know the scheme.
        """
        try:
            self._client._connection._invoke(self._timeout_s, Auth(0, scheme, credentials), xid=AUTH_XID)
        except ZookeeperError as error:
            raise LoginRefused(f"scheme {scheme}: {type(error).__name__}") from None


def log_in_first(
    client: KazooClient, log_in: Callable[[Opened], None], failed: Callable[[str], None], clock: Callable[[], float]
) -> None:
    """Have the connection's thread log in at each server before kazoo reports the connection. `failed` receives the
    reason of a failure; the login is tried again, there or at another server.

    `ConnectionHandler._connect` calls `KazooClient._session_callback` when there is a session and nothing else was
    sent. Kazoo would log in only afterwards, and give up for good where a server refuses or dies meanwhile. Since each
    attempt renews the session, the session is given up when no login succeeds for as long as it lasts; another replica
    can then take over.
    """
    connection = client._connection
    connect, callback = connection._connect, client._session_callback
    host = ""
    refused_at: float | None = None

    def connect_to(name: str, address: str, port: int) -> tuple[float, float]:
        nonlocal host, refused_at
        host = name
        if refused_at is not None and clock() - refused_at > client._session_timeout / 1000:
            refused_at = None
            raise SessionExpiredError("no server has accepted our login")
        timeouts: tuple[float, float] = connect(name, address, port)
        return timeouts

    def session_callback(state: str) -> None:
        nonlocal refused_at
        if state in _OPEN:
            try:
                log_in(Opened(client, host))
            except LoginRefused as error:
                refused_at = clock() if refused_at is None else refused_at
                reason = f"{host} refuses the login: {error}"
                failed(reason)
                raise ConnectionDropped(reason) from None
            refused_at = None
        callback(state)

    connection._connect = connect_to
    client._session_callback = session_callback


def cut(client: KazooClient) -> None:
    """Break the connection, if there is one, so that its thread stops waiting for answers."""
    broken = client._connection._socket
    if broken is not None:
        with contextlib.suppress(OSError):
            broken.shutdown(socket.SHUT_RDWR)


def has_stopped(client: KazooClient) -> bool:
    """Whether the connection's thread has ended; only then may the client be closed."""
    return bool(client._connection.connection_stopped.is_set())
