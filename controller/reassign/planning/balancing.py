"""Which replicas move so that every broker comes within its bounds, for as few bytes as possible?

A local search: the broker that is furthest outside its bounds gives or gets the replica that removes the most penalty
for each byte that has to be copied in addition. Moving a replica that moves anyway costs nothing, moving one home is a
gain. Sizes are taken near the ratio of the bytes and the replicas that are lacking, so that both dimensions are reached
together. Where no single move helps, two brokers exchange replicas.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import nlargest, nsmallest
from operator import attrgetter
from random import Random
from typing import NamedTuple

from controller.reassign.planning.board import Board
from controller.reassign.planning.bounds import Bounds

_NOTHING = 1e-9
_FEW = 48
"""Of so few replicas all are tried."""
_PROBES = 8
_SCANNED = 48
_PARTNERS = 8
_SWAP_PROBES = 12


class _Step(NamedTuple):
    """Moves that belong together, better steps being larger."""

    score: tuple[bool, float]
    moves: tuple[tuple[int, int, int], ...]


class Balance:
    """Brings a board within bounds."""

    def __init__(self, board: Board, bounds: Bounds, random: Random | None = None) -> None:
        """With `random` equal choices, and nearly equal ones, are made by chance."""
        self._board = board
        self._bounds = bounds
        self._random = random
        self._penalties = [self._penalty_of(broker) for broker in range(len(board.ids))]

    @property
    def penalty(self) -> float:
        """How far all brokers together are outside their bounds."""
        return sum(self._penalties)

    def run(self) -> None:
        """Search until no step helps."""
        self._reach()
        while self._save():
            self._reach()

    def _reach(self) -> None:
        stuck: set[int] = set()
        has_moved = False
        while True:
            open_ = [b for b, penalty in enumerate(self._penalties) if penalty > _NOTHING and b not in stuck]
            if not open_:
                if not has_moved or not stuck:
                    return
                stuck.clear()
                has_moved = False
                continue
            worst = max(open_, key=self._penalties.__getitem__)
            step = _best(self._moves(worst)) or _best(self._exchanges(worst)) or _best(self._chains(worst))
            if step is None:
                stuck.add(worst)
                continue
            has_moved = True
            self._carry_out(step)

    def _carry_out(self, step: _Step) -> None:
        for partition, source, target in step.moves:
            self._board.move(partition, source, target)
            self._penalties[source] = self._penalty_of(source)
            self._penalties[target] = self._penalty_of(target)

    def _penalty_of(self, broker: int) -> float:
        return self._bounds.penalty(broker, self._board.counts[broker], self._board.bytes[broker])

    # ---- single moves ---------------------------------------------------------------------------------------

    def _moves(self, worst: int) -> Iterator[_Step]:
        for source, target in self._pairs(worst):
            for partition in self._candidates(source, target):
                yield from self._judged((partition, source, target))

    def _pairs(self, broker: int) -> Iterator[tuple[int, int]]:
        board, bounds = self._board, self._bounds
        has_too_much = (
            board.counts[broker] > bounds.most_count[broker] or board.bytes[broker] > bounds.most_bytes[broker]
        )
        has_too_little = board.is_receiver[broker] and (
            board.counts[broker] < bounds.least_count[broker] or board.bytes[broker] < bounds.least_bytes[broker]
        )
        if has_too_much:
            for target in self._partners(broker, board.receivers, is_for_least=True):
                yield broker, target
        if has_too_little:
            for source in self._partners(broker, board.members, is_for_least=False):
                yield source, broker

    def _partners(self, broker: int, among: list[int], *, is_for_least: bool) -> list[int]:
        """The emptiest or fullest brokers, and those of the same rack, where a move never breaks the rack rule."""
        load = self._load
        choose = nsmallest if is_for_least else nlargest
        others = [other for other in among if other != broker]
        rack = self._board.rack_of[broker]
        near = [other for other in others if self._board.rack_of[other] == rack]
        return list(dict.fromkeys([*choose(_PARTNERS, others, key=load), *choose(_PARTNERS // 2, near, key=load)]))

    def _load(self, broker: int) -> float:
        board, bounds = self._board, self._bounds
        count = board.counts[broker] - bounds.count_share[broker]
        size = board.bytes[broker] - bounds.size_share[broker]
        return count * bounds.count_weight[broker] + size * bounds.size_weight[broker]

    def _candidates(self, source: int, target: int) -> Iterator[int]:
        """Partitions that may move, those of the size that fits best first."""
        held, fits = self._board.on[source], self._board.fits
        if len(held) <= _FEW:
            yield from (partition for _, partition in held if fits(partition, target, source))
            return
        found = 0
        for partition in _outward(held, bisect_left(held, (self._wanted_size(source, target), 0))):
            if fits(partition, target, source):
                yield partition
                found += 1
                if found == _PROBES:
                    return

    def _wanted_size(self, source: int, target: int) -> float:
        board, bounds = self._board, self._bounds
        size = max(
            board.bytes[source] - bounds.most_bytes[source], bounds.least_bytes[target] - board.bytes[target], 0.0
        )
        count = max(
            board.counts[source] - bounds.most_count[source], bounds.least_count[target] - board.counts[target], 1
        )
        return size / count

    # ---- exchanges ------------------------------------------------------------------------------------------

    def _exchanges(self, worst: int) -> Iterator[_Step]:
        for source, target in self._pairs(worst):
            if self._board.is_receiver[source] and self._board.is_receiver[target]:
                yield from self._exchanges_of(source, target)

    def _exchanges_of(self, source: int, target: int) -> Iterator[_Step]:
        fits = self._board.fits
        wanted = self._wanted_size(source, target)
        for size, partition in _spread(self._board.on[source]):
            if not fits(partition, target, source):
                continue
            for other in _near(self._board.on[target], size - wanted):
                if fits(other, source, target):
                    yield from self._judged((partition, source, target), (other, target, source))

    def _chains(self, worst: int) -> Iterator[_Step]:
        """A replica goes to a third broker, which gives one on; for where racks forbid the direct way."""
        for source, target in self._pairs(worst):
            for third in self._partners(worst, self._board.receivers, is_for_least=True):
                if third not in (source, target):
                    yield from self._chains_of(source, third, target)

    def _chains_of(self, source: int, third: int, target: int) -> Iterator[_Step]:
        fits = self._board.fits
        for _, first in _spread(self._board.on[source]):
            if not fits(first, third, source):
                continue
            for _, second in _spread(self._board.on[third]):
                if second != first and fits(second, target, third):
                    yield from self._judged((first, source, third), (second, third, target))

    # ---- judging --------------------------------------------------------------------------------------------

    def _judged(self, *moves: tuple[int, int, int]) -> Iterator[_Step]:
        """The step, if it removes penalty."""
        removed = self._removed(moves)
        if removed <= _NOTHING:
            return
        extra = sum(self._extra(*move) for move in moves)
        if self._random is not None:
            removed *= self._random.uniform(0.6, 1.0)
        yield _Step((extra <= 0, removed if extra <= 0 else removed / extra), moves)

    def _removed(self, moves: tuple[tuple[int, int, int], ...]) -> float:
        board = self._board
        changed: dict[int, list[int]] = {}
        for partition, source, target in moves:
            size = board.sizes[partition]
            for broker, sign in ((source, -1), (target, 1)):
                change = changed.setdefault(broker, [0, 0])
                change[0] += sign
                change[1] += sign * size
        return sum(
            self._penalties[broker]
            - self._bounds.penalty(broker, board.counts[broker] + count, board.bytes[broker] + size)
            for broker, (count, size) in changed.items()
        )

    def _extra(self, partition: int, source: int, target: int) -> int:
        """What has to be copied in addition; an empty replica counts as one byte, so that fewer moves are better."""
        home = self._board.home[partition]
        return ((target not in home) - (source not in home)) * (self._board.sizes[partition] + 1)

    # ---- what was moved in vain -----------------------------------------------------------------------------

    def _save(self) -> bool:
        """Undo or shorten moves where that keeps what was reached; return whether anything was saved."""
        board = self._board
        has_saved = False
        for partition, broker in sorted(board.moved(), key=lambda moved: (-board.sizes[moved[0]], moved)):
            if board.fixed[partition] or broker not in board.replicas[partition]:
                continue
            step = self._homeward(partition, broker)
            if step is not None:
                self._carry_out(step)
                has_saved = True
        return has_saved

    def _homeward(self, partition: int, broker: int) -> _Step | None:
        board = self._board
        for home in board.home[partition]:
            if not board.is_receiver[home] or not board.fits(partition, home, broker):
                continue
            undone = ((partition, broker, home),)
            if self._removed(undone) >= -_NOTHING:
                return _Step((True, 0.0), undone)
            for other in self._strangers(home):
                if other != partition and board.fits(other, broker, home):
                    shorter = (*undone, (other, home, broker))
                    if sum(self._extra(*move) for move in shorter) < 0 and self._removed(shorter) >= -_NOTHING:
                        return _Step((True, 0.0), shorter)
        return None

    def _strangers(self, broker: int) -> list[int]:
        """Some replicas that were moved to a broker."""
        held, home = self._board.on[broker], self._board.home
        return [partition for _, partition in held if broker not in home[partition]][:_SCANNED]


def _best(steps: Iterator[_Step]) -> _Step | None:
    """The first of the best."""
    return max(steps, key=attrgetter("score"), default=None)


def _outward(held: list[tuple[int, int]], start: int) -> Iterator[int]:
    """Partitions by the distance of their place in the order of sizes."""
    for step in range(_SCANNED):
        index = start + (step + 1) // 2 * (1 if step % 2 else -1)
        if 0 <= index < len(held):
            yield held[index][1]


def _spread(held: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """All of a few, or some of all sizes."""
    if len(held) <= _FEW:
        return list(held)
    return [held[index * (len(held) - 1) // (_SWAP_PROBES - 1)] for index in range(_SWAP_PROBES)]


def _near(held: list[tuple[int, int]], size: float) -> list[int]:
    """All of a few, or those with nearly this size."""
    if len(held) <= _FEW:
        return [partition for _, partition in held]
    index = bisect_left(held, (size, 0))
    return [partition for _, partition in held[max(0, index - 2) : index + 2]]
