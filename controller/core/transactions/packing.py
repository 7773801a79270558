"""Which writes share a transaction? Transactions are cut by size and count; an atom stays whole if one can hold it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from controller.core.messages.effects import Operation, operation
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.transactions.proposal import Atom, Proposal
from controller.core.transactions.sizes import RequestSizes

BYTES_A_TRANSACTION = 700_000

Part = tuple[tuple[Operation, ...], int]


class Piece(Struct, frozen=True, eq=False):
    """An atom, or a part of one that is too large, with its size.

    Shape:
        A part is sent once all parts with a lower `rank` are committed.
    """

    proposal: Proposal
    operations: tuple[Operation, ...]
    why: tuple[str, ...]
    is_alone: bool
    size_bytes: int
    rank: int = 0


class Packing:
    """Cuts and joins writes so that no transaction exceeds ZooKeeper's limit or a sensible size."""

    def __init__(self, sizes: RequestSizes, most_writes: int = WRITES_A_TRANSACTION) -> None:
        """`sizes` count bytes as ZooKeeper does."""
        self._sizes = sizes
        self._empty_bytes = sizes.empty_bytes
        self._most_writes = most_writes

    @property
    def _most_bytes(self) -> int:
        """The room for what need not be in one transaction."""
        most_bytes = min(self._sizes.shared_bytes, self._sizes.limit_bytes)
        return min(BYTES_A_TRANSACTION, most_bytes - self._empty_bytes)

    def pieces(self, proposal: Proposal, *, is_alone: bool) -> Iterator[Piece]:
        """The atoms of a proposal with their sizes. An atom that is too large is cut into ranked parts."""
        for atom in proposal.atoms:
            why = atom.why
            if len(atom.writes) == 1 and not atom.before and not atom.after:  # as most: there is nothing to cut
                alone = (operation(atom.writes[0]),)
                yield Piece(proposal, alone, why, is_alone, self._sizes.write_bytes(alone[0]))
                continue
            for rank, parts in enumerate(self._ranks(atom)):
                for operations, size_bytes in parts:
                    yield Piece(proposal, operations, why, is_alone, size_bytes, rank)
                    why = ()

    def _ranks(self, atom: Atom) -> list[list[Part]]:
        before, writes, after = (tuple(map(operation, some)) for some in (atom.before, atom.writes, atom.after))
        every = (*before, *writes, *after)
        size_bytes = self._bytes_of(every)
        if len(every) <= self._most_writes and size_bytes <= self._most_bytes:
            return [[(every, size_bytes)]]
        together = self._bytes_of(writes)
        is_one = together <= self._sizes.room_bytes
        in_order = sorted(writes, key=lambda made: made.write.address not in atom.first)
        core = [(writes, together)] if is_one else self._cut(in_order)
        ranks = [list(self._cut(before)), *([part] for part in core if part[0]), list(self._cut(after))]
        return [parts for parts in ranks if parts]

    def _cut(self, every: Iterable[Operation]) -> Iterator[Part]:
        part: list[Operation] = []
        size = 0
        most_bytes = self._most_bytes
        for made in every:
            taken = self._sizes.write_bytes(made)
            if part and (size + taken > most_bytes or len(part) >= self._most_writes):
                yield tuple(part), size
                part, size = [], 0
            part.append(made)
            size += taken
        if part:
            yield tuple(part), size

    def _bytes_of(self, operations: Iterable[Operation]) -> int:
        return sum(map(self._sizes.write_bytes, operations))

    def loads(self, every: Iterable[Piece]) -> Iterator[Sequence[Piece]]:
        """Group pieces into transactions, in order; a recently refused piece travels alone."""
        load: list[Piece] = []
        size = count = 0
        most_bytes = self._most_bytes
        for piece in every:
            is_full = size + piece.size_bytes > most_bytes or count + len(piece.operations) > self._most_writes
            if load and (is_full or piece.is_alone or load[-1].is_alone):
                yield load
                load, size, count = [], 0, 0
            load.append(piece)
            size += piece.size_bytes
            count += len(piece.operations)
        if load:
            yield load
