"""Which moves of a request can be taken back, and what is said of the others?"""

from __future__ import annotations

import pytest

from controller.reassign.cluster import Listing, Move, Node
from controller.reassign.undoing import Back, How, TopicNow, Undo, undo
from tests.unit.reassign.simulated import at, on
from zk_layout.ids import BrokerId, PartitionId, Replicas, RequestId, TopicId, TopicName, Zxid
from zk_layout.znodes.move_records import MoveRecords, TopicRecord
from zk_layout.znodes.topics import Assignment

REQUEST, ID = RequestId(7), TopicId("abcdefghijklmnopqrstuv")
ORDERS, ZERO = TopicName("orders"), PartitionId(0)
NODES = {BrokerId(b): Node("localhost", 9000 + b) for b in (1, 2, 3, 4)} | {
    BrokerId(100): Node("localhost", 9100, is_controller=True)
}
MOVED = (on(3, 2), on(1, 2))


def judged(
    now: Assignment | None,
    *,
    moved: tuple[Replicas, Replicas] = MOVED,
    listed: Move | None = None,
    czxid: int = 5,
    topic_id: str | None = None,
) -> Undo:
    """One move of `orders-0`, recorded in the topic created at 5."""
    part = MoveRecords("a client", 0, 1, {ORDERS: TopicRecord(Zxid(5), {ZERO: moved}, ID)})
    topics = {} if now is None else {ORDERS: TopicNow(Zxid(czxid), topic_id, {ZERO: now})}
    listing = Listing({} if listed is None else {at("orders-0"): listed})
    return undo(REQUEST, [part], topics, listing, NODES)


@pytest.mark.parametrize(
    ("now", "moved", "listed", "how", "target"),
    [
        (Assignment(on(3, 2)), MOVED, None, How.COPYING, on(1, 2)),
        (Assignment(on(2, 1)), (on(2, 1), on(1, 2)), None, How.AT_ONCE, on(1, 2)),
        (Assignment(on(1)), (on(1), on(1, 2)), None, How.COPYING, on(1, 2)),
        (Assignment(on(3, 2, 1), on(3), on(1)), MOVED, None, How.REDIRECTING, on(1, 2)),
        (Assignment(on(1, 2)), MOVED, Move(on(1, 2), on(3), on(1)), How.UNQUEUEING, None),
    ],
)
def test_a_move_goes_back_in_one_of_four_ways(
    now: Assignment, moved: tuple[Replicas, Replicas], listed: Move | None, how: How, target: Replicas | None
) -> None:
    plan = judged(now, moved=moved, listed=listed)

    assert [(back.how, back.target) for back in plan.backs] == [(how, target)]
    assert plan.targets == {at("orders-0"): target}
    assert not plan.left


@pytest.mark.parametrize(
    ("now", "listed", "why"),
    [
        (None, None, "the topic does not exist any more"),
        (Assignment(on(4, 2)), None, "it has the replicas 4,2 now, not 3,2 as request 7 left it"),
        (Assignment(on(2, 3)), None, "it has the replicas 2,3 now, not 3,2 as request 7 left it"),
        (
            Assignment(on(4, 2, 3), on(4), on(3)),
            None,
            "it moves to 4,2 now, not to 3,2 as request 7 asked",
        ),
        (Assignment(on(1, 2)), Move(on(1, 2), on(4), on(1)), "a later request lets it wait for a move to 2,4"),
    ],
)
def test_what_has_changed_since_is_left_alone_and_named(now: Assignment | None, listed: Move | None, why: str) -> None:
    plan = judged(now, listed=listed)

    assert plan.left == {at("orders-0"): why}
    assert not plan.backs


def test_a_partition_that_is_back_needs_nothing() -> None:
    plan = judged(Assignment(on(1, 2)))

    assert (plan.is_there, plan.backs, plan.left) == ((at("orders-0"),), (), {})


@pytest.mark.parametrize(("czxid", "topic_id", "is_same"), [(5, None, True), (9, ID, True), (9, None, False)])
def test_a_topic_is_the_same_by_its_znode_or_in_a_copied_tree_by_its_id(
    czxid: int, topic_id: str | None, *, is_same: bool
) -> None:
    plan = judged(Assignment(on(3, 2)), czxid=czxid, topic_id=topic_id)

    why = {at("orders-0"): "the topic was deleted and created again since"}
    assert plan.left == ({} if is_same else why)


def test_a_partition_that_is_gone_is_named() -> None:
    part = MoveRecords("a client", 0, 1, {ORDERS: TopicRecord(Zxid(5), {PartitionId(3): MOVED})})

    plan = undo(REQUEST, [part], {ORDERS: TopicNow(Zxid(5), None, {})}, Listing({}), NODES)

    assert plan.left == {at("orders-3"): "the partition does not exist any more"}


@pytest.mark.parametrize(
    ("former", "why"),
    [
        (on(9, 2), "it was on 9,2. Unknown broker id 9; alive are 1,2,3,4"),
        (on(100, 2), "it was on 100,2. 100 is a controller, which hosts no replicas: remove it"),
    ],
)
def test_a_former_broker_must_be_alive(former: Replicas, why: str) -> None:
    assert judged(Assignment(on(3, 2)), moved=(on(3, 2), former)).left == {at("orders-0"): why}


def test_a_dead_broker_that_keeps_its_replica_hinders_nothing() -> None:
    plan = judged(Assignment(on(9, 3)), moved=(on(9, 3), on(1, 9)))

    assert [back.receivers for back in plan.backs] == [on(1)]


def test_the_hash_names_what_is_done_and_what_is_left_alone() -> None:
    back = Back(at("orders-0"), How.COPYING, on(3, 2), on(1, 2))
    plans = [
        Undo(REQUEST, (back,), (), {}),
        Undo(RequestId(8), (back,), (), {}),
        Undo(REQUEST, (), (), {}),
        Undo(REQUEST, (back,), (), {at("orders-1"): "gone"}),
        Undo(REQUEST, (Back(back.at, How.COPYING, on(3, 2), on(2, 1)),), (), {}),
    ]

    assert len({plan.hash for plan in plans}) == len(plans)
    assert plans[0].hash == Undo(REQUEST, (back,), (at("orders-5"),), {}).hash
