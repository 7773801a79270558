"""A lagging server shows writes in order, late but whole, and never less than its client has seen."""

from __future__ import annotations

import struct

import pytest

from controller.zk import protocol
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData, ZooKeeper
from tests.simulation.zookeeper_follower import Follower
from tests.simulation.zookeeper_server import ServerConnection
from zk_layout.ids import SessionId

WATCH_XID = -1
SYNC = 9


class Ensemble:
    """A leader, and a server that applies transactions on demand."""

    def __init__(self) -> None:
        self.leader = ZooKeeper(lambda *_: None, lambda *_: None)
        self.tool = self.leader.open_session()
        self.leader.multi(self.tool, [MakeNode("/a", b"0"), MakeNode("/p")])
        self.late = Follower(self.leader)


class Client:
    """Speaks ZooKeeper's protocol over a line without delays."""

    def __init__(self, server: ZooKeeper, session: int = 0, seen: int = 0) -> None:
        self.frames: list[bytes] = []
        self.is_hung_up = False
        self._xid = 0
        self._server = ServerConnection(server, self.frames.append, self._hung_up)
        self._server.take(struct.pack(">iqiq", 0, seen, 6000, session) + bytes(21))

    def _hung_up(self) -> None:
        self.is_hung_up = True

    @property
    def session(self) -> SessionId:
        return SessionId(struct.unpack_from(">iiq", self.frames[0])[2])

    def ask(self, request: protocol.Request) -> int:
        self._xid += 1
        self._server.take(struct.pack(">ii", self._xid, request.type) + bytes(request.serialize()))
        return self._xid

    def sync(self) -> int:
        self._xid += 1
        self._server.take(struct.pack(">ii", self._xid, SYNC) + protocol.text("/"))
        return self._xid

    def heard(self) -> list[int]:
        """The xids received since the greeting, in order."""
        return [struct.unpack_from(">i", frame)[0] for frame in self.frames[1:]]

    def zxid(self, xid: int) -> int:
        frame = next(f for f in self.frames[1:] if struct.unpack_from(">i", f)[0] == xid)
        return int(struct.unpack_from(">q", frame, 4)[0])

    def data(self, xid: int) -> bytes:
        frame = next(f for f in self.frames[1:] if struct.unpack_from(">i", f)[0] == xid)
        size = struct.unpack_from(">i", frame, 16)[0]
        return frame[20 : 20 + size]


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()


def connected(ensemble: Ensemble) -> Client:
    client = Client(ensemble.late)
    ensemble.late.catch_up()
    return client


def test_a_write_through_the_leader_shows_when_it_is_applied(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])

    before = client.ask(protocol.GetData("/a"))
    ensemble.late.catch_up()
    after = client.ask(protocol.GetData("/a"))

    assert (client.data(before), client.data(after)) == (b"0", b"1")
    assert client.zxid(before) + 1 == client.zxid(after) == ensemble.leader.zxid


def test_a_transaction_shows_as_a_whole(ensemble: Ensemble) -> None:
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1"), MakeNode("/b")])
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"2")])

    ensemble.late.apply_next()

    assert ensemble.late.nodes["/a"].data == b"1"
    assert "/b" in ensemble.late.nodes


def test_every_stat_is_the_leaders_in_the_end(ensemble: Ensemble) -> None:
    leader, tool = ensemble.leader, ensemble.tool
    for _ in range(2):
        leader.multi(tool, [MakeNode("/p/n_", is_sequential=True), SetData("/a", b"1"), MakeNode("/e", b"", True)])
        leader.multi(tool, [RemoveNode("/e"), MakeNode("/a")])  # refused, and yet in the order
        leader.multi(tool, [RemoveNode("/e")])
    leader.close_session(tool)

    ensemble.late.catch_up()

    def stats(server: ZooKeeper) -> dict[str, object]:
        return {path: (n.stat(), n.pzxid, n.sequence, list(n.children)) for path, n in server.nodes.items()}

    assert stats(ensemble.late) == stats(leader)
    assert ensemble.late.zxid == leader.zxid


def test_a_client_is_answered_when_its_write_shows_and_what_it_asked_afterwards_waits(ensemble: Ensemble) -> None:
    client = connected(ensemble)

    wrote = client.ask(protocol.SetData("/a", b"1", 0))
    read = client.ask(protocol.GetData("/a"))
    wrote_again = client.ask(protocol.SetData("/a", b"2", 1))

    assert client.heard() == []
    assert ensemble.leader.nodes["/a"].data == b"2"
    ensemble.late.apply_next()
    assert client.heard() == [wrote, read]
    assert client.data(read) == b"1"
    ensemble.late.apply_next()
    assert client.heard() == [wrote, read, wrote_again]


def test_who_is_refused_hears_of_it_when_the_reason_shows(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])

    refused = client.ask(protocol.SetData("/a", b"2", 0))
    read = client.ask(protocol.GetData("/a"))

    assert client.heard() == []
    ensemble.late.catch_up()
    assert client.heard() == [refused, read]
    assert client.data(read) == b"1"


def test_other_clients_of_the_server_need_not_wait(ensemble: Ensemble) -> None:
    writer, reader = connected(ensemble), connected(ensemble)
    writer.ask(protocol.SetData("/a", b"1", 0))

    read = reader.ask(protocol.GetData("/a"))

    assert reader.data(read) == b"0"


def test_a_watch_fires_when_its_server_applies_the_change_and_before_the_answer_to_it(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    watched = client.ask(protocol.GetData("/a", True))

    wrote = client.ask(protocol.SetData("/a", b"1", 0))

    assert client.heard() == [watched]
    ensemble.late.catch_up()
    assert client.heard() == [watched, WATCH_XID, wrote]


def test_a_watch_set_on_what_has_changed_already_tells_the_change(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])

    client.ask(protocol.GetData("/a", True))
    ensemble.late.catch_up()

    assert client.heard() == [1, WATCH_XID]


def test_a_sync_is_answered_when_everything_shows_that_was_written_before(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])

    synced = client.sync()
    read = client.ask(protocol.GetData("/a"))

    assert client.heard() == []
    ensemble.late.catch_up()
    assert client.heard() == [synced, read]
    assert client.data(read) == b"1"


def test_a_new_session_sees_what_was_written_before_it(ensemble: Ensemble) -> None:
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])
    client = Client(ensemble.late)

    assert client.frames == []
    ensemble.late.catch_up()
    assert client.data(client.ask(protocol.GetData("/a"))) == b"1"


def test_a_client_that_has_seen_more_is_refused(ensemble: Ensemble) -> None:
    client = Client(ensemble.leader)
    session, seen = client.session, ensemble.leader.zxid

    early = Client(ensemble.late, session, seen)
    ensemble.late.catch_up()
    in_time = Client(ensemble.late, session, seen)

    assert (early.is_hung_up, early.frames) == (True, [])
    assert (in_time.is_hung_up, in_time.session) == (False, session)


def test_a_session_that_comes_back_may_be_shown_less_than_it_has_written(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    session, seen = client.session, ensemble.late.zxid
    client.ask(protocol.SetData("/a", b"1", 0))  # the answer never arrives

    again = Client(ensemble.late, session, seen)

    assert again.data(again.ask(protocol.GetData("/a"))) == b"0"
    ensemble.late.catch_up()
    assert again.data(again.ask(protocol.GetData("/a"))) == b"1"


def test_a_session_has_one_connection_wherever_it_is(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    client.ask(protocol.GetData("/a", True))

    moved = Client(ensemble.leader, client.session, ensemble.late.zxid)
    ensemble.leader.multi(ensemble.tool, [SetData("/a", b"1")])
    ensemble.late.catch_up()

    assert client.heard() == [1]
    assert moved.heard() == []


def test_the_end_of_a_session_shows_late_and_nobody_may_come_back_to_it(ensemble: Ensemble) -> None:
    client = connected(ensemble)
    client.ask(protocol.Create("/e", b"", ephemeral=True))
    ensemble.late.catch_up()

    ensemble.leader.close_session(client.session)
    read = client.ask(protocol.GetData("/e"))

    assert "/e" not in ensemble.leader.nodes
    assert read in client.heard()
    assert not client.is_hung_up
    returning = Client(ensemble.late, client.session, ensemble.late.zxid)
    assert returning.session == 0
    ensemble.late.catch_up()
    assert client.is_hung_up
