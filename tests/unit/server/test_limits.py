"""A request costs only its sender: with real sockets, a real term, real limits."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from controller.core.messages.replies import ClusterDescription
from controller.core.messages.requests import AllocateProducerIds, DescribeCluster, ListReassignments
from controller.server.limits import by_address
from controller.server.repeated_lines import RepeatedLines, shortened
from controller.settings.limits import Limits
from controller.wire.frames import framed
from controller.wire.requests import ApiVersionsRequest
from tests.fuzz.reign import LISTENER, Heartbeat, Reign, Shape
from tests.unit.server.clients import Client, Desk, connected, serving
from zk_layout.ids import BrokerEpoch, BrokerId

LONGEST_STALL_S = 0.1
NAMES = 1_000_000


@contextlib.asynccontextmanager
async def reigning(shape: Shape | None = None, limits: Limits | None = None) -> AsyncIterator[tuple[Reign, Heartbeat]]:
    reign, heart = Reign(shape or Shape(), limits), Heartbeat()
    await reign.begin()
    heart.begin()
    try:
        yield reign, heart
        assert reign.ended == []
    finally:
        heart.end()
        await reign.end()


def header(key: int, version: int, client: bytes = b"t") -> bytes:
    return struct.pack(">hhih", key, version, 7, len(client)) + client


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


FOUR_BYTES_EACH = varint(NAMES + 1) + bytes(4 * NAMES)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(header(3, 1) + struct.pack(">i", NAMES) + b"\0\0" * NAMES, id="Metadata"),
        pytest.param(header(3, 9) + b"\0" + varint(NAMES + 1) + b"\1\0" * NAMES + b"\0\0\0\0", id="Metadata, compact"),
        pytest.param(header(20, 4) + b"\0" + varint(NAMES + 1) + b"\1" * NAMES + b"\0\0\0\0\0", id="DeleteTopics"),
        pytest.param(header(43, 2) + b"\0\0\2\2t" + FOUR_BYTES_EACH + b"\0\0\0\0\0\0", id="ElectLeaders"),
        pytest.param(header(46, 0) + b"\0" + bytes(4) + b"\2\2t" + FOUR_BYTES_EACH + b"\0\0", id="List"),
        pytest.param(
            header(45, 0) + b"\0" + bytes(4) + b"\2\2t" + varint(NAMES + 1) + bytes(6 * NAMES) + b"\0\0", id="Alter"
        ),
        pytest.param(
            header(37, 2) + b"\0" + varint(NAMES + 1) + b"\2t\0\0\0\1\0\0" * NAMES + bytes(6), id="CreatePartitions"
        ),
        pytest.param(header(32, 4) + b"\0" + varint(NAMES + 1) + b"\4\1\0\0" * NAMES + bytes(3), id="DescribeConfigs"),
    ],
)
def test_a_request_of_a_million_entries_delays_no_other(request_: bytes) -> None:
    async def story() -> None:
        async with reigning() as (reign, heart), connected(reign.server, LISTENER) as hostile:
            async with connected(reign.server, LISTENER) as healthy:
                await healthy.ask(ListReassignments(None))
                heart.reset()
                hostile.writer.write(framed(request_))
                began = time.monotonic()
                await healthy.ask(ListReassignments(None))
                assert time.monotonic() - began < 5
            assert await hostile.is_hung_up_on()
            assert heart.longest_cpu_s < LONGEST_STALL_S

    asyncio.run(story())


def test_as_many_names_as_may_be_asked_for_are_answered_in_parts() -> None:
    async def story() -> None:
        count = 50_000
        names = b"".join(struct.pack(">h", 6) + b"%06d" % number for number in range(count))
        async with reigning() as (reign, heart), connected(reign.server, LISTENER) as client:
            heart.reset()
            client.writer.write(framed(header(3, 1) + struct.pack(">i", count) + names))
            reader = client.reader
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            body = await reader.readexactly(size)
            assert body.count(b"\0\3\0\6") == count  # UNKNOWN_TOPIC_OR_PARTITION
            assert heart.longest_cpu_s < LONGEST_STALL_S

    asyncio.run(story())


def test_many_clients_that_ask_for_everything_share_one_answer_made_in_parts() -> None:
    async def story() -> None:
        async with reigning(Shape(1000, 5)) as (reign, heart), contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(reign.server, LISTENER)) for _ in range(100)]
            heart.reset()
            answers = await asyncio.gather(*(_everything(client) for client in clients))

            assert len(set(answers)) == 1
            assert answers[0].count(b"topic-00") == 1000
            assert heart.longest_cpu_s < LONGEST_STALL_S

    asyncio.run(story())


async def _everything(client: Client) -> bytes:
    client.writer.write(framed(header(3, 9) + b"\0\0\1\0\0\0"))
    (size,) = struct.unpack(">i", await client.reader.readexactly(4))
    return await client.reader.readexactly(size)


def test_the_answer_with_all_topics_is_made_again_once_something_has_changed() -> None:
    async def story() -> None:
        async with reigning(Shape(3, 1)) as (reign, _), connected(reign.server, LISTENER) as client:
            before = await client.ask(DescribeCluster(None), 9)
            assert isinstance(before, ClusterDescription)
            assert [topic.name for topic in before.topics] == ["topic-00000", "topic-00001", "topic-00002"]
            client.writer.write(
                framed(header(20, 1) + struct.pack(">ih", 1, 11) + b"topic-00001" + struct.pack(">i", 0))
            )
            await client.frame()

            after = await client.ask(DescribeCluster(None), 9)

            assert [topic.name for topic in after.topics] == ["topic-00000", "topic-00002"]

    asyncio.run(story())


def test_clients_that_never_read_cost_only_their_own_connections() -> None:
    async def story() -> None:
        limits = Limits(unsent_bytes=1_000_000, request_s=1.0)
        async with reigning(Shape(2000, 5), limits) as (reign, _), contextlib.AsyncExitStack() as stack:
            for _ in range(20):
                mute = await stack.enter_async_context(connected(reign.server, LISTENER))
                mute.reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio has no public way
                for _ in range(50):
                    mute.writer.write(framed(header(3, 9) + b"\0\0\1\0\0\0"))
            healthy = await stack.enter_async_context(connected(reign.server, LISTENER))
            for _ in range(10):
                await healthy.ask(ListReassignments(None))
            connections = reign.server._service.quotas
            async with asyncio.timeout(20):
                while len(connections) > 1:
                    assert connections.unsent_bytes < 3_000_000
                    await asyncio.sleep(0.05)
            await healthy.ask(ListReassignments(None))

    asyncio.run(story())


def test_idle_clients_never_keep_a_broker_from_its_own_listener() -> None:
    async def story() -> None:
        async with (
            reigning(limits=Limits(most_connections=20, most_newcomers=5)) as (reign, _),
            contextlib.AsyncExitStack() as stack,
            connected(reign.server, LISTENER) as broker,
        ):
            await broker.ask(AllocateProducerIds(BrokerId(1), BrokerEpoch(1)))
            for _ in range(60):
                await stack.enter_async_context(connected(reign.server, LISTENER))
            async with connected(reign.server, LISTENER) as another:
                await another.ask(AllocateProducerIds(BrokerId(2), BrokerEpoch(2)))
            await broker.ask(AllocateProducerIds(BrokerId(1), BrokerEpoch(1)))
            assert len(reign.server._service.quotas) <= 25

    asyncio.run(story())


def test_clients_that_hang_up_before_their_answer_displace_no_client() -> None:
    """The fuzzer's clients wait for 0.2 s; describing a topic of 65,543 partitions took longer."""
    most, wide = 20, Shape(topics=1, partitions=20_000)

    async def story() -> None:
        async with (
            reigning(wide, Limits(most_connections=most)) as (reign, _),
            connected(reign.server, LISTENER) as healthy,
        ):
            await healthy.ask(ListReassignments(None))
            for _ in range(3 * most):
                async with connected(reign.server, LISTENER) as impatient:
                    impatient.send(DescribeCluster(None), 9)
                    await asyncio.sleep(0.002)
                await healthy.ask(ListReassignments(None))

    asyncio.run(story())


def test_a_flood_of_bad_frames_is_a_few_short_lines() -> None:
    async def story() -> None:
        async with serving() as server:
            for _ in range(60):
                async with connected(server) as client:
                    client.writer.write(framed(header(3, 1, b"c" * 30_000) + b"\0\0\0\1" + b"\xff" * 50))
                    assert await client.is_hung_up_on()

    with capture_logs() as logs:
        asyncio.run(story())
    assert 1 <= len(logs) <= 6
    assert max(len(str(line)) for line in logs) < 1000


def test_an_update_of_metadata_is_acknowledged_without_keeping_it() -> None:
    async def story() -> None:
        async with serving(Limits(most_request_bytes=1000)) as server, connected(server) as client:
            native = struct.pack(">hhih", 6, 5, 7, 2) + b"me" + bytes(200_000)
            assert await client.ask_raw(native) == struct.pack(">ih", 7, 0)
            await client.ask(ApiVersionsRequest())

    asyncio.run(story())


def test_no_client_waits_for_an_answer_longer_than_five_minutes() -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as client:
            server.begin_term(desk)
            client.send(ListReassignments(None, timeout_ms=2**31 - 1))
            (asked,) = await desk.until(1)
            assert asked.request == ListReassignments(None, timeout_ms=300_000)

    asyncio.run(story())


def test_a_cause_is_logged_a_few_times_and_then_with_a_count() -> None:
    repeated = RepeatedLines(first=2, every_s=10.0)

    said = [repeated.say("a", at) for at in (0.0, 1.0, 2.0, 3.0, 10.0, 10.5, 11.0)]

    assert said == [0, 0, None, None, 2, 0, None]
    assert repeated.say("b", 3.0) == 0
    assert len(shortened("x" * 100_000)) < 350


def test_a_host_has_the_limit_of_its_name_at_each_of_its_addresses() -> None:
    assert by_address({"10.1.2.3": 5, "no such host.invalid": 7}) == {"10.1.2.3": 5}


OUT_OF_DESCRIPTORS = """
    import asyncio, resource, socket, sys, structlog
    from controller.settings.limits import Limits
    from controller.server.listener import ListenerSettings, Server
    from zk_layout.ids import BrokerId
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    async def main() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        server = Server(BrokerId(900), [ListenerSettings("A", "127.0.0.1", 0)], limits=Limits(most_connections=1000))
        await server.start()
        print(server.ports["A"], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    asyncio.run(main())
"""


def test_without_a_descriptor_left_it_waits_says_so_once_and_goes_on_when_there_is_one() -> None:
    code = textwrap.dedent(OUT_OF_DESCRIPTORS)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        async def story() -> None:
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
            await asyncio.sleep(1.5)
            for _, writer in streams:
                writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            client = Client(reader, writer)
            async with asyncio.timeout(10):
                await client.ask(ApiVersionsRequest())
            writer.transport.abort()

        asyncio.run(story())
        _, errors = process.communicate("\n", timeout=20)
    assert 1 <= errors.count("\n") <= 6, errors[-2000:]
    assert "no descriptor" in errors
    assert "Traceback" not in errors
