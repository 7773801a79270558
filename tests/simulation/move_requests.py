"""Is every accepted reassignment followed to its end, under a unique id?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.core.messages.effects import DescribeLogDirs
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Event, LogDirsDescribed, ReplicaSize
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.progress.ledger import IN_PROGRESS, WAITING
from tests.simulation.move_records import RecordsOfMoves
from tests.simulation.refusals import Concern
from zk_layout import catalog
from zk_layout.ids import RequestId, TopicPartition
from zk_layout.znodes.reassignment_status import ROOT, ReassignmentStatusAddress, RequestStatus

if TYPE_CHECKING:
    from tests.simulation.world import World

RETENTION_S = 60.0
# The latest deletion of a status, and the latest start of one for a move; the quiet phase is longer than both.
GRACE_S = 60.0
ANSWER_S = 0.05
RECORD_BYTES = 1000


class MoveRequests:
    """Knows every id that was ever written or sent to a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records = RecordsOfMoves(world)
        self.highest = 0
        self._told: dict[RequestId, None] = {}
        self._finished_at: dict[str, float] = {}

    def describe(self, asked: DescribeLogDirs, emit: Any) -> None:
        """A broker answers a moment later with the sizes of its replicas, if it is up."""

        def answer() -> None:
            emit(self._described(asked))

        self.world.clock.after(ANSWER_S, answer)

    def _described(self, asked: DescribeLogDirs) -> Event:
        # None: the id of a killed controller, whose registration lasts until its session expires.
        broker = self.world.brokers.get(asked.broker)
        if broker is None or broker.model is None or broker.is_cut_off:
            return LogDirsDescribed(asked.broker, asked.broker_epoch, {}, "connection refused", asked.is_of_waiting)
        sizes = {
            at: ReplicaSize(RECORD_BYTES * len(broker.disk[at].records)) for at in asked.partitions if at in broker.disk
        }
        return LogDirsDescribed(asked.broker, asked.broker_epoch, sizes, None, asked.is_of_waiting)

    def wrote(self, touched: dict[str, Any]) -> str | None:
        """The errors in the statuses that a transaction created."""
        for path in touched:
            self.records.note(path)
        for path in touched:
            address = catalog.address_of(path)
            if isinstance(address, ReassignmentStatusAddress) and path in self.world.zookeeper.nodes:
                self._finished_at[path] = self.world.clock.now  # its last write
                if self.world.zookeeper.nodes[path].version > 0:
                    continue
                if address.request <= self.highest:
                    return f"request {address.request} was written after {self.highest}"
                self.highest = address.request
                status = self.world.checker.read(path)
                wrong = self.records.created(address.request, status) if isinstance(status, RequestStatus) else None
                if wrong is not None:
                    return wrong
        return None

    def answered(self, reply: ReassignmentsAltered) -> str | None:
        """The errors in an answer's id."""
        has_accepted = not reply.error and any(r.error is ErrorCode.NONE for r in reply.results)
        if reply.request_id is None:
            return None
        if not has_accepted:
            return f"an id for a request of which nothing was accepted: {reply}"
        if reply.request_id in self._told or reply.request_id > self.highest:
            return f"id {reply.request_id} was sent twice, or before it was written: {reply}"
        self._told[reply.request_id] = None
        return None

    def outcome(self) -> str | None:
        """The errors in the final statuses, and in the records of moves."""
        moving = {
            TopicPartition(name, number)
            for name, topic in self.world.checker.topics.items()
            for number, assignment in topic.partitions.items()
            if assignment.is_moving
        }
        # Overwritten by an old tool, and the controller may not repair it: the move should still go on.
        overwritten = {at for at in self.world.checker.edited if self.world.refusals.excuses(at, Concern.MOVING)}
        followed, unnamed = set(), 0  # a status that is too large for its znode names no partitions
        for name in self.world.zookeeper.nodes[ROOT].children:
            path = f"{ROOT}/{name}"
            status = catalog.decode(
                ReassignmentStatusAddress(RequestId(int(name))), self.world.zookeeper.nodes[path].data
            )
            if not isinstance(status, RequestStatus):
                return f"{path} cannot be read: {status}"
            open_here = {
                TopicPartition(t.topic, p.partition) for t in status.topics for p in t.partitions if p.outcome is None
            }
            followed |= open_here
            open_count = status.counts.get(IN_PROGRESS, 0) + status.counts.get(WAITING, 0)
            unnamed += open_count - len(open_here)
            unknown = {at for at in open_here if self.world.refusals.hides(at)}  # its end cannot be detected
            may_be_open = moving | overwritten | unknown | self.world.limits.waiting
            is_overstated = not open_here <= may_be_open or open_count > len(may_be_open)
            is_wrong = (status.finished_ms is None) != bool(open_count) or is_overstated
            if is_wrong and not self.world.sizes.excuses(path):
                return f"{path} does not say what became of its moves: {status}"
            kept_s = self.world.clock.now - self._finished_at[path]
            if status.finished_ms is not None and kept_s > RETENTION_S + GRACE_S:
                return f"{path} was kept for too long: {status}"
        alone = sorted(at for at in moving - followed if not self.world.refusals.excuses(at, Concern.MOVING))
        is_left = len(alone) > unnamed and not self.world.sizes.excuses_statuses()
        return f"no request is responsible for {alone}" if is_left else self.records.outcome()
