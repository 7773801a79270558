"""What is asked in this message?"""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    DescribeCluster,
    ElectLeaders,
    IsrProposal,
    ListReassignments,
    PartitionReassignment,
    TopicReference,
)
from controller.wire.apis import SERVED
from controller.wire.frames import RequestHeader
from controller.wire.packing import unsigned_varint
from controller.wire.requests import (
    ApiVersionsRequest,
    MalformedRequest,
    UnsupportedApi,
    UnsupportedVersion,
    decode_request,
)
from tests.equipment.client_side import api_key_of, encode_request
from zk_layout.ids import TopicPartition

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def header(key: int, version: int) -> bytes:
    """Correlation id 7, client "me"."""
    return struct.pack(">hhih", key, version, 7, 2) + b"me"


def test_alter_reassignments_as_on_the_wire() -> None:
    frame = (
        header(45, 0)
        + bytes.fromhex(
            "00"  # no tagged fields in the header
            "0000ea60"  # timeout: one minute
            "02"
            "07"
            + b"orders".hex()  # one topic, orders
            + "03"  # two partitions:
            "00000000"
            "03"
            "00000003"
            "00000004"
            "00"  # partition 0 to 3 and 4
            "00000001"
            "00"
            "00"  # partition 1: cancel
            "00"
            "00"
        )
    )

    assert decode_request(frame) == (
        RequestHeader(45, 0, 7, "me"),
        AlterReassignments(
            (
                PartitionReassignment(TopicPartition("orders", 0), (3, 4)),
                PartitionReassignment(TopicPartition("orders", 1), None),
            )
        ),
    )


def test_a_list_can_ask_for_the_status_of_one_request() -> None:
    frame = header(46, 0) + bytes.fromhex("00 00007530 00 01 a09c01 08 000000000000002a")

    asked = (RequestHeader(46, 0, 7, "me", reads_additions=True), ListReassignments(None, 42, 30_000))
    assert decode_request(frame) == asked


@pytest.mark.parametrize("request_", [ListReassignments(None), AlterReassignments(())])
@pytest.mark.parametrize("reads_additions", [False, True])
def test_a_request_shows_whether_its_sender_reads_what_we_add(
    request_: ListReassignments | AlterReassignments, reads_additions: bool
) -> None:
    header = RequestHeader(api_key_of(request_), 0, 7, "me", reads_additions)

    assert decode_request(encode_request(header, request_)[4:]) == (header, request_)


def test_a_request_id_that_is_no_number_is_refused_with_its_place() -> None:
    frame = header(46, 0) + bytes.fromhex("00 00007530 00 01 a09c01 02 002a")

    with pytest.raises(MalformedRequest, match="request_id has 2 bytes, not 8"):
        decode_request(frame)


def test_list_reassignments_as_on_the_wire() -> None:
    one = header(46, 0) + bytes.fromhex("00000075300202610300000000000000050000")
    of_all = header(46, 0) + bytes.fromhex("00000075300000")

    assert decode_request(one)[1] == ListReassignments(
        (TopicPartition("a", 0), TopicPartition("a", 5)), timeout_ms=30_000
    )
    assert decode_request(of_all)[1] == ListReassignments(None, timeout_ms=30_000)


@pytest.mark.parametrize("mode", ["gentle", "forced", "sideways"])
def test_the_mode_of_a_request_is_a_tagged_field_and_others_are_skipped(mode: str) -> None:
    body = bytes.fromhex("0000007530020261020000000102000000030000")
    text = bytes([len(mode) + 1]) + mode.encode()
    tagged = b"\x02" + b"\x07\x01x" + b"\xa0\x9c\x01" + bytes([len(text)]) + text

    request = AlterReassignments((PartitionReassignment(TopicPartition("a", 1), (3,)),), mode, 30_000)

    assert decode_request(header(45, 0) + body + tagged)[1] == request
    assert encode_request(RequestHeader(45, 0, 7, "me"), request)[4:].endswith(b"\x01" + tagged[4:])


def test_the_reason_of_a_request_is_a_tagged_field_with_text() -> None:
    body = bytes.fromhex("0000007530020261020000000102000000030000")
    moves = (PartitionReassignment(TopicPartition("a", 1), (3,)),)

    found, request = decode_request(header(45, 0) + body + b"\x01\xa3\x9c\x01\x05\x05rack")

    assert found.reads_additions
    assert request == AlterReassignments(moves, timeout_ms=30_000, reason="rack")
    with pytest.raises(MalformedRequest, match="reason must not be null"):
        decode_request(header(45, 0) + body + b"\x01\xa3\x9c\x01\x01\x00")


def test_the_time_after_which_moves_give_up_is_a_tagged_field_of_64_bits() -> None:
    body = bytes.fromhex("0000007530020261020000000102000000030000")
    moves = (PartitionReassignment(TopicPartition("a", 1), (3,)),)

    found, request = decode_request(header(45, 0) + body + b"\x01\xa5\x9c\x01\x08" + (60_000).to_bytes(8))

    assert found.reads_additions
    assert request == AlterReassignments(moves, timeout_ms=30_000, give_up_ms=60_000)
    with pytest.raises(MalformedRequest, match="give_up has 2 bytes, not 8"):
        decode_request(header(45, 0) + body + b"\x01\xa5\x9c\x01\x02ab")


def test_the_weights_of_a_request_are_a_tagged_field_with_one_for_each_partition() -> None:
    body = bytes.fromhex("000000753002026103000000010200000003000000000202000000030000")
    moves = tuple(PartitionReassignment(TopicPartition("a", n), (3,), weight) for n, weight in ((1, 0), (2, -2)))

    found, request = decode_request(header(45, 0) + body + b"\x01\xa4\x9c\x01\x09\x03" + bytes(4) + b"\xff\xff\xff\xfe")

    assert found.reads_additions
    assert request == AlterReassignments(moves, timeout_ms=30_000)
    for wrong in (b"\x05\x02" + bytes(4), b"\x0d\x04" + bytes(12), b"\x01\x00"):
        with pytest.raises(MalformedRequest, match="weights"):
            decode_request(header(45, 0) + body + b"\x01\xa4\x9c\x01" + wrong)


def test_alter_partition_by_name_as_on_the_wire() -> None:
    frame = header(56, 0) + bytes.fromhex(
        "00000000010000000000000bad02026102000000090000000403000000010000000200000011000000"
    )

    assert decode_request(frame)[1] == AlterPartition(
        1,
        0xBAD,
        (IsrProposal(TopicReference(name="a"), 9, leader_epoch=4, partition_epoch=0x11, isr=(1, 2)),),
    )


def test_alter_partition_by_id_with_broker_epochs_as_on_the_wire() -> None:
    frame = header(56, 3) + bytes.fromhex(
        "00"
        "00000001"
        "0000000000000bad"
        "02"
        "000102030405060708090a0b0c0d0e0f"
        "02"
        "00000009"
        "00000004"
        "03"
        "00000001"
        "0000000000000bad"
        "00"
        "00000002"
        "ffffffffffffffff"
        "00"
        "01"
        "00000011"
        "00"
        "00"
        "00"
    )
    proposal = IsrProposal(
        TopicReference(topic_id=TOPIC_ID),
        9,
        4,
        0x11,
        (1, 2),
        broker_epochs=(0xBAD, -1),
        leader_recovery_state=1,
    )

    assert decode_request(frame)[1] == AlterPartition(1, 0xBAD, (proposal,), names_topics_by_id=True)


def test_controlled_shutdown_knows_the_broker_epoch_from_version_2() -> None:
    oldest = b"\0\7\0\0\0\0\0\7" + b"\0\0\0\5"

    assert decode_request(oldest)[1] == ControlledShutdown(5)
    assert decode_request(header(7, 1) + b"\0\0\0\5")[1] == ControlledShutdown(5)
    assert decode_request(header(7, 2) + struct.pack(">iq", 5, 9))[1] == ControlledShutdown(5, 9)
    assert decode_request(header(7, 3) + b"\0" + struct.pack(">iq", 5, 9) + b"\0")[1] == ControlledShutdown(5, 9)


def test_allocate_producer_ids_as_on_the_wire() -> None:
    frame = header(67, 0) + bytes.fromhex("00 00000001 0000000000000bad 00")

    assert decode_request(frame)[1] == AllocateProducerIds(1, 0xBAD)


def test_metadata_by_topic_id_as_on_the_wire() -> None:
    topic_id = bytes(range(16))
    frame = header(3, 12) + b"\0" + b"\2" + topic_id + b"\0\0" + b"\0\0\0"

    assert decode_request(frame)[1] == DescribeCluster((TopicReference(topic_id=TOPIC_ID),))


def test_the_oldest_metadata_means_all_topics_by_an_empty_list() -> None:
    assert decode_request(header(3, 0) + b"\0\0\0\0")[1] == DescribeCluster(None)
    assert decode_request(header(3, 1) + b"\0\0\0\0")[1] == DescribeCluster(())
    assert decode_request(header(3, 1) + b"\xff\xff\xff\xff")[1] == DescribeCluster(None)


def test_unknown_tagged_fields_are_skipped() -> None:
    tag = b"\2" + b"\x07\x03abc" + b"\xe3\x07\x00"  # numbers 7 and 995
    frame = header(18, 3) + tag + b"\2a\2b" + tag

    assert decode_request(frame)[1] == ApiVersionsRequest("a", "b")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\0\0\0\0", r"topics claims 2147483646 entries but only \d+ bytes are left"),
        (b"\2", "topics"),
    ],
)
def test_a_list_that_cannot_be_is_refused_before_memory_is_reserved(body: bytes, problem: str) -> None:
    absurd = header(45, 0) + b"\0" + b"\0\0\0\0" + (b"\xff\xff\xff\xff\x07" if body != b"\2" else b"\2")
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match=problem):
            decode_request(absurd + body)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 100_000


def test_a_malformed_request_says_what_where_and_what_to_do() -> None:
    frame = header(45, 0) + b"\0" + b"\0\0\0\0" + b"\2\2a\2\0\0\0\1\3\0\0\0\1"

    with pytest.raises(MalformedRequest) as refused:
        decode_request(frame)

    assert str(refused.value) == (
        "AlterPartitionReassignments version 0 from client 'me' is malformed: "
        "topics[0].partitions[0].replicas claims 2 entries but only 4 bytes are left, at byte 26 of 30; "
        "correct the client's encoding"
    )
    assert refused.value.header == RequestHeader(45, 0, 7, "me")


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (header(3, 1) + b"\0\0\0\1\xff\xff", r"topics\[0\].name must not be null"),
        (header(3, 1) + b"\0\0\0\1\xff\xfe", r"topics\[0\].name must not be null"),
        (header(3, 1) + b"\0\0\0\1\x7f\xff" + b"\xff" * 32767, r"topics\[0\].name has 98301 bytes"),
        (header(45, 0) + b"\0" + b"\0\0\0\0" + b"\0\0", "topics must not be null"),
        (
            header(45, 0) + b"\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff\xff\1",
            "topics is a number of more than five",
        ),
        (header(45, 0) + b"\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f", "topics must not be null"),
        (header(45, 0) + b"\0" + b"\0\0\0\0" + b"\x80\x80\x80\x80\x08", "topics claims 2147483647 entries"),
        (header(45, 0) + b"\1\0\xff\xff\xff\xff\x0f", "size of a tagged field is negative"),
        (
            header(67, 0) + unsigned_varint(100_001) + b"\0\0" * 100_001,
            "tagged fields has 1 entries more than one message may have",
        ),
        (
            header(51, 0) + b"\0" + unsigned_varint(50_002) + b"\2a\1\0" * 50_001,
            "deletions has 1 entries more than one message may have",
        ),
    ],
)
def test_what_breaks_the_rules_is_named(frame: bytes, problem: str) -> None:
    with pytest.raises(MalformedRequest, match=problem):
        decode_request(frame)


ALL_TOPICS = (RequestHeader(3, 9, 7, "rdkafka"), DescribeCluster(None))


def test_librdkafka_writes_four_bytes_where_one_says_all_topics() -> None:
    """From 2.3 on it does; brokers never look at the three bytes that are left then."""
    frame = bytes.fromhex("0003 0009 00000007 0007" + b"rdkafka".hex() + "00" + "00000000" + "01 00 00 00")

    assert decode_request(frame) == ALL_TOPICS


@pytest.mark.parametrize(
    ("frame", "means"),
    [
        (header(3, 1) + b"\xff\xff\xff\xfe", DescribeCluster(None)),
        (header(3, 1) + b"\0\0\0\1\0\2\xffa", DescribeCluster((TopicReference("\ufffda"),))),
        (header(3, 1) + b"\0\0\0\0more", DescribeCluster(())),
        (header(3, 9) + b"\0\xff\xff\xff\xff\x0f\0\0\0\0", DescribeCluster(None)),
        (header(3, 9) + b"\xff\xff\xff\xff\x0f" + b"\0" * 5, DescribeCluster(None)),
        (header(3, 9) + b"\0\x80\x80\x80\x80\x70\0\0\0\0", DescribeCluster(None)),
        (header(3, 9) + b"\2\7\1a\7\1b" + b"\0" * 5, DescribeCluster(None)),
        (header(3, 9) + unsigned_varint(5000) + b"\7\1a" * 5000 + b"\0" * 5, DescribeCluster(None)),
    ],
    ids=[
        "an array of -2 entries is none",
        "bytes that are no text are replaced",
        "what follows is not looked at",
        "a compact length of -1 is none",
        "a negative number of tagged fields is none",
        "a number has 32 bits, however many arrive",
        "a tagged field twice",
        "thousands of tagged fields",
    ],
)
def test_odd_bytes_are_taken_as_brokers_take_them(frame: bytes, means: DescribeCluster) -> None:
    assert decode_request(frame)[1] == means


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_topic_without_name_and_id_is_one_that_does_not_exist(version: int) -> None:
    flags = b"\0" * (3 if version == 10 else 2)

    assert decode_request(header(3, version) + b"\0\2" + bytes(16) + b"\0\0" + flags + b"\0")[1] == DescribeCluster(
        (TopicReference(""),)
    )


@pytest.mark.parametrize(
    ("kind", "means"),
    [
        (0, ElectLeaders(None, timeout_ms=5)),
        (1, ElectLeaders(None, is_unclean=True, timeout_ms=5)),
        (2, ElectLeaders(None, timeout_ms=5, is_known_kind=False)),
    ],
)
def test_an_election_of_a_kind_from_the_future_is_not_the_preferred_one(kind: int, means: ElectLeaders) -> None:
    assert decode_request(header(43, 2) + bytes([0, kind, 0, 0, 0, 0, 5, 0]))[1] == means


@pytest.mark.parametrize("length", [b"\xff\xff", b"\xff\xfe", b"\x80\0"])
def test_a_client_id_of_negative_length_is_none(length: bytes) -> None:
    frame = struct.pack(">hhi", 3, 1, 7) + length + b"\0\0\0\0"

    assert decode_request(frame) == (RequestHeader(3, 1, 7, None), DescribeCluster(()))


def test_a_client_id_that_is_no_text_ends_where_it_says() -> None:
    frame = struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xfe" + b"\0\0\0\0"

    assert decode_request(frame) == (RequestHeader(3, 1, 7, "\ufffd\ufffd"), DescribeCluster(()))


def test_a_request_for_another_node_keeps_its_header() -> None:
    with pytest.raises(UnsupportedApi, match="Fetch is not answered by the controller") as refused:
        decode_request(header(1, 13) + b"\0anything")

    assert refused.value.header == RequestHeader(1, 13, 7, "me")


@pytest.mark.parametrize("key", sorted(SERVED))
def test_a_version_beyond_those_served_keeps_its_header_and_says_which_to_use(key: int) -> None:
    version = SERVED[key].highest + 1

    with pytest.raises(UnsupportedVersion, match=f"use {SERVED[key]}$") as refused:
        decode_request(header(key, version) + b"\0anything")

    assert refused.value.header == RequestHeader(key, version, 7, "me")
