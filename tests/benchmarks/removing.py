"""How soon after the last replica is in sync are those that leave told to delete their logs, on an idle cluster?"""

from __future__ import annotations

import itertools
import time

from msgspec import Struct

from tests.benchmarks.contenders import Contender
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet
from tests.benchmarks.reassigning import ask_to_move
from tests.benchmarks.stage import Stage

MOVES = 200
_MOVED_WITHIN_S = 60.0
_BETWEEN_S = 0.1
_POLL_S = 0.02


class Removed(Struct, frozen=True):
    """Moves of single partitions, one after the other.

    Units:
        Milliseconds from the leader's AlterPartition with all replicas to the arrival of the last StopReplica that
        deletes one; processor seconds for `used_s`.
    """

    contender: str
    moves: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    peak_mib: float
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float


def measure(stage: Stage, contender: Contender, *, patience_s: float, moves: int = MOVES) -> Removed:
    """Let a contender become the controller, then move one partition after the other. They stay moved.

    Raises:
        TimeoutError: a move did not end.
    """
    assert moves <= stage.shape.partitions
    try:
        stage.enthrone(contender)
        quiet = wait_until_quiet(patience_s)
        processes = stage.processes(contender)
        before = usage(processes)
        every = itertools.product(stage.shape.names, range(stage.shape.partitions_per_topic))
        for count, partition in enumerate(itertools.islice(every, moves), 1):
            ask_to_move(contender, stage.shape, [partition])
            _wait_for_deletions(stage, contender, count * stage.shape.replication)
            time.sleep(_BETWEEN_S)
        spent = usage(processes).since(before)
        took_ms = sorted((removal.stopped_at - removal.in_sync_at) * 1000 for removal in stage.fleet.removals())
        assert len(took_ms) == moves
        return Removed(
            contender=contender.name,
            moves=moves,
            p50_ms=round(percentile(took_ms, 50), 2),
            p99_ms=round(percentile(took_ms, 99), 2),
            longest_ms=round(took_ms[-1], 2),
            peak_mib=round(peak_resident_mib(processes["contender"]), 1),
            used_s={name: round(seconds, 2) for name, seconds in spent.by_process.items()},
            others_s=round(spent.others_s, 2),
            measured_s=round(spent.at, 2),
            quiet_before=round(quiet, 2),
        )
    finally:
        stage.dismiss(contender)


def percentile(ascending: list[float], percent: int) -> float:
    """The smallest of the values that so many percent of them do not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99)
    (2.0, 4.0)
    """
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


def _wait_for_deletions(stage: Stage, contender: Contender, expected: int) -> None:
    deadline = time.monotonic() + _MOVED_WITHIN_S
    while stage.fleet.deletions() < expected:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{contender.name} did not end a move:\n{contender.process.tail(40)}")
        time.sleep(_POLL_S)
