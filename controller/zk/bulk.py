"""How are very many znodes read at once, without one answer growing too large?

One multi-read carries up to 1,000 paths; several are in flight. The size of an answer is not known in advance, so the
number of paths starts small and adapts to the sizes seen. Servers without the multi-read (the bridge finds out) get
single pipelined requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller.zk import protocol
from controller.zk.answers import Disconnected, Refused
from controller.zk.protocol import MultiRead, Node
from controller.zk.reads import Reads
from zk_layout.ids import Zxid

_LOSSES_TO_BLAME_IT: Final = 3
_REQUEST_BYTES: Final = 512 * 1024
_AROUND_A_PATH: Final = 14


class Hidden(Struct, frozen=True):
    """A znode that ZooKeeper does not let us read, and why."""

    reason: str


Found = tuple[Node | Hidden | None, Zxid]


class ChunkSize:
    """How many znodes to request at once, so that an answer stays near `target_bytes`.

    >>> size = ChunkSize(target_bytes=1000, most=64, first=4)
    >>> size.saw(4, 40); size.now
    8
    >>> size.saw(8, 4000); size.now
    2
    """

    def __init__(self, target_bytes: int = 1 << 20, most: int = 1000, first: int = 16) -> None:
        self._target_bytes = target_bytes
        self._most = most
        self.now = first

    def saw(self, count: int, size_bytes: int) -> None:
        """Adapt to the size of an answer: grow at most twofold, shrink at once as far as needed."""
        if count:
            fitting = self._target_bytes * count // max(size_bytes, 1)
            self.now = max(1, min(self.now * 2, fitting, self._most))


class BulkReader:
    """Reads znodes by the thousand over one bridge; repeats requests when the connection is lost."""

    def __init__(self, bridge: Reads, *, answers_in_flight: int = 4, request_bytes: int = _REQUEST_BYTES) -> None:
        """A request has at most `request_bytes`, and never more than the moderate limit."""
        self._bridge = bridge
        self._slots = asyncio.Semaphore(answers_in_flight)
        self._request_bytes = min(request_bytes, _REQUEST_BYTES)

    async def read(self, paths: Sequence[str], size: ChunkSize) -> list[Found]:
        """For each path in order: the znode, Hidden, or None, with the zxid of the answer.

        Raises:
            SessionEnded: the session has ended.
        """
        chunks: list[asyncio.Task[list[Found]]] = []
        at = 0
        try:
            while at < len(paths):
                await self._slots.acquire()
                chunk = self._cut(paths, at, size.now)
                at += len(chunk)
                chunks.append(asyncio.create_task(self._read_chunk(chunk, size)))
            return [found for chunk_read in await asyncio.gather(*chunks) for found in chunk_read]
        finally:
            for task in chunks:
                task.cancel()

    def _cut(self, paths: Sequence[str], at: int, count: int) -> Sequence[str]:
        chunk = paths[at : at + count]
        if sum(map(len, chunk)) + _AROUND_A_PATH * len(chunk) <= self._request_bytes:
            return chunk
        size = 0
        for taken, path in enumerate(chunk):
            size += len(path) + _AROUND_A_PATH
            if size > self._request_bytes and taken:
                return chunk[:taken]
        return chunk

    async def _read_chunk(self, paths: Sequence[str], size: ChunkSize) -> list[Found]:
        try:
            found = await self._chunk(paths)
        finally:
            self._slots.release()
        size.saw(len(paths), sum(len(node.data) + 80 for node, _ in found if isinstance(node, Node)))
        return found

    async def _chunk(self, paths: Sequence[str]) -> list[Found]:
        losses = 0
        # The size of this very answer may be what makes the server hang up each time.
        while self._bridge.knows_multi_read is not False and losses < _LOSSES_TO_BLAME_IT:
            try:
                reply = await self._bridge.ask(MultiRead([self._bridge.full(path) for path in paths]))
            except Disconnected:
                losses += 1
                await asyncio.sleep(0.01)
                continue
            if reply.code != protocol.OK:
                break  # the whole request was refused: single reads show which znodes are
            zxid, answers = reply.zxid, zip(paths, reply.value, strict=True)
            return [(node if isinstance(node, Node) else _without(path, node), zxid) for path, node in answers]
        return await self._single_reads(paths)

    async def _single_reads(self, paths: Sequence[str]) -> list[Found]:
        return list(await asyncio.gather(*(read_one(self._bridge, path) for path in paths)))


def _without(path: str, code: int) -> Hidden | None:
    return None if code == protocol.NO_NODE else Hidden(str(Refused(path, code)))


async def read_one(bridge: Reads, path: str, *, watch: bool = False) -> Found:
    """A znode, Hidden, or None. Only a readable znode gets a watch.

    Raises:
        SessionEnded: the session has ended.
    """
    try:
        return await bridge.get(path, watch=watch)
    except Refused as error:
        return Hidden(str(error)), Zxid(0)
