"""A request gets its own answer or an error, in time, and a connection in doubt is never used again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection, Ended, Unreachable
from controller.lab.listening import MessageServer
from controller.lab.ports import free_port
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.frames import framed
from controller.wire.replies import encode_api_versions
from controller.wire.requests import decode_header
from zk_layout.znodes.brokers import Endpoint

Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def request(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", ApiKey.METADATA, 0, correlation_id, -1), body)


async def echo(frame: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(framed(frame[4:8], frame))


async def never(frame: bytes, writer: asyncio.StreamWriter) -> None: ...


@contextlib.asynccontextmanager
async def connected(answering: Answering) -> AsyncIterator[tuple[BrokerConnection, MessageServer]]:
    server = MessageServer(answering)
    await server.start()
    connection = BrokerConnection(PlaintextDialer(), Endpoint("INSIDE", "127.0.0.1", server.port))
    try:
        yield connection, server
    finally:
        connection.drop()
        await server.stop()


def test_requests_in_several_chunks_are_answered_over_one_connection() -> None:
    async def story() -> None:
        async with connected(echo) as (connection, server):
            for number in (1, 2, 3):
                sent = request(number, bytes(1_000_000))
                answer = await connection.ask(sent[:20], sent[20:], timeout_s=5)
                assert answer == sent[8:12] + sent[4:]
            assert server.connections == 1

    asyncio.run(story())


@pytest.mark.parametrize("error", [RuntimeError("x"), EOFError(), LookupError("no such codec"), RecursionError()])
def test_whatever_a_dialer_meets_the_broker_is_unreachable(error: Exception) -> None:
    class Odd(PlaintextDialer):
        async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            raise error

    async def story() -> None:
        with pytest.raises(Unreachable, match=str(error) or type(error).__name__):
            await BrokerConnection(Odd(), Endpoint("INSIDE", "127.0.0.1", 1)).ask(request(1), timeout_s=5)

    asyncio.run(story())


def test_a_broker_that_cannot_be_reached_is_distinguished_from_one_that_is_lost() -> None:
    async def hang_up(frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        raise ConnectionResetError

    async def story() -> None:
        nowhere = BrokerConnection(PlaintextDialer(), Endpoint("INSIDE", "127.0.0.1", free_port()))
        with pytest.raises(Unreachable, match="Connect call failed"):
            await nowhere.ask(request(1), timeout_s=5)
        async with connected(hang_up) as (connection, _):
            with pytest.raises(Ended):
                await connection.ask(request(1), timeout_s=5)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("host", "port"), [("a..b", 9092), ("x" * 64 + ".org", 9092), ("a\0b", 9092), ("127.0.0.1", -1)]
)
def test_an_address_that_can_be_none_is_not_reached(host: str, port: int) -> None:
    connection = BrokerConnection(PlaintextDialer(), Endpoint("INSIDE", host, port))

    with pytest.raises(Unreachable, match="INSIDE"):
        asyncio.run(connection.ask(request(1), timeout_s=5))


def test_connecting_has_its_own_time() -> None:
    class Slow(PlaintextDialer):
        async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            await asyncio.sleep(60)
            raise AssertionError

    async def story() -> None:
        connection = BrokerConnection(Slow(), Endpoint("INSIDE", "h", 1))
        with pytest.raises(Unreachable, match=r"no connection to .* within 0\.01 s"):
            await connection.ask(request(1), timeout_s=0.01)

    asyncio.run(story())


def test_after_a_missing_answer_the_next_request_goes_over_another_connection() -> None:
    async def mute_once(frame: bytes, writer: asyncio.StreamWriter) -> None:
        if decode_header(frame).correlation_id != 1:
            await echo(frame, writer)

    async def story() -> None:
        async with connected(mute_once) as (connection, server):
            with pytest.raises(Broken, match=r"no answer from .* within 0\.05 s"):
                await connection.ask(request(1), timeout_s=0.05)
            await connection.ask(request(2), timeout_s=5)
            assert server.connections == 2

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (framed(struct.pack(">i", 7)), "has correlation id 7, the request 1"),
        (framed(b"no"), "2 bytes"),
        (struct.pack(">i", 2**31 - 1), "announces 2147483647 bytes"),
    ],
)
def test_an_answer_that_cannot_be_right_breaks_the_connection(answer: bytes, why: str) -> None:
    async def garble(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def story() -> None:
        async with connected(garble) as (connection, _):
            with pytest.raises(Broken, match=why):
                await connection.ask(request(1), timeout_s=5)

    asyncio.run(story())


def test_a_cancellation_that_arrives_with_the_answer_is_not_swallowed_and_drops_the_connection() -> None:
    readers: list[asyncio.StreamReader] = []

    class Tapped(PlaintextDialer):
        async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await super().open_connection(endpoint)
            readers.append(reader)
            return reader, writer

    async def story() -> None:
        async with connected(never) as (_, server):
            connection = BrokerConnection(Tapped(), Endpoint("INSIDE", "127.0.0.1", server.port))
            asking = asyncio.create_task(connection.ask(request(1), timeout_s=5))
            while not readers:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)

            readers[0].feed_data(framed(struct.pack(">i", 1)))
            asking.cancel()

            with pytest.raises(asyncio.CancelledError):
                await asking
            with pytest.raises(Broken):
                await connection.ask(request(2), timeout_s=0.01)
            assert len(readers) == 2

    asyncio.run(story())


async def _echo_then_close(frame: bytes, writer: asyncio.StreamWriter) -> None:
    await echo(frame, writer)
    writer.close()


async def _echo_then_reset(frame: bytes, writer: asyncio.StreamWriter) -> None:
    await echo(frame, writer)
    await writer.drain()
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    asyncio.get_running_loop().call_later(0.01, writer.transport.abort)


async def _echo_twice(frame: bytes, writer: asyncio.StreamWriter) -> None:
    await echo(frame, writer)
    asyncio.get_running_loop().call_later(0.01, writer.write, framed(frame[4:8], frame))


@pytest.mark.parametrize("answering", [_echo_then_close, _echo_then_reset, _echo_twice])
def test_the_end_of_a_connection_is_noticed_between_requests_and_the_next_goes_over_another(
    answering: Answering,
) -> None:
    async def story() -> None:
        async with connected(answering) as (connection, server):
            clock = asyncio.get_running_loop().time
            for number in (1, 2):
                await connection.ask(request(number), timeout_s=5)
                began = clock()
                assert await connection.ends_within(5.0)
                assert clock() - began < 4.0
                assert not connection.is_open
                assert server.connections == number

    asyncio.run(story())


def test_a_connection_that_lasts_is_waited_for_in_vain_and_answers_the_next_request() -> None:
    async def story() -> None:
        async with connected(echo) as (connection, server):
            clock = asyncio.get_running_loop().time
            for number in (1, 2, 3):
                began = clock()
                assert not await connection.ends_within(0.05)
                assert clock() - began >= 0.04
                await connection.ask(request(number), timeout_s=5)
            assert server.connections == 1

    asyncio.run(story())


def test_who_stops_waiting_for_the_end_of_a_connection_can_still_use_it() -> None:
    async def story() -> None:
        async with connected(echo) as (connection, server):
            await connection.ask(request(1), timeout_s=5)
            waiting = asyncio.create_task(connection.ends_within(30.0))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await connection.ask(request(2), timeout_s=5)
            assert server.connections == 1

    asyncio.run(story())


def test_a_retired_connection_opens_no_other() -> None:
    async def story() -> None:
        async with connected(echo) as (connection, _):
            await connection.ask(request(1), timeout_s=5)
            connection.retire()
            with pytest.raises(Broken, match="no longer the broker's address"):
                await connection.ask(request(2), timeout_s=5)

    asyncio.run(story())


def test_a_broker_says_what_it_answers() -> None:
    async def introduce(frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_api_versions(decode_header(frame), {4: VersionRange(0, 7)}))

    async def story() -> None:
        async with connected(introduce) as (connection, _):
            assert await connection.versions(5) == {4: VersionRange(0, 7)}
        async with connected(echo) as (connection, _):
            with pytest.raises(Broken, match="does not report its versions"):
                await connection.versions(5)

    asyncio.run(story())


def test_correlation_ids_begin_again_before_they_become_negative() -> None:
    connection = BrokerConnection(PlaintextDialer(), Endpoint("INSIDE", "h", 1))
    assert [connection.next_correlation_id(count) for count in (1, 2, 1)] == [1, 2, 4]
    connection.next_correlation_id(2**31 - 7)

    last = [connection.next_correlation_id(2) for _ in range(3)]

    assert all(first > 0 and first + 1 < 2**31 for first in last)
    assert 1 in last
