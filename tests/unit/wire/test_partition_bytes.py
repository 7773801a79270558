"""Which bytes stand for one partition in a command?"""

from __future__ import annotations

from msgspec.structs import replace

from controller.core.messages.commands import PartitionView
from controller.wire.partition_bytes import PartitionPacking, Tails


def view(partition: int) -> PartitionView:
    return PartitionView("orders", None, partition, 2, 1, 3, (1,), 4, 0, (1, 2))


def test_a_partition_is_packed_once() -> None:
    packing, orders = PartitionPacking(is_flexible=True), view(0)

    first, second = packing.heads([orders, orders])

    assert first is second is packing.heads([orders])[0]


def test_an_equal_partition_is_packed_alike() -> None:
    packing = PartitionPacking(is_flexible=True)

    first, equal, other = packing.heads([view(0), view(0), view(1)])

    assert first == equal != other


def test_only_so_many_partitions_are_remembered() -> None:
    packing, views = PartitionPacking(is_flexible=True, most_remembered=2), [view(number) for number in range(3)]

    heads = [*packing.heads(views[:2]), *packing.heads(views[2:])]

    assert packing.heads(views[2:])[0] is heads[2]
    assert packing.heads(views[:1])[0] is not heads[0]
    assert packing.heads(views) == heads


def test_what_is_unusual_is_packed_as_such_however_few_are_remembered() -> None:
    views = [view(0), replace(view(1), offline=(2,)), view(2), replace(view(3), adding=(2,))]
    tails = Tails(b"usual", lambda seen: repr((seen.offline, seen.adding)).encode() if seen.partition % 2 else b"usual")

    few, many = (PartitionPacking(is_flexible=True, most_remembered=most) for most in (2, 100))
    packed = [packing.topic_states(((views, tails),), with_ids=False) for packing in (few, few, many, many)]

    assert all(one == packed[0] for one in packed)
    states = b"".join(packed[0])
    assert states.count(b"usual") == 2
    assert b"((2,), ())" in states
    assert b"((), (2,))" in states
