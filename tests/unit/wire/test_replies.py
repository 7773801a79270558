"""Which bytes answer this request?"""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    ClusterDescription,
    IsrResult,
    OngoingMove,
    PartitionResult,
    PartitionsAltered,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    ShutdownPermitted,
    TopicMetadata,
)
from controller.wire.api_versions import ApiVersionsReply
from controller.wire.apis import SERVED, ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_api_versions, encode_reply
from tests.equipment.client_side import decode_reply
from zk_layout.ids import TopicPartition
from zk_layout.znodes.reassignment_status import (
    MoveProgress,
    PartitionStatus,
    ReplicaProgress,
    RequestStatus,
    TopicStatus,
)


def hexed(response: bytes) -> str:
    return response.hex(" ")


def test_altered_reassignments_as_on_the_wire() -> None:
    reply = ReassignmentsAltered((PartitionResult(TopicPartition("a", 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no"),))

    assert hexed(encode_reply(RequestHeader(45, 0, 7), reply)) == (
        "00 00 00 1c "  # size
        "00 00 00 07 00 "  # correlation id, no tagged fields
        "00 00 00 00 00 00 01 "  # not throttled, no error, no message
        "02 02 61 "  # one topic: a
        "02 00 00 00 01 00 27 03 6e 6f 00 "  # one partition: 1, error 39, "no"
        "00 00"
    )


def test_listed_reassignments_as_on_the_wire() -> None:
    reply = ReassignmentsListed((OngoingMove(TopicPartition("a", 1), (3, 1), (3,), (1,)),))

    assert hexed(encode_reply(RequestHeader(46, 0, 7), reply)) == (
        "00 00 00 2a 00 00 00 07 00 00 00 00 00 00 00 01 02 02 61 "
        "02 00 00 00 01 03 00 00 00 03 00 00 00 01 02 00 00 00 03 02 00 00 00 01 00 "
        "00 00"
    )


def test_the_id_of_an_accepted_request_travels_in_a_tagged_field() -> None:
    results = (PartitionResult(TopicPartition("a", 1), ErrorCode.NONE, None),)

    reply = ReassignmentsAltered(results, request_id=42)
    with_id = encode_reply(RequestHeader(45, 0, 7, reads_additions=True), reply)

    without_id = encode_reply(RequestHeader(45, 0, 7), ReassignmentsAltered(results))
    assert hexed(with_id[4:]) == hexed(without_id[4:-1]) + " 01 a0 9c 01 08 00 00 00 00 00 00 00 2a"
    assert decode_reply(RequestHeader(45, 0, 7), with_id[4:]) == reply
    assert encode_reply(RequestHeader(45, 0, 7), reply) == without_id


def test_progress_and_status_travel_in_tagged_fields_and_come_back() -> None:
    progress = MoveProgress(42, "catching up", 1000, "replica 3 is behind", (ReplicaProgress(3, 10, 40, 5.0, 6.0),))
    partition = PartitionStatus(1, (3, 1), progress=progress)
    status = RequestStatus(42, "x", 1, 2, None, {"in progress": 1}, (TopicStatus("a", (partition,)),))
    move = OngoingMove(TopicPartition("a", 1), (3, 1), (3,), (1,), progress)
    reply = ReassignmentsListed((move,), controller="kafka-zk-controller 0.1", request_status=status)

    encoded = encode_reply(RequestHeader(46, 0, 7, reads_additions=True), reply)
    assert decode_reply(RequestHeader(46, 0, 7), encoded[4:]) == reply
    # kafkajs and others take a tagged field for something else: they get what Kafka would answer.
    kafkas = ReassignmentsListed((OngoingMove(TopicPartition("a", 1), (3, 1), (3,), (1,)),))
    assert encode_reply(RequestHeader(46, 0, 7), reply) == encode_reply(RequestHeader(46, 0, 7), kafkas)
    assert decode_reply(RequestHeader(46, 0, 7), encode_reply(RequestHeader(46, 0, 7), reply)[4:]) == kafkas


def test_an_altered_isr_as_on_the_wire() -> None:
    result = IsrResult(None, "AAECAwQFBgcICQoLDA0ODw", 9, ErrorCode.NONE, 1, 4, (1, 2), 0, 18)

    response = encode_reply(RequestHeader(56, 2, 7), PartitionsAltered((result,)))

    assert hexed(response[4:]) == (
        "00 00 00 07 00 00 00 00 00 00 00 "
        "02 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f "
        "02 00 00 00 09 00 00 00 00 00 01 00 00 00 04 03 00 00 00 01 00 00 00 02 00 00 00 00 12 00 "
        "00 00"
    )


def test_a_permitted_shutdown_as_on_the_wire() -> None:
    reply = ShutdownPermitted((TopicPartition("a", 1),))

    assert hexed(encode_reply(RequestHeader(7, 0, 7), reply)) == (
        "00 00 00 11 00 00 00 07 00 00 00 00 00 01 00 01 61 00 00 00 01"
    )
    assert hexed(encode_reply(RequestHeader(7, 3, 7), reply)) == (
        "00 00 00 10 00 00 00 07 00 00 00 02 02 61 00 00 00 01 00 00"
    )


def test_allocated_producer_ids_as_on_the_wire() -> None:
    assert hexed(encode_reply(RequestHeader(67, 0, 7), ProducerIdsAllocated(5000, 1000))) == (
        "00 00 00 18 00 00 00 07 00 "  # size, correlation id, no tagged fields
        "00 00 00 00 00 00 "  # not throttled, no error
        "00 00 00 00 00 00 13 88 00 00 03 e8 00"
    )


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_one() -> None:
    header = RequestHeader(ApiKey.API_VERSIONS, 99, 7)

    response = encode_api_versions(header, error=ErrorCode.UNSUPPORTED_VERSION)

    assert response[4:].startswith(b"\0\0\0\7" + b"\0\x23" + len(SERVED).to_bytes(4, "big"))
    asked = RequestHeader(ApiKey.API_VERSIONS, 3, 7)
    assert decode_reply(asked, response[4:]) == ApiVersionsReply(dict(SERVED), ErrorCode.UNSUPPORTED_VERSION)


def test_a_reply_to_another_request_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="ShutdownPermitted does not answer the request with key 45"):
        encode_reply(RequestHeader(45, 0, 7), ShutdownPermitted())


def test_a_topic_asked_for_by_id_and_not_found_has_no_name() -> None:
    unknown = ClusterDescription(
        (), None, -1, (TopicMetadata(None, "AAECAwQFBgcICQoLDA0ODw", ErrorCode.UNKNOWN_TOPIC_ID),)
    )

    for version in (10, 12):
        header = RequestHeader(3, version, 7)
        assert decode_reply(header, encode_reply(header, unknown)[4:]) == unknown
