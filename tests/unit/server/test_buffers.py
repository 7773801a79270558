"""The system's memory for a connection is bounded: a container counts it as this process's."""

from __future__ import annotations

import asyncio
import socket

import pytest

from controller.server.accepting import listen
from controller.settings.limits import Limits


@pytest.mark.parametrize("option", [socket.SO_SNDBUF, socket.SO_RCVBUF])
def test_what_is_accepted_has_the_buffers_of_the_settings(option: int) -> None:
    async def size_with(limits: Limits) -> int:
        (listening,) = await listen("127.0.0.1", 0, limits)
        with listening, socket.create_connection(listening.getsockname()):
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            with accepted:
                return accepted.getsockopt(socket.SOL_SOCKET, option)

    small = asyncio.run(size_with(Limits(send_buffer_bytes=20_000, receive_buffer_bytes=20_000)))
    unbounded = asyncio.run(size_with(Limits(send_buffer_bytes=-1, receive_buffer_bytes=-1)))

    assert small == 2 * 20_000  # Linux doubles it, for its own bookkeeping
    assert unbounded > small
