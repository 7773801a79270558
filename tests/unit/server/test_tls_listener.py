"""A listener with TLS: who is there, and what happens to clients that do not speak it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from controller.core.messages.events import Asked
from controller.core.messages.replies import ReassignmentsListed
from controller.core.messages.requests import ListReassignments
from controller.runtime.supervision import Troubles
from controller.server.listener import ListenerSettings, Server
from controller.server.service import ListenerAccess
from controller.settings.limits import Limits
from controller.wire.frames import framed
from controller.wire.requests import ApiVersionsRequest
from tests.unit.connections.certificates import clients, make_identity, servers
from tests.unit.server.clients import Desk, connected, serving


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_identity(tmp_path_factory.mktemp("identity") / "identity.pem")


class Tls:
    """One context for all, and the whole name of a certificate as a principal."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def context(self) -> ssl.SSLContext:
        return self._context

    def principal(self, certificate: bytes) -> str:
        return f"User:{x509.load_der_x509_certificate(certificate).subject.rfc4514_string()}"

    def reason(self, error: ssl.SSLError) -> str:
        return str(error.reason)


def secured(identity: Path, verify: ssl.VerifyMode = ssl.CERT_OPTIONAL) -> list[ListenerSettings]:
    return [ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=ListenerAccess(Tls(servers(identity, verify))))]


def test_a_client_is_who_its_certificate_says_and_anonymous_without_one(identity: Path) -> None:
    async def story() -> list[Asked]:
        desk = Desk()
        async with serving(listeners=secured(identity)) as server:
            server.begin_term(desk.asked.append)
            for shows_it in (True, False):
                async with connected(server, tls=clients(identity, shows_it=shows_it)) as client:
                    header = client.send(ListReassignments(None))
                    asked = (await desk.until(len(desk.asked) + 1))[-1]
                    desk.answer(server, asked, ReassignmentsListed())
                    assert await client.receive(header) == ReassignmentsListed()
        return desk.asked

    known, stranger = asyncio.run(story())

    assert (known.caller.principal, stranger.caller.principal) == ("User:CN=ann", "User:ANONYMOUS")
    assert known.caller.address == "127.0.0.1"


def test_plain_text_is_hung_up_on_and_said(identity: Path) -> None:
    async def story() -> None:
        async with serving(listeners=secured(identity)) as server:
            for _ in range(3):
                async with connected(server) as client:
                    client.writer.write(framed(b"\0\x12\0\0\0\0\0\1\xff\xff"))
                    assert await client.is_hung_up_on()
            async with connected(server, tls=clients(identity)) as client:
                client.writer.write(framed(b"\0\x12\0\0\0\0\0\1\xff\xff"))
                assert await client.frame()

    with capture_logs() as logs:
        asyncio.run(story())

    said = {(line["event"], line["reason"], line["listener"]) for line in logs}
    assert said == {("TLS handshake failed", "WRONG_VERSION_NUMBER", "OUTSIDE")}


def test_who_says_nothing_is_given_up(identity: Path) -> None:
    async def story() -> None:
        async with serving(Limits(request_s=0.2), listeners=secured(identity)) as server, connected(server) as client:
            with pytest.raises(ConnectionResetError):
                await client.reader.read(1)

    asyncio.run(story())


class Refusing(Tls):
    """A context that fails for the first connections."""

    def __init__(self, context: ssl.SSLContext, refusals: int) -> None:
        super().__init__(context)
        self.refusals = refusals

    def context(self) -> ssl.SSLContext:
        if self.refusals:
            self.refusals -= 1
            raise ssl.SSLError(1, "[SSL: EE_KEY_TOO_SMALL] ee key too small")
        return super().context()


def test_a_listener_accepts_again_after_whatever_kept_it_from_that_and_is_not_ready_meanwhile(identity: Path) -> None:
    tls, troubles = Refusing(servers(identity), 2), Troubles()

    async def story() -> None:
        async with serving(
            listeners=[ListenerSettings("OUTSIDE", "127.0.0.1", 0, access=ListenerAccess(tls))]
        ) as server:
            server.report_to(troubles)
            for _ in range(2):
                with pytest.raises(OSError):
                    async with connected(server, tls=clients(identity)):
                        pass
                assert server.cannot_accept
            assert "listener OUTSIDE: a connection cannot be accepted: SSLError" in troubles.now()[0]
            async with asyncio.timeout(5), connected(server, tls=clients(identity)) as client:
                await client.ask(ApiVersionsRequest())
            assert not server.cannot_accept
            assert troubles.now() == ()

    asyncio.run(story())


def test_brokers_on_their_own_listener_do_not_wait_for_the_handshakes_of_strangers(identity: Path) -> None:
    async def story() -> None:
        access, is_over = ListenerAccess(Tls(servers(identity))), threading.Event()
        listeners = [ListenerSettings(name, "127.0.0.1", 0, access=access) for name in ("INSIDE", "OUTSIDE")]
        async with serving(listeners=listeners, inter_broker_listener="INSIDE") as server:
            server._service.handshakes.submit(is_over.wait)  # as many expensive ones
            try:
                stranger = asyncio.create_task(shaken(server, "OUTSIDE"))
                async with asyncio.timeout(5):
                    await shaken(server, "INSIDE")
                assert not stranger.done()
            finally:
                is_over.set()
            await stranger

    async def shaken(server: Server, listener: str) -> None:
        async with connected(server, listener, clients(identity)):
            pass

    asyncio.run(story())


def mutated_hellos(count: int) -> list[bytes]:
    """A client's first message, broken in all kinds of ways."""
    chance, leaving = random.Random(20), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="x").do_handshake()
    hello = leaving.read()
    found = []
    for _ in range(count):
        broken = bytearray(hello)
        for _ in range(chance.randrange(1, 20)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        found += [bytes(broken), hello + chance.randbytes(2000), chance.randbytes(2000), hello[: len(hello) // 2]]
    return found


def test_what_is_no_handshake_costs_only_its_own_connection(identity: Path) -> None:
    async def story() -> None:
        async with (
            serving(Limits(request_s=4.0), listeners=secured(identity)) as server,
            connected(server, tls=clients(identity)) as before,
        ):
            async with asyncio.TaskGroup() as strangers:
                for hello in mutated_hellos(25):
                    strangers.create_task(hung_up_on(server, hello))
            async with connected(server, tls=clients(identity)) as after:
                for client in (before, after):
                    client.writer.write(framed(b"\0\x12\0\0\0\0\0\1\xff\xff"))
                    assert await client.frame()

    async def hung_up_on(server: Server, hello: bytes) -> None:
        async with connected(server) as client:
            client.writer.write(hello)
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(10):
                    await client.reader.read()

    with capture_logs() as logs:
        asyncio.run(story())

    assert not [line for line in logs if line["log_level"] == "error"]


def test_no_second_handshake_on_the_same_connection(identity: Path) -> None:
    """Up to TLS 1.2 a client could repeat it at the server's expense."""

    async def story() -> None:
        async with serving(listeners=secured(identity)) as server:
            command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{server.ports['OUTSIDE']}"]
            client = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            assert client.stdin is not None
            assert client.stderr is not None
            client.stdin.write(b"R\n")
            async with asyncio.timeout(20):
                while b"no renegotiation" not in (line := await client.stderr.readline()):
                    assert line, "the client ended before"
            client.stdin.close()
            await client.wait()

    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    asyncio.run(story())
