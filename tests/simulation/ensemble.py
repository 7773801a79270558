"""Which ZooKeeper servers are there, which client uses which, and how late does each show a write?

In half of the worlds there is one server. In the others two more apply its transactions late: by
milliseconds always, by many seconds after a fault. Brokers and tools always read the latest state; only
controllers see what their server has applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.clock import Clock
from tests.simulation.controllers import Controller, Role
from tests.simulation.faults import name_of
from tests.simulation.network import Line
from tests.simulation.zookeeper import Znode, ZooKeeper
from tests.simulation.zookeeper_follower import Follower
from tests.simulation.zookeeper_server import ServerConnection, Transacted
from zk_layout.ids import SessionId

if TYPE_CHECKING:
    from tests.simulation.world import World

USUAL_LAGS_S = (0.0, 0.002, 0.02, 0.2)
# How many servers know recursive watches, while an ensemble is upgraded as well.
KNOW_RECURSIVE_WATCHES = (0, 1, 3, 3)
# No server lags by more than that.
MOST_S = 25.0
# A server that shows everything within that time does not lag.
IN_TIME_S = 0.5


class Server:
    """One server; the transactions that it has yet to show, and since when."""

    def __init__(self, name: str, clock: Clock, leader: ZooKeeper, usual_lag_s: float | None) -> None:
        """Without a usual lag it is the leader."""
        self.name = name
        self.is_up = True
        self.zookeeper = leader if usual_lag_s is None else Follower(leader, self._learned)
        self.usual_lag_s = self.lag_s = usual_lag_s or 0.0
        self.hears_again_at = 0.0
        self._clock = clock
        self._due: deque[tuple[float, float]] = deque()  # when each is applied, and when it was written
        self._was_late_at = 0.0
        self._connections: list[ServerConnection] = []

    @property
    def is_leader(self) -> bool:
        """Whether it shows everything at once."""
        return not isinstance(self.zookeeper, Follower)

    @property
    def was_late_at(self) -> float:
        """The time at which it last lagged."""
        is_late = self._due and self._clock.now - self._due[0][1] > IN_TIME_S
        return self._clock.now if is_late else self._was_late_at

    def connect(self, line: Line, transacted: Transacted, oversized: Callable[[bytes], None]) -> ServerConnection:
        """A client is connected over a line."""
        connection = ServerConnection(self.zookeeper, line.answer, line.hang_up, transacted, oversized)
        self._connections = [c for c in self._connections if not c.is_closed] + [connection]
        return connection

    def go_down(self) -> None:
        """Its process ends, and every connection with it."""
        self.is_up = False
        for connection in self._connections:
            connection.leave()

    def come_up(self) -> None:
        """It accepts clients again, once it has caught up."""
        self.is_up = True
        self.catch_up()

    def catch_up(self) -> None:
        """From now on it lags no more than usual."""
        if self._due:
            self._was_late_at = self._clock.now
        self.lag_s, self.hears_again_at = self.usual_lag_s, 0.0
        self._due.clear()
        if isinstance(self.zookeeper, Follower):
            self.zookeeper.catch_up()

    def _learned(self) -> None:
        now = self._clock.now
        due = max(now + self.lag_s, self.hears_again_at, self._due[-1][0] if self._due else 0.0)
        self._due.append((due, now))
        if due > now:
            self._clock.after(due - now, self._apply)
        else:
            self._apply()

    def _apply(self) -> None:
        assert isinstance(self.zookeeper, Follower)
        while self._due and self._due[0][0] <= self._clock.now:
            _, written_at = self._due.popleft()
            if self._clock.now - written_at > IN_TIME_S:
                self._was_late_at = self._clock.now
            self.zookeeper.apply_next()


class Ensemble:
    """All servers of a world, and what goes wrong with them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        lags: list[float | None] = [None]
        drawn = Random(f"{world.seed}/ensemble")
        if drawn.random() < 0.5:
            lags += [drawn.choice(USUAL_LAGS_S) for _ in range(2)]
        self.servers = [
            Server(f"zookeeper {number}", world.clock, world.zookeeper, lag) for number, lag in enumerate(lags, 1)
        ]
        knowing = drawn.choice(KNOW_RECURSIVE_WATCHES)
        for number, server in enumerate(self.servers):
            server.zookeeper.knows_recursive_watches = number < knowing
            server.zookeeper.hangs_up_on_unknown = drawn.random() < 0.5
        self._served: dict[SessionId, tuple[Server, float]] = {}
        self._next: Server | None = None
        self.kinds = (self._lag, self._hear_nothing, self._move, self._move_in_doubt, self._lose_touch, self._go_down)

    @property
    def has_followers(self) -> bool:
        """Whether there is more than one server."""
        return len(self.servers) > 1

    @property
    def most_s(self) -> float:
        """The largest age of the state on which a controller decides."""
        return MOST_S if self.has_followers else 0.0

    def dial(self, line: Line, transacted: Transacted, oversized: Callable[[bytes], None]) -> ServerConnection:
        """A client reaches one of the servers."""
        wanted, self._next = self._next, None
        server = wanted if wanted is not None and wanted.is_up else self._any_server()
        connection = server.connect(line, transacted, oversized)
        connection.greeted = lambda session: self._greeted(session, server)
        if not server.is_leader:
            self._watch(server, connection, None)
        return connection

    def shown_in_time_since(self, session: SessionId) -> float:
        """The time since which a session's server has not lagged: earlier writes it need not know."""
        server, since = self._served.get(session, (self.servers[0], 0.0))
        paused = [c.paused_until for c in self.world.controllers.values() if c.session == session]
        return max(since, server.was_late_at, *paused)

    def shown_to(self, session: SessionId) -> Mapping[str, Znode]:
        """All that the server of a session has applied."""
        server, _ = self._served.get(session, (self.servers[0], 0.0))
        return server.zookeeper.nodes

    def _any_server(self) -> Server:
        up = [server for server in self.servers if server.is_up]
        return self.random.choice(up) if self.has_followers else self.servers[0]

    def _greeted(self, session: SessionId, server: Server) -> None:
        self._served[session] = (server, self.world.clock.now)
        if self.has_followers:
            self.world.say(server.name, f"serves session {session} at zxid {server.zookeeper.zxid}")

    def _watch(self, server: Server, connection: ServerConnection, waited_for: object) -> None:
        """A client that gets no answer for most of its session time-out takes the server for dead."""
        if connection.is_closed:
            return
        if waited_for is not None and connection.waits_for == waited_for:
            self.world.say(server.name, "is given up by a client that waits for an answer")
            connection.leave()
            return
        waits_for = connection.waits_for
        look_s = self.world.plan.session_timeout_s / 3
        self.world.clock.after(look_s, lambda: self._watch(server, connection, waits_for))

    # what goes wrong

    def act(self) -> str:
        """Inject a fault of a server, or move a session to another one; return the fault's name."""
        fault = self.random.choices(self.kinds, (4, 3, 3, 4, 2, 1))[0]
        name = name_of(fault)
        self.world.coverage.struck(name, self.world.clock.now, self.world.phases.present())
        fault()
        return name

    def _any_follower(self) -> Server:
        return self.random.choice(self.servers[1:])

    def _lag(self) -> None:
        """A server shows everything late for a while."""
        server = self._any_follower()
        lag_s = self.random.choice((0.1, 1.0, 10.0)) * self.random.uniform(0.2, 2.0)
        for_s = self.random.uniform(1.0, 20.0)
        self.world.say(server.name, f"lags by {lag_s:.2f}s for {for_s:.1f}s")
        server.lag_s = lag_s
        self.world.clock.after(for_s, server.catch_up)

    def _hear_nothing(self) -> None:
        """A server applies nothing for a while, then all at once."""
        self._silence(self._any_follower(), self.random.choice((0.2, 2.0, 15.0)) * self.random.random())

    def _silence(self, server: Server, for_s: float) -> None:
        self.world.say(server.name, f"hears nothing for {for_s:.2f}s")
        server.hears_again_at = max(server.hears_again_at, self.world.clock.now + for_s)

    def _move(self) -> None:
        """The leading controller loses its connection, and comes back to another server."""
        leader = self.world.leading()
        if leader is not None:
            self._move_to(leader, self.random.choice([server for server in self.servers if server.is_up]))

    def _move_to(self, leader: Controller, server: Server) -> None:
        if leader.role is Role.LEADING and not leader.connection.is_down:
            self.world.say(leader.name, "is moved to another ZooKeeper server")
            self._next = server
            leader.connection.drop(0.0)

    def _move_in_doubt(self) -> None:
        """The answer to a commit is lost, and the next server does not show its outcome for a while."""
        leader, server = self.world.leading(), self._any_follower()
        if leader is not None and server.is_up:

            def accepted() -> None:
                self._move_to(leader, server)

            self._silence(server, self.random.uniform(0.2, 8.0))
            leader.at_next_commit = accepted

    def _lose_touch(self) -> None:
        """The leader's server loses the others; the session ends, and the controller does not hear of it."""
        leader = self.world.leading()
        server, _ = self._served.get(leader.session, (None, 0.0)) if leader is not None else (None, 0.0)
        if leader is None or server is None or server.is_leader:
            return
        session_s, session = self.world.plan.session_timeout_s, leader.session
        self._silence(server, self.random.uniform(0.5, 2.5) * session_s)
        if server.hears_again_at - self.world.clock.now > session_s:
            self.world.clock.after(session_s, lambda: self._expire_unheard(server, session))

    def _expire_unheard(self, server: Server, session: SessionId) -> None:
        if server.hears_again_at > self.world.clock.now and session in server.zookeeper.attached:
            self.world.say(server.name, f"does not hear that session {session} has expired")
            self.world.expire(session)

    def _go_down(self) -> None:
        """A server is killed, and comes back later."""
        server = self.random.choice(self.servers)
        if not server.is_up or sum(s.is_up for s in self.servers) == 1:
            return
        for_s = self.random.uniform(0.2, 15.0)
        self.world.say(server.name, f"is killed, back in {for_s:.1f}s")
        server.go_down()
        self.world.clock.after(for_s, server.come_up)

    def heal(self) -> None:
        """Every server runs, and lags no more than usual."""
        for server in self.servers:
            server.come_up()
