"""Which broker answers what clients ask of "any broker" and happened to ask of the controller?

Clients see the controller as one more node and pick any node for requests that every broker can answer. Such a
request is passed on, byte for byte, to one live broker, and its answer back.

Security: the broker sees this process as the sender, not the client. Where there is an authorizer, the client's own
rights are therefore judged here before anything is passed on (`controller.wire.rights_needed`). A broker's quotas by
address see the controller's. Only listeners of the same name are used, because answers have addresses in them; on a
secured one this process is whoever it is to brokers there, and none is used where it is nobody.

Source: KafkaAdminClient's LeastLoadedNodeProvider; KIP-511.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import structlog

from controller.connections.broker import Broken, BrokerConnection, Dialer, Unreachable
from controller.connections.framing import Admit
from controller.core.clients.authorization import Authorizer, anybody
from controller.core.messages.commands import LiveBroker
from controller.server.repeated_lines import RepeatedLines
from controller.wire.apis import BELIEVED, LED, RELAYABLE, STANDING_BY, ApiKey, VersionRange
from controller.wire.broker_configs import Refused, decode_answer, encode_question
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader, framed
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

CLIENT_ID = "kafka-zk-controller relay"
"""By which a relay introduces itself. Where it does so to one of our processes, an address that is registered for a
broker leads to that instead, perhaps to this very one: passed on, a request would come back until no connection is
left. Such a process names only what it answers itself."""

NO_VERSION = VersionRange(0, -1)
LARGEST_RESPONSE_BYTES = 64 * 1024 * 1024
READ_AHEAD_BYTES = 16 * 1024
MOST_READ_AHEAD_BYTES = 256 * 1024  # which asyncio reads at once, however little is wanted
KNOWN_FOR_S = 60.0
AVOIDED_FOR_S = 10.0
INTRODUCTION_S = 1.0

_AUTHORIZER = "authorizer.class.name"
_log = structlog.get_logger(__name__)

Ranges = Mapping[int, VersionRange]


class MemoryPool(Protocol):
    """Memory that is shared: `controller.server.memory_pools.MemoryPool`."""

    async def enter(self, size: int) -> None:
        """Wait until there is memory."""

    def leave(self, size: int) -> None:
        """Give it back."""


class NobodyToAsk(Exception):
    """No broker can be asked, or the one that was asked is lost; the client should ask another node."""


async def nobody() -> None:
    """Nobody is known to lead."""


class BrokerDialer(Dialer, Protocol):
    """A dialer that knows where it has no way in: `controller.brokers.dialing`."""

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""


class Brokers:
    """The brokers that can be asked, and what each of them answers.

    What a broker answers is asked once and believed for a minute at most, or until a connection to it breaks: a
    restarted broker may be another version. One that could not be reached is left alone for a while.
    """

    def __init__(
        self,
        own_id: BrokerId,
        live_brokers: Callable[[], Awaitable[Sequence[LiveBroker]]],
        dialer: BrokerDialer,
        timeout_s: float = 30.0,
        is_allowed: Authorizer = anybody,
        controller: Callable[[], Awaitable[LiveBroker | None]] = nobody,
    ) -> None:
        """Nothing is opened yet. `live_brokers` may hold the controller itself, which is never asked. `is_allowed`
        judges what brokers cannot, who see this process only. `controller` holds `/controller`, as far as is known."""
        self._own_id = own_id
        self._live_brokers = live_brokers
        self._live: Sequence[LiveBroker] = ()
        self._known: dict[LiveBroker, tuple[Ranges, float]] = {}
        self._avoided: dict[tuple[BrokerId, str], float] = {}
        self._repeated = RepeatedLines()
        self.dialer = dialer
        self._controller = controller
        self.timeout_s = timeout_s
        self.is_allowed = is_allowed
        self.shuns_judges = False
        """Whether nothing is passed on to a node that has an authorizer: it would judge by this process' rights."""

    async def choose(self, listener: str) -> tuple[LiveBroker, Endpoint]:
        """Any live broker with a listener of this name on which it can be reached.

        Raises:
            NobodyToAsk: there is none.
        """
        self._live = await self._live_brokers()
        now = asyncio.get_running_loop().time()
        candidates = [
            (broker, endpoint)
            for broker in self._live
            if broker.broker != self._own_id and self._avoided.get((broker.broker, listener), 0.0) <= now
            for endpoint in broker.endpoints
            if endpoint.listener == listener and self.dialer.reaches(endpoint)
        ]
        if not candidates:
            raise NobodyToAsk(f"no live broker has a listener {listener} on which it can be reached from here")
        return random.choice(candidates)

    async def controller(self, listener: str) -> tuple[BrokerId, Endpoint] | None:
        """Whoever leads, with its listener of this name; None if nobody else is known to."""
        leader = await self._controller()
        if leader is None or leader.broker == self._own_id:
            return None
        found = (e for e in leader.endpoints if e.listener == listener and self.dialer.reaches(e))
        return next(((leader.broker, endpoint) for endpoint in found), None)

    async def introduce(self, broker: LiveBroker, connection: BrokerConnection) -> Ranges:
        """What this broker answers of that which clients ask the controller; it is asked if that is not known.

        Raises:
            Unreachable, Broken: it does not say, or no broker answers there.
        """
        now = asyncio.get_running_loop().time()
        ranges, until = self._known.get(broker, ({}, 0.0))
        if now < until:
            return ranges
        said = await connection.versions(INTRODUCTION_S, CLIENT_ID)
        if ApiKey.LEADER_AND_ISR not in said:  # which every broker obeys, and no controller offers
            raise Unreachable(f"no broker answers at the address of broker {broker.broker}, but a controller")
        live = set(self._live)
        self._known = {known: entry for known, entry in self._known.items() if known in live}
        ranges = {key: served for key, served in said.items() if key in RELAYABLE | LED | STANDING_BY}
        self._known[broker] = (ranges, now + KNOWN_FOR_S)
        return ranges

    def lost(self, broker: LiveBroker, avoided_on: str | None = None) -> None:
        """A connection broke, or could not even be opened on a listener, where the broker is `avoided_on` for a while:
        by another one it may well be reached."""
        self._known.pop(broker, None)
        if avoided_on is not None:
            self._avoided[broker.broker, avoided_on] = asyncio.get_running_loop().time() + AVOIDED_FOR_S

    def nobody_asked(self, listener: str, reason: str) -> None:
        """A client is told what is believed, because no broker can be asked; every client that connects comes here."""
        unsaid = self._repeated.say(listener, asyncio.get_running_loop().time())
        if unsaid is not None:
            more = {"unsaid": unsaid} if unsaid else {}
            _log.info("no broker available to answer clients' requests", listener=listener, reason=reason, **more)


class Relay:
    """The way to one broker, for one client connection; opened when it is first needed.

    The broker stays the same as long as the connection does, since the client was told that broker's versions.
    """

    def __init__(self, brokers: Brokers, listener: str) -> None:
        self._brokers = brokers
        self._listener = listener
        self._chosen: tuple[LiveBroker, BrokerConnection] | None = None
        self._held: list[tuple[MemoryPool, int]] = []
        self._leads: tuple[Endpoint, BrokerConnection] | None = None
        self._controllers: Ranges = {}
        self._judging_nobody: dict[BrokerConnection, int] = {}

    async def ranges(self) -> Ranges:
        """What the broker behind this relay answers, be it the second that is tried; `BELIEVED` if none can be asked
        within a second, because whoever waits here may be a broker that needs its controller."""
        failure: Exception | None = None
        try:
            async with asyncio.timeout(INTRODUCTION_S):
                while True:
                    try:
                        return await self._brokers.introduce(*await self._broker())
                    except Broken as error:
                        failure = error
                        self._give_up()
        except (NobodyToAsk, TimeoutError) as error:
            self._give_up()
            self._brokers.nobody_asked(self._listener, str(failure or error) or "timeout")
            return BELIEVED

    async def forward(self, frame: bytes, pool: MemoryPool) -> bytes:
        """The broker's answer to a request, with its size; both as they are on the wire. One that does not come at once
        waits until there is memory, which it takes until it is `delivered`.

        Raises:
            NobodyToAsk: the connection of the client should be closed.
        """
        broker, connection = await self._broker()
        try:
            await self._brokers.introduce(broker, connection)
        except Broken as error:
            self._brokers.lost(broker, self._listener)
            raise NobodyToAsk(f"broker {broker.broker} does not say what it answers: {error}") from None
        try:
            await self._demand_that_nobody_judges(broker.broker, connection)
            return framed(
                await connection.ask(framed(frame), timeout_s=self._brokers.timeout_s, admit=self._admit(pool))
            )
        except Unreachable as error:
            self._brokers.lost(broker, self._listener)
            raise NobodyToAsk(f"broker {broker.broker} cannot be reached: {error}") from None
        except Broken as error:
            self._brokers.lost(broker)
            raise NobodyToAsk(f"broker {broker.broker} was lost: {error}") from None

    async def ask_the_controller(self, header: RequestHeader, frame: bytes, pool: MemoryPool) -> bytes | None:
        """The controller's answer to a request, as `forward` gives a broker's; None if it cannot be asked that.

        Raises:
            NobodyToAsk: it was asked, and nobody knows what came of it.
        """
        found = await self._brokers.controller(self._listener)
        if found is None:
            return None
        try:
            connection = await self._to_the_controller(found[1])
            await self._demand_that_nobody_judges(found[0], connection)
        except (Broken, NobodyToAsk):
            return None
        if header.api_version not in self._controllers.get(header.api_key, NO_VERSION):
            return None
        try:
            return framed(
                await connection.ask(framed(frame), timeout_s=self._brokers.timeout_s, admit=self._admit(pool))
            )
        except Broken as error:
            raise NobodyToAsk(f"the controller was lost: {error}") from None

    async def _to_the_controller(self, endpoint: Endpoint) -> BrokerConnection:
        """A connection on which it knows that another process asks, and has said what it answers."""
        if self._leads is None or self._leads[0] != endpoint:
            if self._leads is not None:
                self._leads[1].drop()
            connection = BrokerConnection(self._brokers.dialer, endpoint, LARGEST_RESPONSE_BYTES)
            self._leads, self._controllers = (endpoint, connection), {}
        connection = self._leads[1]
        if not connection.is_open:
            self._controllers = await connection.versions(INTRODUCTION_S, CLIENT_ID)
        return connection

    async def _demand_that_nobody_judges(self, node: BrokerId, connection: BrokerConnection) -> None:
        """Asked on this very connection, so that it is the node that gets the request who says it.

        Raises:
            NobodyToAsk: it has an authorizer, or does not say.
            Unreachable, Broken: it does not answer.
        """
        proved = self._judging_nobody
        while self._brokers.shuns_judges and not (connection.is_open and proved.get(connection) == connection.openings):
            question = encode_question(node, (_AUTHORIZER,), connection.next_correlation_id())
            answer = await connection.ask(question, timeout_s=self._brokers.timeout_s)
            try:
                authorizer = decode_answer(answer).get(_AUTHORIZER)
            except (Malformed, Refused) as error:
                raise NobodyToAsk(f"node {node} does not say whether it has an authorizer: {error}") from None
            if authorizer is None or authorizer.value:
                raise NobodyToAsk(f"node {node} judges requests by an authorizer, and this process has none")
            proved[connection] = connection.openings

    def _admit(self, pool: MemoryPool) -> Admit:
        async def admit(size: int) -> None:
            await pool.enter(size)
            self._held.append((pool, size))

        return admit

    def delivered(self) -> None:
        """The client has taken the last answer, or never will."""
        held, self._held = self._held, []
        for pool, size in held:
            pool.leave(size)

    def close(self) -> None:
        """Hang up."""
        self.delivered()
        for way in (self._chosen, self._leads):
            if way is not None:
                way[1].drop()

    def _give_up(self) -> None:
        """The chosen broker, if there is one, does not answer: another may be chosen."""
        if self._chosen is not None:
            self._brokers.lost(self._chosen[0], self._listener)
            self.close()
            self._chosen = None

    async def _broker(self) -> tuple[LiveBroker, BrokerConnection]:
        if self._chosen is None:
            broker, endpoint = await self._brokers.choose(self._listener)
            self._chosen = broker, BrokerConnection(self._brokers.dialer, endpoint, LARGEST_RESPONSE_BYTES)
        return self._chosen
