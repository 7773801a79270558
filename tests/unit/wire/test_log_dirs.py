"""How is a broker asked for the sizes of replicas, and what does it answer?"""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Directory, ReplicaSize
from controller.lab.wire.log_dirs_broker_side import decode_describe, encode_described
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from controller.wire.log_dirs import (
    WITH_ROOM,
    Refused,
    decode_described,
    decode_directories,
    decode_room,
    encode_describe,
)
from controller.wire.versions import parse_protocol
from zk_layout.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
VERSIONS = (0, 1, 2, 3, 4)


def test_the_request_as_on_the_wire() -> None:
    request = encode_describe([A0, A1], 1, 7, "me")

    assert b"".join(request.chunks).hex(" ") == (
        "00 00 00 1f 00 23 00 01 00 00 00 07 00 02 6d 65 "  # size, key 35, version 1, correlation id, client
        "00 00 00 01 00 01 61 00 00 00 02 00 00 00 00 00 00 00 01"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_asked_is_what_the_broker_reads(version: int) -> None:
    request = encode_describe([A0, A1, B0], version, 7, "me")

    header, asked = decode_describe(b"".join(request.chunks)[4:])

    assert header == RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, version, 7, "me")
    assert asked == (A0, A1, B0)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_broker_answers_is_read(version: int) -> None:
    sizes = {A0: ReplicaSize(2**40, 0), B0: ReplicaSize(7, 12)}

    frame = encode_described(RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, version, 7), "/data", sizes)[4:]

    assert decode_described(frame, version) == sizes


def test_the_room_of_directories_is_read_and_what_is_in_them_without_those_that_are_offline() -> None:
    header, directory = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, WITH_ROOM, 7), Directory("/data", 2**50, 2**40)
    frame = encode_described(header, directory, {A0: ReplicaSize(9, 1)}, offline=("/gone",))[4:]

    assert decode_room(frame) == ((directory,), {A0: ReplicaSize(9, 1)})
    assert decode_directories(frame, WITH_ROOM) == {"/data": ErrorCode.NONE, "/gone": ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_broker_that_does_not_say_how_much_room_it_has_is_quoted() -> None:
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, WITH_ROOM, 7)
    frame = encode_described(header, "/data", {}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)[4:]

    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED"):
        decode_room(frame)


def test_a_broker_that_does_not_say_is_quoted() -> None:
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, 3, 7)
    frame = encode_described(header, "/data", {}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)[4:]

    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED"):
        decode_described(frame, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_breaks_off_anywhere_is_malformed(version: int) -> None:
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, version, 7)
    frame = encode_described(header, "/data", {A0: ReplicaSize(9, 1)})[4:]

    for end in range(len(frame)):
        with pytest.raises(Malformed):
            decode_described(frame[:end], version)


def test_the_version_follows_the_inter_broker_protocol() -> None:
    versions = {text: parse_protocol(text).describe_log_dirs for text in ("2.4", "2.5", "2.6", "3.1", "3.2", "3.9")}

    assert versions == {"2.4": 1, "2.5": 1, "2.6": 2, "3.1": 2, "3.2": 3, "3.9": 3}
