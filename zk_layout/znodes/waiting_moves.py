"""Which accepted moves of partitions have not begun yet?

Our own znodes, below `/kafka_zk_controller/waiting_moves`. `<topic>-<part>` holds the waiting moves of up to 100
partitions of a topic: part 0 those of the partitions 0 to 99, and so on. They exist only where moves are limited.
Brokers, and their own controllers, ignore them.
"""

from __future__ import annotations

from typing import Annotated, Final, NewType

from msgspec import Meta, Struct

from zk_layout.bounds import INT32_MAX, Brokers, Count, Id, Millis, Partition
from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import PartitionId, TopicName, Zxid

ROOT: Final = "/kafka_zk_controller/waiting_moves"
PARTITIONS_A_PART: Final = 100

PartNumber = NewType("PartNumber", int)
Order = Annotated[int, Meta(ge=0, lt=1 << 62)]
Weight = Annotated[int, Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
Life = Annotated[Zxid, Meta(ge=0)]


class WaitingMovesAddress(Struct, frozen=True, gc=False):
    """The waiting moves of some partitions; its name is split at the last dash, because topics may contain dashes."""

    topic: TopicName
    part: PartNumber

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.topic}-{self.part}"


class WaitingMove(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A move that waits.

    Shape:
        `to` are the replicas to move to, `former` those at which the partition was aimed when the move was accepted.
        Moves begin in the order of `order`. `since_ms` is when it was accepted, where moves give up after some time.
        `give_up_ms` is after how long, if its request said so; 0: however long it waits. `weight` is what the request
        gave it: higher ones begin first, where the settings ask for that.
    Units:
        `since_ms` is in Unix milliseconds.
    """

    to: Brokers
    former: Brokers
    order: Order
    since_ms: Millis | None = None
    give_up_ms: Count | None = None
    weight: Weight = 0


class WaitingMoves(Struct, frozen=True):
    """Waiting moves by partition. Time of creation and id reveal a topic that was created again under its name."""

    czxid: Life
    moves: dict[Partition, WaitingMove]
    topic_id: Id | None = None


def part_of(partition: PartitionId) -> PartNumber:
    """The part that holds a partition's move.

    >>> part_of(PartitionId(99)), part_of(PartitionId(100))
    (0, 1)
    """
    return PartNumber(partition // PARTITIONS_A_PART)


decode = json_decoder(WaitingMoves)
"""The waiting moves."""


def encode(waiting: WaitingMoves) -> bytes:
    """The waiting moves.

    >>> encode(WaitingMoves(Zxid(7), {PartitionId(0): WaitingMove((3, 2), (1, 2), 4)}))
    b'{"version":1,"czxid":7,"moves":{"0":{"to":[3,2],"former":[1,2],"order":4}},"topic_id":null}'
    """
    return encode_version_1(waiting)
