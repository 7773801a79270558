"""What does one controller process do around the pure machine?

It holds the session and the claim, reads and writes ZooKeeper, keeps links to brokers and answers requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from controller.core import effects
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
    ReadChildren,
    Set,
    StepDown,
    Survey,
    Tell,
    Wake,
)
from controller.core.events import Alarm, Asked, AskId, Committed, Conflicted, Event, Fenced, Unknown, Woke
from controller.core.machine import Machine
from controller.core.replies import Reply
from controller.core.requests import Caller, Request
from tests.simulation.network import LOST, Link, ZkConnection
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
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim

if TYPE_CHECKING:
    from tests.simulation.world import World

CLAIM = "/controller"
EPOCH = "/controller_epoch"
PUMP_S = 0.002
NOT_ANSWERED = None

Ask = Callable[[Reply | None], None]


class Role(StrEnum):
    """What a process is doing."""

    DOWN = "down"
    STANDBY = "standby"
    LEADING = "leading"


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
    """One process. `life` tells its lives apart: whatever belongs to an earlier one is ignored."""

    def __init__(self, world: World, own_id: BrokerId) -> None:
        self.world = world
        self.own_id = own_id
        self.name = f"controller {own_id}"
        self.role = Role.DOWN
        self.life = 0
        self.session = SessionId(0)
        self.epoch = ControllerEpoch(0)
        self.paused_until = 0.0
        self.crash_at_commit = 0
        self.crash_in_turn = False
        self._reset()

    def _reset(self) -> None:
        self.machine: Machine | None = None
        self.links: dict[BrokerId, Link] = {}
        self.asks: dict[AskId, Ask] = {}
        self._inbox: list[Event] = []
        self._alarms: dict[Alarm, float] = {}
        self._is_pump_set = False

    # process and session

    def start(self) -> None:
        """A new process, with a new session."""
        self.life += 1
        self._reset()
        self.role = Role.STANDBY
        self.crash_at_commit, self.crash_in_turn, self.paused_until = 0, False, 0.0
        self.world.say(self.name, "starts")
        self._connect()

    def _connect(self) -> None:
        self.session = self.world.zookeeper.open_session()
        self.connection = ZkConnection(self.world.network)
        self.world.watchers[self.session] = self._watch_pushed
        self.reader: Reader | None = None
        self._look()

    def crash(self) -> None:
        """The process is killed; its session lives on until it expires."""
        if self.role is Role.DOWN:
            return
        self.world.say(self.name, "is killed")
        self._end_reign()
        self.role = Role.DOWN
        self.connection.close()
        session = self.session
        self.world.clock.after(self.world.plan.session_timeout_s, lambda: self.world.expire(session))

    def session_expired(self) -> None:
        """The server has ended the session; the client notices later and starts again with a new one."""
        if self.role is Role.DOWN:
            return
        life, connection = self.life, self.connection

        def notice() -> None:
            if self.life == life and self.role is not Role.DOWN and self.connection is connection:
                self.world.say(self.name, "notices that its session expired")
                self.step_down("session expired")

        connection.push(lambda _: self._unless_paused(notice), None)

    def step_down(self, reason: str) -> None:
        """Stop leading and stand by with a new session."""
        self.world.say(self.name, f"steps down: {reason}")
        self._end_reign()
        self.role = Role.STANDBY
        self.connection.close()
        self.world.expire(self.session)
        self.life += 1
        self._connect()

    def _end_reign(self) -> None:
        if self.machine is not None:
            self.world.checker.reign_ended(self)
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

    # claiming

    def _watch_pushed(self, event: WatchEvent) -> None:
        life = self.life
        self.connection.push(lambda _: self._unless_paused(lambda: self._fired(life, event)), None)

    def _fired(self, life: int, event: WatchEvent) -> None:
        if life != self.life or self.role is Role.DOWN:
            return
        if event.path == CLAIM:
            self._look()
        elif self.reader is not None:
            self.reader.fired(event)

    def _look(self) -> None:
        life = self.life

        def seen(result: Any) -> None:
            if life != self.life or self.role is Role.DOWN:
                return
            if result is LOST:
                self._look()
            elif self.role is Role.LEADING:
                if result is None or result[1].owner != self.session:
                    self.step_down("another controller holds /controller")
            elif result is None:
                self.claim()

        self.connection.call(lambda: self.world.zookeeper.get(self.session, CLAIM, watch=True), seen)

    def claim(self) -> None:
        """Try to become the controller, replacing whoever is."""
        if self.role is not Role.STANDBY:
            return
        life, zookeeper = self.life, self.world.zookeeper

        def perform() -> tuple[ControllerEpoch, int, Multi]:
            held = zookeeper.get(self.session, EPOCH)
            assert held is not None
            epoch, version = ControllerEpoch(int(held[0]) + 1), held[1].version
            operations = self._claim_operations(epoch, version)
            return epoch, version + 1, zookeeper.multi(self.session, operations)

        def claimed(result: Any) -> None:
            if life != self.life or self.role is not Role.STANDBY:
                return
            if result is LOST:
                self.step_down("cannot tell whether the claim was written")
            elif result[2].errors:
                self._look()
            else:
                self._reign(result[0], result[1])

        self.connection.call(perform, claimed)

    def _claim_operations(self, epoch: ControllerEpoch, version: int) -> list[Operation]:
        zookeeper = self.world.zookeeper
        operations: list[Operation] = [SetData(EPOCH, str(epoch).encode(), version)]
        held = zookeeper.get(self.session, CLAIM)
        if held is not None:
            operations.append(RemoveNode(CLAIM, held[1].version))
            former = catalog.decode(ControllerAddress(), held[0])
            assert isinstance(former, ControllerClaim)
            if former.is_ours and f"/brokers/ids/{former.broker}" in zookeeper.nodes:
                operations.append(RemoveNode(f"/brokers/ids/{former.broker}"))
        own = f"/brokers/ids/{self.own_id}"
        if own in zookeeper.nodes and RemoveNode(own) not in operations:
            operations.append(RemoveNode(own))
        registration = Registration((Endpoint("PLAINTEXT", f"controller-{self.own_id}", 9092),))
        claim = catalog.encode(ControllerClaim(self.own_id, is_ours=True))
        operations.append(MakeNode(CLAIM, claim, is_ephemeral=True))
        operations.append(MakeNode(own, catalog.encode(registration), is_ephemeral=True))
        return operations

    def _reign(self, epoch: ControllerEpoch, fence: int) -> None:
        self.world.say(self.name, f"leads with controller epoch {epoch}")
        self.role, self.epoch = Role.LEADING, epoch
        self._fence = fence
        self.machine = self.world.new_machine(self.own_id, epoch)
        self.world.checker.reign_began(self)
        life = self.life
        self.reader = Reader(
            self.world.zookeeper,
            self.session,
            self.connection,
            lambda event: self._emit(life, event),
            follows_reassignments=self.own_id in self.world.folder.keepers,
        )
        self.reader.load()
        self._look()

    # events and effects

    def _emit(self, life: int, event: Event) -> None:
        if life != self.life or self.machine is None:
            return
        self._inbox.append(event)
        if not self._is_pump_set:
            self._is_pump_set = True
            self.world.clock.after(PUMP_S, lambda: self._unless_paused(lambda: self._pump(life)))

    def _pump(self, life: int) -> None:
        if life != self.life or self.machine is None:
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
                life = self.life
                self.world.move_requests.describe(effect, lambda event: self._emit(life, event))
            case Notice(kind, text):
                self.world.say(self.name, f"notice ({kind}): {text}")
                self.world.folder.noticed(text)
            case StepDown(reason):
                self.step_down(reason)
            case Drained():
                self.step_down("drained")
            case _:
                pass

    def _submit(self, commit: Commit) -> None:
        for why in commit.why:
            self.world.say(self.name, f"commit {commit.commit}: {why}")
        for made in commit.operations:
            self.world.say(self.name, f"  {write_text(made.write, made.data)}")
        life = self.life
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

        self.connection.call(perform, lambda done: self._emit(life, self._outcome(commit, done)))

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
        life, broker = self.life, effect.broker
        match effect:
            case Connect():
                self.world.say(self.name, f"connects to broker {broker} (epoch {effect.broker_epoch})")
                if broker in self.links:
                    self.links[broker].close()
                self.links[broker] = Link(
                    self.world.network,
                    effect,
                    lambda tell: self.world.deliver(self.own_id, tell),
                    lambda acknowledged: self._emit(life, acknowledged),
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
        life = self.life
        self._alarms[alarm] = at

        def ring() -> None:
            if life == self.life and self._alarms.get(alarm) == at:
                del self._alarms[alarm]
                self._emit(life, Woke(alarm))

        self.world.clock.after(max(0.0, at - self.world.clock.now), ring)

    def ask(self, ask: AskId, request: Request, answer: Ask) -> None:
        """A request came in over the network; the answer is None where the connection is lost."""
        if self.machine is None:
            answer(NOT_ANSWERED)
            return
        self.asks[ask] = answer
        self._emit(self.life, Asked(ask, request, Caller("PLAINTEXT", "127.0.0.1")))
