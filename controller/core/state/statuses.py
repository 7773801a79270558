"""Which reassignment requests are recorded in ZooKeeper, with which moves, and what is the next id?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import HIGHEST_REQUEST_ID
from zk_layout.facts import Fact
from zk_layout.ids import ABSENT, RequestId, ZnodeVersion
from zk_layout.znodes.move_records import MoveRecords, MoveRecordsAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus, StatusRoot


class KeptStatus(Struct, frozen=True):
    """A status as its znode shows it; None if it cannot be read."""

    status: RequestStatus | None
    version: ZnodeVersion


class KeptRecords(Struct, frozen=True):
    """A znode with records of a request's moves, and how many; what it says of them is for people."""

    version: ZnodeVersion
    moves: int


class Statuses:
    """The children of `/admin/reassign_partitions_status` and of `/kafka_zk_controller/move_records`, as folded from
    facts.
    """

    def __init__(self) -> None:
        self.kept: dict[RequestId, KeptStatus] = {}
        self.records: dict[RequestId, dict[MoveRecordsAddress, KeptRecords]] = {}
        self.recorded_moves = 0
        self._appeared: dict[RequestId, None] = {}
        self._unclaimed: dict[RequestId, None] = {}
        self.root_version = ABSENT
        self._counted = 0
        self._highest = 0

    @property
    def next_id(self) -> RequestId:
        """The parent's next version, or more if an id is ahead of it.

        Ignores the highest possible id, after which there is none: anyone may have written it.
        """
        ahead = max((n for n in (self.root_version, self._counted, self._highest) if n < HIGHEST_REQUEST_ID), default=0)
        request = max(ahead, 0) + 1
        while request in self.kept or request in self.records:
            request += 1
        return RequestId(request)

    def take_appeared(self) -> list[RequestId]:
        """Take the statuses that became readable since the last call."""
        appeared, self._appeared = self._appeared, {}
        return sorted(appeared)

    def take_unclaimed(self) -> list[RequestId]:
        """Take the requests that have records but no status, as far as that has changed since the last call."""
        unclaimed, self._unclaimed = self._unclaimed, {}
        return [request for request in unclaimed if request in self.records and request not in self.kept]

    def moves_recorded(self, request: RequestId) -> int:
        """How many moves of a request are recorded."""
        return sum(records.moves for records in self.records.get(request, {}).values())

    def apply(self, fact: Fact) -> None:
        """Fold in a fact newer than what is held of the same znode."""
        if isinstance(fact.address, ReassignmentStatusAddress):
            self._apply_status(fact.address.request, fact)
            return
        if isinstance(fact.address, MoveRecordsAddress):
            self._apply_records(fact.address, fact)
            return
        self.root_version = fact.stat.version if fact.stat else ABSENT
        self._counted = fact.value.last_request_id if isinstance(fact.value, StatusRoot) else 0

    def _apply_status(self, request: RequestId, fact: Fact) -> None:
        if request <= HIGHEST_REQUEST_ID:
            self._highest = max(self._highest, request)
        if fact.stat is None:
            self.kept.pop(request, None)
            self._unclaimed[request] = None
        else:
            status = fact.value if isinstance(fact.value, RequestStatus) else None
            if request not in self.kept or self.kept[request].status is None:
                self._appeared[request] = None
            self.kept[request] = KeptStatus(status, fact.stat.version)

    def _apply_records(self, address: MoveRecordsAddress, fact: Fact) -> None:
        kept = self.records.setdefault(address.request, {})
        before = kept.pop(address, None)
        self.recorded_moves -= before.moves if before is not None else 0
        if fact.stat is not None:
            topics = fact.value.topics if isinstance(fact.value, MoveRecords) else {}
            kept[address] = KeptRecords(fact.stat.version, sum(len(topic.moves) for topic in topics.values()))
            self.recorded_moves += kept[address].moves
            self._unclaimed[address.request] = None
        if not kept:
            del self.records[address.request]
