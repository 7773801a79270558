"""A small message is written at once, a large one in slices; both arrive whole."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from controller.connections.framing import FrameStream


class Writer:
    """Keeps every write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    async def drain(self) -> None: ...


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([30, 200], [230]),
        ([30, 16 * 1024 - 30], [16 * 1024]),
        ([30, 16 * 1024 - 29], [30, 16 * 1024 - 29]),
        ([30, 600 * 1024], [30, 256 * 1024, 256 * 1024, 88 * 1024]),
    ],
)
def test_small_chunks_travel_together(sizes: list[int], expected: list[int]) -> None:
    writer = Writer()
    chunks = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    stream = FrameStream(cast(asyncio.StreamReader, None), cast(asyncio.StreamWriter, writer), 1)

    asyncio.run(stream.send(*chunks))

    assert [len(write) for write in writer.writes] == expected
    assert b"".join(writer.writes) == b"".join(chunks)
