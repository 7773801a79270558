"""Which replicas move where, and could any plan do with less?

First what must move, then, only if that is asked for, what balances, then the order of replicas. The same input always
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from controller.reassign.planning.balancing import Balance
from controller.reassign.planning.board import Board
from controller.reassign.planning.bounds import Bounds, least_bytes
from controller.reassign.planning.layout import Aims, Layout, Unplannable
from controller.reassign.planning.leading import Leading
from controller.reassign.planning.repairing import Repair
from zk_layout.ids import BrokerId, Replicas, TopicPartition

_SMALL = 4_000
"""Up to so many partitions times brokers the search is repeated, with other choices."""
_REPEATS = 24
_NEGLIGIBLE = 1e-3  # of a fair share, beyond the slack


class Load(Struct, frozen=True):
    """What one broker has."""

    replicas: int
    size_bytes: int
    leaders: int


class Change(Struct, frozen=True):
    """One partition whose replicas or their order change."""

    at: TopicPartition
    before: Replicas
    after: Replicas
    size_bytes: int

    @property
    def adding(self) -> Replicas:
        """The brokers that copy it."""
        return tuple(broker for broker in self.after if broker not in self.before)


class Planned(Struct, frozen=True):
    """A plan, and how good it is.

    Shape:
        `changes` is sorted by partition. `unspread` are partitions of which a rack has too many replicas in the plan.
        `outside` are the brokers that do not come within the slack.
    Units:
        No plan that reaches as much copies less than `least_bytes`.
    """

    changes: tuple[Change, ...]
    before: dict[BrokerId, Load]
    after: dict[BrokerId, Load]
    moved_bytes: int
    least_bytes: int
    unspread: tuple[TopicPartition, ...] = ()
    outside: tuple[BrokerId, ...] = ()


def plan(layout: Layout, aims: Aims) -> Planned:
    """Plan.

    Raises:
        Unplannable: there are too few brokers.
    """
    _demand_reachable(layout, aims)
    board = Board(layout, aims)
    repair = Repair(board, aims)
    forced = repair.run()
    before = Board(layout, aims)
    least, outside = forced, tuple[BrokerId, ...]()
    if aims.balances:
        board, bounds = _balanced(board, layout, aims)
        outside = tuple(
            board.ids[b] for b in board.receivers if bounds.penalty(b, board.counts[b], board.bytes[b]) > _NEGLIGIBLE
        )
        bounds.widened(board.counts, board.bytes)
        if not aims.replication_factors:
            leaving = [before.number[broker] for broker in sorted(aims.leaving) if broker in before.number]
            least = max(forced, least_bytes(before, bounds, leaving))
    if aims.balances_leaders:
        Leading(board).run()
    unspread = tuple(layout.partitions[partition].at for partition in sorted(repair.unspread))
    return Planned(
        tuple(_changes(layout, board)),
        _loads(before),
        _loads(board),
        board.moved_bytes,
        least,
        unspread,
        outside,
    )


def _demand_reachable(layout: Layout, aims: Aims) -> None:
    known = {broker for placed in layout.partitions for broker in placed.replicas} | set(layout.racks)
    for name, brokers in (("to leave", aims.leaving), ("to receive", aims.receivers)):
        if unknown := sorted(brokers - known):
            raise Unplannable(f"brokers {name} are unknown: {', '.join(map(str, unknown))}")
    racks = set(layout.racks.values())
    if None in racks and len(racks) > 1:
        raise Unplannable(
            "some brokers have a rack and some have none; ignore racks, or configure broker.rack everywhere"
        )


def _balanced(board: Board, layout: Layout, aims: Aims) -> tuple[Board, Bounds]:
    """The best of some searches; of one, where the cluster is large."""
    start = [list(replicas) for replicas in board.replicas]
    bounds = Bounds(board, aims)
    search = Balance(board, bounds)
    search.run()
    best, best_score = board, (round(search.penalty, 9), board.moved_bytes, _moves(board))
    if len(board.ids) * len(start) <= _SMALL:
        for seed in range(_REPEATS):
            again = Board(layout, aims)
            _place(again, start)
            search = Balance(again, bounds, Random(seed))
            search.run()
            score = (round(search.penalty, 9), again.moved_bytes, _moves(again))
            if score < best_score:
                best, best_score = again, score
    return best, bounds


def _place(board: Board, replicas: list[list[int]]) -> None:
    for partition, wanted in enumerate(replicas):
        for broker in [b for b in board.replicas[partition] if b not in wanted]:
            board.remove(partition, broker)
        for broker in wanted:
            if broker not in board.replicas[partition]:
                board.add(partition, broker)
        board.replicas[partition] = list(wanted)


def _moves(board: Board) -> int:
    return sum(1 for _ in board.moved())


def _changes(layout: Layout, board: Board) -> Iterator[Change]:
    for partition, placed in enumerate(layout.partitions):
        after = board.replica_ids(partition)
        if after != placed.replicas:
            yield Change(placed.at, placed.replicas, after, placed.size_bytes)


def _loads(board: Board) -> dict[BrokerId, Load]:
    leaders = [0] * len(board.ids)
    for replicas in board.replicas:
        if replicas:
            leaders[replicas[0]] += 1
    return {b: Load(board.counts[i], board.bytes[i], leaders[i]) for i, b in enumerate(board.ids)}
