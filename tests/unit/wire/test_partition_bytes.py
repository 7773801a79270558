"""Which bytes stand for one partition in a command?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.core.messages.commands import PartitionView
from controller.wire import partition_bytes
from controller.wire.partition_bytes import PartitionPacking, Tails


def view(partition: int) -> PartitionView:
    return PartitionView("orders", None, partition, 2, 1, 3, (1,), 4, 0, (1, 2))


TAILS = Tails(b"usual", lambda seen: repr((seen.offline, seen.adding)).encode())


def packed(packing: PartitionPacking, *views: PartitionView) -> bytes:
    return b"".join(packing.topic_states(((views, TAILS),), with_ids=False))


@pytest.mark.parametrize("is_flexible", [True, False])
def test_a_partition_is_packed_once(is_flexible: bool) -> None:
    orders = view(0)

    first = packed(PartitionPacking(is_flexible=is_flexible), orders)

    kept, other = (orders.compact_head, orders.legacy_head)[:: 1 if is_flexible else -1]
    assert (kept in first, other) == (True, b"")
    assert packed(PartitionPacking(is_flexible=is_flexible), orders) == first
    assert orders.compact_head is kept or orders.legacy_head is kept


def test_a_partition_is_packed_for_each_kind_of_version() -> None:
    orders = view(0)
    kinds = True, False

    mixed = [packed(PartitionPacking(is_flexible=kind), orders) for kind in kinds]

    assert mixed == [packed(PartitionPacking(is_flexible=kind), view(0)) for kind in kinds]
    assert mixed[0] != mixed[1]


def test_what_a_partition_was_packed_as_is_no_part_of_it() -> None:
    orders, other = view(0), view(1)

    packed(PartitionPacking(is_flexible=True), orders)

    assert orders.compact_head
    assert (orders, hash(orders)) == (view(0), hash(view(0)))
    assert orders != other
    assert orders != "orders"


def test_what_is_unusual_is_packed_as_such_again_and_again() -> None:
    views = [view(0), replace(view(1), offline=(2,)), view(2), replace(view(3), adding=(2,))]
    packing = PartitionPacking(is_flexible=True)

    first, again = packed(packing, *views), packed(packing, *views)

    assert first == again
    assert first.count(b"usual") == 2
    assert b"((2,), ())" in first
    assert b"((), (2,))" in first
    assert [bool(seen.compact_head) for seen in views] == [True, False, True, False]


def test_only_so_many_topics_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_bytes, "MOST_TOPICS", 2)
    packing, views = PartitionPacking(is_flexible=True), [replace(view(0), topic=f"topic-{n}") for n in range(5)]

    first, again = packed(packing, *views), packed(packing, *views)

    assert first == again
    assert all(f"topic-{n}".encode() in first for n in range(5))
    assert len(packing._topics) <= 2
