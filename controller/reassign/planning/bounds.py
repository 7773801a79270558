"""How far is each broker from its fair share, and what must be copied at least to change that?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import ceil, floor, inf

from controller.reassign.planning.board import Board
from controller.reassign.planning.layout import Aims, By


class Bounds:
    """What each broker may hold, and the penalty for more or less: linear in both dimensions, in shares.

    Squared, it took up to twice as long in random placements on 20 and 50 brokers, for -1 to 8 % more bytes.
    """

    def __init__(self, board: Board, aims: Aims) -> None:
        everyone = range(len(board.ids))
        counts, sizes = board.shares()
        counts, sizes = _held_by_members(board, board.counts, counts), _held_by_members(board, board.bytes, sizes)
        self.count_share, self.size_share = counts, sizes
        by_count, by_size = By.COUNTS in aims.balances, By.BYTES in aims.balances
        low, high = 1 - aims.slack, 1 + aims.slack
        # Where only some receive, the others give until these have their shares, and no more.
        is_judged = [bool(counts[b]) and (not aims.receivers or board.is_receiver[b]) for b in everyone]
        self.least_count = [floor(counts[b] * low) if by_count else 0 for b in everyone]
        self.most_count = [ceil(counts[b] * high) if by_count and is_judged[b] else inf for b in everyone]
        self.least_bytes = [sizes[b] * low if by_size else 0.0 for b in everyone]
        self.most_bytes = [sizes[b] * high if by_size and is_judged[b] else inf for b in everyone]
        self.count_weight = [1 / share if share else 0.0 for share in counts]
        self.size_weight = [1 / share if share else 0.0 for share in sizes]

    def penalty(self, broker: int, count: int, size: float) -> float:
        """How far a broker with so many replicas of so many bytes is outside its bounds, in fair shares."""
        found = 0.0
        if count > self.most_count[broker]:
            found = (count - self.most_count[broker]) * self.count_weight[broker]
        elif count < self.least_count[broker]:
            found = (self.least_count[broker] - count) * self.count_weight[broker]
        if size > self.most_bytes[broker]:
            found += (size - self.most_bytes[broker]) * self.size_weight[broker]
        elif size < self.least_bytes[broker]:
            found += (self.least_bytes[broker] - size) * self.size_weight[broker]
        return found

    def widened(self, counts: Sequence[int], sizes: Sequence[float]) -> None:
        """Let every broker hold what it holds in this plan: the bound is one for plans that balance as well."""
        for broker in range(len(counts)):
            self.least_count[broker] = min(self.least_count[broker], counts[broker])
            self.most_count[broker] = max(self.most_count[broker], counts[broker])
            self.least_bytes[broker] = min(self.least_bytes[broker], sizes[broker])
            self.most_bytes[broker] = max(self.most_bytes[broker], sizes[broker])


def least_bytes(before: Board, bounds: Bounds, leaving: Collection[int]) -> int:
    """What every plan within these bounds has to copy, at least, from where the replicas were `before`.

    The largest of what brokers lack, of what leaves and what is too much, and of the smallest replicas that make up the
    numbers. Holds where no partition loses or gains replicas.
    """
    lacking = sum(max(0.0, bounds.least_bytes[b] - before.bytes[b]) for b in before.receivers)
    excess = sum(max(0.0, before.bytes[b] - bounds.most_bytes[b]) for b in before.members)
    few = sum(max(0, bounds.least_count[b] - before.counts[b]) for b in before.receivers)
    many = sum(max(0, before.counts[b] - bounds.most_count[b]) for b in before.members)
    leaving_bytes = sum(size for b in leaving for size, _ in before.on[b])
    leaving_count = sum(len(before.on[b]) for b in leaving)
    smallest = _smallest(before, int(max(few, many + leaving_count)))
    return ceil(max(lacking, leaving_bytes + excess, smallest) - 1e-6)


def _smallest(board: Board, number: int) -> int:
    """The bytes of so many replicas, if they are the smallest that may move."""
    return sum(size for size, _ in zip(_sizes(board), range(number), strict=False))


def _sizes(board: Board) -> Iterator[int]:
    movable = (partition for partition, is_fixed in enumerate(board.fixed) if not is_fixed)
    for partition in sorted(movable, key=board.sizes.__getitem__):
        yield from (board.sizes[partition] for _ in board.replicas[partition])


def _held_by_members(board: Board, held: Sequence[int], shares: list[float]) -> list[float]:
    """Shares of what is on members only: what is on brokers that are away does not move."""
    wanted, there = sum(shares[b] for b in board.members), sum(held[b] for b in board.members)
    return [share * there / wanted if wanted else 0.0 for share in shares]
