"""How is everybody told of the cluster without holding up whoever else wants something?

The term describes a part of the cluster at a time, other parts of the process get as much time in between, and only
one large part is described at once. An answer with all topics is made once for all who wait for it, one at a time, and
kept while the cluster does not change. Who has hung up while it waited is forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, Event
from controller.core.messages.replies import ClusterDescription, TopicMetadata
from controller.core.messages.requests import Caller, DescribeCluster, ListReassignments, TopicReference
from controller.server.inquiries import Inquiries
from controller.wire.metadata_bytes import MetadataEncoder
from zk_layout.ids import TopicName, TopicPartition

MOST_PARTITIONS = 500
MOST_NAMES = 200
FEW_NAMES = 50
FEW_AT_ONCE = 8
MOST_KEPT = 4
PIECES_AT_ONCE = 5_000
_LONGEST_PAUSE_S = 0.05


_Key = tuple[str, int, tuple[bool, bool], tuple[str, str] | None]
"""The listener, the version, whether operations are told and, where rights are judged, who asked from where."""


class _Kept(Struct, frozen=True):
    body: bytes
    generation: int


def _stays() -> bool:
    return False


class MetadataAnswers:
    """The bodies of Metadata answers."""

    def __init__(self, inquiries: Inquiries) -> None:
        self._inquiries = inquiries
        self._generation = 0
        self._kept: dict[_Key, _Kept] = {}
        self._building = asyncio.Lock()
        self._few, self._many = asyncio.Semaphore(FEW_AT_ONCE), asyncio.Lock()

    def changed(self, events: Sequence[Event]) -> None:
        """The term had a turn: whatever it was told may have changed what clients see, unless they only asked."""
        if not all(isinstance(e, Asked) and isinstance(e.request, DescribeCluster | ListReassignments) for e in events):
            self._generation += 1

    def forget(self) -> None:
        """Another term begins, or none."""
        self._generation += 1
        self._kept.clear()

    async def body(
        self, request: DescribeCluster, version: int, caller: Caller, has_hung_up: Callable[[], bool] = _stays
    ) -> bytes:
        """The answer to a request in this version, without its header.

        Raises:
            NothingKnown: this process does not lead.
            ConnectionResetError: the client has hung up meanwhile.
        """
        if request.topics is not None:
            return await self._of_some(request, request.topics, version, caller, has_hung_up)
        asked_at, told = self._generation, (request.with_cluster_operations, request.with_topic_operations)
        for_all: _Key = (caller.listener, version, told, None)
        own: _Key = (caller.listener, version, told, (caller.principal, caller.address))
        async with self._building:
            _demand_somebody(has_hung_up)
            key = for_all if for_all in self._kept else own
            kept = self._kept.pop(key, None)
            if kept is None or kept.generation < asked_at:
                generation = self._generation
                body, is_for_all = await self._of_all(request, version, caller)
                key, kept = for_all if is_for_all else own, _Kept(body, generation)
            self._kept[key] = kept
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept.body

    async def _of_all(self, asked: DescribeCluster, version: int, caller: Caller) -> tuple[bytes, bool]:
        """The body, and whether it is the same for everybody on this listener."""
        made = _Answer(MetadataEncoder(version))
        after: TopicName | None = None
        while True:
            request = replace(asked, after=after, most_partitions=MOST_PARTITIONS, within=made.within)
            found = await self._part(request, caller, made, self._many, _stays)
            after = found.after
            if found.is_whole:
                return made.body(found), found.is_for_all

    async def _of_some(
        self,
        asked: DescribeCluster,
        topics: Sequence[TopicReference],
        version: int,
        caller: Caller,
        has_hung_up: Callable[[], bool],
    ) -> bytes:
        made = _Answer(MetadataEncoder(version))
        lane = self._few if len(topics) <= FEW_NAMES else self._many
        while True:
            wanted = tuple(topics[made.count : made.count + MOST_NAMES])
            request = replace(asked, topics=wanted, most_partitions=MOST_PARTITIONS, within=made.within)
            found = await self._part(request, caller, made, lane, has_hung_up)
            if made.count >= len(topics) or not found.topics:
                return made.body(found)

    async def _part(
        self,
        request: DescribeCluster,
        caller: Caller,
        made: _Answer,
        lane: asyncio.Lock | asyncio.Semaphore,
        has_hung_up: Callable[[], bool],
    ) -> ClusterDescription:
        async with lane:
            _demand_somebody(has_hung_up)
            began = time.thread_time()
            found = await self._inquiries.ask(request, caller)
            assert isinstance(found, ClusterDescription)
            for _ in made.add(found):
                await asyncio.sleep(0)
            await asyncio.sleep(min(time.thread_time() - began, _LONGEST_PAUSE_S) if lane is self._many else 0)
        return found


def _demand_somebody(has_hung_up: Callable[[], bool]) -> None:
    if has_hung_up():
        raise ConnectionResetError("the client has hung up before its turn came")


class _Answer:
    """An answer that is made of several descriptions.

    Shape:
        `count` are the topics in it. `begun` is a topic of which not all partitions have been described; `within` is
        the first partition of it that is missing.
    """

    def __init__(self, encoder: MetadataEncoder) -> None:
        self._encoder = encoder
        self._pieces = [b""]
        self.count = 0
        self.within: TopicPartition | None = None
        self._begun: TopicMetadata | None = None

    def add(self, found: ClusterDescription) -> Iterator[None]:
        """Take in what was described, a bounded number of pieces at a time."""
        topics = list(found.topics)
        begun, self._begun, self.within = self._begun, None, found.rest
        if begun is not None and topics and topics[0].name == begun.name and topics[0].error is ErrorCode.NONE:
            topics[0] = replace(topics[0], partitions=begun.partitions + topics[0].partitions)
        if found.rest is not None:
            self._begun = topics.pop()
        pieces = self._encoder.topics(topics)
        while some := tuple(islice(pieces, PIECES_AT_ONCE)):
            self._pieces.append(b"".join(some))
            yield
        self.count += len(topics)

    def body(self, found: ClusterDescription) -> bytes:
        """All of it, with the brokers as they were described last."""
        self._pieces[0] = self._encoder.head(found, self.count)
        return b"".join((*self._pieces, self._encoder.tail(found)))
