"""Is what is recorded of a request's moves what happened: from where, to where, in which topic?"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from controller.core.progress.ledger import BY_REQUEST
from zk_layout import catalog
from zk_layout.ids import BrokerId, Replicas, RequestId, TopicPartition, Zxid
from zk_layout.znodes.move_records import ROOT, MoveRecords, MoveRecordsAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus
from zk_layout.znodes.topics import Topic, TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMoves, WaitingMovesAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

KEPT = 0.8


class RecordsOfMoves:
    """Knows at which replicas each partition of a topic was ever aimed, in order, and from which it was ever moved."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._random = Random(f"{world.seed}/records")
        self._keepers: dict[BrokerId, bool] = {}
        self._waited: dict[tuple[TopicPartition, Replicas], None] = {}
        self._originals: dict[tuple[TopicPartition, Replicas], None] = {}
        self._aims: dict[tuple[TopicPartition, Zxid], list[Replicas]] = {}
        self._recorded: dict[RequestId, tuple[str, ...]] = {}
        self.checked = 0

    def are_kept_by(self, controller: BrokerId) -> bool:
        """Whether this controller keeps records: they need not all have the same settings."""
        if controller not in self._keepers:
            self._keepers[controller] = self._random.random() < KEPT
        return self._keepers[controller]

    def note(self, path: str) -> None:
        """A topic's znode was written, or one of its waiting moves."""
        address, node = catalog.address_of(path), self.world.zookeeper.nodes.get(path)
        if isinstance(address, WaitingMovesAddress):
            waiting = self.world.checker.read(path)
            for number, move in waiting.moves.items() if isinstance(waiting, WaitingMoves) else ():
                self._waited[TopicPartition(address.topic, number), move.to] = None
        if not isinstance(address, TopicAddress) or node is None:
            return
        topic = self.world.checker.read(path)
        for number, assignment in topic.partitions.items() if isinstance(topic, Topic) else ():
            aims = self._aims.setdefault((TopicPartition(address.topic, number), Zxid(node.czxid)), [])
            if not aims or aims[-1] != assignment.target:
                aims.append(assignment.target)
            self._originals[TopicPartition(address.topic, number), assignment.original] = None

    def created(self, request: RequestId, status: RequestStatus) -> str | None:
        """The errors in the records of a request whose status was just created."""
        parts = self._parts(request)
        self._recorded[request] = tuple(parts)
        recorded: set[TopicPartition] = set()
        for path, part in parts.items():
            if (part.origin, part.requested_ms, part.parts) != (status.origin, status.requested_ms, len(parts)):
                return f"{path} does not belong to its request, or a part is missing: {part}"
            if (part.principal is None) == (status.origin == BY_REQUEST):
                return f"{path} does not name the client: {part}"
            for name, record in part.topics.items():
                for number, (to, former) in record.moves.items():
                    at = TopicPartition(name, number)
                    recorded.add(at)
                    wrong = self._wrong(at, record.czxid, to, former, is_found=status.origin != BY_REQUEST)
                    if wrong is not None:
                        return f"{path}: {at} {wrong}"
        if not parts or status.origin == BY_REQUEST:
            return None  # a target asked for again is not recorded: nothing moved
        moved = {TopicPartition(t.topic, p.partition) for t in status.topics for p in t.partitions if p.outcome is None}
        return f"moves of request {request} are not recorded: {moved - recorded}" if moved - recorded else None

    def _wrong(self, at: TopicPartition, czxid: Zxid, to: Replicas, former: Replicas, *, is_found: bool) -> str | None:
        self.checked += 1
        aims = self._aims.get((at, czxid))
        if aims is None:
            return f"was recorded in a topic that never was: created at {czxid}"
        waits = (at, to) in self._waited  # and may have been taken back before the status was written
        if to not in aims and not waits:
            return f"never moved to {list(to)}, only to {aims}"
        if is_found:  # the order of its former replicas may be unknown
            was_there = (at, former) in self._originals or any({*former} == {*aim} for aim in aims)
        elif at in self.world.checker.edited:  # it was moved from where it was before somebody wrote over that
            was_there = former in aims
        else:
            was_there = former in aims if waits else (former, to) in set(pairwise(aims))
        return None if was_there else f"did not move from {list(former)} to {list(to)}: {aims}"

    def _parts(self, request: RequestId) -> dict[str, MoveRecords]:
        found = {}
        for name in self.world.zookeeper.nodes[ROOT].children:
            address = catalog.address_of(f"{ROOT}/{name}")
            value = self.world.checker.read(f"{ROOT}/{name}")
            if isinstance(address, MoveRecordsAddress) and address.request == request:
                assert isinstance(value, MoveRecords)
                found[address.path] = value
        return found

    def outcome(self) -> str | None:
        """The errors in what is left: records without a status, and statuses that have lost their records."""
        for name in self.world.zookeeper.nodes[ROOT].children:
            address = catalog.address_of(f"{ROOT}/{name}")
            assert isinstance(address, MoveRecordsAddress)
            if ReassignmentStatusAddress(address.request).path not in self.world.zookeeper.nodes:
                return f"{address.path} was kept without the status of its request"
        for request, paths in self._recorded.items():
            lost = [path for path in paths if path not in self.world.zookeeper.nodes]
            if lost and ReassignmentStatusAddress(request).path in self.world.zookeeper.nodes:
                return f"request {request} has a status, and has lost {lost}"
        return None
