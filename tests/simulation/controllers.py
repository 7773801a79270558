"""How does a controller's process run in a world? The daemon itself, without its sockets.

Here are stand-ins for listeners, metrics and links to brokers. kazoo's own client reaches ZooKeeper, over lines
that delay or lose bytes, at the level of its protocol.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, MutableSequence, Sequence
from enum import Enum, StrEnum, auto
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from controller.core.candidacy.challenger import Heard, Unheard
from controller.core.candidacy.events import ProtocolChanged
from controller.core.candidacy.phases import Phase, TakeOver
from controller.core.machine import Machine
from controller.core.messages.effects import (
    Answer,
    Commit,
    Connect,
    Create,
    Delete,
    DescribeBrokerConfig,
    DescribeLogDirs,
    Disconnect,
    Effect,
    Measured,
    Notice,
    Set,
    StepDown,
    Tell,
    Write,
)
from controller.core.messages.events import Asked, CallId, Committed, Conflicted, Event, Fenced, Observed, Unknown
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Caller, Request
from controller.core.state.cluster import ClusterState
from controller.following.cluster import ClusterFollower
from controller.following.standby import Standby
from controller.http.status import Status
from controller.preflight.findings import Verdict
from controller.process.claimant import Claimant
from controller.process.daemon import Daemon
from controller.process.leader_pulse import PATIENCE_S
from controller.process.machine_settings import watched_in_term
from controller.process.replica_znode import ReplicaZnode
from controller.process.term import TermParts
from controller.process.terms import Followed, Terms
from controller.runtime.pump import Took
from controller.settings import Settings, load
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import parse_protocol
from controller.zk.bridge import Bridge
from controller.zk.contact import Contact
from controller.zk.lives import MARK
from tests.simulation.broken import Broken
from tests.simulation.kazoo_client import Connection, kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line, Link
from tests.simulation.trace import command_lines, write_text
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
PROTOCOL = "3.9"
NOT_ANSWERED = None
DRAIN_LOOK_S = 0.05

Ask = Callable[[Reply | None], None]


class Role(StrEnum):
    """A process' role, as the world sees it; `Candidacy.phase` is more precise."""

    DOWN = "down"
    STANDBY = "standby"
    LEADING = "leading"


@lru_cache
def settings_of(
    own_id: BrokerId, take_over: TakeOver, session_timeout_s: float, challenge_timeout_s: float = 0.0
) -> Settings:
    """The settings in one replica's file."""
    given = {
        "zookeeper.connect": "simulated:2181",
        "zookeeper.session.timeout.ms": round(session_timeout_s * 1000),
        "broker.id": own_id,
        "listeners": f"PLAINTEXT://controller-{own_id}:9092",
        "inter.broker.protocol.version": PROTOCOL,
        "controller.takeover": take_over.value,
        "controller.challenge.timeout.ms": round(challenge_timeout_s * 1000),
        "controller.drain.timeout.ms": 1000,
        "http.port": 0,
    }
    texts = [f"{key}={value}" for key, value in given.items()]
    return load(None, texts, {}, {"inter.broker.protocol.version": parse_protocol})


class NothingWrong:
    """Replaces `controller.preflight`: whether brokers can be reached and understand us is not simulated."""

    async def look(self, *_: object) -> Verdict:
        """All is well."""
        return Verdict(())


class Links:
    """Replaces `controller.brokers.links`: commands travel as they are, not as bytes."""

    def __init__(self, controller: Controller, emit: Callable[[Event], None]) -> None:
        self._controller = controller
        self._world = controller.world
        self._emit = emit
        self.by_broker: dict[BrokerId, Link] = {}

    def connect(self, connect: Connect) -> None:
        """Open a link to a life of a broker."""
        broker = connect.broker
        self._world.say(self._controller.name, f"connects to broker {broker} (epoch {connect.broker_epoch})")
        if broker in self.by_broker:
            self.by_broker[broker].close()
        deliver = partial(self._world.deliver, self._controller.own_id)
        self.by_broker[broker] = Link(self._world.network, connect, deliver, self._emit)

    def disconnect(self, disconnect: Disconnect) -> None:
        """Close it."""
        self._world.say(self._controller.name, f"disconnects from broker {disconnect.broker}")
        link = self.by_broker.pop(disconnect.broker, None)
        if link is not None:
            link.close()

    def tell(self, tell: Tell) -> None:
        """Queue a command."""
        self._world.checker.effect(self._controller, tell)
        for line in command_lines(tell.command):
            self._world.say(self._controller.name, f"tell {tell.broker}  {line}")
        self.by_broker[tell.broker].tell(tell)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until every command has been acknowledged; False if that took too long."""
        until = self._world.clock.now + timeout_s
        while any(not link.is_idle for link in self.by_broker.values()):
            if self._world.clock.now >= until:
                return False
            await asyncio.sleep(DRAIN_LOOK_S)
        return True

    def answer_within(self, timeout_s: float) -> None:
        """Not used: no process gets other settings here."""

    def cut_short(self) -> None:
        """Not used: no process is stopped twice here."""

    async def close(self) -> None:
        """Close every link."""
        self.cut()

    def cut(self) -> None:
        """Close every link."""
        for link in self.by_broker.values():
            link.close()
        self.by_broker.clear()


class Inspector:
    """Replaces `controller.brokers.log_dirs`."""

    def __init__(self, controller: Controller, emit: Callable[[Event], None]) -> None:
        self._world = controller.world
        self._emit = emit

    def describe(self, asked: DescribeLogDirs) -> None:
        """Ask one broker."""
        self._world.move_requests.describe(asked, self._emit)

    async def close(self) -> None:
        """Nothing is open."""


class ConfigInspector:
    """Replaces `controller.brokers.configs`."""

    def __init__(self, controller: Controller, emit: Callable[[Event], None]) -> None:
        self._world = controller.world
        self._emit = emit

    def describe(self, asked: DescribeBrokerConfig) -> None:
        """Ask one broker."""
        self._world.throttles.describe(asked, self._emit)

    async def close(self) -> None:
        """Nothing is open."""


class Listener:
    """Replaces `controller.server`: requests arrive as values, not as bytes."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._emit: Callable[[Asked], None] | None = None
        self.asks: dict[CallId, Ask] = {}

    @property
    def is_serving(self) -> bool:
        """Whether clients are let in."""
        return self._emit is not None

    async def start(self) -> None:
        """Nothing listens."""

    async def close(self) -> None:
        """Hang up."""
        self.refuse_all()

    def begin_term(self, emit: Callable[[Asked], None]) -> None:
        """Let clients in."""
        self._emit = emit

    def refuse_all(self) -> None:
        """Refuse every request from now on."""
        self._emit = None
        self._controller.world.checker.answers.term_ended(self._controller)
        asks, self.asks = self.asks, {}
        for answer in asks.values():
            answer(NOT_ANSWERED)

    def ask(self, number: CallId, request: Request, answer: Ask) -> None:
        """A request came in."""
        assert self._emit is not None
        self.asks[number] = answer
        self._emit(Asked(number, request, Caller("PLAINTEXT", "127.0.0.1")))

    def answer(self, answer: Answer) -> None:
        """Send an `Answer`."""
        self._controller.world.checker.effect(self._controller, answer)
        self.asks.pop(answer.call)(answer.reply)


class Pulse:
    """Replaces `controller.process.leader_pulse`: a question to the leader's event loop, without a connection."""

    def __init__(self, controller: Controller) -> None:
        self._world = controller.world
        self._connection: tuple[BrokerId, int] | None = None  # to this life of a process

    async def ask(self, leader: BrokerId) -> Heard | Unheard | None:
        """Whether it answers within a moment. A process that does not run refuses at once."""
        asked = self._world.controllers.get(leader)
        if asked is None:
            return None
        answered: asyncio.Future[_Sign] = asyncio.get_running_loop().create_future()
        if leader not in self._world.network.deaf:
            self._later(lambda: self._arrives(asked, answered))
        try:
            async with asyncio.timeout(PATIENCE_S):
                sign = await answered
        except TimeoutError:
            sign = _Sign.NONE
        before, now = self._connection, (leader, asked.life)
        was_connected = before is not None and before[0] == leader
        match sign:
            case _Sign.NONE:
                self._connection = (leader, 0) if was_connected else None
                return Unheard()
            case _Sign.CUT_OFF:
                return Unheard()
        self._connection = now
        return Heard(is_reopened=was_connected and before != now)

    def _arrives(self, asked: Controller, answered: asyncio.Future[_Sign]) -> None:
        if asked.is_up:
            asked._loop.call_soon_threadsafe(self._answers, asked, answered)
        else:
            self._later(partial(_tell, answered, _Sign.NONE))

    def _answers(self, asked: Controller, answered: asyncio.Future[_Sign]) -> None:
        sign = _Sign.CUT_OFF if asked.is_cut_off else _Sign.ALIVE
        self._later(partial(_tell, answered, sign))

    def _later(self, act: Callable[[], None]) -> None:
        """A message arrives, or gets lost."""
        if not self._world.network.is_lost():
            self._world.clock.after(self._world.network.delay(), act)

    def close(self) -> None:
        """Nothing is open."""


class _Sign(Enum):
    """What a leader shows a standby that asks it."""

    ALIVE = auto()
    CUT_OFF = auto()
    """Alive, but ZooKeeper does not answer it."""
    NONE = auto()


def _tell(answered: asyncio.Future[_Sign], sign: _Sign) -> None:
    if not answered.done():
        answered.set_result(sign)


class NoExporter:
    """Stands for `controller.http.server`: nothing listens."""

    async def start(self) -> None:
        """Not used: nothing reads the pages."""

    async def stop(self) -> None:
        """Nothing was started."""


class Observer:
    """Replaces `controller.monitoring.monitoring`: reports a process' events to the world."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._world = controller.world

    def start(self) -> None:
        """No gauge is taken."""

    def stop(self) -> None:
        """Nothing was started."""

    def noticed(self, notice: Notice) -> None:
        """A notice was given."""
        self._world.folder.noticed(notice.text)
        self._world.sizes.noticed(notice)

    def measured(self, figure: Measured) -> None:
        """Not measured here."""

    def take_gauges(self) -> None:
        """Not measured here."""

    def term_began(self, epoch: ControllerEpoch, machine: Machine) -> None:
        """A term begins."""
        self._controller.term_began(epoch, machine)

    def term_ended(self) -> None:
        """A term is over."""
        self._controller.term_ended()

    def turned(self, _now: float, events: Sequence[Event], effects: Sequence[Effect], _took: Took, _left: int) -> None:
        """A turn was decided, but not carried out yet."""
        self._controller.turned()
        for event in events:
            self._tell_outcome(event)
        for effect in effects:
            if isinstance(effect, Commit):
                self._controller.submitted.append(effect)
                for why in effect.why:
                    self._world.say(self._controller.name, f"commit {effect.commit}: {why}")
                for made in effect.operations:
                    self._world.say(self._controller.name, f"  {write_text(made.write, made.data)}")
                self._world.namesakes.decided(self._controller, effect)
                self._world.checker.decided(effect)
            elif isinstance(effect, StepDown):
                self._world.checker.effect(self._controller, effect)
        commits = [effect for effect in effects if isinstance(effect, Commit)]
        if self._controller.state is not None:
            self._world.pauses.decided(self._controller, commits, self._controller.state)
            self._world.limits.gates.decided(self._controller, commits, self._controller.state)
            self._world.limits.paces.decided(self._controller, commits, self._controller.state)
        if self._controller.crash_in_turn:
            self._controller.crash_soon()
            assert isinstance(effects, MutableSequence)
            del effects[self._world.random.randint(0, len(effects)) :]

    def _tell_outcome(self, event: Event) -> None:
        doubts, epoch = self._world.checker.announcements.doubts, self._controller.epoch
        match event:
            case Unknown(commit):
                doubts.lost(epoch, commit)
                outcome = "outcome unknown"
            case Committed(commit, zxid):
                doubts.answered(epoch, commit)
                outcome = f"committed at zxid {zxid}"
            case Fenced(commit):
                outcome = "fenced"
            case Conflicted(commit, _, reason):
                # The next transaction about the same znodes would be taken for it.
                submitted = self._controller.submitted
                self._controller.submitted = [other for other in submitted if other.commit != commit]
                outcome = reason
            case _:
                return
        self._world.say(self._controller.name, f"commit {commit}: {outcome}")


class _Terms(Terms):
    """Terms whose machine, links and random source come from the world."""

    def __init__(self, controller: Controller, settings: Settings, claimant: Claimant, process: Process) -> None:
        observer: Any = controller.observer
        super().__init__(settings.term, claimant, observer, process.happened, process.followed)
        self._controller = controller
        self._bridge = claimant

    def _parts(self, server: Any) -> TermParts:
        controller, observer = self._controller, self._controller.observer
        world, own_id = controller.world, controller.own_id

        def new_links(_: TermParts, emit: Callable[[Event], None], __: Callable[[BaseException], None]) -> Links:
            controller.channels = Links(controller, emit)
            return controller.channels

        of_machine = world.settings_of(own_id)
        return TermParts(
            bridge=self._bridge.bridge,
            facts=self._facts(of_machine, world.sizes.believed_bytes),
            machine_settings=of_machine,
            protocol=parse_protocol(PROTOCOL),
            inter_broker_listener="PLAINTEXT",
            request_timeout_s=30.0,
            request_limit_bytes=world.sizes.believed_bytes,
            drain_timeout_s=1.0,
            answer=server.answer,
            counter=observer,
            link_observer=None,  # type: ignore[arg-type]  # for the links, which are not there
            turn_observers=(observer,),
            new_machine=lambda _, epoch, __, state: controller.new_machine(epoch, state),
            new_links=new_links,
            new_log_dirs=lambda _, emit: Inspector(controller, emit),
            new_broker_configs=lambda _, emit: ConfigInspector(controller, emit),
            random_bytes=bytes,
            wall_clock=partial(world.wall_clocks.now, own_id),
        )


class Silent:
    """Follows neither ACLs nor quotas, on which no decision depends."""

    async def follow(self) -> None:
        """There are no quotas."""

    def close(self) -> None:
        """Nothing to close."""


class Unled(ClusterFollower):
    """Follows nothing without a term: no client is passed on here."""

    async def follow(self) -> None:
        """Nothing."""


class Process(Daemon):
    """The daemon of `controller.process.daemon`, with stand-ins for its sockets."""

    def __init__(self, controller: Controller, settings: Settings, loop: SimulatedLoop) -> None:
        self._controller = controller
        self._loop = loop
        super().__init__(settings)

    def _assemble(self, settings: Settings) -> None:
        controller = self._controller
        self.claimant = self._claimant = Claimant(
            settings.claim,
            NothingWrong(),
            self._happened,
            new_bridge=self._new_bridge,
            never_claims=settings.candidacy.take_over is TakeOver.NEVER,
        )
        listener: Any = controller.listener
        observer: Any = controller.observer
        self._server, self._monitoring, self._rights, self._users = listener, observer, None, None
        self._leader_watch = self._watch_of(settings, Pulse(controller))
        self.contact = Contact(lambda: self.claimant.bridge)
        following = ClusterFollower if controller.observes else Unled
        self.cluster = self._cluster = following(lambda: self.claimant.bridge)
        self._standby = self._new_standby()
        self.followed = Followed(self.cluster, standby=self._standby)
        self._terms = _Terms(controller, settings, self._claimant, self)
        exporter: Any = NoExporter()
        self._exporter = exporter
        silent: Any = Silent()
        self._quotas = self._access_log = silent
        self._announcing = ReplicaZnode(
            controller.own_id, lambda: self.claimant.bridge if self.claimant.may_write else None, self.status, ("", 0)
        )

    def _new_standby(self) -> Standby | None:
        controller, world = self._controller, self._controller.world
        if controller.observes or not world.plan.warm_standby:
            return None
        what = watched_in_term(world.settings_of(controller.own_id))
        is_recursive, request_bytes = world.plan.recursive_watch, world.sizes.believed_bytes // 2
        return Standby(lambda: self.claimant.bridge, what, request_bytes, is_recursive=is_recursive)

    def _new_bridge(self, settings: ZooKeeperSettings) -> Bridge:
        controller = self._controller
        settings = replace(settings, request_limit_bytes=controller.world.sizes.believed_bytes)
        client = kazoo_client(settings, controller.world.network, self._loop, controller.dial)
        client._connection.abandoned = controller.abandoned
        return Bridge(settings, client)

    def status(self) -> Status:
        """What its znode shows; the time of day is not simulated."""
        candidacy = self._candidacy
        return Status(candidacy.phase, self._own_id, None, None, False, candidacy.is_ready, 0.0, candidacy.reason)

    @property
    def leads_without_session(self) -> bool:
        """Whether it goes on deciding although ZooKeeper has ended its session."""
        return self._terms._term is not None and self.claimant.bridge._client._session_id is None

    def happened(self, event: Any) -> None:
        """Pass an event to the candidacy."""
        self._happened(event)


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
