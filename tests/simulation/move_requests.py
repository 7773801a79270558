"""Is every accepted reassignment followed to its end, under an id that nobody else ever gets?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.core.effects import DescribeLogDirs
from controller.core.errors import ErrorCode
from controller.core.events import Event, LogDirsDescribed, ReplicaSize
from controller.core.replies import ReassignmentsAltered
from zk_layout import catalog
from zk_layout.ids import RequestId, TopicPartition
from zk_layout.znodes.reassignment_status import ROOT, ReassignmentStatusAddress, RequestStatus

if TYPE_CHECKING:
    from tests.simulation.world import World

RETENTION_S = 60.0
# How late a status may be deleted, and a move that began be named by one: the peace is longer than both.
GRACE_S = 60.0
ANSWER_S = 0.05
RECORD_BYTES = 1000


class MoveRequests:
    """Knows every id that was ever written down or told to a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.highest = 0
        self._told: dict[RequestId, None] = {}

    def describe(self, asked: DescribeLogDirs, emit: Any) -> None:
        """A broker says a moment later how large its replicas are, if it is there."""

        def answer() -> None:
            emit(self._described(asked))

        self.world.clock.after(ANSWER_S, answer)

    def _described(self, asked: DescribeLogDirs) -> Event:
        # None: the id of a killed controller, whose registration lasts until its session expires.
        broker = self.world.brokers.get(asked.broker)
        if broker is None or broker.model is None or broker.is_cut_off:
            return LogDirsDescribed(asked.broker, asked.broker_epoch, {}, "connection refused")
        sizes = {
            at: ReplicaSize(RECORD_BYTES * len(broker.disk[at].records)) for at in asked.partitions if at in broker.disk
        }
        return LogDirsDescribed(asked.broker, asked.broker_epoch, sizes)

    def wrote(self, touched: dict[str, Any]) -> str | None:
        """What is wrong with the statuses that a transaction created."""
        for path in touched:
            address = catalog.address_of(path)
            if isinstance(address, ReassignmentStatusAddress) and path in self.world.zookeeper.nodes:
                if self.world.zookeeper.nodes[path].version > 0:
                    continue
                if address.request <= self.highest:
                    return f"request {address.request} was written after {self.highest}"
                self.highest = address.request
        return None

    def answered(self, reply: ReassignmentsAltered) -> str | None:
        """What is wrong with the id in an answer."""
        has_accepted = not reply.error and any(r.error is ErrorCode.NONE for r in reply.results)
        if reply.request_id is None:
            return None
        if not has_accepted:
            return f"an id for a request of which nothing was accepted: {reply}"
        if reply.request_id in self._told or reply.request_id > self.highest:
            return f"id {reply.request_id} was told twice, or before it was written: {reply}"
        self._told[reply.request_id] = None
        return None

    def outcome(self) -> str | None:
        """What is wrong with the statuses in the end."""
        moving = {
            TopicPartition(name, number)
            for name, topic in self.world.checker.topics.items()
            for number, assignment in topic.partitions.items()
            if assignment.is_moving
        }
        followed = set()
        now_ms = round(self.world.clock.now * 1000)
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
            if (status.finished_ms is None) != bool(open_here) or not open_here <= moving:
                return f"{path} does not say what became of its moves: {status}"
            if status.finished_ms is not None and now_ms - status.finished_ms > (RETENTION_S + GRACE_S) * 1000:
                return f"{path} was kept for too long: {status}"
        return f"no request is responsible for {sorted(moving - followed)}" if moving - followed else None
