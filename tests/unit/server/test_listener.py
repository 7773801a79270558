"""Requests come in, answers go out in order, and no client can do harm."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc

import pytest
from structlog.testing import capture_logs

from controller.core.messages.commands import LeaderAndIsr, UpdateMetadata
from controller.core.messages.effects import Answer, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import CallId
from controller.core.messages.replies import ClusterDescription, ReassignmentsListed, ShutdownPermitted
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    Caller,
    ControlledShutdown,
    DescribeCluster,
    ListReassignments,
    PartitionReassignment,
)
from controller.server.listener import ListenerSettings
from controller.settings.limits import Limits
from controller.wire.apis import SERVED
from controller.wire.commands import CommandEncoder
from controller.wire.frames import framed
from controller.wire.requests import ApiVersionsRequest
from controller.wire.versions import parse_protocol
from tests.unit.server.clients import OWN_ID, Desk, connected, serving
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, PartitionId, TopicName, TopicPartition

ORDERS_0 = TopicPartition(TopicName("orders"), PartitionId(0))


def test_a_request_becomes_an_event_and_its_answer_goes_back() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as client:
            server.begin_term(desk)
            header = client.send(ListReassignments(None))

            (asked,) = await desk.until(1)
            desk.answer(server, asked, ReassignmentsListed(message="all quiet"))

            assert asked.request == ListReassignments(None)
            assert asked.caller.listener == "OUTSIDE"
            assert asked.caller.client_id == "a test"
            assert asked.caller.address == "127.0.0.1"
            assert await client.receive(header) == ReassignmentsListed(message="all quiet")

    asyncio.run(story())


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as client:
            server.begin_term(desk)
            headers = [client.send(ControlledShutdown(BrokerId(number)), 3) for number in range(5)]
            for number in range(5):
                asked = (await desk.until(number + 1))[number]
                assert asked.request == ControlledShutdown(BrokerId(number))
                desk.answer(server, asked, ShutdownPermitted(remaining=(ORDERS_0,) * number))

            remaining = [await client.receive(header) for header in headers]

            assert remaining == [ShutdownPermitted((ORDERS_0,) * number) for number in range(5)]

    asyncio.run(story())


def test_requests_of_different_clients_do_not_wait_for_each_other() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as slow, connected(server) as quick:
            server.begin_term(desk)
            slow.send(ListReassignments(None))
            await desk.until(1)
            header = quick.send(ListReassignments(None))
            asked = (await desk.until(2))[1]
            desk.answer(server, asked, ReassignmentsListed())

            assert await quick.receive(header) == ReassignmentsListed()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("request_", "version", "error_of"),
    [
        (ListReassignments(None), 0, lambda reply: reply.error),
        (AlterReassignments((PartitionReassignment(ORDERS_0, None),)), 0, lambda reply: reply.error),
        (AlterPartition(BrokerId(1), BrokerEpoch(5), ()), 3, lambda reply: reply.error),
        (ControlledShutdown(BrokerId(1)), 3, lambda reply: reply.error),
    ],
)
def test_without_a_term_a_request_is_refused_at_once(request_, version, error_of) -> None:  # type: ignore[no-untyped-def] # parameters of many types
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            assert error_of(await client.ask(request_, version)) is ErrorCode.NOT_CONTROLLER

    asyncio.run(story())


def test_the_end_of_a_term_refuses_what_waits_and_what_comes() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as one, connected(server) as other:
            server.begin_term(desk)
            waiting = [client.send(ListReassignments(None)) for client in (one, other)]
            await desk.until(2)

            server.refuse_all()

            for client, header in zip((one, other), waiting, strict=True):
                reply = await client.receive(header)
                assert isinstance(reply, ReassignmentsListed)
                assert reply.error is ErrorCode.NOT_CONTROLLER
            assert (await one.ask(ListReassignments(None))).error is ErrorCode.NOT_CONTROLLER
            assert len(desk.asked) == 2

    asyncio.run(story())


def test_answers_without_a_waiting_client_are_dropped() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server:
            server.begin_term(desk)
            async with connected(server) as client:
                client.send(ListReassignments(None))
                (asked,) = await desk.until(1)
            desk.answer(server, asked, ReassignmentsListed())
            desk.answer(server, asked, ReassignmentsListed())
            server.answer(Answer(CallId(4711), ReassignmentsListed()))

            async with connected(server) as other:
                assert (await other.ask(ApiVersionsRequest())).error is ErrorCode.NONE

    asyncio.run(story())


def test_api_versions_lists_at_least_what_is_served_here() -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            reply = await client.ask(ApiVersionsRequest("tests", "1"), 3)

            assert {key: reply.ranges[key] for key in SERVED} == dict(SERVED)
            assert {16, 32, 33, 35, 44, 66} <= reply.ranges.keys()
            assert 10 not in reply.ranges  # no broker to relay to

    asyncio.run(story())


def test_an_unknown_version_of_api_versions_is_answered_so_that_the_client_can_choose_another() -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            future = struct.pack(">hhih", 18, 99, 7, -1) + b"unknown new fields"

            answer = await client.ask_raw(future)

            assert struct.unpack(">ih", answer[:6]) == (7, ErrorCode.UNSUPPORTED_VERSION)
            assert struct.unpack(">ih", answer[6:12]) == (1, 18), "a client would take a longer list for the whole one"
            assert (await client.ask(ApiVersionsRequest(), 0)).error is ErrorCode.NONE

    asyncio.run(story())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (struct.pack(">hhih", 0, 9, 7, -1), "Produce (0) version 9"),
        (struct.pack(">hhih", 45, 3, 7, -1), "versions 0 are answered"),
        (struct.pack(">hhih", 16, 77, 7, -1), "versions 0 to 5 are answered"),
        (struct.pack(">hhih", 999, 0, 7, -1), "api key 999"),
        (struct.pack(">hhih", 10, 0, 7, -1), "FindCoordinator (10)"),
        (b"GET / HTTP/1.1", "not a Kafka request"),
        (b"", "not a Kafka request"),
        (struct.pack(">hhih", 46, 0, 7, -1) + b"\xff\xff", "malformed"),
    ],
)
def test_what_cannot_be_answered_closes_the_connection_with_one_clear_warning(message: bytes, reason: str) -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            client.writer.write(framed(message))
            assert await client.is_hung_up_on()

    with capture_logs() as logs:
        asyncio.run(story())
    (warning,) = logs
    assert warning["log_level"] == "warning"
    assert reason in warning["reason"]
    assert warning["client"].startswith("127.0.0.1:")


def test_a_huge_size_closes_the_connection_and_reserves_nothing() -> None:
    async def story() -> None:
        async with serving(Limits(most_request_bytes=2**31 - 1)) as server, connected(server) as client:
            await client.ask(ApiVersionsRequest())
            tracemalloc.start()
            client.writer.write(struct.pack(">i", 2**28 - 1) + b"x" * 1000)
            await asyncio.sleep(0.1)
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 2_000_000

        async with serving(Limits(most_request_bytes=1000)) as server, connected(server) as client:
            client.writer.write(struct.pack(">ih", 1001, 18))
            assert await client.is_hung_up_on()

    asyncio.run(story())


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">i", 100) + b"half a req"])
def test_a_client_that_hangs_is_closed_after_the_idle_time_and_disturbs_no_other(sent: bytes) -> None:
    async def story() -> None:
        async with serving(Limits(idle_s=2.0)) as server, connected(server) as hanging:
            hanging.writer.write(sent)
            async with connected(server) as other:
                assert (await other.ask(ApiVersionsRequest())).error is ErrorCode.NONE
            assert await hanging.is_hung_up_on()

    asyncio.run(story())


def test_a_request_that_comes_byte_by_byte_is_understood() -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            message = struct.pack(">ihhih", 10, 18, 0, 7, -1)
            for at in range(len(message)):
                client.writer.write(message[at : at + 1])
                await client.writer.drain()
                await asyncio.sleep(0.001)

            assert struct.unpack(">ih", (await client.frame())[:6]) == (7, 0)

    asyncio.run(story())


def test_a_client_that_does_not_read_its_answers_is_not_given_more_and_then_closed() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving(Limits(idle_s=0.3)) as server, connected(server) as client:
            server.begin_term(desk)
            huge = ClusterDescription((), "c" * 30_000, BrokerId(1), ())
            client.reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio has no public way
            answered = 0
            loop = asyncio.get_running_loop()
            until = loop.time() + 30
            for _ in range(4000):
                client.send(DescribeCluster(()), 12)
            while loop.time() < until:
                await asyncio.sleep(0.005)
                while answered < len(desk.asked):
                    desk.answer(server, desk.asked[answered], huge)
                    answered += 1
                if not server._connections:
                    break

            assert not server._connections
            assert answered < 4000

    asyncio.run(story())


def test_connections_beyond_the_limit_are_turned_away_until_others_leave() -> None:
    async def story() -> None:
        async with serving(Limits(most_connections=1)) as server:
            async with connected(server) as first:
                await first.ask(ApiVersionsRequest())
                async with connected(server) as second:
                    assert await second.is_hung_up_on()
            await asyncio.sleep(0.05)
            async with connected(server) as third:
                assert (await third.ask(ApiVersionsRequest())).error is ErrorCode.NONE

    asyncio.run(story())


def test_each_listener_says_through_which_one_was_asked() -> None:
    async def story() -> None:
        desk = Desk()
        listeners = (
            ListenerSettings("INSIDE", "127.0.0.1", 0),
            ListenerSettings("OUTSIDE", "127.0.0.1", 0),
        )
        async with (
            serving(listeners=listeners) as server,
            connected(server, "INSIDE") as one,
            connected(server, "OUTSIDE") as other,
        ):
            server.begin_term(desk)
            one.send(ListReassignments(None))
            await desk.until(1)
            other.send(ListReassignments(None))

            callers: list[Caller] = [asked.caller for asked in await desk.until(2)]

            assert [caller.listener for caller in callers] == ["INSIDE", "OUTSIDE"]

    asyncio.run(story())


def test_a_taken_port_is_an_error_and_leaves_nothing_listening() -> None:
    async def story() -> None:
        async with serving() as server:
            listeners = (
                ListenerSettings("FREE", "127.0.0.1", 0),
                ListenerSettings("TAKEN", "127.0.0.1", server.ports["OUTSIDE"]),
            )
            with pytest.raises(OSError, match="address already in use"):
                async with serving(listeners=listeners):
                    pass

    asyncio.run(story())


@pytest.mark.parametrize(
    "software", [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1."), ("a", "1\n"), ("ä", "1")]
)
@pytest.mark.parametrize("version", [3, 4])
def test_a_client_without_a_proper_name_and_version_hears_so_as_from_a_broker(
    software: tuple[str, str], version: int
) -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            refused = await client.ask(ApiVersionsRequest(*software), version)
            assert (refused.error, refused.ranges) == (ErrorCode.INVALID_REQUEST, {})
            named = await client.ask(ApiVersionsRequest("apache-kafka-java", "3.9.1-rc.0"), version)
            assert named.error is ErrorCode.NONE
            assert (await client.ask(ApiVersionsRequest(), 2)).error is ErrorCode.NONE

    asyncio.run(story())


@pytest.mark.parametrize("release", ["2.4", "2.8", "3.9"])
def test_a_native_controller_that_takes_us_for_a_broker_is_obeyed_in_words(release: str) -> None:
    encoder = CommandEncoder(BrokerId(1), parse_protocol(release), "INSIDE")

    async def story() -> None:
        async with serving() as server, connected(server) as client:
            for command in (UpdateMetadata((), ()), LeaderAndIsr((), (), ())):
                tell = Tell(OWN_ID, BrokerEpoch(5), ControllerEpoch(9), command)
                (request,) = encoder.encode(tell, 7)
                client.writer.writelines(request.chunks)

                acknowledged = encoder.decode_acknowledgement(tell, await client.frame())

                assert acknowledged.error is ErrorCode.NONE

    asyncio.run(story())


def test_a_process_that_looks_out_for_itself_learns_whether_it_was_reached() -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            by_name, by_another = server.expect("a test"), server.expect("another")

            header = client.send(ApiVersionsRequest())
            await client.receive(header)

            assert (by_name(), by_another()) == (True, False)
            assert (by_name(), by_another()) == (False, False)  # forgotten

    asyncio.run(story())
