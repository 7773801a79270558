"""Are the internals of this version of kazoo what we rely on?

A version that lacks a name or uses it differently must not be allowed in `pyproject.toml`.
"""

from __future__ import annotations

import inspect
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionDropped, NoNodeError, SessionExpiredError
from kazoo.protocol import connection as kazoo_connection
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import ReplyHeader, Watch
from kazoo.protocol.states import KeeperState

from controller.zk import kazoo_internals
from controller.zk.protocol import Exists, GetData, Node, Request, text
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

STAT = struct.pack(">qqqqiiiqiiq", 5, 6, 0, 0, 7, 0, 0, 8, 0, 0, 0)
SEEN = Stat(Zxid(5), Zxid(6), ZnodeVersion(7), SessionId(8))


class Completion:
    """Records its calls, and the client's zxid at that moment."""

    def __init__(self, client: KazooClient) -> None:
        self.heard: list[tuple[object, int]] = []
        self._client = client

    def set(self, value: object = None) -> None:
        self.heard.append((value, self._client.last_zxid))

    def set_exception(self, error: Exception) -> None:
        self.heard.append((type(error), self._client.last_zxid))


@pytest.fixture
def client() -> Iterator[KazooClient]:
    """A client that never connects."""
    made = KazooClient("127.0.0.1:1")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("called", "parameters"),
    [
        (KazooClient._call, ["self", "request", "async_object"]),
        (ConnectionHandler._read_watch_event, ["self", "buffer", "offset"]),
        (ConnectionHandler._send_ping, ["self", "connect_timeout"]),
        (ConnectionHandler._connect, ["self", "host", "hostip", "port"]),
        (ConnectionHandler._connect_attempt, ["self", "host", "hostip", "port", "retry"]),
        (ConnectionHandler._read_response, ["self", "header", "buffer", "offset"]),
        (ConnectionHandler._submit, ["self", "request", "timeout", "xid"]),
        (ConnectionHandler._read_header, ["self", "timeout"]),
        (ConnectionHandler._invoke, ["self", "timeout", "request", "xid"]),
        (KazooClient._session_callback, ["self", "state"]),
        (KazooClient._reset_session, ["self"]),
        (Watch.deserialize, ["bytes", "offset"]),
    ],
    ids=lambda it: getattr(it, "__qualname__", ""),
)
def test_a_private_name_takes_what_it_is_given(called: Callable[..., Any], parameters: list[str]) -> None:
    assert list(inspect.signature(called).parameters) == parameters


def test_a_client_has_its_connection_from_the_start(client: KazooClient) -> None:
    assert isinstance(client._connection, ConnectionHandler)


def read_from_server(client: KazooClient, xid: int, zxid: int, error: int, body: bytes) -> None:
    """What the connection's thread does with an answer or event."""
    connection = client._connection
    connection._read_header = lambda _timeout: (ReplyHeader(xid, zxid, error), body, 0)
    connection._read_socket(0)


def test_watch_events_are_given_where_they_are_read_and_nowhere_else(client: KazooClient) -> None:
    seen: list[tuple[int, str]] = []
    kazoo_internals.take_watch_events(client, lambda kind, path: seen.append((kind, path)))

    read_from_server(client, kazoo_connection.WATCH_XID, -1, 0, struct.pack(">ii", 3, 3) + text("/kafka/controller"))

    assert seen == [(3, "/kafka/controller")]
    assert client.handler.callback_queue.empty()


@pytest.mark.parametrize(
    ("request_", "error", "body", "heard"),
    [
        (GetData("/a"), 0, struct.pack(">i", 4) + b"data" + STAT, Node(b"data", SEEN)),
        (Exists("/a"), 0, STAT, SEEN),
        (Exists("/a"), NoNodeError.code, b"", None),
        (GetData("/a"), NoNodeError.code, b"", NoNodeError),
    ],
)
def test_a_request_of_ours_is_sent_and_its_answer_given_while_the_client_holds_that_answers_zxid(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch, request_: Request, error: int, body: bytes, heard: object
) -> None:
    completion, sent = Completion(client), bytearray()
    connection = client._connection
    client._session_callback(KeeperState.CONNECTED)
    connection._xid = 0
    connection._read_sock, connection._write_sock = client.handler.create_socket_pair()
    monkeypatch.setattr(connection, "_write", lambda message, _timeout: sent.extend(message))

    kazoo_internals.send(client, request_, completion)
    connection._send_request(None, 1)
    connection._read_sock.close()
    connection._write_sock.close()

    size, xid, kind = struct.unpack_from(">iii", sent)
    assert (size, kind, bytes(sent[12:])) == (len(sent) - 4, request_.type, request_.serialize())
    read_from_server(client, xid, 77, error, body)
    assert completion.heard == [(heard, 77)]


def test_the_session_is_known_when_a_listener_hears_of_the_connection(client: KazooClient) -> None:
    sessions: list[object] = []
    client.add_listener(lambda state: sessions.append((state, client.client_id)))
    client._session_id, client._session_passwd = 42, b"secret"

    client._session_callback(KeeperState.CONNECTED)
    client._session_callback(KeeperState.EXPIRED_SESSION)

    assert sessions == [(KazooState.CONNECTED, (42, b"secret")), (KazooState.LOST, None)]


class Server:
    """A server's answers to one client's logins."""

    def __init__(self, client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.error = 0
        self.hangs_up = False
        self.now = 0.0
        self.done: list[str] = []
        self.reasons: list[str] = []
        connection = client._connection

        def connect(*_: object) -> tuple[float, float]:
            self.done.append("connect")
            client._session_callback(KeeperState.CONNECTED)
            return 1.0, 1.0

        def read_header(_timeout: float) -> tuple[ReplyHeader, bytes, int]:
            if self.hangs_up:
                raise ConnectionDropped("socket connection broken")
            return ReplyHeader(1, 0, self.error), struct.pack(">i", 4) + b"rsp!", 0

        monkeypatch.setattr(connection, "_connect", connect)
        monkeypatch.setattr(connection, "_read_header", read_header)
        monkeypatch.setattr(connection, "_write", lambda message, _timeout: self.done.append(f"say {message[-4:]!r}"))
        client.add_listener(self.done.append)

        def log_in(opened: kazoo_internals.Opened) -> None:
            assert opened.host == "zk1"
            assert opened.sasl(b"tok!") == b"rsp!"

        kazoo_internals.log_in_first(client, log_in, self.reasons.append, lambda: self.now)

    def connect(self) -> None:
        self.client._connection._connect("zk1", "127.0.0.1", 1)


def test_no_listener_hears_of_a_connection_before_it_has_logged_in(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(client, monkeypatch)

    server.connect()

    assert server.done == ["connect", "say b'tok!'", KazooState.CONNECTED]
    assert server.reasons == []


def test_a_refused_login_drops_the_connection_and_is_tried_again(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(client, monkeypatch)
    for error, hangs_up, reason in (
        (-115, False, "zk1 refuses the login: user or password is wrong"),
        (0, True, "zk1 refuses the login: the server hangs up"),
    ):
        server.error, server.hangs_up = error, hangs_up
        with pytest.raises(ConnectionDropped):
            server.connect()
        assert server.reasons.pop() == reason
    assert KazooState.CONNECTED not in server.done

    server.error, server.hangs_up = 0, False
    server.connect()
    assert KazooState.CONNECTED in server.done


def test_a_session_that_no_server_accepts_is_given_up_when_it_would_have_expired(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try renews the session, and with it a claim that serves no purpose."""
    server = Server(client, monkeypatch)
    server.connect()
    server.error = -115
    for server.now in (0.0, 9.0, 10.0):
        with pytest.raises(ConnectionDropped):
            server.connect()
    server.now = 10.1

    with pytest.raises(SessionExpiredError):
        server.connect()
    with pytest.raises(ConnectionDropped):
        server.connect()  # with a new one


def test_a_login_is_where_kazoo_tells_of_the_connection() -> None:
    source = inspect.getsource(ConnectionHandler._connect)

    assert "client._session_callback(KeeperState.CONNECTED)" in source
    assert source.index("self._invoke(") < source.index("client._session_callback(KeeperState.CONNECTED)")


def connection_of(client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the client's connection does from now on to renew the session."""
    done: list[str] = []
    connection = client._connection
    monkeypatch.setattr(connection, "_send_ping", lambda _timeout: done.append("ping"))

    def connect(*_: object) -> tuple[float, float]:
        done.append("connect")
        return 1.0, 1.0

    monkeypatch.setattr(connection, "_connect", connect)
    return done


def test_a_session_is_renewed_only_while_it_may_be(client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    done, may = connection_of(client, monkeypatch), [True]
    kazoo_internals.renew_only_while(client, lambda: may[0])
    connection = client._connection

    connection._send_ping(1.0)
    assert connection._connect("h", "127.0.0.1", 1) == (1.0, 1.0)
    may[0] = False
    connection._send_ping(1.0)
    with pytest.raises(ConnectionDropped):
        connection._connect("h", "127.0.0.1", 1)

    assert done == ["ping", "connect"]


def test_an_error_that_kazoo_does_not_know_does_not_end_its_thread(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[object] = []
    client.add_listener(states.append)
    client._session_callback(KeeperState.CONNECTED)

    def connect(host: str, address: str, port: int) -> tuple[float, float]:
        raise ValueError("server_hostname cannot start with a dot")

    monkeypatch.setattr(client._connection, "_connect", connect)
    kazoo_internals.keep_connecting(client)

    assert client._connection._connect_attempt("h", "127.0.0.1", 1, None) is None
    assert states == [KazooState.CONNECTED, KazooState.SUSPENDED]
    assert "status = self._connect_attempt(" in inspect.getsource(ConnectionHandler._connect_loop)


def test_who_renews_a_session_is_called_through_the_connection() -> None:
    """Both are replaced on the instance, so kazoo must look them up there."""
    source = inspect.getsource(ConnectionHandler._connect_attempt)

    assert "self._connect(host, hostip, port)" in source
    assert "self._send_ping(connect_timeout)" in source
    assert "ConnectionDropped" in source


class Restored:
    """A server with older data than a client: while it serves, it accepts only new clients."""

    def __init__(self, client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.is_over = False
        self.serves = True
        self.reasons: list[str] = []
        self.states: list[str] = []
        monkeypatch.setattr(client._connection, "_connect", self._connect)
        client.add_listener(self.states.append)
        kazoo_internals.give_up_where_only_new_clients_are_accepted(client, lambda: self.is_over, self.reasons.append)
        client._session_id, client._session_passwd, client.last_zxid = 42, b"secret", 77

    def _connect(self, *_: object) -> tuple[float, float]:
        if not self.serves or self.client.last_zxid:
            raise ConnectionDropped("socket connection broken")
        self.client._session_id = 43
        self.client._session_callback(KeeperState.CONNECTED)
        return 1.0, 1.0

    def connect(self) -> tuple[float, float]:
        timeouts: tuple[float, float] = self.client._connection._connect("zk1", "127.0.0.1", 2181)
        return timeouts


def test_a_session_is_given_up_that_is_over_where_only_strangers_are_let_in(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Restored(client, monkeypatch)
    server.is_over = True

    with pytest.raises(SessionExpiredError):
        server.connect()
    client._session_callback(KeeperState.EXPIRED_SESSION)  # as kazoo does

    assert (len(server.reasons), server.states) == (1, [])
    assert server.connect() == (1.0, 1.0)
    assert server.states == [KazooState.CONNECTED]


@pytest.mark.parametrize(("is_over", "serves"), [(False, True), (True, False)])
def test_a_session_that_may_live_is_kept_and_so_is_one_whose_server_accepts_no_client(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch, is_over: bool, serves: bool
) -> None:
    server = Restored(client, monkeypatch)
    server.is_over, server.serves = is_over, serves

    with pytest.raises(ConnectionDropped):
        server.connect()

    assert (client._session_id, client._session_passwd, client.last_zxid) == (42, b"secret", 77)
    assert (server.reasons, server.states) == ([], [])


def test_a_session_that_expires_takes_what_it_has_seen_with_it(client: KazooClient) -> None:
    client._session_callback(KeeperState.CONNECTED)
    client._session_id, client.last_zxid = 42, 77
    client._session_callback(KeeperState.EXPIRED_SESSION)

    assert (client._session_id, client.last_zxid) == (None, 0)


def test_a_connection_is_cut_where_there_is_one(client: KazooClient) -> None:
    assert kazoo_internals.has_stopped(client)
    kazoo_internals.cut(client)
    ours, theirs = socket.socketpair()
    client._connection._socket = ours
    kazoo_internals.cut(client)
    kazoo_internals.cut(client)

    assert theirs.recv(1) == b""
    ours.close()
    theirs.close()
