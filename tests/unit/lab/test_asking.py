"""A server is asked directly, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from controller.core.messages.replies import ClusterDescription, PartitionResult, ReassignmentsAltered, Reply
from controller.core.messages.requests import AlterReassignments, DescribeCluster, PartitionReassignment, Request
from controller.lab.asking import controller_named_by, move
from controller.lab.listening import MessageServer
from controller.wire.replies import encode_reply
from controller.wire.requests import ApiVersionsRequest, decode_request
from zk_layout.ids import TopicPartition

AT = TopicPartition("a", 1)
Found = TypeVar("Found")


def asked(ask: Callable[[str], Found], reply: Reply) -> tuple[Request, Found]:
    """The request to a server with this answer, and the result."""
    seen: list[Request] = []

    async def answer(frame: bytes, writer: asyncio.StreamWriter) -> None:
        header, request = decode_request(frame)
        assert not isinstance(request, ApiVersionsRequest)
        seen.append(request)
        writer.write(encode_reply(header, reply))

    async def once() -> Found:
        server = MessageServer(answer)
        await server.start()
        try:
            return await asyncio.to_thread(ask, f"127.0.0.1:{server.port}")
        finally:
            await server.stop()

    found = asyncio.run(once())
    return seen[0], found


def test_moves() -> None:
    wanted = AlterReassignments((PartitionReassignment(AT, (3, 1)),))
    reply = ReassignmentsAltered((PartitionResult(AT),))

    assert asked(lambda address: move(address, wanted), reply) == (wanted, reply)


def test_the_controller_it_names() -> None:
    assert asked(controller_named_by, ClusterDescription((), "c", 902, ())) == (DescribeCluster(topics=()), 902)


def test_a_server_that_names_none() -> None:
    assert asked(controller_named_by, ClusterDescription((), "c", -1, ()))[1] is None


def test_a_server_that_does_not_answer() -> None:
    assert controller_named_by("127.0.0.1:1") is None
