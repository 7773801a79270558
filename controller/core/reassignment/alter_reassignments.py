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
    """The change that fulfils a request, why it is refused, or None where it is fulfilled already.

    Shape:
        `case` is None where the partition does not exist.
    """
    if case is None:
        return refuse(wanted, UNASSIGNED, cluster)
    if case.topic.is_queued_for_deletion:
        return refuse(wanted, case.assignment, cluster)
    if wanted.replicas is None:
        return rule.cancel(case, cluster, mode)
    return rule.begin(case, cluster, wanted.replicas, mode)


def refuse(wanted: PartitionReassignment, held: Assignment, cluster: Cluster) -> Refusal:
    """Why a partition that does not exist, or is not to stay, cannot move.

    Kafka looks at what is asked for first, and then whether the partition exists and is to stay.
    """
    if wanted.replicas is not None:
        return rule.refused_target(held, wanted.replicas, cluster) or UNKNOWN_PARTITION
    return UNKNOWN_PARTITION if held.is_moving else NOTHING_MOVES
