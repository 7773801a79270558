"""Which bytes stand for one partition in a command?"""

from __future__ import annotations

from controller.core.messages.commands import PartitionView
from controller.wire.partition_bytes import PartitionPacking


def view(partition: int) -> PartitionView:
    return PartitionView("orders", None, partition, 2, 1, 3, (1,), 4, 0, (1, 2))


def test_a_partition_is_packed_once() -> None:
    packing, orders = PartitionPacking(is_flexible=True), view(0)

    assert packing.head(orders) is packing.head(orders)


def test_an_equal_partition_is_packed_alike() -> None:
    packing = PartitionPacking(is_flexible=True)

    assert packing.head(view(0)) == packing.head(view(0)) != packing.head(view(1))


def test_only_so_many_partitions_are_remembered() -> None:
    packing, views = PartitionPacking(is_flexible=True, most_remembered=2), [view(number) for number in range(3)]

    heads = [packing.head(each) for each in views]

    assert packing.head(views[2]) is heads[2]
    assert packing.head(views[0]) is not heads[0]
    assert packing.head(views[0]) == heads[0]
