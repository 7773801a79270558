"""What does one controller process do around the pure machine?

It holds the session and the claim, reads and writes ZooKeeper, keeps links to brokers and answers requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from controller.core import effects
from controller.core.candidacy.candidacy import Candidacy, CandidacySettings
from controller.core.candidacy.events import (
    Claimed,
    ClaimFailed,
    ClaimOutcome,
    HolderSeen,
    NotGivenUp,
    Reconnected,
    Resumed,
    SessionLost,
    StopAsked,
    Suspended,
    TermDrained,
    TermFailed,
    TermLoaded,
    Watching,
    Woken,
)
from controller.core.candidacy.events import Event as CandidacyEvent
from controller.core.candidacy.orders import (
    Abandon,
    BeginTerm,
    Claim,
    Drain,
    Exit,
    Release,
    Say,
    Serve,
    TermOrder,
    WakeAt,
)
from controller.core.effects import (
    Answer,
    Commit,
    Connect,
    Create,
    Delete,
    DescribeLogDirs,
    Disconnect,
    Drained,
    Effect,
    Notice,
    Read,
    ReadAgain,
    ReadChildren,
    Set,
    StepDown,
    Survey,
    Tell,
    Wake,
)
from controller.core.events import (
    Alarm,
    Asked,
    CallId,
    Committed,
    Conflicted,
    Event,
    Fenced,
    Loaded,
    ResignationAsked,
    Unknown,
    Woke,
)
from controller.core.machine import Machine
from controller.core.replies import Reply
from controller.core.requests import Caller, Request
from tests.simulation.claiming import CLAIM, EPOCH, RELEASED, adopt, claim, give_up, look
from tests.simulation.network import LOST, Link, Network, ZkConnection
from tests.simulation.reader import Reader
from tests.simulation.trace import command_lines, write_text
from tests.simulation.zookeeper import (
    CheckVersion,
    MakeNode,
    Multi,
    Operation,
    RemoveNode,
    SetData,
    WatchEvent,
)
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId

if TYPE_CHECKING:
    from tests.simulation.world import World

PUMP_S = 0.002
NOT_ANSWERED = None

Ask = Callable[[Reply | None], None]


class Role(StrEnum):
    """What a process is doing, as the world sees it; `Candidacy.phase` is more precise."""

    DOWN = "down"
    STANDBY = "standby"
    LEADING = "leading"


class Connection(ZkConnection):
    """A controller's connection to ZooKeeper, which says when it is lost and when it is back."""

    def __init__(self, network: Network, changed: Callable[[Suspended | Resumed], None]) -> None:
        super().__init__(network)
        self._changed = changed
        self._held: list[tuple[Callable[[Any], None], Any, bool]] = []

    @property
    def is_down(self) -> bool:
        """Whether no server can be reached."""
        return self._is_down

    def push(self, deliver: Callable[[Any], None], what: Any, *, is_watch: bool = True) -> None:
        """Send something to the client, as soon as it can be reached."""
        if self._is_down:
            self._held.append((deliver, what, is_watch))
        else:
            super().push(deliver, what, is_watch=is_watch)

    def drop(self, down_s: float) -> None:
        """Lose the connection."""
        was_down = self._is_down
        super().drop(down_s)
        if self._is_down and not was_down:
            self._changed(Suspended())

    def _reconnect(self, lost: list[Any]) -> None:
        super()._reconnect(lost)
        held, self._held = self._held, []
        for deliver, what, is_watch in held:
            self.push(deliver, what, is_watch=is_watch)
        if not self.is_closed:
            self._changed(Resumed())


def operation_of(made: effects.Operation) -> Operation:
    """One write as ZooKeeper gets it."""
    write, data = made.write, made.data
    match write:
        case Create(address, _, is_sequential):
            return MakeNode(address.path, data, is_sequential=is_sequential)
        case Set(address, _, expected):
            return SetData(address.path, data, expected)
        case Delete(address, expected):
            return RemoveNode(address.path, expected)


class Controller:
    """One process after the other. `term` tells terms apart: whatever belongs to an earlier one is ignored."""

    def __init__(self, world: World, own_id: BrokerId) -> None:
        self.world = world
        self.own_id = own_id
        self.name = f"controller {own_id}"
        self.life = self.term = 0
        self.session = SessionId(0)
        self.epoch = ControllerEpoch(0)
        self.paused_until = 0.0
        self.crash_at_commit = 0
        self.crash_in_turn = False
        self._candidacy: Candidacy | None = None
        self._reset()

    def _reset(self) -> None:
        self.term += 1
        self.machine: Machine | None = None
        self.reader: Reader | None = None
        self.links: dict[BrokerId, Link] = {}
        self.asks: dict[CallId, Ask] = {}
        self._inbox: list[Event] = []
        self._alarms: dict[Alarm, float] = {}
        self._is_pump_set = False

    @property
    def role(self) -> Role:
        """What it is doing."""
        if self._candidacy is None:
            return Role.DOWN
        return Role.STANDBY if self.machine is None else Role.LEADING

    # process and session

    def start(self) -> None:
        """A new process, with a new session."""
        self._reset()
        self.life += 1
        self._candidacy = Candidacy(CandidacySettings(self.world.plan.take_over, self.world.plan.session_timeout_s))
        self._orders: deque[TermOrder | Claim | Exit] = deque()
        self._is_giving_up = self._is_claiming = self._is_forced = False
        self._wake_at = 0.0
        self._claimed: Claimed | None = None
        self.crash_at_commit, self.crash_in_turn, self.paused_until = 0, False, 0.0
        self.world.say(self.name, "starts")
        self._connect()
        self._tell(Watching())

    def _connect(self) -> None:
        self.session = self.world.zookeeper.open_session()
        self.connection = Connection(self.world.network, self._connection_changed)
        self.world.watchers[self.session] = self._watch_pushed
        self._look()

    def _connection_changed(self, event: Suspended | Resumed) -> None:
        if isinstance(event, Suspended):
            self._unless_paused(lambda: self._tell(event))
        elif self.session in self.world.zookeeper.sessions:
            self._unless_paused(lambda: self._tell(event))
            self._look()

    def crash(self) -> None:
        """The process is killed; its session lives on until it expires."""
        if self.role is Role.DOWN:
            return
        self.world.say(self.name, "is killed")
        self._is_gone()
        session = self.session
        self.world.clock.after(self.world.plan.session_timeout_s, lambda: self.world.expire(session))

    def stop(self) -> None:
        """An operator stops it: it ends by itself."""
        self.world.say(self.name, "is told to stop")
        self._unless_paused(lambda: self._tell(StopAsked("SIGTERM received")))

    def _is_gone(self) -> None:
        self._end_term()
        self._candidacy = None
        self.connection.close()

    def session_expired(self) -> None:
        """The server has ended the session; the client notices later and starts again with a new one."""
        if self.role is Role.DOWN:
            return
        connection = self.connection

        def notice() -> None:
            if self.role is not Role.DOWN and self.connection is connection:
                self.world.say(self.name, "notices that its session expired")
                connection.close()
                self._is_giving_up = False
                self._tell(SessionLost())
                if self._is_claiming:
                    self._settled(ClaimFailed("the session expired during the election"))
                self._connect()
                self._tell(Reconnected())

        connection.push(lambda _: self._unless_paused(notice), None)

    def _end_term(self) -> None:
        if self.machine is not None:
            self.world.checker.term_ended(self)
        for link in self.links.values():
            link.close()
        for answer in self.asks.values():
            answer(NOT_ANSWERED)
        self._reset()

    def _unless_paused(self, happening: Callable[[], None]) -> None:
        """A stopped process does nothing until it goes on."""
        wait = self.paused_until - self.world.clock.now
        if wait > 0:
            self.world.clock.after(wait, lambda: self._unless_paused(happening))
        else:
            happening()

    # candidacy

    def _tell(self, event: CandidacyEvent) -> None:
        """Let the candidacy decide what follows, and do it, one order after the other."""
        if self._candidacy is None:
            return
        for order in self._candidacy.step((event,), self.world.clock.now):
            match order:
                case Say(_, text, details):
                    self.world.say(self.name, ": ".join(filter(None, (text, *details.values()))))
                case WakeAt(at):
                    self._set_alarm_clock(at)
                case _:
                    self._orders.append(order)
        self._carry_out_orders()

    def _carry_out_orders(self) -> None:
        while self._orders and not self._is_giving_up and self._candidacy is not None:
            self._obey(self._orders.popleft())

    def _obey(self, order: TermOrder | Claim | Exit) -> None:
        match order:
            case Claim(replace):
                self._claim(replace=replace)
            case BeginTerm():
                self._begin_term()
            case Serve():
                pass  # who asks while it loads must wait, or be told that it is no controller: the machine's business
            case Drain():
                self._emit(self.term, ResignationAsked())
            case Release() | Abandon():
                self._end_term()
                self._give_up()
            case Exit():
                self.world.say(self.name, "exits")
                self._is_gone()
                self.world.expire(self.session)
            case _:
                assert_never(order)

    def _set_alarm_clock(self, at: float) -> None:
        candidacy, self._wake_at = self._candidacy, at

        def ring() -> None:
            if self._candidacy is candidacy and self._wake_at == at:
                self._tell(Woken())

        self.world.clock.after(max(0.0, at - self.world.clock.now), lambda: self._unless_paused(ring))

    def _watch_pushed(self, event: WatchEvent) -> None:
        connection = self.connection
        connection.push(lambda _: self._unless_paused(lambda: self._fired(connection, event)), None)

    def _fired(self, connection: Connection, event: WatchEvent) -> None:
        if connection is not self.connection or self.role is Role.DOWN:
            return
        if event.path in (CLAIM, RELEASED):
            self._look()
        elif self.reader is not None:
            self.reader.fired(event)

    def _look(self) -> None:
        connection, session = self.connection, self.session

        def seen(result: Any) -> None:
            if connection is self.connection and self.role is not Role.DOWN:
                if result is LOST:
                    self._look()
                else:
                    self._tell(result)

        connection.call(
            lambda: look(self.world.zookeeper, session), lambda result: self._unless_paused(lambda: seen(result))
        )

    def usurp(self) -> None:
        """Claim although another one leads: it believes that nobody does, and its claim replaces whoever that is."""
        self._is_forced = True
        self._tell(HolderSeen(None, False, ControllerEpoch(0), is_released=RELEASED in self.world.zookeeper.nodes))
        if not self._is_claiming:
            self._is_forced = False  # not even then does it want to: it waits, or the cluster is released
            self._look()

    def _claim(self, *, replace: bool, is_in_doubt: bool = False) -> None:
        connection, session, is_forced = self.connection, self.session, self._is_forced
        # A claim of ours with a later epoch than our last term's is the one that nobody has heard of.
        unheard_since = self.epoch if is_in_doubt else None
        self._is_claiming = True

        def perform() -> ClaimOutcome:
            zookeeper = self.world.zookeeper
            adopted = None if unheard_since is None else adopt(zookeeper, session, self.own_id, unheard_since)
            return adopted or claim(zookeeper, session, self.own_id, replace=replace, is_forced=is_forced)

        def claimed(result: Any) -> None:
            if connection is not self.connection or self.role is Role.DOWN:
                return
            if result is LOST:
                self.world.say(self.name, "cannot tell whether its claim was written")
                self._claim(replace=replace, is_in_doubt=True)
            else:
                self._settled(result)

        connection.call(perform, lambda result: self._unless_paused(lambda: claimed(result)))

    def _settled(self, outcome: ClaimOutcome) -> None:
        self._is_claiming = self._is_forced = False
        if isinstance(outcome, Claimed):
            self._claimed = outcome
        self._tell(outcome)

    def _give_up(self) -> None:
        """Give back what is ours in ZooKeeper, before the next order."""
        connection, session, claimed = self.connection, self.session, self._claimed
        if claimed is None or connection.is_closed:
            return
        if connection.is_down:
            self._tell(NotGivenUp())
            return
        self._is_giving_up = True

        def given_up(result: Any) -> None:
            if connection is self.connection and self.role is not Role.DOWN:
                self._is_giving_up = False
                if result is LOST:
                    self._tell(NotGivenUp())
                else:
                    self._claimed = None
                    self._carry_out_orders()

        connection.call(
            lambda: give_up(self.world.zookeeper, session, self.own_id, claimed),
            lambda result: self._unless_paused(lambda: given_up(result)),
        )

    def _begin_term(self) -> None:
        assert self._claimed is not None
        self.epoch, self._fence = self._claimed.epoch, self._claimed.fence_version
        self.world.say(self.name, f"leads with controller epoch {self.epoch}")
        self.machine = self.world.new_machine(self.own_id, self.epoch)
        self.world.checker.term_began(self)
        term = self.term
        self.reader = Reader(
            self.world.zookeeper,
            self.session,
            self.connection,
            lambda event: self._emit(term, event),
            follows_reassignments=self.own_id in self.world.folder.keepers,
        )
        self.reader.load()

    # events and effects

    def _emit(self, term: int, event: Event) -> None:
        if term != self.term or self.machine is None:
            return
        if isinstance(event, Loaded):
            self._tell(TermLoaded(f"at {self.world.clock.now:.2f} s"))
        self._inbox.append(event)
        if not self._is_pump_set:
            self._is_pump_set = True
            self.world.clock.after(PUMP_S, lambda: self._unless_paused(lambda: self._pump(term)))

    def _pump(self, term: int) -> None:
        if term != self.term or self.machine is None:
            return
        self._is_pump_set = False
        events, self._inbox = self._inbox, []
        effects = self.machine.turn(events, self.world.clock.now)
        if self.crash_in_turn:
            kept = self.world.random.randint(0, len(effects))
            self._carry_out(effects[:kept])
            self.crash()
            return
        self._carry_out(effects)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if self.machine is None:
                return
            self.world.checker.effect(self, effect)
            match effect:
                case Commit():
                    self._submit(effect)
                case Read(addresses, watch):
                    assert self.reader is not None
                    self.reader.read(addresses, watch)
                case Survey(topic):
                    assert self.reader is not None
                    self.reader.survey(topic)
                case ReadChildren(parent):
                    assert self.reader is not None
                    self.reader.read_children(parent)
                case Connect() | Disconnect() | Tell():
                    self._reach(effect)
                case Answer(ask, reply):
                    self.asks.pop(ask)(reply)
                case Wake(alarm, at):
                    self._alarm(alarm, at)
                case _:
                    self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case DescribeLogDirs():
                term = self.term
                self.world.move_requests.describe(effect, lambda event: self._emit(term, event))
            case Notice(kind, text):
                self.world.say(self.name, f"notice ({kind}): {text}")
                self.world.folder.noticed(text)
            case StepDown(reason):
                self._tell(TermFailed(reason))
            case ReadAgain(paths):
                assert self.reader is not None
                self.reader.read_again(paths)
            case Drained():
                self._tell(TermDrained())
            case _:
                pass

    def _submit(self, commit: Commit) -> None:
        for why in commit.why:
            self.world.say(self.name, f"commit {commit.commit}: {why}")
        for made in commit.operations:
            self.world.say(self.name, f"  {write_text(made.write, made.data)}")
        term = self.term
        operations = [
            CheckVersion(EPOCH, self._fence),
            *map(operation_of, commit.operations),
        ]

        def perform() -> Multi:
            done = self.world.zookeeper.multi(self.session, operations)
            if not done.errors:
                self.world.checker.committed(self, commit)
            if self.crash_at_commit and not done.errors:
                self.crash_at_commit -= 1
                if not self.crash_at_commit:
                    self.world.clock.after(0, self.crash)
            return done

        self.connection.call(perform, lambda done: self._emit(term, self._outcome(commit, done)))

    def _outcome(self, commit: Commit, done: Any) -> Event:
        if done is LOST:
            self.world.say(self.name, f"commit {commit.commit}: outcome unknown")
            return Unknown(commit.commit)
        failed_at = done.failed_at
        if failed_at is None:
            self.world.say(self.name, f"commit {commit.commit}: committed at zxid {done.zxid}")
            return Committed(commit.commit, done.zxid)
        if failed_at == 0:
            self.world.say(self.name, f"commit {commit.commit}: fenced")
            return Fenced(commit.commit)
        address = commit.writes[failed_at - 1].address
        self.world.say(self.name, f"commit {commit.commit}: {done.errors[failed_at]} at {address.path}")
        return Conflicted(commit.commit, address, str(done.errors[failed_at]))

    def _reach(self, effect: Connect | Disconnect | Tell) -> None:
        term, broker = self.term, effect.broker
        match effect:
            case Connect():
                self.world.say(self.name, f"connects to broker {broker} (epoch {effect.broker_epoch})")
                if broker in self.links:
                    self.links[broker].close()
                self.links[broker] = Link(
                    self.world.network,
                    effect,
                    lambda tell: self.world.deliver(self.own_id, tell),
                    lambda acknowledged: self._emit(term, acknowledged),
                )
            case Disconnect():
                self.world.say(self.name, f"disconnects from broker {broker}")
                if broker in self.links:
                    self.links.pop(broker).close()
            case Tell(command=command):
                for line in command_lines(command):
                    self.world.say(self.name, f"tell {broker}  {line}")
                self.links[broker].tell(effect)

    def _alarm(self, alarm: Alarm, at: float) -> None:
        term = self.term
        self._alarms[alarm] = at

        def ring() -> None:
            if term == self.term and self._alarms.get(alarm) == at:
                del self._alarms[alarm]
                self._emit(term, Woke(alarm))

        self.world.clock.after(max(0.0, at - self.world.clock.now), ring)

    def ask(self, ask: CallId, request: Request, answer: Ask) -> None:
        """A request came in over the network; the answer is None where the connection is lost."""
        if self.machine is None:
            answer(NOT_ANSWERED)
            return
        self.asks[ask] = answer
        self._emit(self.term, Asked(ask, request, Caller("PLAINTEXT", "127.0.0.1")))
