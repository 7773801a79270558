"""Producer ids: which broker gets the next block, and may it be written now?

The znode is one for all brokers, so its writes are serialised: one under way, the other brokers wait. A block is told
to its broker only once ZooKeeper has accepted it; one whose outcome is unknown is told to nobody.

Source: Kafka's KafkaController.processAllocateProducerIds and ZkProducerIdManager; KIP-730.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from controller.core.messages.effects import Create, Set, Write
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ProducerIdsAllocated
from controller.core.messages.requests import AllocateProducerIds
from controller.core.state.view import Cluster
from controller.core.transactions.back_off import AT_ONCE
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Subject
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId
from zk_layout.znodes.producer_ids import BLOCK_LENGTH, HIGHEST_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockAddress

NOTICE = "unavailable producer ids"
PATH = ProducerIdBlockAddress().path
SUBJECT = Subject("znode", PATH)


class ProducerIds(Duty):
    """The blocks of producer ids, handed out one after the other."""

    requests = (AllocateProducerIds,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._queue: deque[Asked] = deque()
        self._noticed: Fact | None = None

    def admit(self, asked: Asked, out: Outbox) -> None:
        """A broker has used up its block."""
        self._queue.append(asked)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Refuse those at the head of the queue that get none, and write the next one's block."""
        transactions = self._shared.transactions
        while self._queue and not transactions.is_busy(SUBJECT):
            asked = self._queue[0]
            request = asked.request
            assert isinstance(request, AllocateProducerIds)
            error = refuse(request, self._shared.cluster)
            if error is not ErrorCode.NONE:
                self._answer(ProducerIdsAllocated(error=error), out)
                continue
            block = self._next_block(request.broker)
            if isinstance(block, ProducerIdBlock):
                why = f"broker {request.broker} gets the producer ids {block.first} to {block.last}"
                return (Proposal(SUBJECT, (Atom((self._write_of(block),), (why,)),), memo=block),)
            self._answer(ProducerIdsAllocated(error=block.error), out)
            if self._noticed != self._shared.state.producer_ids:
                self._noticed = self._shared.state.producer_ids
                out.notice(NOTICE, block.message or block.error.name)
        return ()

    def _next_block(self, broker: BrokerId) -> ProducerIdBlock | Refusal:
        if self._shared.transactions.is_waiting(SUBJECT):
            return _refusal(f"ZooKeeper refused {AT_ONCE + 1} consecutive writes of {PATH}")
        return next_block(broker, self._shared.state.producer_ids)

    def _write_of(self, block: ProducerIdBlock) -> Write:
        held = self._shared.state.producer_ids
        return Create(held.address, block) if held.stat is None else Set(held.address, block, held.stat.version)

    def _answer(self, reply: ProducerIdsAllocated, out: Outbox) -> None:
        out.answer(self._queue.popleft().call, reply)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """The block is written: its broker can be told."""
        block = proposal.memo
        if isinstance(outcome, Accepted) and isinstance(block, ProducerIdBlock):
            self._answer(ProducerIdsAllocated(block.first, block.last - block.first + 1), out)


def refuse(request: AllocateProducerIds, cluster: Cluster) -> ErrorCode:
    """Why the request is not for the broker's present life; NONE where it is."""
    if not cluster.is_registered(request.broker):
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if request.broker_epoch != cluster.brokers[request.broker].epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def next_block(broker: BrokerId, held: Fact) -> ProducerIdBlock | Refusal:
    """The ids after those handed out last; the first of all where none were.

    What cannot be read is never written over: ids handed out twice would mix up the records of two producers.
    """
    match held.value:
        case Malformed():
            return _refusal(f"{PATH} cannot be read; repair it, or write the last allocated block into it")
        case ProducerIdBlock(last=last):
            first = last + 1
        case _:
            first = 0
    if first > HIGHEST_PRODUCER_ID - BLOCK_LENGTH + 1:
        return _refusal(f"{PATH} has reached {first}; no full block of ids is left below 2^63")
    return ProducerIdBlock(broker, first, first + BLOCK_LENGTH - 1)


def _refusal(reason: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer ids cannot be allocated: {reason}")
