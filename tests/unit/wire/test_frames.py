"""Where does one message on a connection end, and what does its header say?"""

from __future__ import annotations

import pytest

from controller.wire.apis import ApiKey
from controller.wire.frames import (
    FrameBuffer,
    OversizedFrame,
    RequestHeader,
    encode_request_header,
    encode_response_header,
)
from controller.wire.requests import MalformedRequest, decode_header


def test_messages_are_cut_apart_however_their_bytes_arrive() -> None:
    stream = b"\0\0\0\3abc" + b"\0\0\0\0" + b"\0\0\0\1d" + b"\0\0\0\5ef"
    together = FrameBuffer(max_bytes=10)
    one_by_one = FrameBuffer(max_bytes=10)

    arrived = [frame for byte in stream for frame in one_by_one.feed(bytes([byte]))]

    assert together.feed(stream) == [b"abc", b"", b"d"]
    assert arrived == [b"abc", b"", b"d"]
    assert one_by_one.feed(b"ghi") == [b"efghi"]


def test_a_message_may_be_as_large_as_agreed_and_no_larger() -> None:
    assert FrameBuffer(max_bytes=3).feed(b"\0\0\0\3abc") == [b"abc"]
    with pytest.raises(OversizedFrame, match="announces 4 bytes where 0 to 3 are accepted"):
        FrameBuffer(max_bytes=3).feed(b"\0\0\0\4")


def test_something_that_is_not_kafka_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(OversizedFrame):
        FrameBuffer(max_bytes=100_000_000).feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(OversizedFrame):
        FrameBuffer(max_bytes=100_000_000).feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("client_id", [None, "", "admin", "ü"])
@pytest.mark.parametrize(("key", "version"), [(3, 0), (3, 12), (4, 3), (4, 7), (18, 3), (7, 1)])
def test_a_header_is_read_back(key: int, version: int, client_id: str | None) -> None:
    header = RequestHeader(key, version, -5, client_id)

    assert decode_header(encode_request_header(header)) == header


def test_the_oldest_controlled_shutdown_names_no_client() -> None:
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 9)

    assert encode_request_header(header) == b"\0\7\0\0\0\0\0\x09"
    assert decode_header(b"\0\7\0\0\0\0\0\x09\0\0\0\1") == header


def test_the_header_of_a_request_for_another_node_is_read_all_the_same() -> None:
    fetch = b"\0\1\0\x0d\0\0\0\2\0\2me\0whatever follows"

    assert decode_header(fetch) == RequestHeader(1, 13, 2, "me")


@pytest.mark.parametrize("frame", [b"", b"\0\3\0\0\0\0\0", b"\0\3\0\0\0\0\0\1", b"\0\3\0\0\0\0\0\1\0\5me"])
def test_less_than_a_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedRequest, match=f"{len(frame)} bytes is not a Kafka request") as refused:
        decode_header(frame)

    assert refused.value.header is None


def test_answers_to_api_versions_always_have_the_oldest_header() -> None:
    assert encode_response_header(RequestHeader(18, 3, 1)) == b"\0\0\0\1"
    assert encode_response_header(RequestHeader(3, 12, 1)) == b"\0\0\0\1\0"
    assert encode_response_header(RequestHeader(3, 8, 1)) == b"\0\0\0\1"
