"""Which broker gets the next producer ids, and may their block be written now?

The znode is one for all brokers, so its writes are serialised: one in flight, the other brokers wait. A block is told
to its broker only once ZooKeeper has accepted it; one whose outcome is unknown is told to nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from controller.core.admin import allocate_producer_ids
from controller.core.cluster import Cluster
from controller.core.effects import Answer, Notice, Write
from controller.core.errors import ErrorCode, Refusal
from controller.core.events import AskId, CommitId
from controller.core.replies import ProducerIdsAllocated
from controller.core.requests import AllocateProducerIds
from zk_layout.catalog import Address
from zk_layout.facts import Fact
from zk_layout.znodes.producer_ids import ProducerIdBlock, ProducerIdBlockAddress

NOTICE = "producer ids"
TRIES = 3


class _Waiting(Struct, frozen=True):
    ask: AskId
    request: AllocateProducerIds


class ProducerIds:
    """The bookkeeping of the block znode in one reign."""

    def __init__(self, cluster: Cluster) -> None:
        """Nobody waits."""
        self._cluster = cluster
        self._queue: deque[_Waiting] = deque()
        self._block: ProducerIdBlock | None = None
        self._commit: CommitId | None = None
        self._is_unread = False
        self._tried: Fact | None = None
        self._tries = 0
        self._noticed: Fact | None = None

    def queue(self, ask: AskId, request: AllocateProducerIds) -> None:
        """A broker asks for ids."""
        self._queue.append(_Waiting(ask, request))

    @property
    def _is_busy(self) -> bool:
        return self._commit is not None or self._is_unread or not self._queue

    def refuse(self) -> Iterator[Answer | Notice]:
        """Answer those at the head of the queue that get none; leaves in front whom the next block is for."""
        while not self._is_busy:
            request = self._queue[0].request
            error = allocate_producer_ids.refuse(request, self._cluster)
            if error is not ErrorCode.NONE:
                yield Answer(self._queue.popleft().ask, ProducerIdsAllocated(error=error))
                continue
            block = self._next_block(request)
            if isinstance(block, ProducerIdBlock):
                return
            yield Answer(self._queue.popleft().ask, ProducerIdsAllocated(error=block.error))
            held = self._cluster.latest_producer_ids
            if self._noticed != held:
                self._noticed = held
                yield Notice(NOTICE, block.message or block.error.name)
            self._tries = 0  # the next broker's request is another attempt

    def _next_block(self, request: AllocateProducerIds) -> ProducerIdBlock | Refusal:
        held = self._cluster.latest_producer_ids
        if self._tried == held and self._tries >= TRIES:
            text = f"no broker gets producer ids: ZooKeeper has not taken the write of {held.address.path}"
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{text} {TRIES} times, though nobody else wrote it")
        return allocate_producer_ids.next_block(request.broker, self._cluster)

    def next_write(self) -> tuple[Write, str] | None:
        """What takes the next block and why, if somebody waits and no write is in flight; ask `refuse` before."""
        if self._is_busy:
            return None
        broker = self._queue[0].request.broker
        block = allocate_producer_ids.next_block(broker, self._cluster)
        if isinstance(block, Refusal):
            return None
        held = self._cluster.latest_producer_ids
        self._tries = self._tries + 1 if self._tried == held else 1
        self._tried, self._block = held, block
        why = f"broker {broker} gets the producer ids {block.first} to {block.last}"
        return allocate_producer_ids.write_of(block, self._cluster), why

    def reserve(self, commit: CommitId) -> None:
        """The write has been sent."""
        self._commit = commit

    def accepted(self, commit: CommitId) -> Iterator[Answer]:
        """A transaction was accepted; if it was ours, the broker can be told."""
        if commit != self._commit or self._block is None:
            return
        self._commit = None
        length = self._block.last - self._block.first + 1
        yield Answer(self._queue.popleft().ask, ProducerIdsAllocated(self._block.first, length))

    def failed(self, commit: CommitId) -> None:
        """A transaction failed; if it was ours, the znode must be seen again before the next attempt."""
        if commit == self._commit:
            self._commit, self._is_unread = None, True

    def saw(self, address: Address) -> None:
        """A znode was read."""
        if isinstance(address, ProducerIdBlockAddress):
            self._is_unread = False
