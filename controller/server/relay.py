"""Which broker answers requests for "any broker" that a client sent to the controller?

Clients see the controller as one more node and pick any node for requests that every broker can answer. Such a request
is passed to one live broker byte for byte, and its answer back.

Security: the broker sees this process as the sender, not the client. With an authorizer, the client's own rights are
therefore checked here first (`controller.wire.rights_needed`). A broker's quotas by address count against the
controller's address. Only listeners of the same name are used, because answers contain addresses. On a secured one this
process uses its own identity, and a listener where it has none is not used.

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
from controller.wire.apis import BELIEVED, BY_BROKERS_ON_STANDBY, LED, RELAYABLE, ApiKey, VersionRange
from controller.wire.broker_configs import Refused, decode_answer, encode_question
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader, framed
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

CLIENT_ID = "kafka-zk-controller relay"
"""The client id of a relay. It guards against loops: where an address registered for a broker leads to one of our
processes, perhaps this very one, a request passed on would come back until no connection is left. A process that sees
this id offers only what it answers itself."""

NO_VERSION = VersionRange(0, -1)
LARGEST_RESPONSE_BYTES = 64 * 1024 * 1024
READ_AHEAD_BYTES = 16 * 1024
MOST_READ_AHEAD_BYTES = 256 * 1024  # asyncio reads this much at once, however little is wanted
KNOWN_FOR_S = 60.0
AVOIDED_FOR_S = 10.0
INTRODUCTION_S = 1.0

_AUTHORIZER = "authorizer.class.name"
_log = structlog.get_logger(__name__)

Ranges = Mapping[int, VersionRange]


class MemoryPool(Protocol):
    """Shared memory: `controller.server.memory_pools.MemoryPool`."""

    async def enter(self, size: int) -> None:
        """Wait for memory."""

    def leave(self, size: int) -> None:
        """Return it."""


class NoBrokerAvailable(Exception):
    """No broker can be asked, or the one asked is lost; the client should ask another node."""


async def no_leader() -> None:
    """For a process that knows no leader."""


class BrokerDialer(Dialer, Protocol):
    """A dialer that knows which endpoints it can authenticate to: `controller.brokers.dialing`."""

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""


class Brokers:
    """The brokers that can be asked, and which requests each of them answers.

    A broker's versions are cached for at most a minute, or until a connection to it breaks: after a restart it may run
    another release. A broker that could not be reached is avoided for a while.
    """

    def __init__(
        self,
        own_id: BrokerId,
        live_brokers: Callable[[], Awaitable[Sequence[LiveBroker]]],
        dialer: BrokerDialer,
        timeout_s: float = 30.0,
        is_allowed: Authorizer = anybody,
        controller: Callable[[], Awaitable[LiveBroker | None]] = no_leader,
    ) -> None:
        """`live_brokers` may include the controller itself, which is never asked. `is_allowed` checks the client's
        rights, since brokers see only this process. `controller` returns the holder of `/controller`, if known."""
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
        """Whether to forward nothing to a node with an authorizer, which would check this process's rights."""

    async def choose(self, listener: str) -> tuple[LiveBroker, Endpoint]:
        """Any live broker with a reachable listener of this name.

        Raises:
            NoBrokerAvailable: there is none.
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
            raise NoBrokerAvailable(f"no live broker has a listener {listener} on which it can be reached from here")
        return random.choice(candidates)

    async def controller(self, listener: str) -> tuple[BrokerId, Endpoint] | None:
        """The leader and its listener of this name; None if no other leader is known."""
        leader = await self._controller()
        if leader is None or leader.broker == self._own_id:
            return None
        found = (e for e in leader.endpoints if e.listener == listener and self.dialer.reaches(e))
        return next(((leader.broker, endpoint) for endpoint in found), None)

    async def introduce(self, broker: LiveBroker, connection: BrokerConnection) -> Ranges:
        """The versions this broker offers of requests that clients send the controller. Asks the broker if they are not
        cached.

        Raises:
            Unreachable, Broken: the broker does not say, or the address is not a broker's.
        """
        now = asyncio.get_running_loop().time()
        ranges, until = self._known.get(broker, ({}, 0.0))
        if now < until:
            return ranges
        said = await connection.versions(INTRODUCTION_S, CLIENT_ID)
        if ApiKey.LEADER_AND_ISR not in said:  # every broker accepts it, and no controller offers it
            raise Unreachable(f"no broker answers at the address of broker {broker.broker}, but a controller")
        live = set(self._live)
        self._known = {known: entry for known, entry in self._known.items() if known in live}
        ranges = {key: served for key, served in said.items() if key in RELAYABLE | LED | BY_BROKERS_ON_STANDBY}
        self._known[broker] = (ranges, now + KNOWN_FOR_S)
        return ranges

    def lost(self, broker: LiveBroker, avoided_on: str | None = None) -> None:
        """Forget a broker's versions after a broken connection. If connecting failed, avoid the broker on listener
        `avoided_on` for a while; other listeners may still work."""
        self._known.pop(broker, None)
        if avoided_on is not None:
            self._avoided[broker.broker, avoided_on] = asyncio.get_running_loop().time() + AVOIDED_FOR_S

    def no_broker_asked(self, listener: str, reason: str) -> None:
        """Log that a client gets an assumed answer because no broker can be asked; rate-limited, since every connecting
        client comes here."""
        unsaid = self._repeated.say(listener, asyncio.get_running_loop().time())
        if unsaid is not None:
            more = {"unsaid": unsaid} if unsaid else {}
            _log.info("no broker available to answer clients' requests", listener=listener, reason=reason, **more)


class Relay:
    """The way to one broker for one client connection, opened on first use.

    The broker stays the same for the life of the connection, since the client was given that broker's versions.
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
        """The versions of the broker behind this relay, trying a second one if the first fails. `BELIEVED` if none
        answers within a second: the client may be a broker that needs its controller."""
        failure: Exception | None = None
        try:
            async with asyncio.timeout(INTRODUCTION_S):
                while True:
                    try:
                        return await self._brokers.introduce(*await self._broker())
                    except Broken as error:
                        failure = error
                        self._give_up()
        except (NoBrokerAvailable, TimeoutError) as error:
            self._give_up()
            self._brokers.no_broker_asked(self._listener, str(failure or error) or "timeout")
            return BELIEVED

    async def forward(self, frame: bytes, pool: MemoryPool) -> bytes:
        """The broker's answer to a request, with its size; both as on the wire. An answer that takes longer waits for
        memory in `pool` and holds it until `delivered`.

        Raises:
            NoBrokerAvailable: the client's connection should be closed.
        """
        broker, connection = await self._broker()
        try:
            await self._brokers.introduce(broker, connection)
        except Broken as error:
            self._brokers.lost(broker, self._listener)
            raise NoBrokerAvailable(f"broker {broker.broker} does not say what it answers: {error}") from None
        try:
            await self._demand_no_authorizer(broker.broker, connection)
            return framed(
                await connection.ask(framed(frame), timeout_s=self._brokers.timeout_s, admit=self._admit(pool))
            )
        except Unreachable as error:
            self._brokers.lost(broker, self._listener)
            raise NoBrokerAvailable(f"broker {broker.broker} cannot be reached: {error}") from None
        except Broken as error:
            self._brokers.lost(broker)
            raise NoBrokerAvailable(f"broker {broker.broker} was lost: {error}") from None

    async def ask_the_controller(self, header: RequestHeader, frame: bytes, pool: MemoryPool) -> bytes | None:
        """The controller's answer to a request, as in `forward`; None if the controller cannot be asked this.

        Raises:
            NoBrokerAvailable: the request was sent, and its outcome is unknown.
        """
        found = await self._brokers.controller(self._listener)
        if found is None:
            return None
        try:
            connection = await self._to_the_controller(found[1])
            await self._demand_no_authorizer(found[0], connection)
        except (Broken, NoBrokerAvailable):
            return None
        if header.api_version not in self._controllers.get(header.api_key, NO_VERSION):
            return None
        try:
            return framed(
                await connection.ask(framed(frame), timeout_s=self._brokers.timeout_s, admit=self._admit(pool))
            )
        except Broken as error:
            raise NoBrokerAvailable(f"the controller was lost: {error}") from None

    async def _to_the_controller(self, endpoint: Endpoint) -> BrokerConnection:
        """A connection on which this process has introduced itself and knows the controller's versions."""
        if self._leads is None or self._leads[0] != endpoint:
            if self._leads is not None:
                self._leads[1].drop()
            connection = BrokerConnection(self._brokers.dialer, endpoint, LARGEST_RESPONSE_BYTES)
            self._leads, self._controllers = (endpoint, connection), {}
        connection = self._leads[1]
        if not connection.is_open:
            self._controllers = await connection.versions(INTRODUCTION_S, CLIENT_ID)
        return connection

    async def _demand_no_authorizer(self, node: BrokerId, connection: BrokerConnection) -> None:
        """Ask on this very connection, so that the node that will get the request is the one that answers.

        Raises:
            NoBrokerAvailable: it has an authorizer, or does not say.
            Unreachable, Broken: it does not answer.
        """
        proved = self._judging_nobody
        while self._brokers.shuns_judges and not (connection.is_open and proved.get(connection) == connection.openings):
            question = encode_question(node, (_AUTHORIZER,), connection.next_correlation_id())
            answer = await connection.ask(question, timeout_s=self._brokers.timeout_s)
            try:
                authorizer = decode_answer(answer).get(_AUTHORIZER)
            except (Malformed, Refused) as error:
                raise NoBrokerAvailable(f"node {node} does not say whether it has an authorizer: {error}") from None
            if authorizer is None or authorizer.value:
                raise NoBrokerAvailable(f"node {node} has an authorizer, and this process has none")
            proved[connection] = connection.openings

    def _admit(self, pool: MemoryPool) -> Admit:
        async def admit(size: int) -> None:
            await pool.enter(size)
            self._held.append((pool, size))

        return admit

    def delivered(self) -> None:
        """The client has read the last answer, or never will."""
        held, self._held = self._held, []
        for pool, size in held:
            pool.leave(size)

    def close(self) -> None:
        """Close the connection."""
        self.delivered()
        for way in (self._chosen, self._leads):
            if way is not None:
                way[1].drop()

    def _give_up(self) -> None:
        """Forget the chosen broker, which does not answer, so that another can be chosen."""
        if self._chosen is not None:
            self._brokers.lost(self._chosen[0], self._listener)
            self.close()
            self._chosen = None

    async def _broker(self) -> tuple[LiveBroker, BrokerConnection]:
        if self._chosen is None:
            broker, endpoint = await self._brokers.choose(self._listener)
            self._chosen = broker, BrokerConnection(self._brokers.dialer, endpoint, LARGEST_RESPONSE_BYTES)
        return self._chosen
