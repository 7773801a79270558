"""Messages over TLS arrive as they were sent; a client that does not speak TLS learns so and costs nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from controller.connections.frame_socket import FrameSocket
from controller.connections.wires import TlsWire
from tests.unit.connections.certificates import clients, make_identity, servers

LARGE = bytes(range(256)) * 8_000  # two megabytes


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_identity(tmp_path_factory.mktemp("identity") / "identity.pem")


class Ends:
    """A server's socket, and the sockets of its clients."""

    def __init__(self, listening: socket.socket) -> None:
        self.address = listening.getsockname()
        self._listening = listening

    async def accepted(self, context: ssl.SSLContext) -> tuple[FrameSocket, TlsWire]:
        """The server's end of the next connection, not yet open."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        frames = FrameSocket(connection, partial(TlsWire, context=context))
        assert isinstance(frames.wire, TlsWire)
        return frames, frames.wire


@asynccontextmanager
async def listening() -> AsyncIterator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield Ends(server)


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_messages_go_both_ways_at_once(identity: Path, newest: ssl.TLSVersion) -> None:
    async def story() -> None:
        async with listening() as ends:
            client = asyncio.create_task(asyncio.open_connection(*ends.address, ssl=clients(identity, newest)))
            frames, wire = await ends.accepted(servers(identity))
            await wire.open()
            reader, writer = await client
            writer.write(framed(b"hello") + framed(LARGE))
            sending = asyncio.create_task(frames.send(LARGE, b"end", patience_s=5.0))

            assert await frames.size(1 << 24) == 5
            assert await frames.bytes_of(5) == b"hello"
            assert await frames.size(1 << 24) == len(LARGE)
            assert await frames.bytes_of(len(LARGE)) == LARGE
            assert await reader.readexactly(len(LARGE) + 3) == LARGE + b"end"
            await sending
            assert wire.how[0] == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[newest.name]
            assert wire.certificate is None
            writer.close()
            assert await frames.size(1 << 24) is None
            frames.close()

    asyncio.run(story())


def test_a_client_shows_who_it_is(identity: Path) -> None:
    async def story() -> None:
        async with listening() as ends:
            context = clients(identity, shows_it=True)
            client = asyncio.create_task(asyncio.open_connection(*ends.address, ssl=context))
            frames, wire = await ends.accepted(servers(identity, ssl.CERT_REQUIRED))
            await wire.open()
            assert wire.certificate is not None
            assert x509.load_der_x509_certificate(wire.certificate).subject.rfc4514_string() == "CN=ann"
            (await client)[1].close()
            frames.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (framed(b"\0\x12\0\0\0\0\0\1"), ssl.SSLError),  # a client of a PLAINTEXT listener
        (b"GET / HTTP/1.1\r\n\r\n", ssl.SSLError),
        (b"\x16\3\1", ConnectionResetError),  # and hangs up
        (b"", ConnectionResetError),
    ],
)
def test_who_does_not_shake_hands_is_an_error(identity: Path, greeting: bytes, error: type[Exception]) -> None:
    async def story() -> None:
        async with listening() as ends:
            _, writer = await asyncio.open_connection(*ends.address)
            frames, wire = await ends.accepted(servers(identity))
            writer.write(greeting)
            writer.write_eof()
            with pytest.raises(error):
                await wire.open()
            frames.close()
            writer.close()

    asyncio.run(story())


def test_a_client_without_the_required_certificate_learns_why(identity: Path) -> None:
    async def story() -> None:
        async with listening() as ends:
            client = asyncio.create_task(asyncio.open_connection(*ends.address, ssl=clients(identity)))
            frames, wire = await ends.accepted(servers(identity, ssl.CERT_REQUIRED))
            with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
                await wire.open()
            frames.close()
            reader, writer = await client
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                await reader.read(1)
            writer.close()

    asyncio.run(story())
