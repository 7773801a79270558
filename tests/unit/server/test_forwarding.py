"""A replica that does not lead passes on what clients ask the controller, once, and says so where it cannot."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.core.clients.authorization import Authorizer, anybody
from controller.core.messages.commands import LiveBroker
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import PartitionsAltered, ReassignmentsListed, TopicCreated, TopicsCreated
from controller.core.messages.requests import AlterPartition, CreateTopics, ListReassignments, NewTopic
from controller.lab.ports import free_port
from controller.server.listener import Server
from controller.server.relay import Brokers
from controller.wire.frames import framed
from tests.unit.server.clients import Client, Desk, connected, serving
from zk_layout.ids import BrokerEpoch, BrokerId, TopicName
from zk_layout.znodes.brokers import Endpoint

ORDERS = TopicName("orders")
CREATION = CreateTopics((NewTopic(ORDERS, 1, 1),), knows_quota_exceeded=False)


class Leads:
    """The known leader: none at first."""

    def __init__(self, is_allowed: Authorizer = anybody) -> None:
        self.port: int | None = None
        self.brokers = Brokers(BrokerId(1000), self._nobody, PlaintextDialer(), 5.0, is_allowed, self._leader)

    async def _nobody(self) -> Sequence[LiveBroker]:
        return ()

    async def _leader(self) -> LiveBroker | None:
        if self.port is None:
            return None
        return LiveBroker(BrokerId(1001), (Endpoint("OUTSIDE", "127.0.0.1", self.port),))


async def answered(client: Client, server: Server, desk: Desk) -> Any:
    """The client's answer if the term of `server` creates the topic."""
    header = client.send(CREATION)
    (asked,) = await desk.until(1)
    assert asked.request == CREATION
    desk.answer(server, asked, TopicsCreated((TopicCreated(ORDERS, ErrorCode.NONE),)))
    return await client.receive(header)


def error_of(reply: Any) -> ErrorCode:
    """The error of the only topic."""
    (result,) = reply.results
    return ErrorCode(result.error)


def test_whoever_leads_answers_through_who_does_not() -> None:
    async def story() -> None:
        leads, desk = Leads(), Desk()
        async with (
            serving() as leader,
            serving(brokers=leads.brokers) as standby,
            connected(standby) as client,
        ):
            assert error_of(await client.ask(CREATION)) is ErrorCode.NOT_CONTROLLER
            leads.port = leader.ports["OUTSIDE"]
            leader.begin_term(desk.asked.append)
            assert error_of(await answered(client, leader, desk)) is ErrorCode.NONE
            leader.refuse_all()
            assert error_of(await client.ask(CREATION)) is ErrorCode.NOT_CONTROLLER

    asyncio.run(story())


def test_another_leader_is_asked_as_soon_as_it_is_known() -> None:
    async def story() -> None:
        leads = Leads()
        async with serving(brokers=leads.brokers) as standby, connected(standby) as client:
            for _ in range(2):
                desk = Desk()
                async with serving() as leader:
                    leader.begin_term(desk.asked.append)
                    leads.port = leader.ports["OUTSIDE"]
                    assert error_of(await answered(client, leader, desk)) is ErrorCode.NONE

    asyncio.run(story())


def test_who_leads_again_answers_itself() -> None:
    async def story() -> None:
        leads, desk = Leads(), Desk()
        leads.port = free_port()
        async with serving(brokers=leads.brokers) as server, connected(server) as client:
            assert error_of(await client.ask(CREATION)) is ErrorCode.NOT_CONTROLLER  # nothing listens there
            server.begin_term(desk.asked.append)
            assert error_of(await answered(client, server, desk)) is ErrorCode.NONE

    asyncio.run(story())


def test_two_who_take_each_other_for_the_leader_do_not_pass_it_to_and_fro() -> None:
    async def story() -> None:
        one, other = Leads(), Leads()
        async with (
            serving(brokers=one.brokers) as first,
            serving(brokers=other.brokers) as second,
            connected(first) as client,
        ):
            one.port, other.port = second.ports["OUTSIDE"], first.ports["OUTSIDE"]
            assert error_of(await client.ask(CREATION)) is ErrorCode.NOT_CONTROLLER

    asyncio.run(story())


def test_what_brokers_ask_and_what_needs_rights_is_not_passed_on() -> None:
    async def story(leads: Leads, request: Any, expected: Any) -> None:
        desk = Desk()
        async with serving() as leader, serving(brokers=leads.brokers) as standby, connected(standby) as client:
            leader.begin_term(desk.asked.append)
            leads.port = leader.ports["OUTSIDE"]
            assert (await client.ask(request)) == expected
            assert not desk.asked

    judged = Leads(lambda _caller, _operation, _resource: True)
    refused = ReassignmentsListed(
        error=ErrorCode.NOT_CONTROLLER, message="This is not the correct controller for this cluster."
    )
    asyncio.run(story(judged, ListReassignments(None), refused))
    change = AlterPartition(BrokerId(1), BrokerEpoch(7), ())
    asyncio.run(story(Leads(), change, PartitionsAltered(error=ErrorCode.NOT_CONTROLLER)))


@pytest.mark.timeout(30)
def test_who_was_asked_and_is_lost_may_have_done_it() -> None:
    async def story() -> None:
        leads = Leads()
        hung_up = asyncio.Event()

        async def half_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            question = await reader.readexactly(size)
            versions = struct.pack(">hihhh", 0, 1, 19, 0, 7)
            writer.write(framed(question[4:8] + versions))
            await reader.readexactly(4)
            hung_up.set()
            writer.transport.abort()

        async with (
            await asyncio.start_server(half_way, "127.0.0.1", 0) as server,
            serving(brokers=leads.brokers) as standby,
            connected(standby) as client,
        ):
            leads.port = server.sockets[0].getsockname()[1]
            client.send(CREATION)
            assert await client.is_hung_up_on()
            assert hung_up.is_set()

    asyncio.run(story())
