"""Which writes travel together? Transactions cut by size and count, whole atoms only where they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller.core.draft import Atom
from controller.core.effects import Delete, Write
from zk_layout import catalog
from zk_layout.ids import TopicName

WRITES_A_TRANSACTION = 300
BYTES_A_TRANSACTION = 700_000
BYTES_A_WRITE = 100  # headers and path of one operation, about


class Parcel(Struct, frozen=True):
    """One transaction to be, and the topics it is part of a step of."""

    topics: tuple[TopicName, ...]
    writes: tuple[Write, ...]
    data: tuple[bytes, ...]
    why: tuple[str, ...]


class Packed(Struct, frozen=True):
    """An atom with its encoded data."""

    topic: TopicName
    writes: tuple[Write, ...]
    data: tuple[bytes, ...]
    why: tuple[str, ...]
    is_alone: bool

    @property
    def size_bytes(self) -> int:
        """About what it takes in a transaction."""
        return sum(map(len, self.data)) + BYTES_A_WRITE * len(self.writes)


def encoded(topic: TopicName, atoms: Iterable[Atom], *, is_alone: bool) -> Iterator[Packed]:
    """The atoms with their data. One that is too large is cut: the topic's own znodes first, then the states.

    That order is safe: a leader that has not heard of its new replicas is told by the next step, also by a
    successor's.
    """
    for atom in atoms:
        data = tuple(b"" if isinstance(w, Delete) else catalog.encode(w.value) for w in atom.writes)
        packed = Packed(topic, atom.writes, data, atom.why, is_alone)
        if packed.size_bytes <= BYTES_A_TRANSACTION and len(data) <= WRITES_A_TRANSACTION:
            yield packed
            continue
        yield from _cut(packed)


def _cut(atom: Packed) -> Iterator[Packed]:
    start, size = 0, 0
    for end, data in enumerate(atom.data):
        full = size + len(data) > BYTES_A_TRANSACTION or end - start >= WRITES_A_TRANSACTION
        if full and end > start:
            yield Packed(
                atom.topic,
                atom.writes[start:end],
                atom.data[start:end],
                atom.why if not start else (),
                atom.is_alone,
            )
            start, size = end, 0
        size += len(data) + BYTES_A_WRITE
    yield Packed(atom.topic, atom.writes[start:], atom.data[start:], atom.why if not start else (), atom.is_alone)


def parcels(atoms: Iterable[Packed]) -> Iterator[Parcel]:
    """Transactions in the order of the atoms; one that conflicted lately travels alone."""
    load: list[Packed] = []
    size = count = 0
    for atom in atoms:
        full = size + atom.size_bytes > BYTES_A_TRANSACTION or count + len(atom.writes) > WRITES_A_TRANSACTION
        if load and (full or atom.is_alone or load[-1].is_alone):
            yield _parcel(load)
            load, size, count = [], 0, 0
        load.append(atom)
        size += atom.size_bytes
        count += len(atom.writes)
    if load:
        yield _parcel(load)


def _parcel(load: list[Packed]) -> Parcel:
    return Parcel(
        tuple(dict.fromkeys(a.topic for a in load)),
        tuple(w for a in load for w in a.writes),
        tuple(d for a in load for d in a.data),
        tuple(w for a in load for w in a.why),
    )
