"""Which replicas must move, and where do they fit best? Nothing else moves.

Largest first; each goes where the deviation from the fair shares, of bytes and of numbers, grows least.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller.reassign.planning.board import NO_RACK, Board
from controller.reassign.planning.layout import Aims, Unplannable

_MOST_COMPARED = 40
"""Of more brokers a part is compared, another one for the next partition: faster, and nearly as even."""


class _Homeless(NamedTuple):
    """A replica that needs a broker; a new one comes from nowhere."""

    size: int
    partition: int
    source: int


class Repair:
    """Carries out the aims that force moves."""

    def __init__(self, board: Board, aims: Aims) -> None:
        self._board = board
        self._leaving = {board.number[broker] for broker in aims.leaving if broker in board.number}
        self._replacements = {
            board.number[old]: board.number[new] for old, new in aims.replacements.items() if old in board.number
        }
        self._factors = aims.replication_factors
        self._repairs_racks = aims.repairs_racks
        self.unspread: set[int] = set()
        """Partitions of which a rack has more than its part, since no other broker could take a replica."""

    def run(self) -> int:
        """Move what must move; return the bytes that no plan can avoid to copy."""
        homeless = sorted(self._homeless(), key=lambda one: (-one.size, one.partition, one.source))
        counts, sizes = self._board.shares()
        place = _Placement(self._board, self._grown(counts, homeless), self._grown(sizes, homeless))
        for one in homeless:
            self._settle(one, place)
        return sum(one.size for one in homeless)

    def _grown(self, shares: list[float], homeless: list[_Homeless]) -> list[float]:
        """Shares are judged as they will be with the added replicas."""
        held = sum(len(replicas) for replicas in self._board.replicas)
        added = sum(one.source == NO_RACK for one in homeless)
        return [share * (held + added) / max(1, held) for share in shares]

    def _homeless(self) -> Iterator[_Homeless]:
        board = self._board
        for partition, placed in enumerate(board.layout.partitions):
            if placed.is_fixed:
                continue
            wanted = self._factors.get(placed.at.topic, len(placed.replicas))
            while len(board.replicas[partition]) > wanted:
                board.remove(partition, self._dispensable(partition))
            forced = [broker for broker in board.replicas[partition] if broker in self._leaving]
            if self._repairs_racks:
                forced += board.surplus(partition)
            forced += [NO_RACK] * (wanted - len(board.replicas[partition]))
            yield from (_Homeless(placed.size_bytes, partition, broker) for broker in forced)

    def _dispensable(self, partition: int) -> int:
        """The replica to remove: of a broker that is away or leaves, of a crowded rack, of the fullest broker.

        The preferred leader goes last.
        """
        board = self._board
        replicas = board.replicas[partition]
        racks = [board.rack_of[broker] for broker in replicas]

        def worth(broker: int) -> tuple[bool, bool, int, int, int]:
            rack = board.rack_of[broker]
            is_leader = broker == replicas[0]
            return (rack != NO_RACK, is_leader, -racks.count(rack), -board.bytes[broker], -broker)

        return min(replicas, key=worth)

    def _settle(self, one: _Homeless, place: _Placement) -> None:
        board = self._board
        wanted = self._replacements.get(one.source)
        if wanted is not None and board.fits(one.partition, wanted, one.source):
            target = wanted
        else:
            found = place.best(one.partition, one.source)
            if found is None:
                found = place.best(one.partition, one.source, ignores_racks=True)
                self.unspread.add(one.partition)
            if found is None:
                at, number = board.layout.partitions[one.partition].at, len(board.replicas[one.partition])
                raise Unplannable(f"{at}: every broker that may have a replica has one; it needs {number} brokers")
            target = found
        if one.source == NO_RACK:
            board.add(one.partition, target)
        else:
            board.move(one.partition, one.source, target)
        place.note(target)


class _Placement:
    """Finds the broker whose squared deviation from its shares grows least with one more replica.

    For a replica of `s` bytes that growth is `a + s * b + s² * c`, three numbers a broker.
    """

    def __init__(self, board: Board, counts: list[float], sizes: list[float]) -> None:
        self._board = board
        self._shares = [(max(counts[broker], 1e-9), max(sizes[broker], 1e-9)) for broker in board.receivers]
        self._index = {broker: index for index, broker in enumerate(board.receivers)}
        self._constant = [0.0] * len(board.receivers)
        self._linear = [0.0] * len(board.receivers)
        self._square = [1 / size**2 for _, size in self._shares]
        for broker in board.receivers:
            self.note(broker)

    def note(self, broker: int) -> None:
        """Take in that a broker's load has changed."""
        index = self._index.get(broker)
        if index is not None:
            count, size = self._shares[index]
            self._constant[index] = 2 * (self._board.counts[broker] / count - 1) / count + 1 / count**2
            self._linear[index] = 2 * (self._board.bytes[broker] / size - 1) / size

    def best(self, partition: int, source: int, *, ignores_racks: bool = False) -> int | None:
        """The best broker that may have the replica; None if there is none."""
        board, number = self._board, len(self._constant)
        size = board.sizes[partition]
        strides = 1 if ignores_racks else max(1, number // _MOST_COMPARED)
        for offset in range(strides):
            some = range((partition + offset) % strides, number, strides)
            growth = {i: self._constant[i] + size * (self._linear[i] + size * self._square[i]) for i in some}
            for index in sorted(growth, key=growth.__getitem__):
                broker = board.receivers[index]
                if board.fits(partition, broker, source):
                    return broker
                if ignores_racks and broker not in board.replicas[partition]:
                    return broker
        return None
