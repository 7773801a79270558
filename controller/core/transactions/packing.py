"""Which writes travel together? Transactions cut by size and count; atoms stay whole where one can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from controller.core.effects import Operation, operation
from controller.core.transactions.proposal import Atom, Proposal

WRITES_A_TRANSACTION = 300
BYTES_A_TRANSACTION = 700_000
BYTES_A_WRITE = 100  # headers and path of one operation, about


class Piece(Struct, frozen=True, eq=False):
    """An atom, or a part of one that is too large, with its bytes."""

    proposal: Proposal
    operations: tuple[Operation, ...]
    why: tuple[str, ...]
    is_alone: bool
    size_bytes: int


def pieces(proposal: Proposal, *, is_alone: bool) -> Iterator[Piece]:
    """The atoms of a proposal with their bytes. One that is too large is cut, its writes in the order given.

    The order is the proposer's business: a successor may find any part of it from the first on.
    """
    for atom in proposal.atoms:
        yield from _cut(proposal, atom, is_alone=is_alone)


def _cut(proposal: Proposal, atom: Atom, *, is_alone: bool) -> Iterator[Piece]:
    part: list[Operation] = []
    size, why = 0, atom.why
    for made in map(operation, atom.writes):
        taken = len(made.data) + BYTES_A_WRITE
        if part and (size + taken > BYTES_A_TRANSACTION or len(part) >= WRITES_A_TRANSACTION):
            yield Piece(proposal, tuple(part), why, is_alone, size)
            part, size, why = [], 0, ()
        part.append(made)
        size += taken
    if part:
        yield Piece(proposal, tuple(part), why, is_alone, size)


def loads(every: Iterable[Piece]) -> Iterator[Sequence[Piece]]:
    """What goes into one transaction each, in order; what was refused lately travels alone."""
    load: list[Piece] = []
    size = count = 0
    for piece in every:
        is_full = size + piece.size_bytes > BYTES_A_TRANSACTION or count + len(piece.operations) > WRITES_A_TRANSACTION
        if load and (is_full or piece.is_alone or load[-1].is_alone):
            yield load
            load, size, count = [], 0, 0
        load.append(piece)
        size += piece.size_bytes
        count += len(piece.operations)
    if load:
        yield load
