"""Simulated brokers and the demo encode requests and decode answers like the whole client side."""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ClusterDescription, Node, PartitionResult, ReassignmentsAltered
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    DescribeCluster,
    IsrProposal,
    PartitionReassignment,
    TopicReference,
)
from controller.lab.wire import to_controller
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from tests.equipment import client_side
from zk_layout.ids import TopicPartition

METADATA = RequestHeader(ApiKey.METADATA, 7, 3, "me")
ALTER = RequestHeader(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 3, "me")
AT = TopicPartition("a", 1)


@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, AlterReassignments((PartitionReassignment(AT, (3,)),))),
        (ApiKey.ALTER_PARTITION, 0, AlterPartition(1, 2, (IsrProposal(TopicReference("a"), 1, 4, 5, (1, 2)),))),
    ],
)
def test_requests(key: ApiKey, version: int, request_: AlterPartition | AlterReassignments) -> None:
    header = RequestHeader(key, version, 3, "me")

    assert to_controller.encode_request(header, request_) == client_side.encode_request(header, request_)


def test_metadata_without_topics() -> None:
    assert to_controller.encode_metadata(METADATA) == client_side.encode_request(METADATA, DescribeCluster(topics=()))


@pytest.mark.parametrize("controller", [902, -1])
def test_the_controller_that_metadata_names(controller: int) -> None:
    answer = encode_reply(METADATA, ClusterDescription((Node(1, "h", 9, "r"), Node(902, "i", 8)), "c", controller, ()))

    assert to_controller.decode_controller(METADATA, answer[4:]) == controller


def test_moves_that_were_accepted_and_refused() -> None:
    reply = ReassignmentsAltered((PartitionResult(AT), PartitionResult(AT, ErrorCode.INVALID_REQUEST, "no")))

    assert to_controller.decode_reply(ALTER, encode_reply(ALTER, reply)[4:]) == reply


def test_an_answer_to_another_request() -> None:
    answer = encode_reply(ALTER, ReassignmentsAltered(()))
    another = RequestHeader(ALTER.api_key, 0, 4)

    with pytest.raises(Malformed, match="correlation id 3, the request 4"):
        to_controller.decode_reply(another, answer[4:])
