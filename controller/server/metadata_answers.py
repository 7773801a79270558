"""How is everybody told of the cluster without holding up whoever else wants something?

The term describes a part of the cluster at a time, other parts of the process get as much time in between, and only
one part is described at once. An answer with all topics is made once for all who wait for it, and kept while the
cluster does not change.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from controller.core.events import Asked, Event
from controller.core.replies import ClusterDescription
from controller.core.requests import Caller, DescribeCluster, ListReassignments, TopicReference
from controller.server.inquiries import Inquiries
from controller.wire.metadata_bytes import MetadataEncoder
from zk_layout.ids import TopicName

MOST_PARTITIONS = 500
MOST_NAMES = 200
FEW_NAMES = 50
MOST_KEPT = 4
_LONGEST_PAUSE_S = 0.05


class _Kept(Struct, frozen=True):
    body: bytes
    generation: int


class MetadataAnswers:
    """The bodies of Metadata answers."""

    def __init__(self, inquiries: Inquiries) -> None:
        """Nothing is kept."""
        self._inquiries = inquiries
        self._generation = 0
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._building: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._few, self._many = asyncio.Lock(), asyncio.Lock()

    def changed(self, events: Sequence[Event]) -> None:
        """The term had a turn: whatever it was told may have changed what clients see, unless they only asked."""
        if not all(isinstance(e, Asked) and isinstance(e.request, DescribeCluster | ListReassignments) for e in events):
            self._generation += 1

    def forget(self) -> None:
        """Another term begins, or none."""
        self._generation += 1
        self._kept.clear()

    async def body(self, request: DescribeCluster, version: int, caller: Caller) -> bytes:
        """The answer to a request in this version, without its header.

        Raises:
            NothingKnown: this process does not lead.
        """
        if request.topics is not None:
            return await self._of_some(request.topics, version, caller)
        key, asked_at = (caller.listener, version), self._generation
        async with self._building[key]:
            kept = self._kept.pop(key, None)
            if kept is None or kept.generation < asked_at:
                generation = self._generation
                kept = _Kept(await self._of_all(version, caller), generation)
            self._kept[key] = kept
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept.body

    async def _of_all(self, version: int, caller: Caller) -> bytes:
        encoder, pieces, count = MetadataEncoder(version), [b""], 0
        after: TopicName | None = None
        while True:
            found = await self._part(DescribeCluster(None, after, MOST_PARTITIONS), caller, encoder, pieces, self._many)
            count += len(found.topics)
            if found.is_whole:
                break
            after = found.topics[-1].name
        pieces[0] = encoder.head(found, count)
        return b"".join((*pieces, encoder.tail))

    async def _of_some(self, topics: Sequence[TopicReference], version: int, caller: Caller) -> bytes:
        encoder, pieces, done = MetadataEncoder(version), [b""], 0
        lane = self._few if len(topics) <= FEW_NAMES else self._many
        while True:
            request = DescribeCluster(tuple(topics[done : done + MOST_NAMES]), None, MOST_PARTITIONS)
            found = await self._part(request, caller, encoder, pieces, lane)
            done += len(found.topics)
            if done >= len(topics) or not found.topics:
                break
        pieces[0] = encoder.head(found, done)
        return b"".join((*pieces, encoder.tail))

    async def _part(
        self,
        request: DescribeCluster,
        caller: Caller,
        encoder: MetadataEncoder,
        pieces: list[bytes],
        lane: asyncio.Lock,
    ) -> ClusterDescription:
        async with lane:
            began = time.thread_time()
            found = await self._inquiries.ask(request, caller)
            assert isinstance(found, ClusterDescription)
            pieces.append(b"".join(encoder.topics(found.topics)))
            await asyncio.sleep(min(time.thread_time() - began, _LONGEST_PAUSE_S) if lane is self._many else 0)
        return found
