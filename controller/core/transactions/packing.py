"""Which writes travel together? Transactions cut by size and count; atoms stay whole where one can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from controller.core.effects import Operation, operation
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.transactions.proposal import Atom, Proposal
from controller.core.transactions.sizes import RequestSizes

BYTES_A_TRANSACTION = 700_000


class Piece(Struct, frozen=True, eq=False):
    """An atom, or a part of one that is too large, with its bytes."""

    proposal: Proposal
    operations: tuple[Operation, ...]
    why: tuple[str, ...]
    is_alone: bool
    size_bytes: int


class Packing:
    """Cuts and joins, so that no transaction is larger than ZooKeeper takes, or than is good for it."""

    def __init__(self, sizes: RequestSizes, most_writes: int = WRITES_A_TRANSACTION) -> None:
        """`sizes` count what ZooKeeper counts."""
        self._sizes = sizes
        self._most_writes = most_writes
        self._most_bytes = min(BYTES_A_TRANSACTION, sizes.room_bytes)

    def pieces(self, proposal: Proposal, *, is_alone: bool) -> Iterator[Piece]:
        """The atoms of a proposal with their bytes. One that is too large is cut, its writes in the order given.

        The order is the proposer's business: a successor may find any part of it from the first on.
        """
        for atom in proposal.atoms:
            yield from self._cut(proposal, atom, is_alone=is_alone)

    def _cut(self, proposal: Proposal, atom: Atom, *, is_alone: bool) -> Iterator[Piece]:
        part: list[Operation] = []
        size, why = 0, atom.why
        for made in map(operation, atom.writes):
            taken = self._sizes.write_bytes(made)
            if part and (size + taken > self._most_bytes or len(part) >= self._most_writes):
                yield Piece(proposal, tuple(part), why, is_alone, size)
                part, size, why = [], 0, ()
            part.append(made)
            size += taken
        if part:
            yield Piece(proposal, tuple(part), why, is_alone, size)

    def loads(self, every: Iterable[Piece]) -> Iterator[Sequence[Piece]]:
        """What goes into one transaction each, in order; what was refused lately travels alone."""
        load: list[Piece] = []
        size = count = 0
        for piece in every:
            is_full = size + piece.size_bytes > self._most_bytes or count + len(piece.operations) > self._most_writes
            if load and (is_full or piece.is_alone or load[-1].is_alone):
                yield load
                load, size, count = [], 0, 0
            load.append(piece)
            size += piece.size_bytes
            count += len(piece.operations)
        if load:
            yield load
