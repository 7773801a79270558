"""What does one server of a cluster answer to a direct request?"""

from __future__ import annotations

import asyncio

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments
from controller.lab.wire.to_controller import decode_controller, decode_reply, encode_metadata, encode_request
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader
from zk_layout.znodes.brokers import Endpoint

CLIENT_ID = "lab"
ANSWER_WITHIN_S = 10.0
METADATA_VERSION = 7
"""Every broker from 2.4 on supports this version."""


def connection_to(address: str) -> BrokerConnection:
    """A connection to `host:port`, not opened yet."""
    host, _, port = address.rpartition(":")
    return BrokerConnection(PlaintextDialer(), Endpoint("PLAINTEXT", host, int(port)))


def ask_raw(address: str, *requests: bytes, timeout_s: float = ANSWER_WITHIN_S) -> list[bytes]:
    """Send requests over one connection, each after the answer to the previous one, without a running event loop.

    Shape:
        Requests include their sizes, answers do not.

    Raises:
        Broken: the server does not answer.
    """

    async def in_turn() -> list[bytes]:
        connection = connection_to(address)
        try:
            return [await connection.ask(request, timeout_s=timeout_s) for request in requests]
        finally:
            connection.drop()

    return asyncio.run(in_turn())


def move(address: str, request: AlterReassignments) -> ReassignmentsAltered:
    """Request moves from the controller at this address.

    Raises:
        Broken: it does not answer.
    """
    header = RequestHeader(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, CLIENT_ID)
    (answer,) = ask_raw(address, encode_request(header, request))
    reply = decode_reply(header, answer)
    assert isinstance(reply, ReassignmentsAltered)
    return reply


def controller_named_by(address: str) -> int | None:
    """The controller that this server reports to clients; None if it knows none or does not answer."""
    header = RequestHeader(ApiKey.METADATA, METADATA_VERSION, 1, CLIENT_ID)
    try:
        (answer,) = ask_raw(address, encode_metadata(header))
    except Broken:
        return None
    named = decode_controller(header, answer)
    return named if named >= 0 else None
