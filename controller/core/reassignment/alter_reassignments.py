"""May this partition be moved, or its move be cancelled?

Source: KIP-455 "AlterPartitionReassignmentsRequest"; Kafka's KafkaController.processApiPartitionReassignment.
"""

from __future__ import annotations

from controller.core.messages.errors import MESSAGES, ErrorCode, Refusal
from controller.core.messages.requests import Mode, PartitionReassignment
from controller.core.reassignment import rule
from controller.core.state.topics import UNASSIGNED
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change
from zk_layout.znodes.topics import Assignment

UNKNOWN_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
NOTHING_MOVES = Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, MESSAGES[ErrorCode.NO_REASSIGNMENT_IN_PROGRESS])


def consider(
    wanted: PartitionReassignment, case: Case | None, cluster: Cluster, mode: Mode = Mode.SAFE
) -> Change | Refusal | None:
    """The change that a request needs, the reason to refuse it, or None if nothing needs to change.

    Shape:
        `case` is None if the partition does not exist.
    """
    if case is None:
        return refuse(wanted, UNASSIGNED, cluster)
    if case.topic.is_queued_for_deletion:
        return refuse(wanted, case.assignment, cluster)
    if wanted.replicas is None:
        return rule.cancel(case, cluster, mode)
    return rule.begin(case, cluster, wanted.replicas, mode)


def refuse(wanted: PartitionReassignment, held: Assignment, cluster: Cluster) -> Refusal:
    """The refusal for a partition that does not exist or is being deleted.

    Like Kafka, checks the request first, then the partition.
    """
    if wanted.replicas is not None:
        return rule.refused_target(held, wanted.replicas, cluster) or UNKNOWN_PARTITION
    return UNKNOWN_PARTITION if held.is_moving else NOTHING_MOVES
