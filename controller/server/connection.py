"""What happens on one client connection: which of its requests is answered by whom?

One request at a time, as in Kafka: the next is not even read before the answer to the last has left. That keeps
answers in order, bounds what one connection can hold, and lets a client that hangs hold nothing but its own task.

Source: Kafka's SocketServer, ApiVersionsRequest; KIP-511.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import structlog
from msgspec import Struct

from controller.connections.framing import FrameStream
from controller.core.commands import UpdateMetadata
from controller.core.errors import ErrorCode
from controller.core.requests import Caller
from controller.server.api_names import api_name
from controller.server.inquiries import Inquiries, NothingKnown
from controller.server.relay import BELIEVED, LED, RELAYABLE, NobodyToAsk, Relay
from controller.wire.any_node import (
    ANSWERED,
    CONFIGS,
    decode_config_resources,
    encode_configs_answered,
    encode_nothing_here,
)
from controller.wire.broker_side import COMMANDS, Told, decode_command, encode_acknowledgement
from controller.wire.frames import OversizedFrame, RequestHeader
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.requests import (
    ApiVersionsRequest,
    MalformedRequest,
    UnsupportedApi,
    UnsupportedVersion,
    decode_request,
)
from controller.wire.versions import SERVED, ApiKey, VersionRange
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch

_log = structlog.get_logger(__name__)


class Limits(Struct, frozen=True):
    """How much one client may take.

    Units:
        `idle_s`: Kafka's `connections.max.idle.ms`; a request must have arrived, and an answer been taken, within it.
        `most_request_bytes`: Kafka's `socket.request.max.bytes`.
    """

    most_request_bytes: int = 100 * 1024 * 1024
    idle_s: float = 600.0
    most_connections: int = 2_000


class ServerObserver(Protocol):
    """Is told what happens on listeners, on the event loop; it must return at once."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """A request was answered; `took_s` counts from its last byte's arrival."""

    def connections_changed(self, count: int) -> None:
        """So many connections are open on all listeners."""

    def client_disconnected(self, reason: str) -> None:
        """The controller closed or refused a connection; `reason` is short and stable."""


class Service(Struct, frozen=True):
    """What all connections have in common."""

    own_id: BrokerId
    inquiries: Inquiries
    observer: ServerObserver
    limits: Limits


class Unanswerable(Exception):
    """The connection is to be closed; says why."""


_DISCONNECTED: dict[type[Exception], str] = {
    OversizedFrame: "oversized frame",
    MalformedRequest: "malformed request",
    Unanswerable: "unanswerable request",
    NobodyToAsk: "no broker available",
}


class Connection:
    """One client's connection, on one of our listeners."""

    def __init__(self, service: Service, stream: FrameStream, listener: str, address: str, relay: Relay | None) -> None:
        """Take over the stream; without a relay only what the controller itself answers is offered."""
        self._service = service
        self._stream = stream
        self._listener = listener
        self._address = address
        self._relay = relay

    async def serve(self) -> None:
        """Answer request after request until one side hangs up."""
        try:
            await self._serve()
        except NothingKnown:
            self._stream.abort()  # the client asks another node
        except (OSError, TimeoutError):
            self._stream.abort()  # gone, idle, or not reading: nothing anybody has to do something about
        except (OversizedFrame, MalformedRequest, Unanswerable, NobodyToAsk) as error:
            self._service.observer.client_disconnected(_DISCONNECTED[type(error)])
            _log.warning("client connection closed", reason=str(error), client=self._address, listener=self._listener)
        except Exception:
            self._service.observer.client_disconnected("internal error")
            _log.exception(
                "client connection closed after an internal error", client=self._address, listener=self._listener
            )
        finally:
            self._stream.close()
            if self._relay is not None:
                self._relay.close()

    async def _serve(self) -> None:
        limits, loop = self._service.limits, asyncio.get_running_loop()
        while True:
            async with asyncio.timeout(limits.idle_s):
                frame = await self._stream.receive()
            if frame is None:
                return
            began = loop.time()
            answer = await self._answer(frame)
            self._service.observer.answered(self._listener, int.from_bytes(frame[:2], "big"), loop.time() - began)
            async with asyncio.timeout(limits.idle_s):
                await self._stream.send(answer)

    async def _answer(self, frame: bytes) -> bytes:
        try:
            header, request = decode_request(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.header.api_key == ApiKey.API_VERSIONS:
                return encode_api_versions(unsupported.header, error=ErrorCode.UNSUPPORTED_VERSION)
            raise self._unsupported(unsupported.header, unsupported.served) from None
        except UnsupportedApi as unsupported:
            return await self._answer_for_a_broker(unsupported.header, frame)
        if isinstance(request, ApiVersionsRequest):
            return encode_api_versions(header, await self._offered())
        caller = Caller(self._listener, self._address, header.client_id or "")
        return encode_reply(header, await self._service.inquiries.ask(request, caller))

    async def _answer_for_a_broker(self, header: RequestHeader, frame: bytes) -> bytes:
        key = header.api_key
        if key in COMMANDS:
            return _acknowledge(header, frame)
        answered = ANSWERED.get(key)
        if answered is not None:
            if header.api_version not in answered:
                raise self._unsupported(header, answered)
            if key not in CONFIGS:
                return encode_nothing_here(header)
            own = self._answer_own_configs(header, frame)
            if own is not None:
                return own
        if key in RELAYABLE and self._relay is not None:
            return await self._relay.forward(frame)
        raise self._unsupported(header, None)

    def _answer_own_configs(self, header: RequestHeader, frame: bytes) -> bytes | None:
        own_id = self._service.own_id
        resources = decode_config_resources(header, frame)
        if not any(resource.is_node(own_id) for resource in resources):
            return None
        _log.info(
            "configuration change for the controller's own node acknowledged but not stored",
            request=api_name(header.api_key),
            client_id=header.client_id,
            client=self._address,
        )
        return encode_configs_answered(header, resources, own_id)

    async def _offered(self) -> dict[int, VersionRange]:
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
    for key in CONFIGS & relayed.keys():
        ours, theirs = ANSWERED[key], relayed[key]
        ranges[key] = VersionRange(max(ours.lowest, theirs.lowest), min(ours.highest, theirs.highest))
    return ranges


def _acknowledge(header: RequestHeader, frame: bytes) -> bytes:
    """What a broker's native controller is answered while it rules: it takes us for a broker and commands us to know
    the cluster. Everything is accepted and nothing done, since no replica is here."""
    if header.api_key == ApiKey.UPDATE_METADATA:  # its answer names no partition: spare reading megabytes
        return encode_acknowledgement(
            Told(header, BrokerId(-1), ControllerEpoch(0), BrokerEpoch(-1), UpdateMetadata((), ()))
        )
    return encode_acknowledgement(decode_command(frame))
