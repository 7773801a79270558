"""Which error does an impossible request get, and with which words? In the order in which Kafka looks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import PartitionReassignment
from controller.core.reassignment import alter_reassignments
from controller.core.steps.change import Case
from tests.unit.core.builders import AT, case, cluster, ids

INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT
NOT_ALIVE = "Replica assignment has brokers that are not alive. Replica list: [9], live broker list: [1, 2, 3]"
OWN = "Replica assignment has brokers that are not alive. Replica list: [900], live broker list: [1, 2, 3]"


def deleted(of: Case) -> Case:
    """The same partition of a topic that is to be deleted."""
    return replace(of, topic=replace(of.topic, is_queued_for_deletion=True))


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("", INVALID, "Empty replica list specified in partition reassignment."),
        ("1,3,1", INVALID, "Duplicate replica ids in partition reassignment replica list: [1, 3, 1]"),
        ("1,-1", INVALID, "Invalid broker id in replica list: [1, -1]"),
        ("1,9", INVALID, NOT_ALIVE),
        ("1,900", INVALID, OWN),
        ("9,9", INVALID, "Duplicate replica ids in partition reassignment replica list: [9, 9]"),
        ("-3,9", INVALID, "Invalid broker id in replica list: [-3, 9]"),
    ],
)
@pytest.mark.parametrize("held", [case("1,2", 1, "1,2"), None, deleted(case("1,2", 1, "1,2"))])
def test_an_invalid_target_is_refused_before_anybody_asks_whether_the_partition_exists(
    held: Case | None, target: str, error: ErrorCode, message: str
) -> None:
    wanted = PartitionReassignment(AT, ids(target))

    refused = alter_reassignments.consider(wanted, held, cluster("1,2,3"))

    if target in ("1,9", "1,900") and held is None:
        message = message.replace("list: [9", "list: [1, 9", 1)  # whatever an unknown partition gets is added
    assert refused == Refusal(error, message)


@pytest.mark.parametrize(
    ("held", "target", "error"),
    [
        (None, "1,3", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (deleted(case("1,2", 1, "1,2")), "1,3", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (deleted(case("3,1", 1, "1", adding="3", removing="1")), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (deleted(case("1,2", 1, "1,2")), None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (case("1,2", 1, "1,2"), None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (None, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_is_not_there_or_going_or_not_moving_is_refused(
    held: Case | None, target: str | None, error: ErrorCode
) -> None:
    words = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The partition does not exist.",
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    }
    wanted = PartitionReassignment(AT, None if target is None else ids(target))

    assert alter_reassignments.consider(wanted, held, cluster("1,2,3")) == Refusal(error, words[error])
