"""How far is each accepted reassignment request: `/admin/reassign_partitions_status/<request id>`?

The request id is the version that the parent got in the transaction that created the status, so it only rises,
whichever controller writes. HTTP and the tool show the same JSON.

Source: KIP-179 "Implementation" and "PartitionAssignmentStatusResponse": a numerator (`copied_bytes`), a denominator
(`total_bytes`) and an error for each receiving replica.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from zk_layout.bounds import INT64_MAX, Broker, Brokers, Count, Id, LastRequest, Millis, Partition, Request
from zk_layout.codec import Undecodable, encode_json, encode_version_1, json_decoder
from zk_layout.ids import RequestId, TopicName, Zxid

ROOT: Final = "/admin/reassign_partitions_status"

# JSON writes a larger number in a form that cannot be read back.
_Figure = Annotated[float, Meta(ge=-1e300, le=1e300)]
_Zxid = Annotated[Zxid, Meta(ge=0, le=INT64_MAX)]


class StatusRootAddress(Struct, frozen=True, gc=False):
    """The parent of all statuses; its version counts the requests, its data means nothing."""

    path: ClassVar[str] = ROOT


class ReassignmentStatusAddress(Struct, frozen=True, gc=False):
    """The status of one request."""

    request: RequestId

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.request}"


class StatusRoot(Struct, frozen=True):
    """The parent's data: the last request id, for people and in case the ids are ahead of the version."""

    last_request_id: LastRequest = 0


class ReplicaProgress(Struct, frozen=True):
    """How much one receiving replica has copied; None if unknown, as before the first measurement.

    Units:
        `remaining_seconds` is None as well before the replica was measured for eleven seconds, and if it does not come
        nearer to the leader's end.
    """

    broker: Broker
    copied_bytes: Count | None = None
    total_bytes: Count | None = None
    bytes_per_second: _Figure | None = None
    remaining_seconds: _Figure | None = None
    error: str | None = None


class MoveProgress(Struct, frozen=True):
    """The stage of one partition's move, since when, and what it waits for.

    Units:
        `since_ms` is in Unix milliseconds.
    """

    request_id: Request | None
    stage: str
    since_ms: Millis
    waits_for: str | None = None
    replicas: tuple[ReplicaProgress, ...] = ()


class PartitionStatus(Struct, frozen=True, omit_defaults=True):
    """The status of one partition of a request.

    Shape:
        `replicas` is its target; `is_cancel` says that the request only cancelled a move. `is_waiting` says that the
        move is accepted and has not begun. `outcome` is absent while the partition waits or moves, then "completed",
        "cancelled", "superseded", "deleted" or "gave up"; `progress` is absent before the first measurement and after
        the end. `copied_bytes` is the total that its receiving replicas had copied at the end.
    """

    partition: Partition
    replicas: Brokers
    is_cancel: bool = False
    outcome: str | None = None
    progress: MoveProgress | None = None
    copied_bytes: Count | None = None
    is_waiting: bool = False


class TopicStatus(Struct, frozen=True, omit_defaults=True):
    """The partitions of one topic.

    Shape:
        `czxid` and `topic_id` are there while a partition waits, to detect a later topic of the same name.
    """

    topic: TopicName
    partitions: tuple[PartitionStatus, ...]
    czxid: _Zxid | None = None
    topic_id: Id | None = None


class RequestStatus(Struct, frozen=True):
    """One request, as of `updated_ms`.

    Shape:
        `origin` is "AlterPartitionReassignments", the path of the znode that asked for it, or "found under way".
        `counts` has the number of partitions by outcome, "waiting" and "in progress" among them. Partitions that did
        not fit into the znode, or were completed and need no attention, are counted but not listed. `reason` is what
        the client gave, and `give_up_ms` how long it lets moves wait to begin, 0 being however long; absent without.

    Units:
        Times are Unix milliseconds; `remaining_seconds` is the longest of all receiving brokers, for moves that have
        begun: None before they were measured for eleven seconds, and if a broker does not come nearer to its leaders.
    """

    request_id: Request
    origin: str
    requested_ms: Millis
    updated_ms: Millis
    finished_ms: Millis | None
    counts: dict[str, Count]
    topics: tuple[TopicStatus, ...]
    copied_bytes: Count | None = None
    total_bytes: Count | None = None
    bytes_per_second: _Figure | None = None
    remaining_seconds: _Figure | None = None
    version: int = 1
    reason: str | UnsetType = UNSET
    give_up_ms: Count | UnsetType = UNSET


_root_decoder = json_decoder(StatusRoot)


def decode_root(data: bytes) -> StatusRoot | None:
    """The last request id; None if it cannot be read, because the parent's version suffices to continue."""
    try:
        return _root_decoder(data)
    except Undecodable:
        return None


def encode_root(root: StatusRoot) -> bytes:
    """The last request id."""
    return encode_version_1(root)


decode = json_decoder(RequestStatus)
"""One request's status."""


def encode(status: RequestStatus) -> bytes:
    """One request's status."""
    return encode_json(status)
