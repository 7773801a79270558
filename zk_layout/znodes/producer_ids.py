"""Which producer ids were allocated last: `/latest_producer_id_block`?

Source: Kafka's ProducerIdBlockZNode and, for KRaft, ZkMigrationClient.writeProducerId; KIP-730.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct

from zk_layout.bounds import INT32_MAX
from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder
from zk_layout.ids import BrokerId

BLOCK_LENGTH: Final = 1000
HIGHEST_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlockAddress(Struct, frozen=True, gc=False):
    """The block of producer ids allocated last; all lower ids are taken."""

    path: ClassVar[str] = "/latest_producer_id_block"


class ProducerIdBlock(Struct, frozen=True):
    """The ids from `first` to `last`, both included, and the broker that got them; -1 if KRaft wrote the block, which
    during a migration records only what was handed out.
    """

    broker: BrokerId
    first: int
    last: int


_Digits = Annotated[str, Meta(min_length=1, max_length=19)]
_DECIMAL = re.compile(r"[0-9]+")


class _Json(Struct):
    broker: Annotated[BrokerId, Meta(ge=-1, le=INT32_MAX)]
    block_start: _Digits
    block_end: _Digits


_decoder = json_decoder(_Json)


def decode(data: bytes) -> ProducerIdBlock | None:
    """The block; None for the empty znode that brokers create before any id is allocated.

    >>> decode(b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}')
    ProducerIdBlock(broker=2, first=1000, last=1999)
    >>> decode(b'{"version":1,"broker":-1,"block_start":"2000","block_end":"2999"}')
    ProducerIdBlock(broker=-1, first=2000, last=2999)

    Raises:
        Undecodable: not a block's JSON, or no range of ids.
    """
    if not data:
        return None
    json = _decoder(data)
    if not (_DECIMAL.fullmatch(json.block_start) and _DECIMAL.fullmatch(json.block_end)):
        raise Undecodable(f"block_start and block_end must be decimal numbers in {excerpt(data)}")
    first, last = int(json.block_start), int(json.block_end)
    if not first <= last <= HIGHEST_PRODUCER_ID:
        raise Undecodable(f"{first} to {last} is no range of producer ids in {excerpt(data)}")
    return ProducerIdBlock(json.broker, first, last)


def encode(block: ProducerIdBlock) -> bytes:
    """Version 1, which writes the numbers as strings."""
    first, last = str(block.first), str(block.last)
    return encode_json({"version": 1, "broker": block.broker, "block_start": first, "block_end": last})
