"""How is the log of a leader written in a test that keeps a ledger: statuses, records and a queue?"""

from __future__ import annotations

from pathlib import Path

from controller.core.progress.ledger import BY_REQUEST
from tests.unit.storage import zk_files as zk
from zk_layout import catalog
from zk_layout.catalog import Value
from zk_layout.ids import BrokerId, PartitionId, Replicas, RequestId, TopicName, Zxid
from zk_layout.storage import operations as ops
from zk_layout.znodes.move_records import MoveRecords, MoveRecordsAddress, RecordsNumber, TopicRecord
from zk_layout.znodes.reassignment_status import (
    PartitionStatus,
    ReassignmentStatusAddress,
    RequestStatus,
    StatusRoot,
    StatusRootAddress,
    TopicStatus,
)
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMove, WaitingMoves, WaitingMovesAddress, part_of

LEADER, BEGUN_MS = 7, 1_700_000_000_000
ORDERS = TopicName("orders")
_EPOCH = "/controller_epoch"

Written = tuple[str, Value | bytes | None]


def on(*brokers: int) -> Replicas:
    return tuple(map(BrokerId, brokers))


def assigned(*replicas: int, adding: Replicas = (), removing: Replicas = ()) -> Assignment:
    return Assignment(on(*replicas), adding, removing)


class Leader:
    """A leader of ours, from its claim on; each transaction comes a second after the last.

    Topic `orders` has partitions 0 on [1, 2] and 1 on [2, 1].
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.topic_zxid = Zxid(3)
        self.replicas = {PartitionId(0): assigned(1, 2), PartitionId(1): assigned(2, 1)}
        self._versions: dict[str, int] = {}
        self.write((_EPOCH, b"1"), fenced=False)
        self.write(("/controller", b'{"version":1,"brokerid":901,"timestamp":"1"}'), fenced=False, ephemeral=True)
        self.write(self.orders())

    # ---- transactions ----------------------------------------------------------------------------------------

    def write(
        self, *writes: Written, fenced: bool = True, ephemeral: bool = False, session: int = LEADER, after_s: int = 0
    ) -> Leader:
        """One transaction: creates what is not there, deletes what has no value."""
        for _ in range(after_s):
            self._add(zk.header(self.next, ops.ERROR, session, time_ms=self.now_ms) + zk.number(-110))
        parts = [(ops.CHECK, zk.check(_EPOCH, self._versions[_EPOCH] + 1))] if fenced else []
        parts += [self._part(path, value, ephemeral=ephemeral) for path, value in writes]
        self._add(zk.header(self.next, ops.MULTI, session, time_ms=self.now_ms) + zk.multi(*parts))
        return self

    def _add(self, body: bytes) -> None:
        self.bodies.append(body)

    @property
    def next(self) -> int:
        """The next transaction."""
        return len(self.bodies) + 1

    @property
    def now_ms(self) -> int:
        return BEGUN_MS + 1000 * self.next

    def _part(self, path: str, value: Value | bytes | None, *, ephemeral: bool) -> tuple[int, bytes]:
        if value is None:
            del self._versions[path]
            return ops.DELETE, zk.delete(path)
        data = value if isinstance(value, bytes) else catalog.encode(value)
        if path not in self._versions:
            self._versions[path] = 0
            return ops.CREATE, zk.create(path, data, ephemeral=ephemeral)
        self._versions[path] += 1
        return ops.SET_DATA, zk.set_data(path, data, self._versions[path])

    def log(self, home: Path, first: int = 1) -> Path:
        """Its log, from this transaction on."""
        path = home / f"log.{first:x}"
        path.write_bytes(zk.log(*self.bodies[first - 1 :]))
        return path

    # ---- znodes ----------------------------------------------------------------------------------------------

    def orders(self, partition: int | None = None, assignment: Assignment | None = None) -> Written:
        """The topic's znode, after this change."""
        if partition is not None and assignment is not None:
            self.replicas[PartitionId(partition)] = assignment
        return TopicAddress(ORDERS).path, Topic(dict(self.replicas))

    def records(
        self, request: int, moves: dict[int, tuple[Replicas, Replicas]], *, czxid: int | None = None,
        reason: str | None = None,
    ) -> Written:  # fmt: skip
        """What a request moved: to where, and from where."""
        topic = TopicRecord(Zxid(czxid or self.topic_zxid), {PartitionId(p): move for p, move in moves.items()})
        value = MoveRecords(
            BY_REQUEST, self.now_ms, 1, {ORDERS: topic}, principal="User:ann", client_id="cli", address="10.0.0.9",
            reason=reason,
        )  # fmt: skip
        return MoveRecordsAddress(RequestId(request), RecordsNumber(0)).path, value

    def status(
        self, request: int, moves: dict[int, tuple[Replicas, str]], *, finished: bool = False, is_cancel: bool = False
    ) -> Written:
        """How a request stands; an outcome is `waiting`, `in progress`, or final."""
        listed = tuple(
            PartitionStatus(
                PartitionId(partition), to, is_cancel, is_waiting=outcome == "waiting",
                outcome=None if outcome in ("waiting", "in progress") else outcome,
            )
            for partition, (to, outcome) in sorted(moves.items())
        )  # fmt: skip
        counts: dict[str, int] = {}
        for _, outcome in moves.values():
            counts[outcome] = counts.get(outcome, 0) + 1
        at = self.now_ms
        value = RequestStatus(
            RequestId(request), BY_REQUEST, at, at, at if finished else None, counts, (TopicStatus(ORDERS, listed),)
        )
        return ReassignmentStatusAddress(RequestId(request)).path, value

    def counted(self, request: int) -> Written:
        """The parent of all statuses, with this request the last."""
        return StatusRootAddress().path, StatusRoot(RequestId(request))

    def waiting(self, moves: dict[int, tuple[Replicas, Replicas]]) -> Written:
        """The queue's znode with these moves, to where and from where; deleted if there are none."""
        path = WaitingMovesAddress(ORDERS, part_of(PartitionId(0))).path
        if not moves:
            return path, None
        value = {PartitionId(p): WaitingMove(to, former, p) for p, (to, former) in moves.items()}
        return path, WaitingMoves(self.topic_zxid, value)
