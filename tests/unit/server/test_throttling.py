"""A client that has exceeded a quota is answered at once, and not read until its time is over; no other client
waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.core.messages.replies import PartitionsCreated, Reply, TopicDeleted, TopicsCreated, TopicsDeleted
from controller.core.messages.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
)
from controller.server.parts import whole
from controller.server.relay import CLIENT_ID
from controller.settings.limits import Limits
from controller.wire.apis import SERVED, THROTTLED_SINCE
from controller.wire.frames import RequestHeader, throttle_ms_of
from controller.wire.replies import encode_reply
from tests.equipment.client_side import api_key_of
from tests.unit.server.clients import Client, Desk, connected, serving
from tests.unit.server.test_forwarding import Leads
from tests.unit.server.test_sasl_listener import ANN, authenticate, guarded, handshake
from zk_layout.ids import TopicName

ORDERS = TopicName("orders")
CREATION = CreateTopics((NewTopic(ORDERS, 1, 1),))
REQUESTS = (CREATION, DeleteTopics((TopicReference(ORDERS),)), CreatePartitions((Growth(ORDERS, 2),)))
REPLIES: tuple[Any, ...] = (TopicsCreated, TopicsDeleted, PartitionsCreated)
SOME_MS = 300


async def answered(client: Client, server: Any, desk: Desk, reply: Reply, version: int = 5) -> Any:
    header = client.send(CREATION, version)
    desk.answer(server, (await desk.until(len(desk.asked) + 1))[-1], reply)
    return await client.receive(header)


@pytest.mark.parametrize("version", [0, 5, 7])
def test_the_answer_comes_at_once_and_the_next_request_is_read_when_the_time_is_over(version: int) -> None:
    async def story() -> None:
        desk, loop = Desk(), asyncio.get_running_loop()
        async with serving() as server, connected(server) as client, connected(server) as other:
            server.begin_term(desk.asked.append)
            began = loop.time()
            result = await answered(client, server, desk, TopicsCreated((), SOME_MS), version)
            assert result.throttle_ms == (SOME_MS if version >= 2 else 0)
            assert loop.time() - began < SOME_MS / 1000

            client.send(CREATION, version)
            assert (await answered(other, server, desk, TopicsCreated())).throttle_ms == 0
            assert (len(desk.asked), loop.time() - began < SOME_MS / 1000) == (2, True)
            await desk.until(3)
            assert loop.time() - began >= SOME_MS / 1000

    asyncio.run(story())


def test_who_would_have_to_wait_for_longer_than_a_connection_may_be_idle_is_hung_up_on() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving(Limits(idle_s=0.2)) as server, connected(server) as client:
            server.begin_term(desk.asked.append)
            await answered(client, server, desk, TopicsCreated((), 2**31 - 1))
            assert await client.is_hung_up_on()

    asyncio.run(story())


@pytest.mark.timeout(20)
def test_who_hangs_up_meanwhile_is_forgotten() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server:
            server.begin_term(desk.asked.append)
            async with connected(server) as client:
                await answered(client, server, desk, TopicsCreated((), 60_000))
                assert len(server._connections) == 1
            while server._connections:
                await asyncio.sleep(0.05)

    asyncio.run(story())


def test_a_forwarded_client_waits_before_its_next_request_until_the_throttle_ends() -> None:
    async def story() -> None:
        leads, desk, loop = Leads(), Desk(), asyncio.get_running_loop()
        async with (
            serving() as leader,
            serving(brokers=leads.brokers) as standby,
            connected(standby) as client,
            connected(standby) as other,
        ):
            leads.port = leader.ports["OUTSIDE"]
            leader.begin_term(desk.asked.append)
            result = await answered(client, leader, desk, TopicsCreated((), SOME_MS))
            assert result.throttle_ms == SOME_MS
            began = loop.time()
            await answered(other, leader, desk, TopicsCreated())
            assert loop.time() - began < SOME_MS / 1000 - 0.1
            await answered(client, leader, desk, TopicsCreated())
            assert SOME_MS / 1000 - 0.1 < loop.time() - began < 2 * SOME_MS / 1000

    asyncio.run(story())


def test_a_client_that_claims_to_be_a_relay_waits_like_any_other() -> None:
    async def story() -> None:
        desk, loop = Desk(), asyncio.get_running_loop()
        async with serving() as leader, connected(leader) as client:
            leader.begin_term(desk.asked.append)
            await client.ask_raw(introduction())
            await answered(client, leader, desk, TopicsCreated((), SOME_MS))
            began = loop.time()
            await answered(client, leader, desk, TopicsCreated())
            assert loop.time() - began > SOME_MS / 1000 - 0.1

    asyncio.run(story())


def introduction() -> bytes:
    """How another process of ours introduces itself: ApiVersions 0."""
    name = CLIENT_ID.encode()
    return bytes((0, 18, 0, 0, 0, 0, 0, 1, 0, len(name))) + name


@pytest.mark.parametrize("limits_users", [False, True])
def test_who_has_logged_in_is_not_passed_on_where_users_have_quotas(limits_users: bool) -> None:
    async def story() -> None:
        leads, desk = Leads(), Desk()
        async with serving() as leader, serving(brokers=leads.brokers, listeners=guarded()) as standby:
            standby.ask_for_quotas(lambda: limits_users)
            leads.port = leader.ports["OUTSIDE"]
            leader.begin_term(desk.asked.append)
            async with connected(standby) as client:
                await handshake(client)
                await authenticate(client, ANN)
                client.send(CREATION, 5)
                if limits_users:
                    await client.frame()
                else:
                    await desk.until(1)
            assert len(desk.asked) == (not limits_users)

    asyncio.run(story())


@pytest.mark.parametrize("at", range(3))
def test_another_nodes_answer_says_how_long_to_wait_in_every_version(at: int) -> None:
    key = api_key_of(REQUESTS[at])
    for version in range(SERVED[key].lowest, SERVED[key].highest + 1):
        header = RequestHeader(key, version, 2**31 - 1, "me")
        result = throttle_ms_of(header, encode_reply(header, REPLIES[at]((), 123_456)))
        assert result == (123_456 if version >= THROTTLED_SINCE[key] else 0)
        assert throttle_ms_of(header, b"\0\0\0\2\0") == 0


def test_the_parts_of_one_request_wait_together_for_as_long_as_one_of_them() -> None:
    parts = [TopicsDeleted((TopicDeleted(ORDERS),), ms) for ms in (0, 700, 40)]

    assert whole(parts) == TopicsDeleted((TopicDeleted(ORDERS),) * 3, 700)
