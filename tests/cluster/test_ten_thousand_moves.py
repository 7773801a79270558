"""10,000 moves wait in the queue: are the limits kept, is nothing lost or begun twice, and how long does it take?

The brokers are simulated, and copy each replica in the same time. ZooKeeper, the controllers and all connections are
real. What happened is read from ZooKeeper's transaction log: every write of it, in order.

`pytest -s -m thorough tests/cluster/test_ten_thousand_moves.py` prints a line of figures. Copying takes so little here
that what else a move needs shows: on a quiet machine nothing but the controller, on a busy one mostly the others' work.
The leader's processor time a move, of the half before the fail-over, says what the controller takes on either.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import pytest
from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, CreateTopics, NewTopic, PartitionReassignment
from controller.demo.znodes import Znodes
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import ZooKeeperServer
from metrics.measures import PREFIX
from tests.benchmarks.machine import usage
from tests.cluster.copying_brokers import CopyingBrokers
from tests.cluster.replica import Replica, wait_until
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.storage.damage import Damage
from zk_layout.storage.txnlog import Records, rows_of
from zk_layout.znodes import partition_state, topics, waiting_moves
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMovesAddress

BROKERS = range(1, 16)
TOPICS = [TopicName(f"topic-{number:03}") for number in range(100)]
PARTITIONS = 100
MOVES = len(TOPICS) * PARTITIONS
AT_ONCE, INTO, OUT = 50, 5, 5
COPY_S = 2.5
LOOKS_EVERY_S = 2.0
LARGEST_BYTES = 1_048_575
LIMITS = {
    "reassignment_moves_at_once": AT_ONCE,
    "reassignment_moves_into_broker": INTO,
    "reassignment_moves_out_of_broker": OUT,
    "reassignment_moves_order": "round-robin",
}


class History(Struct):
    """What ZooKeeper's log says of moves.

    Shape:
        `arrived_at` is when the new replica was in sync. `taken` is how much room is taken now, by place, and `most`
        the most by kind of place.
    Units:
        Times are Unix times in seconds.
    """

    begun_at: dict[TopicPartition, float] = field(default_factory=dict)
    arrived_at: dict[TopicPartition, float] = field(default_factory=dict)
    ended_at: dict[TopicPartition, float] = field(default_factory=dict)
    most: Counter[str] = field(default_factory=Counter)
    largest_bytes: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    assignments: dict[TopicPartition, Assignment] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    waiting: dict[WaitingMovesAddress, dict[PartitionId, Replicas]] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)


def places(history: History, at: TopicPartition) -> list[str]:
    """Where a partition takes room now."""
    assignment, state = history.assignments.get(at), history.states.get(at)
    if assignment is None or not assignment.adding:
        return []
    copying = [replica for replica in assignment.adding if state is None or replica not in state.isr]
    out = [f"out of {state.leader}"] if copying and state is not None and state.leader >= 0 else []
    return ["in flight", *(f"into {replica}" for replica in copying), *out]


def read(directory: Path) -> History:
    """Follow every write in the server's transaction logs."""
    history = History()
    for zxid_rows in transactions(directory):
        changed = [change for row in zxid_rows for change in applied(history, row)]
        for place in {place for at in changed for place in places(history, at)}:
            kind = place.split(" ")[0]
            history.most[kind] = max(history.most[kind], history.taken[place])
            if history.taken[place] > {"in": AT_ONCE, "into": INTO, "out": OUT}[kind]:
                history.errors.append(f"{history.taken[place]} {place} in transaction {zxid_rows[0][0]:x}")
    return history


def transactions(directory: Path) -> Iterator[list[tuple[int, float, str, bytes | None]]]:
    """The writes of each transaction: zxid, time, path, and data, None if the znode is deleted."""
    damage: list[Damage] = []
    logs = sorted(directory.glob("version-2/log.*"), key=lambda path: int(path.suffix[1:], 16))
    for path in logs:
        records = Records(str(path))
        taken = [records.feed(path.read_bytes()), records.finish()]
        part: list[tuple[int, float, str, bytes | None]] = []
        for row in (row for bodies in taken for row in rows_of(bodies, str(path), damage)):
            zxid, time_ms, op, name, data, error = row[0], row[1], row[6], row[7], row[8], row[12]
            if part and part[-1][0] != zxid:
                yield part
                part = []
            if error is None and op in (1, 2, 5, 15):
                part.append((zxid, time_ms / 1000, name, None if op == 2 else data or b""))
        if part:
            yield part
    assert damage == []


def applied(history: History, row: tuple[int, float, str, bytes | None]) -> list[TopicPartition]:
    """Take in one write; the partitions whose room may have changed."""
    _, when, path, data = row
    address = catalog.address_of(path)
    if data is not None and address is not None:
        kind = type(address).__name__
        history.largest_bytes[kind] = max(history.largest_bytes.get(kind, 0), len(data))
    if isinstance(address, WaitingMovesAddress):
        moves = {} if data is None else waiting_moves.decode(data).moves
        history.waiting[address] = {number: move.to for number, move in moves.items()}
        return []
    if isinstance(address, StateAddress) and data is not None:
        at = TopicPartition(address.topic, address.partition)
        return changed(history, at, when, None, partition_state.decode(data))
    if isinstance(address, TopicAddress) and data is not None:
        found = []
        for number, assignment in topics.decode(data).partitions.items():
            at = TopicPartition(address.topic, number)
            if history.assignments.get(at) != assignment:
                found += changed(history, at, when, assignment, None)
        return found
    return []


def changed(
    history: History, at: TopicPartition, when: float, assignment: Assignment | None, state: PartitionState | None
) -> list[TopicPartition]:
    """Note what a partition is from now on."""
    before, was_moving = places(history, at), at in history.assignments and history.assignments[at].is_moving
    if assignment is not None:
        history.assignments[at] = assignment
    if state is not None:
        history.states[at] = state
    history.taken.subtract(before)
    history.taken.update(places(history, at))
    is_moving = at in history.assignments and history.assignments[at].is_moving
    if is_moving and not was_moving:
        if at in history.begun_at:
            history.errors.append(f"{at} begins twice")
        history.begun_at[at] = when
    elif was_moving and not is_moving:
        history.ended_at[at] = when
    if is_moving and len(places(history, at)) == len(["in flight"]):
        history.arrived_at.setdefault(at, when)
    return [at]


def plan(znodes: Znodes) -> dict[TopicPartition, Replicas]:
    """The last replica of each partition goes to the broker that receives fewest so far."""
    receives: Counter[int] = Counter()
    moves: dict[TopicPartition, Replicas] = {}
    for name in TOPICS:
        for number, seen in enumerate(znodes.partitions(name)):
            *kept, _ = seen.assignment.replicas
            into = min((b for b in BROKERS if b not in seen.assignment.replicas), key=lambda b: (receives[b], b))
            receives[into] += 1
            moves[TopicPartition(name, PartitionId(number))] = (*kept, BrokerId(into))
    return moves


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_ten_thousand_moves_keep_the_limits_through_a_fail_over(tmp_path: Path) -> None:
    try:
        server = ZooKeeperServer(tmp_path / "zookeeper")
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with (
        server,
        Znodes(server.connect) as znodes,
        CopyingBrokers(server.connect, BROKERS, COPY_S),
        Replica(server.connect, tmp_path, 901, **LIMITS) as first,
    ):
        first.await_phase("active", 180)
        with Replica(server.connect, tmp_path, 902, **LIMITS) as second:
            new = tuple(NewTopic(name, PARTITIONS, 2) for name in TOPICS)
            created = first.ask(CreateTopics(new, timeout_ms=120_000), version=7)
            assert {result.error for result in created.results} == {ErrorCode.NONE}
            moves = plan(znodes)
            assert len(moves) == MOVES
            asked = tuple(PartitionReassignment(at, to) for at, to in moves.items())
            processes = {"leader": first.process.pid or 0}
            sent_at, before = time.time(), usage(processes)

            answer = first.ask(AlterReassignments(asked, timeout_ms=120_000))

            assert {result.error for result in answer.results} == {ErrorCode.NONE}
            wait_until(lambda: left(first) < MOVES / 2, "half of the moves were over", 1800)
            spent, over = usage(processes).since(before), MOVES - left(first)
            first.process.kill()
            second.await_phase("active", 180)
            wait_until(lambda: left(second) == 0, "all had moved", 1800)

    history = read(tmp_path / "zookeeper")

    assert history.errors == []
    assert history.begun_at.keys() == history.ended_at.keys() == moves.keys(), "each has moved, and each once"
    assert {at: history.assignments[at].replicas for at in moves} == moves
    assert not any(history.waiting.values())
    assert max(history.largest_bytes.values()) < LARGEST_BYTES
    took_s, pause_s = max(history.ended_at.values()) - sent_at, gap(history)
    used_ms = spent.by_process["leader"] / over * 1000
    sys.stderr.write(f"\n{figures(history, took_s, pause_s)}; {used_ms:.1f} ms of the leader's processor time a move\n")
    assert took_s - pause_s <= 1.1 * by_slots_s(history), "slots were free while moves waited"


def by_slots_s(history: History) -> float:
    """How long it takes if no slot is ever free, at the time that each move had its slot."""
    return sum(history.ended_at[at] - began for at, began in history.begun_at.items()) / AT_ONCE


def figures(history: History, took_s: float, pause_s: float) -> str:
    """What was measured."""
    moves = history.begun_at.keys()
    copying = mean(history.arrived_at[at] - history.begun_at[at] for at in moves)
    ending = mean(history.ended_at[at] - history.arrived_at[at] for at in moves)
    best_s = len(moves) * COPY_S / AT_ONCE
    return "; ".join(
        [
            f"{len(moves)} moves took {took_s:.0f} s, {pause_s:.1f} s of them without a beginning at the fail-over",
            f"{by_slots_s(history):.0f} s if no slot were ever free, {best_s:.0f} s if copying were all",
            f"on average in sync {copying:.2f} s after the beginning, of which {COPY_S} s are copying",
            f"over {ending:.2f} s after that",
            f"most at once: {dict(history.most)}",
            f"largest znodes in bytes: {history.largest_bytes}",
            f"load {os.getloadavg()[2]:.1f}",
        ]
    )


def left(replica: Replica) -> float:
    """How many moves wait or are under way, by what a leader measures, which is asked seldom: it has enough to do."""
    time.sleep(LOOKS_EVERY_S)
    _, text = replica.get("/metrics")
    found = {one.name.removeprefix(PREFIX): one for one in text_string_to_metric_families(text)}
    counted = [one for name, one in found.items() if name == "moving_partitions" or name.startswith("waiting_moves_")]
    assert counted, "nothing is counted"
    return sum(sample.value for one in counted for sample in one.samples)


def gap(history: History) -> float:
    """The longest time in which no move began: that of the fail-over."""
    times = sorted(history.begun_at.values())
    return max(after - before for before, after in itertools.pairwise(times))
