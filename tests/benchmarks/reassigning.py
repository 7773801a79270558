"""How long does it take to move every replica of many partitions, when followers are in sync at once?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from kazoo.client import KazooClient
from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.asking import ask_raw
from controller.wire.frames import RequestHeader
from tests.benchmarks.contenders import Contender
from tests.benchmarks.filling import Shape
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet, written_bytes
from tests.benchmarks.stage import Stage
from tests.equipment.client_side import api_key_of, decode_reply, encode_request
from zk_layout.ids import PartitionId, TopicName, TopicPartition
from zk_layout.znodes import partition_state, topics
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import TopicAddress

UNCHANGED_S = 2.0
_POLL_S = 0.5
_LONGEST_ANSWER_S = 900


class Reassigned(Struct, frozen=True):
    """One reassignment of everything.

    Units:
        Seconds since the request was sent; processor seconds for `used_s`.

    Shape:
        `topic_writes` counts the writes of all topic znodes, `transactions` all of ZooKeeper's, `log_bytes` what they
        take in its transaction log. `quiet_before` and `others_s` are as for a fail-over.
    """

    contender: str
    partitions: int
    answered_s: float
    settled_s: float
    topic_writes: int
    transactions: int
    log_bytes: int
    peak_mib: float
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float

    @property
    def partitions_a_second(self) -> float:
        """The pace from the request to the end."""
        return self.partitions / self.settled_s


def measure(stage: Stage, contender: Contender, *, timeout_s: float, patience_s: float) -> Reassigned:
    """Let a contender become the controller, and have it move every replica of every partition.

    Raises:
        TimeoutError: it did not finish.
    """
    try:
        stage.enthrone(contender)
        quiet = wait_until_quiet(patience_s)
        return _move_everything(stage, contender, timeout_s, quiet)
    finally:
        stage.dismiss(contender)


def _move_everything(stage: Stage, contender: Contender, timeout_s: float, quiet: float) -> Reassigned:
    assert contender.process.pid is not None
    processes = stage.processes(contender)
    log = stage.server.data_dir
    used, zxid, written = usage(processes), _last_zxid(stage), written_bytes(log, "log.*")
    watch = _Watch(stage)
    everything = [(name, number) for name in stage.shape.names for number in range(stage.shape.partitions_per_topic)]
    sent_at, answered_at = ask_to_move(contender, stage.shape, everything)
    settled_at = watch.settled(contender, time.monotonic() + timeout_s)
    spent = usage(processes).since(used)
    return Reassigned(
        contender=contender.name,
        partitions=stage.shape.partitions,
        answered_s=round(answered_at - sent_at, 3),
        settled_s=round(settled_at - sent_at, 3),
        topic_writes=watch.writes(),
        transactions=_last_zxid(stage) - zxid,
        log_bytes=written_bytes(log, "log.*") - written,
        peak_mib=round(peak_resident_mib(contender.process.pid), 1),
        used_s={name: round(seconds, 2) for name, seconds in spent.by_process.items()},
        others_s=round(spent.others_s, 2),
        measured_s=round(spent.at, 2),
        quiet_before=round(quiet, 2),
    )


def target_shift(shape: Shape) -> int:
    """The shift along the brokers by which every replica moves, so that none stays."""
    assert 2 * shape.replication <= shape.brokers
    return shape.replication


def ask_to_move(contender: Contender, shape: Shape, partitions: Iterable[tuple[TopicName, int]]) -> tuple[float, float]:
    """Request that every replica of these moves; return when this was sent and when it was answered.

    Raises:
        AssertionError: a partition was refused.
    """
    shift = target_shift(shape)
    reassignments = tuple(
        PartitionReassignment(TopicPartition(name, PartitionId(number)), shape.replicas(number, shift))
        for name, number in partitions
    )
    request = AlterReassignments(reassignments, timeout_ms=_LONGEST_ANSWER_S * 1000)
    header = RequestHeader(api_key_of(request), 0, 1, "benchmark")
    message = encode_request(header, request)
    address, sent_at = f"127.0.0.1:{contender.port}", time.time()
    (frame,) = ask_raw(address, message, timeout_s=_LONGEST_ANSWER_S)
    answered_at = time.time()
    reply = decode_reply(header, frame)
    assert isinstance(reply, ReassignmentsAltered)
    refused = [result for result in reply.results if result.error is not ErrorCode.NONE]
    assert reply.error is ErrorCode.NONE, reply.message
    assert not refused, refused[0]
    assert len(reply.results) == len(reassignments)
    return sent_at, answered_at


class _Watch:
    """Detects when all topic znodes are settled, and reads their data only once writes have stopped."""

    def __init__(self, stage: Stage) -> None:
        self._zookeeper: KazooClient = stage.zookeeper
        self._shape = stage.shape
        self._before = dict(self._versions())
        self._writes = 0

    def writes(self) -> int:
        """How often topic znodes were written until they were settled."""
        return self._writes

    def settled(self, contender: Contender, deadline: float) -> float:
        """The last write of a topic znode in ZooKeeper's time (Unix), at which all moves were done.

        Raises:
            TimeoutError: they are not done.
        """
        seen, since = dict(self._versions()), time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(_POLL_S)
            now = dict(self._versions())
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > UNCHANGED_S and self._are_settled():
                self._writes = sum(version - self._before[name][0] for name, (version, _) in now.items())
                return max(written_ms for _, written_ms in now.values()) / 1000
        raise TimeoutError(f"{contender.name} has not moved everything:\n{contender.process.tail(40)}")

    def _versions(self) -> Iterator[tuple[str, tuple[int, int]]]:
        pending = [(name, self._zookeeper.exists_async(TopicAddress(name).path)) for name in self._shape.names]
        for name, answer in pending:
            stat = answer.get(timeout=60)
            yield name, (stat.version, stat.mtime)

    def _are_settled(self) -> bool:
        shift = target_shift(self._shape)
        numbers = [PartitionId(number) for number in range(self._shape.partitions_per_topic)]
        for name in self._shape.names:
            assigned = topics.decode(self._zookeeper.get(TopicAddress(name).path)[0]).partitions
            if any(a.is_moving or set(a.replicas) != set(self._shape.replicas(n, shift)) for n, a in assigned.items()):
                return False
            states = [self._zookeeper.get_async(StateAddress(name, number).path) for number in numbers]
            for number, answer in zip(numbers, states, strict=True):
                state = partition_state.decode(answer.get(timeout=60)[0])
                assert set(state.isr) == set(self._shape.replicas(number, shift)), (name, number, state)
                assert state.leader in state.isr, (name, number, state)
        return True


def _last_zxid(stage: Stage) -> int:
    line = next(line for line in stage.server.ask("srvr").splitlines() if line.startswith("Zxid:"))
    return int(line.split()[1], 16)
