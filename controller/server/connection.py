"""What happens on one client connection: which of its requests is answered by whom?

One request at a time, as in Kafka: the next is not even read before the answer to the last has left. That keeps
answers in order, bounds what one connection can hold, and lets a client that hangs hold nothing but its own task. A
large request is received, and any is opened, only when there is memory for it beside those of others.

Source: Kafka's SocketServer, ApiVersionsRequest; KIP-511.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import structlog
from msgspec import Struct, structs

from controller.connections.frame_socket import FrameSocket, check_size
from controller.connections.wires import TlsWire
from controller.core.clients.authorization import CLUSTER, anybody
from controller.core.clients.refusal import refusal
from controller.core.commands import UpdateMetadata
from controller.core.errors import ErrorCode
from controller.core.replies import (
    AclsDeleted,
    AclsDescribed,
    BrokerConfig,
    LeadersElected,
    ReassignmentsListed,
    Reply,
    ShutdownPermitted,
    TopicsCreated,
)
from controller.core.requests import ANONYMOUS, Caller, DescribeCluster, Request
from controller.security.failures import AuthenticationFailed
from controller.security.login import Login
from controller.server.api_names import api_name
from controller.server.connection_quotas import ConnectionQuotas, OpenConnection
from controller.server.entrance import LARGEST_BYTES, Entrance, NotLetIn
from controller.server.inquiries import Inquiries, NothingKnown
from controller.server.limits import Limits
from controller.server.memory_pools import BROKERS_OWN, MemoryPools
from controller.server.metadata_answers import MetadataAnswers
from controller.server.parts import ask_in_parts
from controller.server.relay import (
    BELIEVED,
    CLIENT_ID,
    FORWARDED,
    LED,
    OF_THE_ASKER,
    RELAYABLE,
    STANDING_BY,
    Brokers,
    NobodyToAsk,
    Relay,
)
from controller.server.repeated_lines import RepeatedLines, shortened
from controller.server.topic_configs import TopicConfigs, completed, is_to_be_completed
from controller.wire import rights_needed
from controller.wire.any_node import (
    ANSWERED,
    CONFIGS,
    answer_groups,
    answer_log_dir_moves,
    decode_config_resources,
    encode_configs_answered,
    encode_nothing_here,
)
from controller.wire.broker_side import COMMANDS, Told, decode_command, encode_acknowledgement
from controller.wire.frames import (
    THROTTLED_SINCE,
    OversizedFrame,
    RequestHeader,
    encode_response_header,
    framed_apart,
    throttle_ms_of,
)
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.requests import (
    ApiVersionsRequest,
    MalformedRequest,
    UnsupportedApi,
    UnsupportedVersion,
    decode_header,
    decode_request,
)
from controller.wire.topic_replies import SETTINGS_FROM
from controller.wire.versions import SERVED, ApiKey, VersionRange
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

_log = structlog.get_logger(__name__)

NO_KEY = -1
LONGEST_WAIT_MS = 300_000
_LOOKS_EVERY_S = 1.0
_KEY_BYTES = 2
_SHORT_BYTES = 8 * 1024
_LONGEST_HEADER = 10 + 2**15
_LARGEST_SKIPPED = 2**28
_MOVE_BYTES = 50
_ENTRY_BYTES = 100  # of rights
_TOPIC_BYTES = 1_500  # of a new one with all its settings

Chunks = tuple[bytes, ...]
AuthorizerOfTypes = Callable[[Caller, AclOperation, ResourceType], bool]
Judged = Callable[[Caller, str, AclOperation, ResourcePattern, bool], None]
_T = TypeVar("_T")


class ServerObserver(Protocol):
    """Is told what happens on listeners, on the event loop; it must return at once."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """A request was answered; `took_s` counts from its last byte's arrival."""

    def connections_changed(self, count: int) -> None:
        """So many connections are open on all listeners."""

    def client_disconnected(self, reason: str) -> None:
        """The controller closed or refused a connection; `reason` is short and stable."""


class Tls(Protocol):
    """How connections of one listener are encrypted: `controller.security.tls`."""

    def context(self) -> ssl.SSLContext:
        """For the next connection."""

    def principal(self, certificate: bytes) -> str:
        """Whom the certificate of a client (DER) stands for, such as User:CN=ann.

        Raises:
            AuthenticationFailed: nobody.
        """

    def reason(self, error: ssl.SSLError) -> str:
        """Why a handshake failed, for who reads the log."""


class Door(Struct, frozen=True):
    """How one listener lets clients in: with `tls` encrypted, with `login` only who logs in by SASL.

    Logins wait until `is_ready`: a client that is refused takes its password for wrong, and may give up for good.
    """

    tls: Tls | None = None
    login: Callable[[], Login] | None = None
    is_ready: Callable[[], Awaitable[object]] | None = None


def _nothing(*_: object) -> bool:
    return False


def _nobody_listens(*_: object) -> None:
    """Nothing is kept."""


class Service:
    """What all connections have in common."""

    def __init__(
        self,
        own_id: BrokerId,
        observer: ServerObserver,
        limits: Limits,
        inter_broker_listener: str | None,
        brokers: Brokers | None = None,
    ) -> None:
        """Nobody is connected."""
        self.limits_users: Callable[[], bool] = lambda: False
        self.own_configs: Callable[[], Mapping[str, BrokerConfig]] = dict
        self.is_allowed = anybody if brokers is None else brokers.is_allowed
        self.is_allowed_for_any: AuthorizerOfTypes = _nothing
        """Whether a client may do something with at least one resource of a type."""
        self.judged: Judged = _nobody_listens
        """Hears what was decided about rights, and for which request, where somebody judges at all."""
        self.own_id = own_id
        self.observer = observer
        self.limits = limits
        self.inquiries = Inquiries()
        self.metadata = MetadataAnswers(self.inquiries)
        self.topic_configs = TopicConfigs(brokers)
        self.quotas = ConnectionQuotas(limits, inter_broker_listener)
        self.pools = MemoryPools(limits)
        self.repeated = RepeatedLines()
        self.expected: dict[str, bool] = {}
        """Clients that are looked out for, by name, and whether they have come."""
        self.handshakes = ThreadPoolExecutor(1, "handshakes")
        self.brokers_handshakes = ThreadPoolExecutor(1, "brokers-handshakes")
        """Where TLS handshakes are computed, one at a time; however many strangers come, brokers do not wait for them
        where they have a listener of their own."""
        self.beside = ThreadPoolExecutor(1, "requests")
        """Where what takes long is decoded and encoded: one request at a time, while the event loop goes on."""

    def may(self, caller: Caller, api_key: int, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether a client may do this, which it wants by a request of this kind."""
        is_allowed = self.is_allowed(caller, operation, resource)
        if self.is_allowed is not anybody:
            self.judged(caller, api_name(api_key).partition(" ")[0], operation, resource, is_allowed)
        return is_allowed


class Unanswerable(Exception):
    """The connection is to be closed; says why."""


class LedElsewhere(Exception):
    """A request for the controller, which this process is not; a way to others is there."""

    def __init__(self, header: RequestHeader, request: Request, relay: Relay) -> None:
        super().__init__()
        self.header, self.request, self.relay = header, request, relay


_DISCONNECTED: dict[type[Exception], str] = {
    OversizedFrame: "oversized frame",
    MalformedRequest: "malformed request",
    Unanswerable: "unanswerable request",
    NobodyToAsk: "no broker available",
    NotLetIn: "failed login",
}


class Connection:
    """One client's connection, on one of our listeners."""

    def __init__(
        self,
        service: Service,
        wire: FrameSocket,
        connection: OpenConnection,
        address: str,
        relay: Relay | None,
        door: Door,
    ) -> None:
        """Take over the socket; without a relay only what the controller itself answers is offered."""
        self._service = service
        self._wire = wire
        self._connection = connection
        self._listener = connection.listener
        self._address = address
        self._relay = relay
        self._tls = door.tls
        self._entrance = None if door.login is None else Entrance(door.login(), asyncio.get_running_loop().time)
        self._is_ready = door.is_ready
        self._principal = ANONYMOUS
        self._is_relay = False
        self._throttle_s = 0.0
        self._patience_s = min(service.limits.idle_s, service.limits.request_s)

    async def serve(self) -> None:
        """Answer request after request until one side hangs up."""
        try:
            if await self._open():
                await self._serve()
        except NothingKnown:
            self._wire.abort()  # the client asks another node
        except (OSError, TimeoutError):
            self._wire.abort()  # gone, idle, or not reading: nothing anybody has to do something about
        except (OversizedFrame, MalformedRequest, Unanswerable, NobodyToAsk, NotLetIn) as error:
            self._complain(_DISCONNECTED[type(error)], "client connection closed", shortened(str(error)))
        except Exception as error:
            reason = shortened(f"{type(error).__name__}: {error}")
            self._complain("internal error", "client connection closed after an internal error", reason, error)
        finally:
            self._wire.close()
            if self._relay is not None:
                self._relay.close()

    async def _open(self) -> bool:
        """Shake hands, where the listener wants it; whether the client may go on."""
        if self._tls is None:
            return True
        wire = self._wire.wire
        assert isinstance(wire, TlsWire)
        try:
            async with asyncio.timeout(self._patience_s):
                await wire.open()
        except ssl.SSLError as error:
            self._complain("failed TLS handshake", "TLS handshake failed", shortened(self._tls.reason(error)))
            return False
        if wire.certificate is not None:
            try:
                self._principal = self._tls.principal(wire.certificate)
            except AuthenticationFailed as failure:
                self._complain("failed login", "client connection closed", shortened(failure.reason))
                return False
        return True

    def _complain(self, cause: str, what: str, reason: str, error: Exception | None = None) -> None:
        self._service.observer.client_disconnected(cause)
        unsaid = self._service.repeated.say(cause, asyncio.get_running_loop().time())
        if unsaid is None:
            return
        more = {"unsaid": unsaid} if unsaid else {}
        level = logging.WARNING if error is None else logging.ERROR
        _log.log(level, what, reason=reason, client=self._address, listener=self._listener, exc_info=error, **more)

    async def _serve(self) -> None:
        service, connection, loop = self._service, self._connection, asyncio.get_running_loop()
        while True:
            async with asyncio.timeout(service.limits.idle_s):
                size = await self._wire.size(_LARGEST_SKIPPED)
            if size is None:
                return
            answer = await self._take(size)
            if answer is None:
                return
            connection.is_known, connection.since = self._entrance is None or self._entrance.is_open, loop.time()
            await self._give(answer)
            if self._throttle_s:
                await self._mute()

    async def _mute(self) -> None:
        """Read nothing for as long as the client was told to wait: some clients do not wait by themselves.

        Raises:
            TimeoutError: that is longer than any connection may be idle.
        """
        throttle_s, self._throttle_s = self._throttle_s, 0.0
        loop = asyncio.get_running_loop()
        until = loop.time() + throttle_s
        async with asyncio.timeout(self._service.limits.idle_s):
            while (left_s := until - loop.time()) > 0 and not self._wire.has_hung_up():
                await asyncio.sleep(min(left_s, _LOOKS_EVERY_S))

    async def _take(self, size: int) -> Chunks | None:
        """Receive a request whose size is known, and answer it; None if the client hung up."""
        service, wire = self._service, self._wire
        first = min(size, _KEY_BYTES)
        head = await self._arrived(wire.bytes_of(first))
        if head is None:
            return None
        key = int.from_bytes(head, "big", signed=True) if first == _KEY_BYTES else NO_KEY
        if self._entrance is not None and self._entrance.takes(key):
            return await self._log_in(self._entrance, size, head)
        pool = key
        if key in BROKERS_OWN:
            self._connection.is_broker = self._is_a_brokers()
            pool = key if self._connection.is_broker else NO_KEY
        if key == ApiKey.UPDATE_METADATA:
            return await self._acknowledge_unread(size, head)
        check_size(size, self._most_bytes())
        async with service.pools.arriving(pool, size) as held:
            async with asyncio.timeout(self._patience_s) as limit:
                held.hurry_with(limit)
                frame = await wire.bytes_of(size - first, head)
            if frame is None:
                return None
            held.is_complete = True
            try:
                async with service.pools.opened(pool, size):
                    return await self._timed(key, self._answer(frame))
            except NothingKnown:
                if self._relay is None:
                    raise
                elsewhere = self._pass_on(frame, self._relay)
            except LedElsewhere as led:
                elsewhere = self._forward(led.header, led.request, frame, led.relay)
            # A broker may hang: what is reserved for reads that are answered here is given back first.
            async with service.pools.relayed(size):
                return await self._timed(key, elsewhere)

    def _most_bytes(self) -> int:
        """Of a request; few of somebody who has not logged in and asks for the versions."""
        most = self._service.limits.most_request_bytes
        return most if self._entrance is None or self._entrance.is_open else min(most, LARGEST_BYTES)

    def _is_a_brokers(self) -> bool:
        """Whether whoever makes a request of brokers may make it."""
        caller = Caller(self._listener, self._connection.address, "", self._who())
        return self._service.is_allowed(caller, AclOperation.CLUSTER_ACTION, CLUSTER)

    async def _log_in(self, entrance: Entrance, size: int, head: bytes) -> Chunks | None:
        """Who fails is answered late, so that trying many passwords takes long."""
        check_size(size, LARGEST_BYTES)
        async with asyncio.timeout(self._patience_s):
            frame = await self._wire.bytes_of(size - len(head), head)
            if self._is_ready is not None:
                await self._is_ready()
        if frame is None:
            return None
        try:
            return (entrance.answer(frame),)
        except NotLetIn as refusal:
            await asyncio.sleep(self._service.limits.failed_login_delay_s)
            if refusal.answer is not None:
                await self._give((refusal.answer,))
            raise

    async def _timed(self, key: int, answering: Awaitable[Chunks]) -> Chunks:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._connection.is_busy = True
        try:
            answer = await answering
        finally:
            self._connection.is_busy = False
        self._service.observer.answered(self._listener, key, loop.time() - began)
        return answer

    async def _arrived(self, arriving: Awaitable[bytes | None]) -> bytes | None:
        async with asyncio.timeout(self._patience_s):
            return await arriving

    async def _acknowledge_unread(self, size: int, head: bytes) -> Chunks | None:
        """Its answer names no partition: the header is enough, and megabytes are neither kept nor decoded."""
        began = asyncio.get_running_loop().time()
        more = min(size, _LONGEST_HEADER) - len(head)
        async with asyncio.timeout(self._patience_s):
            frame = await self._wire.bytes_of(more, head)
            if frame is None or not await self._wire.skip(size - len(frame)):
                return None
        header = decode_header(frame)
        self._service.observer.answered(self._listener, header.api_key, asyncio.get_running_loop().time() - began)
        nothing = UpdateMetadata((), ())
        return (encode_acknowledgement(Told(header, BrokerId(-1), ControllerEpoch(0), BrokerEpoch(-1), nothing)),)

    async def _give(self, answer: Chunks) -> None:
        quotas, now = self._service.quotas, asyncio.get_running_loop().time()
        largest = max(answer, key=len)
        if quotas.hold(self._connection, largest, now) is not None:
            self._service.observer.client_disconnected("answers not read")
        try:
            await self._wire.send(*answer, patience_s=self._patience_s)
        finally:
            quotas.let_go(self._connection, largest)
            if self._relay is not None:
                self._relay.delivered()

    async def _beside(self, work: Callable[[], _T], size: int) -> _T:
        """On another thread, where it is long enough to hold up the event loop."""
        if size <= _SHORT_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._service.beside, work)

    async def _answer(self, frame: bytes) -> Chunks:
        try:
            header, request = await self._beside(partial(decode_request, frame), len(frame))
        except UnsupportedVersion as unsupported:
            if unsupported.header.api_key == ApiKey.API_VERSIONS:
                # As a broker: clients that find more than itself in such an answer (franz-go) take it for the whole.
                itself: dict[int, VersionRange] = {ApiKey.API_VERSIONS: SERVED[ApiKey.API_VERSIONS]}
                return (encode_api_versions(unsupported.header, itself, ErrorCode.UNSUPPORTED_VERSION),)
            raise self._unsupported(unsupported.header, unsupported.served) from None
        except UnsupportedApi as unsupported:
            return (await self._answer_for_a_broker(unsupported.header, frame),)
        if isinstance(request, ApiVersionsRequest):
            return (encode_api_versions(header, await self._offered(header.client_id)),)
        caller = self._caller(header)
        if isinstance(request, DescribeCluster) and header.api_key == ApiKey.METADATA:
            return await self._describe(request, header, caller)
        if self._relay is not None and self._may_be_forwarded(header):
            raise LedElsewhere(header, request, self._relay)
        reply = await ask_in_parts(self._service.inquiries, _limited(request), caller)
        self._throttle(getattr(reply, "throttle_ms", 0))
        if isinstance(reply, TopicsCreated) and header.api_version >= SETTINGS_FROM:
            reply = await self._with_all_configs(reply)
        return (await self._beside(partial(encode_reply, header, reply), max(len(frame), _weight(reply))),)

    def _who(self) -> str:
        return self._principal if self._entrance is None else self._entrance.principal

    def _caller(self, header: RequestHeader) -> Caller:
        return Caller(self._listener, self._connection.address, header.client_id or "", self._who())

    def _may(self, operation: AclOperation, header: RequestHeader) -> bool:
        """Whether the client may do this with the cluster."""
        return self._service.may(self._caller(header), header.api_key, operation, CLUSTER)

    async def _with_all_configs(self, reply: TopicsCreated) -> TopicsCreated:
        if not is_to_be_completed(reply):
            return reply
        # On the brokers' own listener, which this process can reach them on whatever the client's wants of it.
        listener = self._service.quotas.inter_broker_listener or self._listener
        broker = await self._service.topic_configs.of_a_broker(listener)
        return await self._beside(partial(completed, reply, broker), len(reply.results) * _TOPIC_BYTES)

    async def _describe(self, request: DescribeCluster, header: RequestHeader, caller: Caller) -> Chunks:
        """The cluster as this term sees it.

        Raises:
            NothingKnown: there is no term; a broker can be asked, which names the leader.
        """
        body = await self._service.metadata.body(request, header.api_version, caller, self._wire.has_hung_up)
        return framed_apart(encode_response_header(header), body)

    def _throttle(self, throttle_ms: int) -> None:
        """The next request is not read before then. Another process of ours has many clients, and each their own."""
        if throttle_ms > 0 and not self._is_relay:
            self._throttle_s = throttle_ms / 1000

    @property
    def _is_known(self) -> bool:
        """Whether clients have to say who they are here."""
        return self._tls is not None or self._entrance is not None

    def _may_be_forwarded(self, header: RequestHeader) -> bool:
        """Whoever leads sees this process only, so that rights would be judged as this process', and quotas of users
        counted against it; and what another process has passed on goes no further."""
        service = self._service
        if header.api_key in THROTTLED_SINCE and self._is_known and service.limits_users():
            return False
        is_somebody_elses = header.api_key in FORWARDED and not service.inquiries.is_led
        return is_somebody_elses and not self._is_relay and service.is_allowed is anybody

    async def _forward(self, header: RequestHeader, request: Request, frame: bytes, relay: Relay) -> Chunks:
        """The answer of whoever leads or, where nobody can be asked, that we do not."""
        answer = await relay.ask_the_controller(header, frame, self._service.pools.responses)
        if answer is None:
            answer = encode_reply(header, refusal(request, ErrorCode.NOT_CONTROLLER))
        self._throttle(throttle_ms_of(header, answer))
        return (answer,)

    async def _pass_on(self, frame: bytes, relay: Relay) -> Chunks:
        await self._demand_rights(decode_header(frame), frame)
        return (await relay.forward(frame, self._service.pools.responses),)

    async def _demand_rights(self, header: RequestHeader, frame: bytes) -> None:
        """A broker would judge by the rights of this process.

        Raises:
            Unanswerable: the client may not do all that it asks for, or a broker has to see who it is.
        """
        service, key = self._service, header.api_key
        if self._is_known and key in OF_THE_ASKER:
            raise Unanswerable(f"{api_name(key)} is not passed on, because a broker has to see who asks")
        if service.is_allowed is anybody:
            return
        rights = await self._beside(partial(rights_needed.needed, header, frame), len(frame))
        caller = self._caller(header)
        if rights == rights_needed.TO_WRITE_IDEMPOTENTLY and await self._may_write_somewhere(caller):
            return
        if rights is None or not all(service.may(caller, key, operation, resource) for operation, resource in rights):
            raise Unanswerable(f"{api_name(key)} is not passed on for this client; brokers answer it")

    async def _may_write_somewhere(self, caller: Caller) -> bool:
        """Whether the broker behind the relay lets who may write to any topic have a producer id, and this one may."""
        if self._relay is None or ApiKey.DESCRIBE_CLUSTER not in await self._relay.ranges():  # that of 2.8
            return False
        return self._service.is_allowed_for_any(caller, AclOperation.WRITE, ResourceType.TOPIC)

    async def _answer_for_a_broker(self, header: RequestHeader, frame: bytes) -> bytes:
        key = header.api_key
        if key in COMMANDS:
            if not self._may(AclOperation.CLUSTER_ACTION, header):
                raise Unanswerable(f"{api_name(key)} needs the right ClusterAction on the cluster")
            return await self._beside(lambda: encode_acknowledgement(decode_command(frame)), len(frame))
        answered = ANSWERED.get(key)
        if answered is not None:
            if header.api_version not in answered:
                raise self._unsupported(header, answered)
            if key == ApiKey.ALTER_REPLICA_LOG_DIRS:
                answer = partial(answer_log_dir_moves, is_allowed=self._may(AclOperation.ALTER, header))
                return await self._beside(partial(answer, header, frame), len(frame))
            if key == ApiKey.DESCRIBE_GROUPS:
                return await self._beside(partial(answer_groups, header, frame), len(frame))
            if key not in CONFIGS:
                is_allowed = key != ApiKey.DESCRIBE_LOG_DIRS or self._may(AclOperation.DESCRIBE, header)
                return encode_nothing_here(header, is_allowed=is_allowed)
            own = await self._answer_own_configs(header, frame)
            if own is not None:
                return own
        if key in RELAYABLE and self._relay is not None:
            await self._demand_rights(header, frame)
            return await self._relay.forward(frame, self._service.pools.responses)
        raise self._unsupported(header, None)

    async def _answer_own_configs(self, header: RequestHeader, frame: bytes) -> bytes | None:
        own_id = self._service.own_id
        describes = header.api_key == ApiKey.DESCRIBE_CONFIGS
        resources = await self._beside(partial(decode_config_resources, header, frame), len(frame))
        if not any(resource.is_node(own_id) for resource in resources):
            return None
        is_allowed = self._may(AclOperation.DESCRIBE_CONFIGS if describes else AclOperation.ALTER_CONFIGS, header)
        if is_allowed and not describes:
            self._say_that_nothing_is_stored(header)
        answer = partial(encode_configs_answered, is_allowed=is_allowed)
        shown = self._service.own_configs()
        return await self._beside(partial(answer, header, resources, own_id, shown), len(frame))

    def _say_that_nothing_is_stored(self, header: RequestHeader) -> None:
        unsaid = self._service.repeated.say("own configs", asyncio.get_running_loop().time())
        _log.log(
            logging.DEBUG if unsaid is None else logging.INFO,
            "configuration change for the controller's own node acknowledged but not stored",
            request=api_name(header.api_key),
            client_id=shortened(header.client_id or ""),
            client=self._address,
        )

    async def _offered(self, client_id: str | None) -> dict[int, VersionRange]:
        """What this client may ask; one of our own processes is told only what is answered here."""
        expected = self._service.expected
        if client_id in expected:
            expected[client_id] = True
        self._is_relay |= client_id == CLIENT_ID
        if client_id in expected or self._is_relay:
            return {**SERVED}
        if self._relay is None:
            return offered({key: BELIEVED[key] for key in LED & BELIEVED.keys()})
        return offered(await self._relay.ranges())

    def _unsupported(self, header: RequestHeader, supported: VersionRange | None) -> Unanswerable:
        name = api_name(header.api_key)
        hint = "it is answered by brokers" if supported is None else f"versions {supported} are answered"
        if header.api_key in LED:
            hint = "it is answered by the leader or coordinator, which the controller never is"
        return Unanswerable(
            f"{name} version {header.api_version} from client {header.client_id!r} is not answered by the "
            f"controller: {hint}; clients that follow ApiVersions do not send it here"
        )


def offered(relayed: Mapping[int, VersionRange]) -> dict[int, VersionRange]:
    """What ApiVersions says, given what the broker behind the relay says: requests that are sometimes answered
    here and sometimes there, in the versions both know."""
    ranges: dict[int, VersionRange] = {**relayed, **ANSWERED, **SERVED}
    for key in (CONFIGS | STANDING_BY) & relayed.keys():
        ours, theirs = ranges[key], relayed[key]
        ranges[key] = VersionRange(max(ours.lowest, theirs.lowest), min(ours.highest, theirs.highest))
    return ranges


def _limited(request: Request) -> Request:
    """It takes memory for as long as it waits, and no client waits for so long."""
    if getattr(request, "timeout_ms", 0) <= LONGEST_WAIT_MS:
        return request
    return structs.replace(request, timeout_ms=LONGEST_WAIT_MS)


def _weight(reply: Reply) -> int:
    """About how many bytes an answer that does not follow from its request's size will have."""
    match reply:
        case ReassignmentsListed(moves=listed):
            return len(listed) * _MOVE_BYTES
        case TopicsCreated(results):
            return len(results) * _TOPIC_BYTES
        case AclsDescribed(bindings=bindings):
            return len(bindings) * _ENTRY_BYTES
        case AclsDeleted(results=filtered):
            return sum(len(result.deleted) for result in filtered) * _ENTRY_BYTES
        case LeadersElected(results=results):
            return len(results) * _MOVE_BYTES
        case ShutdownPermitted(remaining=remaining):
            return len(remaining) * _MOVE_BYTES
        case _:
            return 0
