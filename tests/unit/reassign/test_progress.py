"""What the tool says of moves follows from what it was sent, and never says more than everything."""

from __future__ import annotations

from controller.reassign.cluster import Move
from controller.reassign.progress import Progress
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress, ReplicaProgress

AT = TopicPartition(TopicName("orders"), PartitionId(0))
FIRST, SECOND = BrokerId(3), BrokerId(4)


def summed(*received: ReplicaProgress) -> tuple[int, int]:
    """Bytes copied, and all of them, while one partition moves to these replicas."""
    move = Move(
        (BrokerId(1), FIRST, SECOND),
        adding=(FIRST, SECOND),
        progress=MoveProgress(None, "adding", 0, replicas=received),
    )
    snapshot = Progress({}).advance(0.0, {AT: move}, {}, {})
    return snapshot.copied_bytes, snapshot.total_bytes


def test_bytes_count_over_all_receiving_replicas() -> None:
    assert summed(ReplicaProgress(FIRST, 100, 1000), ReplicaProgress(SECOND, 300, 1000)) == (400, 2000)


def test_what_is_copied_of_an_unknown_total_does_not_count() -> None:
    assert summed(ReplicaProgress(FIRST, 100), ReplicaProgress(SECOND, 300, 1000)) == (300, 1000)


def test_no_replica_has_more_than_everything() -> None:
    assert summed(ReplicaProgress(FIRST, 1100, 1000)) == (1000, 1000)
