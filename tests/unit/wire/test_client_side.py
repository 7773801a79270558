"""Which bytes ask a controller something, and what did it answer?"""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ShutdownPermitted
from controller.core.messages.requests import AlterReassignments, ControlledShutdown, PartitionReassignment
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from tests.equipment.client_side import decode_reply, encode_request
from zk_layout.ids import TopicPartition


def test_a_request_as_on_the_wire() -> None:
    request = AlterReassignments((PartitionReassignment(TopicPartition("a", 1), (3,)),), timeout_ms=1)

    assert encode_request(RequestHeader(45, 0, 7, "me"), request) == bytes.fromhex(
        "00000021 002d 0000 00000007 0002 6d65 00 00000001 02 02 61 02 00000001 02 00000003 00 00 00"
    )


def test_an_answer_to_another_request_is_refused() -> None:
    answer = encode_reply(RequestHeader(7, 3, correlation_id=8), ShutdownPermitted())

    with pytest.raises(Malformed, match="correlation id 8, the request 7"):
        decode_reply(RequestHeader(7, 3, correlation_id=7), answer[4:])


def test_an_unknown_error_is_an_unknown_server_error() -> None:
    answer = bytes.fromhex("00000007 00 270f 01 00")

    assert decode_reply(RequestHeader(7, 3, 7), answer) == ShutdownPermitted(error=ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_request_under_a_wrong_header_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="ControlledShutdown is CONTROLLED_SHUTDOWN"):
        encode_request(RequestHeader(45, 0, 7), ControlledShutdown(1))
