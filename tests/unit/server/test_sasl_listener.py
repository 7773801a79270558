"""A listener with logins: no request before one, and then every request is the user's."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from controller.core.clients.authorization import Authorizer, anybody
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked
from controller.core.messages.replies import ReassignmentsListed
from controller.core.messages.requests import ListReassignments
from controller.security.login import Login
from controller.server.listener import ListenerSettings
from controller.server.service import ListenerAccess
from controller.settings.limits import Limits
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader, framed
from controller.wire.requests import ApiVersionsRequest
from controller.wire.sasl import (
    AuthenticateResponse,
    decode_authenticate_answer,
    decode_handshake_answer,
    encode_authenticate,
    encode_handshake,
)
from tests.unit.connections.certificates import clients, make_identity, servers
from tests.unit.security.given import PASSWORD, Clock, login
from tests.unit.server.clients import Client, Desk, connected, serving
from tests.unit.server.test_relay import askable, brokers
from tests.unit.server.test_relay import asked as asked_broker
from tests.unit.server.test_tls_listener import Tls

ANN, MALLORY = f"\0ann\0{PASSWORD}".encode(), b"\0ann\0guessed"
FAILED = "Authentication failed: Invalid username or password"


def guarded(make_login: Callable[[], Login] = login, tls: Tls | None = None) -> list[ListenerSettings]:
    return [ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=ListenerAccess(tls, make_login))]


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, tuple[str, ...]]:
    header = RequestHeader(ApiKey.SASL_HANDSHAKE, version, 7, "a test")
    client.writer.write(encode_handshake(header, mechanism))
    answer = decode_handshake_answer(version, await client.frame())
    return answer.error, answer.mechanisms


async def authenticate(client: Client, token: bytes, version: int = 2) -> AuthenticateResponse:
    header = RequestHeader(ApiKey.SASL_AUTHENTICATE, version, 8, "a test")
    client.writer.write(encode_authenticate(header, token))
    return decode_authenticate_answer(version, await client.frame())


def asked_of(story: Callable[[Any, Desk], Any], listeners: list[ListenerSettings]) -> list[Asked]:
    """The requests that reach a term during a story."""
    desk = Desk()

    async def whole() -> None:
        async with serving(listeners=listeners) as server:
            server.begin_term(desk.asked.append)
            await story(server, desk)

    asyncio.run(whole())
    return desk.asked


async def listed(client: Client, server: Any, desk: Desk) -> None:
    header = client.send(ListReassignments(None))
    desk.answer(server, (await desk.until(len(desk.asked) + 1))[-1], ReassignmentsListed())
    assert await client.receive(header) == ReassignmentsListed()


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_who_has_logged_in_is_who_asks(is_encrypted: bool, tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem") if is_encrypted else None
    tls = None if identity is None else Tls(servers(identity))

    async def story(server: Any, desk: Desk) -> None:
        async with connected(server, tls=None if identity is None else clients(identity)) as client:
            assert (await client.ask(ApiVersionsRequest("a-test", "1"), 3)).ranges[ApiKey.SASL_HANDSHAKE].highest == 1
            assert await handshake(client) == (0, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))
            assert (await authenticate(client, ANN)).error == ErrorCode.NONE
            await listed(client, server, desk)

    (asked,) = asked_of(story, guarded(tls=tls))

    assert (asked.caller.principal, asked.caller.listener) == ("User:ann", "OUTSIDE")


def test_clients_before_kip_152_send_bare_tokens() -> None:
    async def story(server: Any, desk: Desk) -> None:
        async with connected(server) as client:
            assert (await handshake(client, version=0))[0] == ErrorCode.NONE
            assert await client.ask_raw(ANN) == b""
            await listed(client, server, desk)

    (asked,) = asked_of(story, guarded())

    assert asked.caller.principal == "User:ann"


def test_a_wrong_password_is_answered_late_and_ends_the_connection() -> None:
    async def story(server: Any, _: Desk) -> None:
        async with connected(server) as client:
            await handshake(client)
            began = asyncio.get_running_loop().time()
            refused = await authenticate(client, MALLORY)
            assert asyncio.get_running_loop().time() - began >= 0.1
            assert (refused.error, refused.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
            assert await client.is_hung_up_on()
        async with connected(server) as client:
            await handshake(client, version=0)
            client.writer.write(framed(MALLORY))
            assert await client.is_hung_up_on()

    with capture_logs() as logs:
        assert not asked_of(story, guarded())

    assert not [line for line in logs if "guessed" in str(line) or PASSWORD in str(line)]
    assert [line for line in logs if "closed" in line["event"]]


@pytest.mark.parametrize(
    "says",
    [
        lambda client: client.send(ListReassignments(None)),
        lambda client: client.writer.write(encode_authenticate(RequestHeader(36, 2, 1, "x"), ANN)),
        lambda client: client.writer.write(framed(b"")),
        lambda client: client.writer.write(framed(bytes(600_000))),
        lambda client: client.writer.write(framed(b"\0\6" + bytes(10_000))),  # UpdateMetadata
    ],
    ids=["a question", "a token without a mechanism", "nothing", "too much", "a command"],
)
def test_nothing_is_answered_before_a_login(says: Callable[[Client], object]) -> None:
    async def story(server: Any, _: Desk) -> None:
        async with connected(server) as client:
            says(client)
            assert await client.is_hung_up_on()

    assert not asked_of(story, guarded())


@pytest.mark.parametrize(("most", "is_let_in"), [(1000, False), (2000, True)])
def test_how_much_may_be_said_before_a_login_is_set_for_each_listener(most: int, is_let_in: bool) -> None:
    async def story(server: Any, _: Desk) -> None:
        async with connected(server) as client:
            await handshake(client)
            header = RequestHeader(ApiKey.SASL_AUTHENTICATE, 2, 8, "x" * 1000)
            client.writer.write(encode_authenticate(header, ANN))
            if is_let_in:
                assert decode_authenticate_answer(2, await client.frame()).error == ErrorCode.NONE
            else:
                assert await client.is_hung_up_on()

    access = ListenerAccess(login=login, most_login_bytes=most)
    assert not asked_of(story, [ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=access)])


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.SASL_HANDSHAKE, 2), (ApiKey.SASL_AUTHENTICATE, 3), (ApiKey.SASL_AUTHENTICATE, -1)]
)
@pytest.mark.parametrize("is_again", [False, True])
def test_a_login_in_a_version_that_no_broker_knows_ends_the_connection(
    key: ApiKey, version: int, is_again: bool
) -> None:
    clock = Clock()

    async def story(server: Any, _: Desk) -> None:
        async with connected(server) as client:
            await handshake(client)
            if is_again:
                assert (await authenticate(client, ANN)).error == ErrorCode.NONE
                clock.ms += 2_000
                await handshake(client)
            header = RequestHeader(key, version, 9, "a test")
            whole = encode_handshake(header, "PLAIN") if key == ApiKey.SASL_HANDSHAKE else odd(header, ANN)
            client.writer.write(whole)
            assert await client.is_hung_up_on()

    assert not asked_of(story, guarded(partial(login, clock=clock)))


def odd(header: RequestHeader, token: bytes) -> bytes:
    """SaslAuthenticate with a version of its own, laid out as version 2 or 0."""
    sane = structs.replace(header, api_version=2 if header.api_version > 0 else 0)
    whole = encode_authenticate(sane, token)
    return whole[:6] + struct.pack(">h", header.api_version) + whole[8:]


def test_nothing_else_is_answered_during_a_login() -> None:
    async def story(server: Any, _: Desk) -> None:
        for request in (ListReassignments(None), ApiVersionsRequest()):
            async with connected(server) as client:
                await handshake(client, "SCRAM-SHA-256")
                client.send(request)
                assert await client.is_hung_up_on()

    assert not asked_of(story, guarded())


def test_another_mechanism_is_refused_with_those_that_there_are() -> None:
    async def story(server: Any, _: Desk) -> None:
        async with connected(server) as client:
            error, mechanisms = await handshake(client, "GSSAPI")
            assert (error, mechanisms[0]) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "PLAIN")
            assert await client.is_hung_up_on()

    assert not asked_of(story, guarded())


def test_a_login_that_counts_no_more_must_be_repeated() -> None:
    clock = Clock()

    async def story(server: Any, desk: Desk) -> None:
        async with connected(server) as client:
            await handshake(client)
            assert (await authenticate(client, ANN)).session_lifetime_ms == 300
            await listed(client, server, desk)
            clock.ms += 2_000
            assert (await handshake(client))[0] == ErrorCode.NONE
            assert (await authenticate(client, ANN)).error == ErrorCode.NONE
            await listed(client, server, desk)
            await asyncio.sleep(0.4)
            client.send(ListReassignments(None))
            assert await client.is_hung_up_on()

    asked = asked_of(story, guarded(partial(login, max_reauth_ms=300, clock=clock)))

    assert [a.caller.principal for a in asked] == ["User:ann"] * 2


def test_delegation_tokens_are_not_asked_for_on_behalf_of_another_user() -> None:
    """The broker would take this process for the owner, and the token would be its own."""

    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()]), listeners=guarded()) as server,
            connected(server) as client,
        ):
            await handshake(client)
            assert (await authenticate(client, ANN)).error == ErrorCode.NONE
            assert await asked_broker(client, 5) == 1

            client.writer.write(framed(struct.pack(">hhih", 41, 0, 6, -1) + b"\xff\xff\xff\xff"))
            assert await client.is_hung_up_on()

    asyncio.run(story())


def test_logins_wait_until_users_are_known() -> None:
    async def story() -> None:
        known = asyncio.Event()
        listeners = [ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=ListenerAccess(None, login, known.wait))]
        async with serving(listeners=listeners) as server, connected(server) as client:
            await client.ask(ApiVersionsRequest())
            shaking = asyncio.create_task(handshake(client))
            await asyncio.sleep(0.1)
            assert not shaking.done()

            known.set()

            assert (await shaking)[0] == ErrorCode.NONE
            assert (await authenticate(client, ANN)).error == ErrorCode.NONE

    asyncio.run(story())


def test_who_waits_too_long_for_users_to_be_known_is_hung_up_on_and_not_refused() -> None:
    async def story() -> None:
        listeners = [
            ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=ListenerAccess(None, login, asyncio.Event().wait))
        ]
        async with serving(Limits(request_s=0.1), listeners=listeners) as server, connected(server) as client:
            client.writer.write(encode_handshake(RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 7, "a test"), "PLAIN"))
            assert await client.is_hung_up_on()

    asyncio.run(story())


ALTER_PARTITION = b"\0\x38"


def crowded(is_allowed: Authorizer, *before: Callable[[Client], Any]) -> bool:
    """Whether a broker is still admitted on its listener when clients that do this occupy every place."""
    inside = [ListenerSettings("INSIDE", "127.0.0.1", 0, access=ListenerAccess(None, login))]
    limits, rights = Limits(most_connections=2), askable([], is_allowed=is_allowed)

    async def story() -> bool:
        async with (
            serving(limits, rights, inside, "INSIDE") as server,
            connected(server, "INSIDE") as first,
            connected(server, "INSIDE") as second,
        ):
            for client in (first, second):
                for step in before:
                    await step(client)
                client.writer.write(struct.pack(">i", 100) + ALTER_PARTITION)
            await asyncio.sleep(0.05)
            async with connected(server, "INSIDE") as broker:
                try:
                    await log_in(broker)
                    await broker.ask(ApiVersionsRequest())
                except (AssertionError, ConnectionResetError):
                    return False
                return True

    return asyncio.run(story())


async def log_in(client: Client) -> None:
    await handshake(client)
    assert (await authenticate(client, ANN)).error == ErrorCode.NONE


def test_who_only_says_that_it_is_a_broker_keeps_no_broker_out() -> None:
    assert crowded(anybody)
    assert crowded(lambda *_: False, log_in)
    assert not crowded(lambda *_: True, log_in)  # those are brokers, and the limit is too low


def test_who_has_not_logged_in_goes_before_a_client_that_has() -> None:
    listeners = [
        ListenerSettings(name, "127.0.0.1", 0, access=ListenerAccess(None, login)) for name in ("INSIDE", "OUTSIDE")
    ]

    async def story() -> None:
        async with (
            serving(Limits(most_connections=2), None, listeners, "INSIDE") as server,
            connected(server) as ann,
            connected(server) as stranger,
        ):
            await log_in(ann)
            await stranger.ask(ApiVersionsRequest())
            async with connected(server, "INSIDE") as broker:
                await log_in(broker)
                assert await stranger.is_hung_up_on()
                await handshake(ann)  # still answered

    asyncio.run(story())


@pytest.mark.parametrize(("size", "is_read"), [(500_000, True), (600_000, False)])
def test_strangers_are_not_listened_to_for_long(size: int, is_read: bool) -> None:
    """Also when it asks for the versions, which any client may."""

    async def story() -> None:
        async with serving(listeners=guarded()) as server, connected(server) as client:
            client.writer.write(struct.pack(">ihhih", size, ApiKey.API_VERSIONS, 0, 1, -1))
            if is_read:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await client.reader.read(1)
            else:
                assert await client.is_hung_up_on()

    asyncio.run(story())


def test_strangers_on_the_listener_of_brokers_displace_no_client_that_has_logged_in() -> None:
    listeners = [
        ListenerSettings(name, "127.0.0.1", 0, access=ListenerAccess(None, login)) for name in ("INSIDE", "OUTSIDE")
    ]
    most, strangers = 10, 40

    async def story() -> int:
        limits = Limits(most_connections=most, most_newcomers=4)
        async with serving(limits, None, listeners, "INSIDE") as server, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(server)) for _ in range(most)]
            for client in clients:
                await log_in(client)
            for _ in range(strangers):
                await stack.enter_async_context(connected(server, "INSIDE"))
            left = 0
            for client in clients:
                with contextlib.suppress(AssertionError, ConnectionResetError):
                    await handshake(client)
                    left += 1
            return left

    assert asyncio.run(story()) == most


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS])
def test_memory_before_logins_is_bounded_in_sum_and_keeps_no_login_waiting(key: ApiKey) -> None:
    strangers, most_bytes = 200, 16 * 2**20

    async def story() -> float:
        async with serving(Limits(queued_bytes=most_bytes), listeners=guarded()) as server:
            before, opened = resident_mib(), []
            with contextlib.ExitStack() as stack:
                for _ in range(strangers):
                    opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.ports["OUTSIDE"]))))
                    opened[-1].setblocking(False)
                    opened[-1].send(struct.pack(">ihhih", 500_000, key, 0, 1, -1))
                for _ in range(40):
                    for stranger in opened:
                        # On a slow machine the server hangs up on messages that take too long while others wait.
                        with contextlib.suppress(BlockingIOError, ConnectionError):
                            stranger.send(bytes(12_000))
                    await asyncio.sleep(0.01)
                async with asyncio.timeout(5), connected(server) as client:
                    await log_in(client)
                return resident_mib() - before

    assert asyncio.run(story()) < 40, "a quarter of 16 MiB for their messages, and what connections cost"
