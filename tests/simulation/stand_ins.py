"""What stands in for the parts of a controller's process that have sockets?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from controller.core.candidacy.challenger import Heard, HungUp, Sign, Unheard
from controller.core.messages.effects import (
    Answer,
    Connect,
    DescribeBrokerConfig,
    DescribeDisks,
    DescribeLogDirs,
    DescribeLogEnds,
    Disconnect,
    Tell,
)
from controller.core.messages.events import Asked, CallId, Event
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Caller, Request
from controller.following.cluster import ClusterFollower
from controller.preflight.findings import Verdict
from controller.process.leader_pulse import PATIENCE_S
from tests.simulation.network import Link
from tests.simulation.trace import command_lines
from zk_layout.ids import BrokerId

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller

NOT_ANSWERED = None
DRAIN_LOOK_S = 0.05

Ask = Callable[[Reply | None], None]


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

    def are_commands_queued(self) -> bool:
        return False

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

    def describe_disks(self, asked: DescribeDisks) -> None:
        """Ask one broker for the room of its disks."""
        self._world.limits.disks.describe(asked, self._emit)

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


class EndsInspector:
    """Replaces `controller.brokers.log_ends`."""

    def __init__(self, controller: Controller, emit: Callable[[Event], None]) -> None:
        self._world = controller.world
        self._emit = emit

    def describe(self, asked: DescribeLogEnds) -> None:
        """Ask one broker."""
        self._world.throttles.ends(asked, self._emit)

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
    """Replaces `controller.process.leader_pulse`: a question to the leader's event loop, over a connection that its
    process closes when it ends."""

    def __init__(self, controller: Controller) -> None:
        self._world = controller.world
        self._connection: tuple[BrokerId, int] | None = None  # to this life of a process; 0: it is lost
        self._has_ended = asyncio.Event()
        self._answered: asyncio.Future[_Sign] | None = None

    async def ask(self, leader: BrokerId) -> Sign | None:
        """Whether it answers within a moment. A process that does not run refuses at once."""
        asked = self._world.controllers.get(leader)
        if asked is None:
            return None
        before = self._connection if self._connection is not None and self._connection[0] == leader else None
        if before is not None and self._has_ended.is_set():
            self._drop(leader)
            return HungUp()
        answered = self._answered = asyncio.get_running_loop().create_future()
        if leader not in self._world.network.deaf:
            life = asked.life if before is None or not before[1] else before[1]
            self._later(lambda: self._arrives(asked, life, answered))
        try:
            async with asyncio.timeout(PATIENCE_S):
                sign = await answered
        except TimeoutError:
            sign = _Sign.NONE
        match sign:
            case _Sign.NONE | _Sign.REFUSED:
                self._drop(None if before is None else leader)
                has_hung_up = sign is _Sign.REFUSED and before is not None and before[1] > 0
                return HungUp() if has_hung_up else Unheard()
            case _Sign.CUT_OFF:
                return Unheard()
        now = leader, asked.life
        if self._connection != now:
            self._drop(leader)
            self._connection = now
            asked.at_end.append(partial(self._closes, leader, self._has_ended))
        return Heard(is_reopened=before is not None and before != now)

    async def hangs_up_within(self, time_s: float) -> bool:
        """Whether the process closes the connection within this time."""
        try:
            async with asyncio.timeout(time_s):
                await self._has_ended.wait()
        except TimeoutError:
            return False
        self._drop(None if self._connection is None else self._connection[0])
        return True

    def _drop(self, leader: BrokerId | None) -> None:
        self._connection = None if leader is None else (leader, 0)
        self._has_ended = asyncio.Event()

    def _closes(self, leader: BrokerId, has_ended: asyncio.Event) -> None:
        """The process has ended: the other end notices it a message later, unless nothing passes."""
        network = self._world.network
        if leader not in network.deaf:
            self._world.clock.after(network.delay(), partial(self._is_closed, has_ended))

    def _is_closed(self, has_ended: asyncio.Event) -> None:
        has_ended.set()
        if has_ended is self._has_ended and self._answered is not None:
            _tell(self._answered, _Sign.REFUSED)  # a question in flight gets no answer

    def _arrives(self, asked: Controller, life: int, answered: asyncio.Future[_Sign]) -> None:
        if asked.is_up and asked.life == life:
            asked._loop.call_soon_threadsafe(self._answers, asked, answered)
        else:
            self._later(partial(_tell, answered, _Sign.REFUSED))

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
    REFUSED = auto()
    """No process is at the other end, or another than the one that was connected."""
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
