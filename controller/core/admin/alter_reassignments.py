"""May this partition be moved, or its move be cancelled?

Source: KIP-455 "AlterPartitionReassignmentsRequest"; Kafka's KafkaController.processApiPartitionReassignment.
"""

from __future__ import annotations

from controller.core.cluster import Cluster
from controller.core.errors import ErrorCode, Refusal
from controller.core.requests import MoveWish
from controller.core.rules import reassignment
from controller.core.rules.change import Case, Change

UNKNOWN_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


def consider(wish: MoveWish, case: Case | None, cluster: Cluster) -> Change | Refusal | None:
    """The change that fulfils a wish, why it is refused, or None where it is fulfilled already.

    Shape:
        `case` is None where the partition does not exist or its topic is being deleted.
    """
    if case is None or case.topic.is_queued_for_deletion:
        if wish.replicas is None and case is None:
            return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        return UNKNOWN_PARTITION
    if wish.replicas is None:
        return reassignment.cancel(case, cluster)
    return reassignment.begin(case, cluster, wish.replicas)
