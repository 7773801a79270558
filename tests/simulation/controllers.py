"""How do the processes of one replica run in a world, one after the other?"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.core.candidacy.events import ProtocolChanged
from controller.core.candidacy.phases import Phase, TakeOver
from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Create, Delete, Set, Write
from controller.core.messages.events import CallId, Committed, Observed
from controller.core.messages.requests import Request
from controller.core.state.cluster import ClusterState
from controller.zk.lives import MARK
from tests.simulation.broken import Broken
from tests.simulation.kazoo_client import Connection
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line, Link
from tests.simulation.observer import Observer
from tests.simulation.processes import Process, settings_of
from tests.simulation.stand_ins import Ask, Links, Listener
from tests.simulation.zookeeper import CheckVersion, MakeNode, Multi, Operation, RemoveNode, SetData
from tests.simulation.zookeeper_server import ServerConnection
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId, Zxid

if TYPE_CHECKING:
    from tests.simulation.world import World

CLAIM = "/controller"
KINDS: dict[type, type[Write]] = {MakeNode: Create, SetData: Set, RemoveNode: Delete}
RELEASED = "/kafka_zk_controller/released"
SWITCHOVER = "/kafka_zk_controller/switchover"
CHALLENGE = "/kafka_zk_controller/challenge"
OWN = (SWITCHOVER, CHALLENGE, "/kafka_zk_controller/replicas")


class Role(StrEnum):
    """A process' role, as the world sees it; `Candidacy.phase` is more precise."""

    DOWN = "down"
    STANDBY = "standby"
    LEADING = "leading"


class Controller:
    """One replica: its processes, one after the other."""

    def __init__(self, world: World, own_id: BrokerId) -> None:
        self.world = world
        self.own_id = own_id
        self.name = f"controller {own_id}"
        self.life = 0
        self.epoch = ControllerEpoch(0)
        self.crash_at_commit = 0
        self.crash_in_turn = False
        self.at_next_commit: Callable[[], None] | None = None
        self.at_next_claim: Callable[[], None] | None = None
        self.at_end: list[Callable[[], None]] = []  # of the process
        self.submitted: list[Commit] = []
        self.observer = Observer(self)
        self.listener = Listener(self)
        self.machine: Machine | None = None
        self._has_begun = False
        self.state: ClusterState | None = None  # of the last machine
        self.channels: Links | None = None
        self._process: Process | None = None
        self._loop = SimulatedLoop(world.clock)  # type: ignore[abstract]  # nothing here asks a loop for more
        self._last_session = self._term_session = SessionId(0)

    # what the world sees

    @property
    def role(self) -> Role:
        """Its role."""
        if self._process is None:
            return Role.DOWN
        return Role.STANDBY if self.machine is None else Role.LEADING

    @property
    def phase(self) -> Phase | None:
        """Its process' phase in the election."""
        return None if self._process is None else self._process._candidacy.phase

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self._process is not None

    @property
    def observes(self) -> bool:
        """Whether it never claims: the last of the replicas, if any."""
        return self.own_id in list(self.world.controllers)[len(self.world.controllers) - self.world.plan.observers :]

    @property
    def is_claiming(self) -> bool:
        """Whether it is about to claim, or has a claim in flight."""
        return self.phase is Phase.CONTENDING

    @property
    def is_serving(self) -> bool:
        """Whether it serves clients."""
        return self._process is not None and self.listener.is_serving

    @property
    def session(self) -> SessionId:
        """The session that its process has, or had."""
        if self._process is not None:
            self._last_session = self._process.claimant.bridge.session
        return self._last_session

    @property
    def seen_zxid(self) -> Zxid:
        """The zxid up to which its process knows its own writes."""
        return Zxid(0) if self._process is None else self._process.claimant.bridge.seen_zxid

    def is_behind_on(self, path: str) -> bool:
        """Whether a committed write or a read of a znode waits for a later turn: turns are bounded."""
        if self.machine is None:
            return False
        queue, transactions = self.machine._queue, self.machine._transactions
        waiting: list[Fact | Write] = list(queue._facts[queue._given :])
        for event in queue._waiting:
            if isinstance(event, Observed):
                waiting += event.facts
            elif isinstance(event, Committed):
                waiting += transactions.writes(event.commit)
        return any(one.address.path == path for one in waiting)

    @property
    def is_cut_off(self) -> bool:
        """Whether its process knows that ZooKeeper does not answer it."""
        return self._process is not None and self._process.contact.is_lost()

    @property
    def connection(self) -> Connection:
        """Its process' connection to ZooKeeper."""
        assert self._process is not None
        connection = self._process.claimant.bridge._client._connection
        assert isinstance(connection, Connection)
        return connection

    def abandoned(self, session: SessionId) -> None:
        """Its process has abandoned this session, which will expire."""
        self.world.say(self.name, f"gives session {session} up")
        self.world.clock.after(self.world.plan.session_timeout_s, lambda: self.world.expire(session))

    @property
    def links(self) -> dict[BrokerId, Link]:
        """Its links to brokers."""
        return {} if self.channels is None else self.channels.by_broker

    @property
    def asks(self) -> dict[CallId, Ask]:
        """The requests that wait for an answer."""
        return self.listener.asks

    @property
    def paused_until(self) -> float:
        """Until when the process is stopped."""
        return self._loop.paused_until

    @paused_until.setter
    def paused_until(self, at: float) -> None:
        self._loop.paused_until = at

    # process

    def start(self) -> None:
        """A new process, with a new session."""
        self.life += 1
        self.crash_at_commit, self.crash_in_turn, self.at_next_commit, self.at_next_claim = 0, False, None, None
        self.world.say(self.name, "starts")
        plan = self.world.plan
        settings = settings_of(self.own_id, plan.take_over, plan.session_timeout_s, plan.challenge_timeout_s)
        if self.observes:
            settings = replace(settings, candidacy=replace(settings.candidacy, take_over=TakeOver.NEVER))
        self._loop = SimulatedLoop(self.world.clock, partial(self.world.say, self.name))  # type: ignore[abstract]
        self._process = Process(self, settings, self._loop)
        self._loop.start(self._live(self._process))

    async def _live(self, process: Process) -> None:
        await process.live()
        self.world.say(self.name, "exits")
        self._loop.halt()
        self.world.clock.after(0.0, partial(self._is_gone, process))

    def crash(self) -> None:
        """The process is killed; its session lives on until it expires."""
        if self._process is not None:
            self.world.say(self.name, "is killed")
            self._is_gone(self._process)

    def crash_soon(self) -> None:
        """The process is killed in the middle of its work."""
        self._loop.halt()
        self.world.clock.after(0.0, partial(self._kill, self.life))

    def _kill(self, life: int) -> None:
        if life == self.life:
            self.crash()

    def _is_gone(self, process: Process) -> None:
        if process is not self._process:
            return
        session = self.session
        if not self._loop.is_dead:
            self.connection.die()
        self._process = None
        self._loop.kill()
        at_end, self.at_end = self.at_end, []
        for tell in at_end:
            tell()
        self.term_ended()
        self.world.clock.after(self.world.plan.session_timeout_s, lambda: self.world.expire(session))

    def dismantle(self) -> None:
        """The world ends."""
        if self._process is not None:
            self.connection.die()
        self._loop.kill()

    def stop(self) -> None:
        """An operator stops it: it ends by itself."""
        self.world.say(self.name, "gets SIGTERM")
        self._loop.signal(signal.SIGTERM)

    def renew(self) -> None:
        """It detects that brokers have another protocol."""
        if self._process is not None:
            self.world.phases.upgrade_began()
            self._loop.call_soon_threadsafe(self._process.happened, ProtocolChanged("another"))

    def usurp(self) -> None:
        """An operator deletes `/controller` although its holder is alive."""
        self.world.write(RemoveNode(CLAIM))

    def new_machine(self, epoch: ControllerEpoch, state: ClusterState) -> Machine:
        """The machine of its next term, which folds into this state."""
        self.state = state
        return self.world.new_machine(self.own_id, epoch, state)

    def term_began(self, epoch: ControllerEpoch, machine: Machine) -> None:
        """Its process begins to lead."""
        self.world.say(self.name, f"leads with controller epoch {epoch}")
        self.epoch, self.machine, self._has_begun = epoch, machine, False
        self._term_session = self.session
        self.world.checker.began(self, epoch)
        self.submitted.clear()

    def turned(self) -> None:
        """Its machine has had a turn, perhaps the one that ends its load."""
        machine: Machine | None = getattr(self.machine, "_machine", self.machine)  # of one that records, or errs
        if not self._has_begun and machine is not None and machine._is_loaded and self.state is not None:
            self._has_begun = True
            self.world.beginnings.began(self.name, self._term_session, self.state, self.world.zookeeper.nodes)

    def term_ended(self) -> None:
        """Its process no longer leads."""
        if self.machine is not None:
            self.machine = None
            self.listener.refuse_all()
        if self.channels is not None:
            self.channels.cut()
            self.channels = None

    # ZooKeeper

    def dial(self, line: Line) -> ServerConnection:
        """A line reaches a server. A client that asks for a new session has lost one, and its term with it."""
        if self._process is not None and self._process.leads_without_session:
            raise Broken(f"{self.name} still leads, though its session has expired")
        return self.world.ensemble.dial(line, self._transacted, self.oversized)

    def oversized(self, frame: bytes) -> None:
        """The server got too large a frame, and hung up."""
        self.world.sizes.oversized(self.name, frame)

    def _transacted(self, session: SessionId, operations: Sequence[Operation], done: Multi) -> None:
        writes = [o for o in operations if not isinstance(o, CheckVersion) and MARK not in o.path]
        written, data = [(KINDS[type(o)], o.path) for o in writes], [getattr(o, "data", b"") for o in writes]
        if not done.errors and any(isinstance(o, MakeNode) and o.path == CLAIM for o in operations):
            act, self.at_next_claim = self.at_next_claim, None
            if act is not None:
                self.world.clock.after(0.0, act)
        if done.errors or any(path == CLAIM or path.startswith(("/brokers/ids/", *OWN)) for _, path in written):
            return
        # Not always the first: one that waits for others is sent after later ones, and one may have been lost.
        same = [c for c in self.submitted if [(type(write), write.address.path) for write in c.writes] == written]
        if not same:
            raise AssertionError(f"{self.name} wrote what its machine did not decide: {written}")
        if session != self._term_session:
            raise Broken(f"{self.name} wrote in another session than the one of its claim: {written}")
        commit = next((c for c in same if [made.data for made in c.operations] == data), same[0])
        self.submitted.remove(commit)
        self.world.checker.committed(self, commit)
        act, self.at_next_commit = self.at_next_commit, None
        if act is not None:
            self.world.clock.after(0.0, act)
        if self.crash_at_commit:
            self.crash_at_commit -= 1
            if not self.crash_at_commit:
                self.crash_soon()

    # requests

    def ask(self, ask: CallId, request: Request, answer: Ask) -> None:
        """Take a request from the network; the answer is None if the connection is lost."""
        self.listener.ask(ask, request, answer)
