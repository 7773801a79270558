"""Which bytes ask a broker for its versions, and what did it answer?

Source: Kafka's ApiVersionsRequest.json and ApiVersionsResponse.json; KIP-511.
"""

from __future__ import annotations

from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor

CLIENT_ID = "kafka-zk-controller"
PULSE_ID = "kafka-zk-controller pulse"
"""The client id of a standby that asks a leader of ours for a sign of life. A leader that ZooKeeper does not answer
offers it nothing."""
_OLDEST = 0  # every broker supports it, and its request has no fields


class ApiVersionsReply(Struct, frozen=True):
    """The answer to ApiVersions: the versions supported, by api key."""

    ranges: dict[int, VersionRange]
    error: ErrorCode = ErrorCode.NONE


def encode_question(client_id: str, correlation_id: int) -> bytes:
    """An ApiVersions request that every broker understands, with its size."""
    return framed(encode_request_header(RequestHeader(ApiKey.API_VERSIONS, _OLDEST, correlation_id, client_id)))


def decode_answer(frame: bytes) -> ApiVersionsReply:
    """Decode the answer to it; `frame` is without its size.

    Raises:
        Malformed: not a response to it.
    """
    _, cursor = response_cursor(ApiKey.API_VERSIONS, _OLDEST, frame)
    reply = read_answer(cursor, _OLDEST)
    cursor.finish()
    return reply


def read_answer(cursor: Cursor, version: int) -> ApiVersionsReply:
    """Decode the body of an answer in this version, up to its tagged fields.

    Raises:
        Malformed: not such a body.
    """
    error = cursor.error()
    if error == ErrorCode.UNSUPPORTED_VERSION:
        # This error is always in version 0, whatever was asked (KIP-511).
        cursor.is_flexible, version = False, 0
    ranges: dict[int, VersionRange] = {}
    for _ in cursor.structs("api_keys", 6):
        key = cursor.int16("api_key")
        ranges[key] = VersionRange(cursor.int16("min_version"), cursor.int16("max_version"))
    if version >= 1:
        cursor.int32("throttle_time_ms")
    return ApiVersionsReply(ranges, error)
