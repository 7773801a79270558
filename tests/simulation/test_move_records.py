"""The checker knows what must be recorded of a request's moves, and for how long."""

from __future__ import annotations

import pytest

from controller.core.progress.ledger import BY_REQUEST
from tests.simulation.world import World
from zk_layout import catalog
from zk_layout.catalog import Address, Value
from zk_layout.ids import BrokerId, PartitionId, Replicas, RequestId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.move_records import ROOT, MoveRecords, MoveRecordsAddress, RecordsNumber, TopicRecord
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS, ZERO, REQUEST = TopicName("orders"), PartitionId(0), RequestId(1)
STATUS = RequestStatus(REQUEST, BY_REQUEST, 5, 5, None, {}, ())
RECORDS = MoveRecordsAddress(REQUEST, RecordsNumber(0))


def on(*brokers: int) -> Replicas:
    return tuple(map(BrokerId, brokers))


def put(world: World, address: Address, value: Value) -> None:
    world.zookeeper.make_path(address.path)
    world.zookeeper.nodes[address.path].data = catalog.encode(value)


def moved(*aims: Replicas) -> World:
    """A world in which a partition was aimed at these replicas, one after the other."""
    world = World(3)
    world.zookeeper.make_path(ROOT)
    for aim in aims:
        put(world, TopicAddress(ORDERS), Topic({ZERO: Assignment(aim)}))
        world.move_requests.records.note(TopicAddress(ORDERS).path)
    return world


def record(
    world: World, to: Replicas, former: Replicas, *, parts: int = 1, principal: str | None = "User:ann"
) -> str | None:
    """Record a move, and create the status of its request; what is wrong with that."""
    czxid = Zxid(world.zookeeper.nodes[TopicAddress(ORDERS).path].czxid)
    topics = {ORDERS: TopicRecord(czxid, {ZERO: (to, former)})}
    put(world, RECORDS, MoveRecords(BY_REQUEST, 5, parts, topics, principal))
    put(world, ReassignmentStatusAddress(REQUEST), STATUS)
    return world.move_requests.records.created(REQUEST, STATUS)


def test_what_happened_may_be_recorded() -> None:
    world = moved(on(1, 2), on(3, 2))

    assert record(world, on(3, 2), on(1, 2)) is None
    assert world.move_requests.records.outcome() is None


@pytest.mark.parametrize(
    ("to", "former", "wrong"),
    [
        (on(3, 2), on(2, 1), "did not move from [2, 1] to [3, 2]"),
        (on(4, 2), on(1, 2), "never moved to [4, 2]"),
        (on(1, 2), on(3, 2), "did not move from [3, 2] to [1, 2]"),
    ],
)
def test_what_did_not_happen_may_not_be_recorded(to: Replicas, former: Replicas, wrong: str) -> None:
    assert wrong in (record(moved(on(1, 2), on(3, 2)), to, former) or "")


@pytest.mark.parametrize("is_edited", [True, False])
def test_what_was_written_over_is_moved_from_where_it_was_before(*, is_edited: bool) -> None:
    world = moved(on(1, 2), on(2), on(3, 2))
    if is_edited:
        world.checker.edited[TopicPartition(ORDERS, ZERO)] = None

    assert (record(world, on(3, 2), on(1, 2)) is None) == is_edited


def test_no_part_may_be_missing() -> None:
    assert "a part is missing" in (record(moved(on(1, 2), on(3, 2)), on(3, 2), on(1, 2), parts=2) or "")


def test_the_client_is_named() -> None:
    world = moved(on(1, 2), on(3, 2))

    assert "does not name the client" in (record(world, on(3, 2), on(1, 2), principal=None) or "")


@pytest.mark.parametrize(
    ("gone", "wrong"),
    [(RECORDS, "has lost"), (ReassignmentStatusAddress(REQUEST), "was kept without the status of its request")],
)
def test_records_are_kept_exactly_as_long_as_the_status(gone: Address, wrong: str) -> None:
    world = moved(on(1, 2), on(3, 2))
    record(world, on(3, 2), on(1, 2))

    folder, _, name = gone.path.rpartition("/")
    del world.zookeeper.nodes[gone.path]
    del world.zookeeper.nodes[folder].children[name]

    assert wrong in (world.move_requests.records.outcome() or "")
