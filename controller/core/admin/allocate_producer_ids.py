"""May this broker have producer ids, and which come next?

Source: Kafka's KafkaController.processAllocateProducerIds and ZkProducerIdManager; KIP-730.
"""

from __future__ import annotations

from controller.core.cluster import Cluster
from controller.core.effects import Create, Set, Write
from controller.core.errors import ErrorCode, Refusal
from controller.core.requests import AllocateProducerIds
from zk_layout.facts import Malformed
from zk_layout.ids import BrokerId
from zk_layout.znodes.producer_ids import BLOCK_LENGTH, HIGHEST_PRODUCER_ID, ProducerIdBlock


def refuse(request: AllocateProducerIds, cluster: Cluster) -> ErrorCode:
    """Why the request is not for the broker's present life; NONE where it is."""
    if not cluster.is_registered(request.broker):
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if request.broker_epoch != cluster.brokers[request.broker].epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def next_block(broker: BrokerId, cluster: Cluster) -> ProducerIdBlock | Refusal:
    """The ids after those handed out last; the first of all where none were.

    What cannot be read is never written over: ids handed out twice would mix up the records of two producers.
    """
    held = cluster.latest_producer_ids
    match held.value:
        case Malformed():
            return _refusal(f"{held.address.path} cannot be read; mend it, or write the last block into it")
        case ProducerIdBlock(last=last):
            first = last + 1
        case _:
            first = 0
    if first > HIGHEST_PRODUCER_ID - BLOCK_LENGTH + 1:
        return _refusal(f"{held.address.path} has come to {first}; no whole block of ids is left below 2^63")
    return ProducerIdBlock(broker, first, first + BLOCK_LENGTH - 1)


def write_of(block: ProducerIdBlock, cluster: Cluster) -> Write:
    """What takes a block, unless somebody has taken another one since."""
    held = cluster.latest_producer_ids
    if held.stat is None:
        return Create(held.address, block)
    return Set(held.address, block, held.stat.version)


def _refusal(reason: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"no broker gets producer ids: {reason}")
