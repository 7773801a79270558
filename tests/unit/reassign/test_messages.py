"""Tagged fields of ours travel in Kafka's messages, and are skipped by who does not know them."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import ListPartitionReassignmentsResponse

from controller.reassign import messages
from controller.reassign.cluster import Received, Standing
from controller.wire.frames import FrameBuffer
from controller.wire.requests import decode_request
from tests.unit.reassign.simulated import at, on

PROGRESS = (
    '{"request_id":7,"stage":"catching up","since_ms":5,"waits_for":null,"replicas":[{"broker":3,"copied_bytes":1,'
    '"total_bytes":2,"bytes_per_second":0.5,"remaining_seconds":2.0,"error":null}]}'
)


def framed(request: messages.TaggedAlter | messages.TaggedList) -> bytes:
    request.API_VERSION = 0
    request.with_header(correlation_id=5, client_id="tool")
    frames = FrameBuffer(10_000)
    (frame,) = frames.feed(request.encode(header=True, framed=True))
    return frame


@pytest.mark.parametrize("mode", [None, "gentle", "forced"])
def test_a_request_with_a_mode_is_read_by_our_listener(mode: str | None) -> None:
    frame = framed(messages.alter_request({at("a-0"): on(3, 1), at("b-1"): None}, 1000, mode))

    assert decode_request(frame)
    assert (mode or "gentle").encode() in frame or mode is None


@pytest.mark.parametrize("request_id", [None, 9])
def test_a_request_for_a_status_is_read_by_our_listener(request_id: int | None) -> None:
    assert decode_request(framed(messages.list_request({at("a-0").topic: [0]}, 1000, request_id)))
    assert decode_request(framed(messages.list_request(None, 1000, request_id)))


def answer(tags: dict[int, bytes], partition_tags: dict[int, bytes]) -> ListPartitionReassignmentsResponse:
    """As a controller writes it: throttle, error, one topic with one partition."""
    partition = messages.with_tags(
        bytes(4) + b"\x02" + bytes([0, 0, 0, 3]) + b"\x01\x01\x00", partition_tags, framed=False
    )
    topic = messages.compact_string("a") + b"\x02" + partition + b"\x00"
    body = bytes(4) + bytes(2) + b"\x00" + b"\x02" + topic + b"\x00"
    return ListPartitionReassignmentsResponse.decode(messages.with_tags(body, tags, framed=False), version=0)


def test_what_our_controller_adds_is_found() -> None:
    long = "x" * 300
    found = answer(
        {
            messages.CONTROLLER: messages.compact_string("ours 1"),
            messages.REQUEST_STATUS: messages.compact_string(long),
        },
        {messages.PROGRESS: messages.compact_string(PROGRESS)},
    )

    assert messages.text_of(found, messages.CONTROLLER) == "ours 1"
    assert messages.text_of(found, messages.REQUEST_STATUS) == long
    assert messages.standing_of(found.topics[0].partitions[0]) == Standing(
        7, "catching up", 5, None, (Received(3, 1, 2, 0.5, 2.0),)
    )


def test_what_kafkas_controller_answers_has_nothing_of_it() -> None:
    found = answer({}, {})

    assert messages.text_of(found, messages.CONTROLLER) is None
    assert messages.standing_of(found.topics[0].partitions[0]) is None


def test_progress_in_words_of_another_version_is_no_progress() -> None:
    found = answer({}, {messages.PROGRESS: messages.compact_string('{"replicas":"many"}')})

    assert messages.standing_of(found.topics[0].partitions[0]) is None
