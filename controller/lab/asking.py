"""What does one server of a cluster answer when it is asked directly?"""

from __future__ import annotations

import asyncio

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.core.messages.replies import ClusterDescription, Reply
from controller.core.messages.requests import DescribeCluster, Request
from controller.lab.wire.client_side import api_key_of, decode_reply, encode_request
from controller.wire.api_versions import ApiVersionsReply
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.requests import ApiVersionsRequest
from zk_layout.znodes.brokers import Endpoint

CLIENT_ID = "lab"
ANSWER_WITHIN_S = 10.0
# Every broker from 2.4 on answers this one.
_METADATA_VERSION = 7


def connection_to(address: str) -> BrokerConnection:
    """A connection to `host:port`; nothing is opened yet."""
    host, _, port = address.rpartition(":")
    return BrokerConnection(PlaintextDialer(), Endpoint("PLAINTEXT", host, int(port)))


async def ask_over(
    connection: BrokerConnection, request: Request | ApiVersionsRequest, version: int, timeout_s: float
) -> Reply | ApiVersionsReply:
    """Ask one question.

    Raises:
        Broken: there was no answer.
        Malformed: it is none to the question.
    """
    header = RequestHeader(
        api_key_of(request), version, connection.next_correlation_id(), CLIENT_ID, reads_additions=True
    )
    return decode_reply(header, await connection.ask(encode_request(header, request), timeout_s=timeout_s))


def ask(
    address: str,
    request: Request | ApiVersionsRequest,
    *,
    version: int | None = None,
    timeout_s: float = ANSWER_WITHIN_S,
) -> Reply | ApiVersionsReply:
    """Ask one question on a connection of its own, where no event loop runs.

    Raises:
        Broken: nobody is there, or there was no answer.
    """

    async def once() -> Reply | ApiVersionsReply:
        connection = connection_to(address)
        try:
            return await ask_over(connection, request, _version_of(request) if version is None else version, timeout_s)
        finally:
            connection.drop()

    return asyncio.run(once())


def ask_raw(address: str, *requests: bytes, timeout_s: float = ANSWER_WITHIN_S) -> list[bytes]:
    """Send requests over one connection, each after the answer to the one before.

    Shape:
        Requests have their sizes, answers come without.

    Raises:
        Broken: nobody is there, or there was no answer.
    """

    async def in_turn() -> list[bytes]:
        connection = connection_to(address)
        try:
            return [await connection.ask(request, timeout_s=timeout_s) for request in requests]
        finally:
            connection.drop()

    return asyncio.run(in_turn())


def controller_named_by(address: str) -> int | None:
    """The controller that this server names to clients; none if it knows none or does not answer."""
    try:
        answer = ask(address, DescribeCluster(topics=()))
    except Broken:
        return None
    assert isinstance(answer, ClusterDescription)
    return answer.controller if answer.controller >= 0 else None


def _version_of(request: Request | ApiVersionsRequest) -> int:
    return _METADATA_VERSION if api_key_of(request) is ApiKey.METADATA else 0
