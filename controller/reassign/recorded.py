"""What does ZooKeeper say of a request: its status, its recorded moves, and their topics as they are now?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from controller.reassign.listing import patience_of
from controller.reassign.refusals import Refused
from controller.reassign.undoing import TopicNow
from controller.reassign.zookeeper_cluster import ZooKeeperCluster
from zk_layout.catalog import address_of
from zk_layout.codec import Undecodable, one_line
from zk_layout.ids import RequestId, TopicName
from zk_layout.znodes import move_records, reassignment_status, topics
from zk_layout.znodes.move_records import LONGEST_REASON_BYTES, MoveRecords, MoveRecordsAddress, RecordsNumber
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus
from zk_layout.znodes.topics import TopicAddress

UNKNOWN = (
    "Request {request} is not known: no request has had this id, or its status is older than "
    "reassign.partitions.status.min.retention.ms"
)
UNRECORDED = (
    "Of request {request} it is not recorded where its partitions were: it changed none, "
    "reassignment.records.enable was false, or a version that keeps no records accepted it"
)


class Recorded(Struct, frozen=True):
    """What is known of a request. `lost` are the paths of parts that are missing or cannot be read."""

    request: RequestId
    status: RequestStatus | None
    parts: tuple[MoveRecords, ...]
    lost: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Who asked for what, when and why, and what became of it."""
        first = self.parts[0]
        at = datetime.fromtimestamp(first.requested_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")
        who = "by an unknown client"
        if first.principal is not None:
            who = f"by {first.principal}, client {first.client_id or '(none)'}, from {first.address}"
        counts = {} if self.status is None else self.status.counts
        became = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "unknown"
        why = "" if first.reason is None else f", reason {one_line(first.reason, LONGEST_REASON_BYTES)!r}"
        return f"Request {self.request} ({first.origin}, {at}, {who}{why}{patience_of(first.give_up_ms)}): {became}"

    @property
    def document(self) -> dict[str, Any]:
        """The same, for programs."""
        first = self.parts[0]
        return {
            "id": self.request,
            "origin": first.origin,
            "requested_ms": first.requested_ms,
            "principal": first.principal,
            "client_id": first.client_id,
            "address": first.address,
            "reason": first.reason,
            "give_up_ms": first.give_up_ms,
            "counts": None if self.status is None else to_builtins(self.status.counts),
        }


def recorded(zookeeper: ZooKeeperCluster, request: RequestId) -> Recorded:
    """Read a request.

    Raises:
        Refused: it is not known, or nothing was recorded of it.
    """
    status = _status(zookeeper, request)
    found = dict(_parts(zookeeper, request))
    parts = [part for part in found.values() if part is not None]
    count = max((part.parts for part in parts), default=len(found))
    wanted = [MoveRecordsAddress(request, RecordsNumber(number)) for number in range(count)]
    lost = [address.path for address in wanted if found.get(address) is None]
    if not found:
        raise Refused((UNKNOWN if status is None else UNRECORDED).format(request=request))
    if not parts:
        raise Refused(f"{', '.join(lost)} cannot be read")
    return Recorded(request, status, tuple(parts), tuple(lost))


def topics_now(zookeeper: ZooKeeperCluster, names: Iterable[TopicName]) -> dict[TopicName, TopicNow]:
    """Those of these topics that exist.

    Raises:
        Refused: the znode of one cannot be read.
    """
    found = {}
    for name in names:
        read = zookeeper.read(TopicAddress(name).path)
        if read is None:
            continue
        try:
            topic = topics.decode(read[0])
        except Undecodable as error:
            raise Refused(f"{TopicAddress(name).path} cannot be read: {error}") from None
        found[name] = TopicNow(read[1], topic.topic_id, topic.partitions)
    return found


def _status(zookeeper: ZooKeeperCluster, request: RequestId) -> RequestStatus | None:
    read = zookeeper.read(ReassignmentStatusAddress(request).path)
    try:
        return None if read is None else reassignment_status.decode(read[0])
    except Undecodable:
        return None


def _parts(zookeeper: ZooKeeperCluster, request: RequestId) -> Iterator[tuple[MoveRecordsAddress, MoveRecords | None]]:
    """The parts of a request in order; None for one that cannot be read."""
    addresses = (address_of(f"{move_records.ROOT}/{name}") for name in zookeeper.children(move_records.ROOT))
    of_request = [a for a in addresses if isinstance(a, MoveRecordsAddress) and a.request == request]
    for address in sorted(of_request, key=lambda address: address.part):
        read = zookeeper.read(address.path)
        try:
            yield address, None if read is None else move_records.decode(read[0])
        except Undecodable:
            yield address, None
