"""Does a client that reconnects to a lagging server learn the outcome of its writes?"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import protocol
from controller.zk.answers import Change, ConnectionState, Reply, WatchEvent
from controller.zk.bridge import Bridge
from tests.simulation.clock import Clock
from tests.simulation.kazoo_client import Connection, kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line, Network
from tests.simulation.zookeeper import MakeNode, SetData, ZooKeeper
from tests.simulation.zookeeper_follower import Follower
from tests.simulation.zookeeper_server import ServerConnection

LAG_S = 2.0
SESSION_S = ZooKeeperSettings("").session_timeout_ms / 1000


class Moving:
    """A client of two servers, of which the second shows nothing new until it is released."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.leader = ZooKeeper(lambda *_: None, lambda *_: None)
        self.leader.make_path("/a")
        self.late = Follower(self.leader)
        self._serving: ZooKeeper = self.leader
        self._loop = SimulatedLoop(self.clock)  # type: ignore[abstract]  # nothing here asks a loop for more
        settings = ZooKeeperSettings("simulated:2181")
        self._client = kazoo_client(settings, Network(self.clock, Random(1)), self._loop, self._dial)
        self.bridge = Bridge(settings, self._client)
        self._loop.start(self.bridge.start())
        self.until(self.bridge._is_connected.is_set)

    def _dial(self, line: Line) -> ServerConnection:
        return ServerConnection(self._serving, line.answer, line.hang_up)

    def until(self, has_come: Callable[[], object]) -> None:
        while not has_come():
            assert self.clock.step()

    def ask(self, request: protocol.Request) -> list[Reply]:
        """The answers so far."""
        replies: list[Reply] = []
        self.bridge.submit(request, replies.append)
        return replies

    def restore(self, older: ZooKeeper, down_s: float) -> None:
        """Stop the server and bring it back with an older copy of its data."""
        connection = self._client._connection
        assert isinstance(connection, Connection)
        self._serving = older
        connection.drop(down_s)

    def move(self) -> None:
        """To the lagging server, which catches up later."""
        connection = self._client._connection
        assert isinstance(connection, Connection)
        self._serving = self.late
        connection.drop(0.0)
        self.clock.after(LAG_S, self.late.catch_up)


def test_what_is_read_after_coming_back_shows_what_was_in_doubt() -> None:
    moving = Moving()
    moving.late.catch_up()
    wrote = moving.ask(protocol.SetData("/a", b"1", 0))
    moving.until(lambda: moving.leader.nodes["/a"].data)
    moving.move()
    moving.until(lambda: wrote)

    read = moving.ask(protocol.GetData("/a"))
    moving.until(lambda: read)

    assert wrote[0].failure is not None
    assert (read[0].value.data, read[0].value.stat.version) == (b"1", 1)


def test_watches_are_set_again_on_what_the_server_shows_by_then() -> None:
    moving, seen = Moving(), list[WatchEvent]()
    moving.bridge.watch_listeners.append(seen.append)
    watched = moving.ask(protocol.GetData("/a", watch=True))
    moving.until(lambda: watched)
    moving.late.catch_up()
    tool = moving.leader.open_session()
    moving.move()
    moving.leader.multi(tool, [SetData("/a", b"1"), MakeNode("/b")])

    moving.until(lambda: seen)

    assert seen == [WatchEvent(Change.CHANGED, "/a")]


def older_copy() -> ZooKeeper:
    """A copy of a time when only `/a` existed."""
    older = ZooKeeper(lambda *_: None, lambda *_: None)
    older.make_path("/a")
    return older


@pytest.mark.parametrize("down_s", [0.1, 2 * SESSION_S])
def test_a_server_restored_from_an_older_copy_is_reached_with_a_new_session_once_the_old_one_is_over(
    down_s: float,
) -> None:
    moving, states = Moving(), list[ConnectionState]()
    moving.ask(protocol.SetData("/a", b"1", 0))
    read = moving.ask(protocol.GetData("/a", watch=True))
    moving.until(lambda: read)
    moving.bridge.state_listeners.append(states.append)
    began = moving.clock.now

    moving.restore(older_copy(), down_s)
    read = moving.ask(protocol.GetData("/a"))
    moving.until(lambda: ConnectionState.CONNECTED in states)

    assert states == [ConnectionState.SUSPENDED, ConnectionState.LOST, ConnectionState.CONNECTED]
    assert max(SESSION_S, down_s) < moving.clock.now - began < max(SESSION_S, down_s) + 5
    assert read[0].failure is not None, "what was asked in a session that is over is not asked in the next one"
    read = moving.ask(protocol.GetData("/a"))
    moving.until(lambda: read)
    assert (read[0].value.data, read[0].value.stat.version) == (b"", 0)


def test_a_session_that_a_server_still_has_is_kept_however_long_no_server_answered() -> None:
    moving, states = Moving(), list[ConnectionState]()
    read = moving.ask(protocol.GetData("/a", watch=True))
    moving.until(lambda: read)
    moving.bridge.state_listeners.append(states.append)
    former = moving.bridge.session

    moving.restore(moving.leader, 3 * SESSION_S)
    moving.until(lambda: ConnectionState.CONNECTED in states)

    assert states == [ConnectionState.SUSPENDED, ConnectionState.CONNECTED]
    assert moving.bridge.session == former
