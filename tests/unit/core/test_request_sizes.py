"""Is what the core counts what the bytes are that go to ZooKeeper?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Create, Delete, Operation, Set, Write, operation
from controller.core.transactions.sizes import RequestSizes
from controller.zk import protocol
from controller.zk.acls import acl_of
from tests.unit.core.builders import ids, state
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenChangeAddress, TokenChange
from zk_layout.znodes.notifications import IsrChangeAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS, ZERO, VERSION = TopicName("orders"), PartitionId(0), ZnodeVersion(3)
WRITES: tuple[Write, ...] = (
    Create(TopicDeletionAddress(ORDERS), None),
    Create(DelegationTokenChangeAddress(), TokenChange("t"), is_sequential=True),
    Create(TopicAddress(TopicName("größer")), Topic({ZERO: Assignment(ids("1,2"))})),
    Set(StateAddress(ORDERS, ZERO), state(1, "1,2"), VERSION),
    Delete(IsrChangeAddress("x" * 999_300), VERSION),
)


def sent(chroot: str, made: tuple[Operation, ...]) -> int:
    """The bytes after the length of the request, as the writer makes it."""
    operations: list[protocol.Operation] = [protocol.Check(chroot + "/controller_epoch", 7)]
    for one in made:
        path = chroot + one.write.address.path
        match one.write:
            case Create(is_sequential=is_sequential):
                operations.append(protocol.Create(path, one.data, sequential=is_sequential))
            case Set(expected=version):
                operations.append(protocol.SetData(path, one.data, version))
            case Delete(expected=version):
                operations.append(protocol.Delete(path, version))
    return protocol.transaction(operations).size_bytes


@pytest.mark.parametrize("chroot", ["", "/kafka", "/küche"])
@pytest.mark.parametrize("writes", [(), *((write,) for write in WRITES), WRITES])
def test_every_byte_is_counted(chroot: str, writes: tuple[Write, ...]) -> None:
    sizes = RequestSizes(1_048_575, len(chroot.encode()))
    made = tuple(map(operation, writes))

    assert sizes.empty_bytes + sum(map(sizes.write_bytes, made)) == sent(chroot, made)


def test_a_longer_acl_is_counted() -> None:
    acl = acl_of("/brokers/topics/orders", is_protected=True)
    sizes = RequestSizes(1_048_575, 0, len(acl))
    create = protocol.Create("/brokers/topics/orders", b"x", acl=acl)
    check = protocol.Check("/controller_epoch", 1)

    made = Operation(Create(TopicAddress(ORDERS), Topic({})), b"x")

    assert sizes.empty_bytes + sizes.write_bytes(made) == protocol.transaction([check, create]).size_bytes


def test_what_a_znode_can_hold_fits_exactly() -> None:
    sizes = RequestSizes(10_000, 6)
    write = Create(TopicAddress(ORDERS), Topic({}))

    assert sent("/kafka", (Operation(write, b"x" * sizes.most_data_bytes(write.address.path)),)) == 10_000
