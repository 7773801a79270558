"""Where was each partition before a request moved it, who asked for that, when, and why?

Our own znodes, below `/kafka_zk_controller/move_records`. `<request id>-<part>` holds some of the moves of one request.
It is written once, before the client hears that its request was accepted, and deleted with the status of the request.
Brokers, and their own controllers, ignore it.
"""

from __future__ import annotations

from typing import Annotated, Final, NewType

from msgspec import Meta, Struct

from zk_layout.bounds import INT32_MAX, INT64_MAX, Brokers, Count, Id, Millis, Partition
from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import RequestId, TopicName, Zxid

ROOT: Final = "/kafka_zk_controller/move_records"
LONGEST_REASON_BYTES: Final = 1_000

RecordsNumber = NewType("RecordsNumber", int)
_Zxid = Annotated[Zxid, Meta(ge=0, le=INT64_MAX)]
_Parts = Annotated[int, Meta(ge=1, le=INT32_MAX)]


class MoveRecordsAddress(Struct, frozen=True, gc=False):
    """One part of a request's records; parts are numbered from 0."""

    request: RequestId
    part: RecordsNumber

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.request}-{self.part}"


class TopicRecord(Struct, frozen=True):
    """What a request moved in one topic.

    Shape:
        `czxid` and `topic_id` reveal a topic that was created again under its name. `moves` map a partition to the
        replicas asked for, and to those at which it was aimed before: where it was, or where another move took it.
    """

    czxid: _Zxid
    moves: dict[Partition, tuple[Brokers, Brokers]]
    topic_id: Id | None = None


class MoveRecords(Struct, frozen=True):
    """Some moves of a request.

    Shape:
        `parts` is how many znodes have moves of it, each with the same `origin`, `requested_ms` and client. `origin`
        is as in the request's status. The client, and the `reason` it gave, are known of requests over the Kafka
        protocol only.
    Units:
        `requested_ms` is in Unix milliseconds. `give_up_ms` is how long its moves might wait to begin, if the client
        said so; 0: however long.
    """

    origin: str
    requested_ms: Millis
    parts: _Parts
    topics: dict[TopicName, TopicRecord]
    principal: str | None = None
    client_id: str | None = None
    address: str | None = None
    reason: str | None = None
    give_up_ms: Count | None = None


def mistake_in_reason(reason: str) -> str | None:
    r"""What is wrong with the reason for a request; None if it is one line of text that may be recorded.

    >>> mistake_in_reason("disks of rack b"), mistake_in_reason("a\nb"), mistake_in_reason("x" * 1001)
    (None, "has '\\n' at position 1; give one line of printable text", 'has 1001 bytes; give at most 1000')
    """
    size = len(reason.encode("utf-8", "surrogatepass"))
    if size > LONGEST_REASON_BYTES:
        return f"has {size} bytes; give at most {LONGEST_REASON_BYTES}"
    foreign = next((at for at, character in enumerate(reason) if not character.isprintable()), None)
    if foreign is not None:
        return f"has {reason[foreign]!r} at position {foreign}; give one line of printable text"
    return None if reason.strip() else "is empty; leave it out, or say why"


def address_of(request: str, part: int) -> MoveRecordsAddress:
    """The address that a znode's name means.

    >>> address_of("7", 0)
    MoveRecordsAddress(request=7, part=0)
    """
    return MoveRecordsAddress(RequestId(int(request)), RecordsNumber(part))


decode = json_decoder(MoveRecords)
"""Some moves of a request."""


def encode(records: MoveRecords) -> bytes:
    """Some moves of a request.

    >>> encode(MoveRecords("a client", 5, 1, {"orders": TopicRecord(Zxid(7), {0: ((3, 2), (1, 2))})})).decode()[60:117]
    '"topics":{"orders":{"czxid":7,"moves":{"0":[[3,2],[1,2]]}'
    """
    return encode_version_1(records)
