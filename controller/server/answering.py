"""Who answers a client's request: this node, the term, a broker, or the leader elsewhere?

Source: Kafka's KafkaApis, ApiVersionsRequest; KIP-511.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import structlog
from msgspec import Struct, structs

from controller.core.clients.authorization import CLUSTER, Withheld, anybody
from controller.core.clients.refusal import refusal
from controller.core.messages import replies, requests
from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.errors import ErrorCode
from controller.server.inquiries import OF_ANY_NODE
from controller.server.parts import ask_in_parts
from controller.server.relay import CLIENT_ID, Relay
from controller.server.repeated_lines import shortened
from controller.server.service import Service
from controller.server.topic_configs import completed, is_to_be_completed
from controller.wire import any_node, apis, rights_needed
from controller.wire.api_versions import PULSE_ID
from controller.wire.broker_side import ReceivedCommand, decode_command, encode_acknowledgement
from controller.wire.frames import RequestHeader, encode_response_header, framed_apart, throttle_ms_of
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.requests import (
    ApiVersionsRequest,
    UnsupportedApi,
    UnsupportedVersion,
    decode_header,
    decode_request,
)
from controller.wire.topic_replies import SETTINGS_FROM
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

_log = structlog.get_logger(__name__)

LONGEST_WAIT_MS = 300_000
_SHORT_BYTES = 8 * 1024
_MOVE_BYTES = 50
_ENTRY_BYTES = 100  # an ACL
_TOPIC_BYTES = 1_500  # a new topic with all its settings

_OF_TOPICS = requests.CreateTopics | requests.DeleteTopics | requests.CreatePartitions

Chunks = tuple[bytes, ...]
_T = TypeVar("_T")


class Unanswerable(Exception):
    """The connection must be closed; the text says why."""


class LedElsewhere(Exception):
    """A request for the controller, which is another process that can be reached."""

    def __init__(self, header: RequestHeader, request: requests.Request, relay: Relay) -> None:
        super().__init__()
        self.header, self.request, self.relay = header, request, relay


class Requester(Struct, frozen=True):
    """The client behind a connection.

    Shape:
        `address` has no port; `shown` is for the log. `principal` may change with each login; `is_known` says whether
        clients must authenticate on this listener.
    """

    listener: str
    address: str
    shown: str
    principal: Callable[[], str]
    is_known: bool

    def caller(self, client_id: str | None) -> requests.Caller:
        """The caller as the authorizer and quotas see it now."""
        return requests.Caller(self.listener, self.address, client_id or "", self.principal())


class Answering:
    """Answers one client's requests."""

    def __init__(
        self, service: Service, requester: Requester, relay: Relay | None, has_hung_up: Callable[[], bool]
    ) -> None:
        """Without a relay, only requests the controller itself answers are offered."""
        self._service = service
        self._requester = requester
        self._relay = relay
        self._has_hung_up = has_hung_up
        self._is_relay = False
        self._throttle_s = 0.0

    def is_a_brokers(self) -> bool:
        """Whether the client may make requests that are reserved for brokers."""
        return self._service.is_allowed(self._requester.caller(None), AclOperation.CLUSTER_ACTION, CLUSTER)

    def take_throttle_s(self) -> float:
        """Return, once, how long the client was just asked to wait."""
        throttle_s, self._throttle_s = self._throttle_s, 0.0
        return throttle_s

    async def answer(self, frame: bytes) -> Chunks:
        """The answer of this node, or of a broker for requests any broker can answer.

        Raises:
            NotLeading: only a broker can answer now. Ask `of_a_broker`.
            LedElsewhere: the request is for the leader. Ask `of_the_controller`.
            MalformedRequest, Unanswerable, NoBrokerAvailable: there is no answer.
        """
        try:
            header, request = await self._beside(partial(decode_request, frame), len(frame))
        except UnsupportedVersion as unsupported:
            if unsupported.header.api_key == apis.ApiKey.API_VERSIONS:
                # As a broker does: clients that find other nodes in such an answer (franz-go) take them for all there
                # are.
                itself: dict[int, apis.VersionRange] = {apis.ApiKey.API_VERSIONS: apis.SERVED[apis.ApiKey.API_VERSIONS]}
                return (encode_api_versions(unsupported.header, itself, ErrorCode.UNSUPPORTED_VERSION),)
            raise self._unsupported(unsupported.header, unsupported.served) from None
        except UnsupportedApi as unsupported:
            return (await self._answer_for_a_broker(unsupported.header, frame),)
        if isinstance(request, ApiVersionsRequest):
            if not request.is_valid(header.api_version):
                return (encode_api_versions(header, {}, ErrorCode.INVALID_REQUEST),)
            return (encode_api_versions(header, await self._offered(header.client_id)),)
        withheld = self._service.withheld()
        if withheld is not None and apis.pool_of(header.api_key) is not apis.Pool.BROKERS_OWN:
            return (await self._beside(partial(encode_reply, header, self._refused(request, withheld)), len(frame)),)
        caller = self._requester.caller(header.client_id)
        if isinstance(request, requests.DescribeCluster) and header.api_key == apis.ApiKey.METADATA:
            return await self._describe(request, header, caller)
        if self._relay is not None and self._may_be_forwarded(header):
            raise LedElsewhere(header, request, self._relay)
        reply = await ask_in_parts(self._service.inquiries, _limited(request), caller)
        self._throttle(getattr(reply, "throttle_ms", 0))
        if isinstance(reply, replies.TopicsCreated) and header.api_version >= SETTINGS_FROM:
            reply = await self._with_all_configs(reply)
        return (await self._beside(partial(encode_reply, header, reply), max(len(frame), _weight(reply))),)

    def _refused(self, request: requests.Request, withheld: Withheld) -> replies.Reply:
        """A broker's answer to an unauthorized client, as far as this process can give it.

        Raises:
            Unanswerable: any broker answers this and knows the client's rights.
        """
        if isinstance(request, OF_ANY_NODE):
            raise Unanswerable(f"{type(request).__name__} is not answered: {withheld.reason}")
        if not withheld.is_known or not self._service.inquiries.is_led:
            return refusal(request, ErrorCode.NOT_CONTROLLER)
        if isinstance(request, _OF_TOPICS):
            return refusal(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def of_the_controller(self, led: LedElsewhere, frame: bytes) -> Chunks:
        """The leader's answer or, if it cannot be asked, NOT_CONTROLLER."""
        answer = await led.relay.ask_the_controller(led.header, frame, self._service.pools.responses)
        if answer is None:
            answer = encode_reply(led.header, refusal(led.request, ErrorCode.NOT_CONTROLLER))
        self._throttle(throttle_ms_of(led.header, answer))
        return (answer,)

    async def of_a_broker(self, frame: bytes, relay: Relay) -> Chunks:
        """A live broker's answer, if the client has a right to all of it.

        Raises:
            Unanswerable, NoBrokerAvailable: there is no answer.
        """
        await self._demand_rights(decode_header(frame), frame)
        return (await relay.forward(frame, self._service.pools.responses),)

    async def _beside(self, work: Callable[[], _T], size: int) -> _T:
        """Run `work` on another thread if it is long enough to hold up the event loop."""
        if size <= _SHORT_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._service.beside, work)

    def _may_on_cluster(self, header: RequestHeader) -> bool:
        """Whether the client has the cluster right that this type of request needs."""
        operation = apis.ApiKey(header.api_key).row.on_cluster
        return operation is None or self._may(operation, header)

    def _may(self, operation: AclOperation, header: RequestHeader) -> bool:
        """Whether the client may do this on the cluster."""
        return self._service.may(self._requester.caller(header.client_id), header.api_key, operation, CLUSTER)

    async def _with_all_configs(self, reply: replies.TopicsCreated) -> replies.TopicsCreated:
        if not is_to_be_completed(reply):
            return reply
        # Advertise the brokers' own listener, on which this process reaches them whichever listener the client uses.
        listener = self._service.quotas.inter_broker_listener or self._requester.listener
        broker = await self._service.topic_configs.of_a_broker(listener)
        return await self._beside(partial(completed, reply, broker), len(reply.results) * _TOPIC_BYTES)

    async def _describe(
        self, request: requests.DescribeCluster, header: RequestHeader, caller: requests.Caller
    ) -> Chunks:
        """The cluster as this term sees it.

        Raises:
            NotLeading: there is no term. A broker can be asked; its answer names the leader.
        """
        body = await self._service.metadata.body(request, header.api_version, caller, self._has_hung_up)
        return framed_apart(encode_response_header(header), body)

    def _throttle(self, throttle_ms: int) -> None:
        """Delay the reading of the next request. This holds for our other processes too: each uses a connection of its
        own for each of its clients."""
        if throttle_ms > 0:
            self._throttle_s = throttle_ms / 1000

    def _may_be_forwarded(self, header: RequestHeader) -> bool:
        """Forward only where no rights and no user quotas apply, since the leader would see this process instead of the
        client; and never forward a request a second time."""
        service = self._service
        if header.api_key in apis.THROTTLED_SINCE and self._requester.is_known and service.limits_users():
            return False
        is_somebody_elses = header.api_key in apis.FORWARDED and not service.inquiries.is_led
        return is_somebody_elses and not self._is_relay and service.is_allowed is anybody

    async def _demand_rights(self, header: RequestHeader, frame: bytes) -> None:
        """Check the client's rights before relaying, because a broker would check those of this process.

        Raises:
            Unanswerable: the client lacks a right, or a broker has to see the client itself.
        """
        service, key = self._service, header.api_key
        if (withheld := service.withheld()) is not None:
            raise Unanswerable(f"{apis.api_name(key)} is not passed on: {withheld.reason}")
        if self._requester.is_known and key in apis.OF_THE_USER:
            raise Unanswerable(f"{apis.api_name(key)} is not passed on, because a broker has to see who asks")
        if service.is_allowed is anybody:
            return
        rights = await self._beside(partial(rights_needed.needed, header, frame), len(frame))
        caller = self._requester.caller(header.client_id)
        if rights == rights_needed.TO_WRITE_IDEMPOTENTLY and await self._may_write_somewhere(caller):
            return
        if rights is None or not all(service.may(caller, key, operation, resource) for operation, resource in rights):
            raise Unanswerable(f"{apis.api_name(key)} is not passed on for this client; brokers answer it")

    async def _may_write_somewhere(self, caller: requests.Caller) -> bool:
        """Whether the broker behind the relay gives a producer id to clients that may write to any topic, and this
        client may."""
        if self._relay is None or apis.ApiKey.DESCRIBE_CLUSTER not in await self._relay.ranges():  # a broker of 2.8
            return False
        return self._service.is_allowed_for_any(caller, AclOperation.WRITE, ResourceType.TOPIC)

    async def _answer_for_a_broker(self, header: RequestHeader, frame: bytes) -> bytes:
        key = header.api_key
        if key in apis.COMMANDS:
            error = self._judged_command(header)
            return await self._beside(lambda: encode_acknowledgement(decode_command(frame), error), len(frame))
        answered = apis.ANSWERED.get(key)
        if answered is not None:
            if header.api_version not in answered:
                raise self._unsupported(header, answered)
            if key == apis.ApiKey.ALTER_REPLICA_LOG_DIRS:
                answer = partial(any_node.answer_log_dir_moves, is_allowed=self._may_on_cluster(header))
                return await self._beside(partial(answer, header, frame), len(frame))
            if key == apis.ApiKey.DESCRIBE_GROUPS:
                return await self._answer_groups(header, frame)
            if key not in apis.CONFIGS:
                return any_node.encode_nothing_here(header, is_allowed=self._may_on_cluster(header))
            own = await self._answer_own_configs(header, frame)
            if own is not None:
                return own
        if key in apis.RELAYABLE and self._relay is not None:
            await self._demand_rights(header, frame)
            return await self._relay.forward(frame, self._service.pools.responses)
        raise self._unsupported(header, None)

    def acknowledge_unread(self, frame: bytes) -> Chunks:
        """The answer to UpdateMetadata. Its header is enough, since the answer names no partition.

        Raises:
            MalformedRequest, Unanswerable: there is no answer.
        """
        header = decode_header(frame)
        error = self._judged_command(header)
        nothing = UpdateMetadata((), ())
        received = ReceivedCommand(header, BrokerId(-1), ControllerEpoch(0), BrokerEpoch(-1), nothing)
        return (encode_acknowledgement(received, error),)

    def _judged_command(self, header: RequestHeader) -> ErrorCode:
        """Whether the client may send commands of brokers.

        Raises:
            Unanswerable: not in this version.
        """
        if header.api_version not in apis.COMMANDS[header.api_key]:
            raise self._unsupported(header, apis.COMMANDS[header.api_key])
        is_allowed = self._may_on_cluster(header)
        return ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def _answer_groups(self, header: RequestHeader, frame: bytes) -> bytes:
        groups = await self._beside(partial(any_node.decode_groups, header, frame), len(frame))
        may = partial(
            self._service.may, self._requester.caller(header.client_id), header.api_key, AclOperation.DESCRIBE
        )
        refused = {group for group in set(groups) if not may(ResourcePattern(ResourceType.GROUP, group))}
        return await self._beside(partial(any_node.encode_groups_answered, header, groups, refused), len(frame))

    async def _answer_own_configs(self, header: RequestHeader, frame: bytes) -> bytes | None:
        own_id = self._service.own_id
        describes = header.api_key == apis.ApiKey.DESCRIBE_CONFIGS
        resources = await self._beside(partial(any_node.decode_config_resources, header, frame), len(frame))
        if not any(resource.is_node(own_id) for resource in resources):
            return None
        is_allowed = self._may(AclOperation.DESCRIBE_CONFIGS if describes else AclOperation.ALTER_CONFIGS, header)
        if is_allowed and not describes:
            self._say_that_nothing_is_stored(header)
        answer = partial(any_node.encode_configs_answered, is_allowed=is_allowed)
        shown = self._service.own_configs()
        return await self._beside(partial(answer, header, resources, own_id, shown), len(frame))

    def _say_that_nothing_is_stored(self, header: RequestHeader) -> None:
        unsaid = self._service.repeated.say("own configs", asyncio.get_running_loop().time())
        _log.log(
            logging.DEBUG if unsaid is None else logging.INFO,
            "configuration change for the controller's own node acknowledged but not stored",
            request=apis.api_name(header.api_key),
            client_id=shortened(header.client_id or ""),
            client=self._requester.shown,
        )

    async def _offered(self, client_id: str | None) -> dict[int, apis.VersionRange]:
        """What ApiVersions offers this client. Our own processes are offered only what this node itself answers."""
        if client_id == PULSE_ID:
            return {} if self._service.is_cut_off() else {**apis.SERVED}
        expected = self._service.expected
        if client_id in expected:
            expected[client_id] = True
        self._is_relay |= client_id == CLIENT_ID
        if client_id in expected or self._is_relay:
            return {**apis.SERVED}
        if self._relay is None:
            return offered({key: apis.BELIEVED[key] for key in apis.LED & apis.BELIEVED.keys()})
        return offered(await self._relay.ranges())

    def _unsupported(self, header: RequestHeader, supported: apis.VersionRange | None) -> Unanswerable:
        name = apis.api_name(header.api_key)
        hint = "it is answered by brokers" if supported is None else f"versions {supported} are answered"
        if header.api_key in apis.LED:
            hint = "it is answered by the leader or coordinator, which the controller never is"
        return Unanswerable(
            f"{name} version {header.api_version} from client {header.client_id!r} is not answered by the "
            f"controller: {hint}; clients that follow ApiVersions do not send it here"
        )


def offered(relayed: Mapping[int, apis.VersionRange]) -> dict[int, apis.VersionRange]:
    """What ApiVersions offers, given the offer of the broker behind the relay. A request answered in both places is
    offered in the versions both know."""
    ranges: dict[int, apis.VersionRange] = {**relayed, **apis.ANSWERED, **apis.SERVED}
    for key in (apis.CONFIGS | apis.BY_BROKERS_ON_STANDBY) & relayed.keys():
        ours, theirs = ranges[key], relayed[key]
        ranges[key] = apis.VersionRange(max(ours.lowest, theirs.lowest), min(ours.highest, theirs.highest))
    return ranges


def _limited(request: requests.Request) -> requests.Request:
    """Cap the timeout: a waiting request occupies memory, and no client waits that long."""
    if getattr(request, "timeout_ms", 0) <= LONGEST_WAIT_MS:
        return request
    return structs.replace(request, timeout_ms=LONGEST_WAIT_MS)


def _weight(reply: replies.Reply) -> int:
    """A rough size in bytes of an answer that does not depend on the size of its request."""
    match reply:
        case replies.ReassignmentsListed(moves=listed):
            return len(listed) * _MOVE_BYTES
        case replies.TopicsCreated(results):
            return len(results) * _TOPIC_BYTES
        case replies.AclsDescribed(bindings=bindings):
            return len(bindings) * _ENTRY_BYTES
        case replies.AclsDeleted(results=filtered):
            return sum(len(result.deleted) for result in filtered) * _ENTRY_BYTES
        case replies.LeadersElected(results=results):
            return len(results) * _MOVE_BYTES
        case replies.ShutdownPermitted(remaining=remaining):
            return len(remaining) * _MOVE_BYTES
        case _:
            return 0
