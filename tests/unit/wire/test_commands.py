"""Which bytes carry a command to a broker, and what did the broker answer?"""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from controller.core.messages.commands import (
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.wire import commands as wire_commands
from controller.wire.commands import CommandEncoder, CommandRequest
from controller.wire.cursor import Malformed
from controller.wire.versions import parse_protocol
from zk_layout.ids import TopicPartition
from zk_layout.znodes.brokers import Endpoint

ORDERS = "AAECAwQFBgcICQoLDA0ODw"
PAYMENTS = "AAAAAAAAAAAAAAAAAAAAAQ"
BROKER_1 = LiveBroker(1, (Endpoint("OUT", "example.org", 19092, "SSL"), Endpoint("IN", "h", 9092)), "r")


def partition(number: int = 0, topic: str = "orders", topic_id: str | None = ORDERS, **fields: object) -> PartitionView:
    values = {
        "topic": topic,
        "topic_id": topic_id,
        "partition": number,
        "controller_epoch": 2,
        "leader": 1,
        "leader_epoch": 3,
        "isr": (1,),
        "partition_epoch": 4,
        "leader_recovery_state": 0,
        "replicas": (1, 2),
    }
    return PartitionView(**(values | fields))


def encoder(protocol: str = "3.9") -> CommandEncoder:
    return CommandEncoder(100, parse_protocol(protocol), "IN")


def tell(command: LeaderAndIsr | UpdateMetadata | StopReplica, broker: int = 2) -> Tell:
    return Tell(broker, broker_epoch=0xBE, controller_epoch=0xCE, command=command)


def hexed(request: CommandRequest) -> str:
    return b"".join(request.chunks).hex(" ")


HEAD = "00 00 00 00 00 00 00 02 00 00 00 01 00 00 00 03 02 00 00 00 01 00 00 00 04 03 00 00 00 01 00 00 00 02"
TOPIC = "02 07 6f 72 64 65 72 73 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 02"


def test_leader_and_isr_as_on_the_wire() -> None:
    command = LeaderAndIsr((partition(adding=(2,)),), (), (BROKER_1,))

    (request,) = encoder().encode(tell(command), correlation_id=7)

    assert hexed(request) == (
        "00 00 00 72 "  # size
        "00 04 00 07 00 00 00 07 00 03 31 30 30 00 "  # LeaderAndIsr 7, correlation id 7, client "100"
        "00 00 00 64 00 00 00 00 ce 00 00 00 00 00 00 00 be 00 "  # controller 100, no KRaft, both epochs, type 0
        f"{TOPIC} {HEAD} "
        "02 00 00 00 02 01 00 00 00 00 "  # adding 2, removing none, not new, recovered
        "02 00 00 00 01 02 68 00 00 23 84 00 "  # one leader: 1 at h:9092
        "00"
    )


def test_update_metadata_as_on_the_wire() -> None:
    command = UpdateMetadata((partition(offline=(2,)),), (BROKER_1,))

    (request,) = encoder().encode(tell(command), correlation_id=7)

    assert hexed(request) == (
        "00 00 00 8e "
        "00 06 00 08 00 00 00 07 00 03 31 30 30 00 "
        "00 00 00 64 00 00 00 00 ce 00 00 00 00 00 00 00 be "
        f"{TOPIC} {HEAD} "
        "02 00 00 00 02 00 00 "  # offline: 2
        "02 00 00 00 01 03 "  # one broker, 1, with two endpoints
        "00 00 4a 94 0c 65 78 61 6d 70 6c 65 2e 6f 72 67 04 4f 55 54 00 01 00 "
        "00 00 23 84 02 68 03 49 4e 00 00 00 "
        "02 72 00 "  # rack r
        "00"
    )


def test_stop_replica_as_on_the_wire() -> None:
    command = StopReplica((ReplicaStop("a", 0, 5, True), ReplicaStop("a", 1, -2, False)))

    (request,) = encoder().encode(tell(command), correlation_id=7)

    assert hexed(request) == (
        "00 00 00 39 "
        "00 05 00 04 00 00 00 07 00 03 31 30 30 00 "
        "00 00 00 64 00 00 00 00 ce 00 00 00 00 00 00 00 be "
        "02 02 61 03 00 00 00 00 00 00 00 05 01 00 00 00 00 01 ff ff ff fe 00 00 00 00"
    )


def test_the_size_before_a_request_counts_all_its_chunks() -> None:
    for command in (LeaderAndIsr((partition(),), (), ()), UpdateMetadata((partition(),), ()), StopReplica(())):
        for request in encoder().encode(tell(command), 1):
            message = b"".join(request.chunks)
            assert struct.unpack_from(">i", message)[0] == len(message) - 4


def test_partitions_of_a_topic_are_put_together_whatever_their_order() -> None:
    views = (partition(0), partition(0, "payments", PAYMENTS), partition(1), partition(1, "payments", PAYMENTS))

    (request,) = encoder().encode(tell(UpdateMetadata(views, ())), 1)

    message = b"".join(request.chunks)
    assert (message.count(b"orders"), message.count(b"payments")) == (1, 1)


def test_what_brokers_have_in_common_is_made_once() -> None:
    commands = encoder()
    sent = UpdateMetadata((partition(),), (BROKER_1,))

    (first,) = commands.encode(tell(sent, broker=1), 1)
    (second,) = commands.encode(tell(sent, broker=2), 2)

    assert first.chunks[1] is second.chunks[1]
    assert first.chunks[0] != second.chunks[0]


@pytest.mark.parametrize("protocol", ["3.9", "2.4"])
def test_brokers_that_have_changed_since_the_last_command_are_told(protocol: str) -> None:
    commands, views = encoder(protocol), (partition(),)
    moved = replace(BROKER_1, endpoints=(replace(BROKER_1.endpoints[0], port=9_999),))
    racked = replace(BROKER_1, rack="west")
    for brokers in (
        (BROKER_1,),
        (BROKER_1,),
        (moved,),
        (racked,),
        (),
        (BROKER_1, replace(BROKER_1, broker=2)),
        (moved,),
    ):
        sent = tell(UpdateMetadata(views, brokers))

        assert commands.encode(sent, 1) == encoder(protocol).encode(sent, 1)


def test_what_brokers_have_in_common_is_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [UpdateMetadata((partition(number),), (BROKER_1,)) for number in range(9)]
    size_bytes = len(encoder().encode(tell(every[0]), 1)[0].chunks[1])
    monkeypatch.setattr(wire_commands, "_SHARED_MOST_BYTES", 3 * size_bytes)
    commands = encoder()

    for _ in range(2):
        made = [commands.encode(tell(sent), 1)[0].chunks[1] for sent in every]
        again = [commands.encode(tell(sent), 1)[0].chunks[1] for sent in every[-3:]]
        assert all(one is other for one, other in zip(made[-3:], again, strict=True))
        assert commands.encode(tell(every[0]), 1)[0].chunks[1] is not made[0]
        commands.forget()


def test_what_was_forgotten_is_made_again_alike() -> None:
    commands = encoder()
    sent = UpdateMetadata((partition(),), (BROKER_1,))
    (first,) = commands.encode(tell(sent), 1)

    commands.forget()

    (again,) = commands.encode(tell(sent), 1)
    assert again == first
    assert again.chunks[1] is not first.chunks[1]


def test_a_view_that_took_the_place_of_another_in_memory_is_not_mistaken_for_it() -> None:
    commands = encoder()
    epochs = range(2000)

    messages = {
        b"".join(commands.encode(tell(LeaderAndIsr((partition(leader_epoch=epoch),), (), ())), 1)[0].chunks)
        for epoch in epochs
    }

    assert len(messages) == len(epochs)


def test_a_leader_without_the_inter_broker_listener_is_left_out() -> None:
    elsewhere = LiveBroker(3, (Endpoint("OUT", "example.org", 19092),))

    with_it = encoder().encode(tell(LeaderAndIsr((), (), (BROKER_1, elsewhere))), 1)

    assert with_it == encoder().encode(tell(LeaderAndIsr((), (), (BROKER_1,))), 1)


def test_before_leader_epochs_one_stop_needs_two_requests_answered_apart() -> None:
    commands = encoder("2.5")
    sent = tell(StopReplica((ReplicaStop("a", 0, 5, True), ReplicaStop("a", 1, 5, False))))

    kept, deleted = commands.encode(sent, correlation_id=7)

    assert (kept.correlation_id, deleted.correlation_id) == (7, 8)
    assert kept.chunks[1] == bytes.fromhex("00 02 02 61 02 00000001 00 00")
    assert deleted.chunks[1] == bytes.fromhex("01 02 02 61 02 00000000 00 00")
    acknowledged = commands.decode_acknowledgement(
        sent,
        bytes.fromhex("00000007 00 0000 02 02 61 00000001 0000 00 00"),
        bytes.fromhex("00000008 00 0000 02 02 61 00000000 0038 00 00"),
    )
    assert acknowledged.error == ErrorCode.NONE
    assert acknowledged.errors == {TopicPartition("a", 0): ErrorCode.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize("refused", [0, 1])
def test_of_several_answers_the_one_that_refuses_counts(refused: int) -> None:
    commands = encoder("2.5")
    sent = tell(StopReplica((ReplicaStop("a", 0, 5, True), ReplicaStop("a", 1, 5, False))))
    answers = [bytes.fromhex("00000007 00 0000 01 00"), bytes.fromhex("00000008 00 0000 01 00")]
    answers[refused] = bytes.fromhex("00000007 00 004d 01 00")

    assert commands.decode_acknowledgement(sent, *answers).error == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("protocol", ["2.4-IV0", "2.4", "2.6", "3.9"])
def test_even_nothing_to_stop_is_one_request(protocol: str) -> None:
    assert len(encoder(protocol).encode(tell(StopReplica(())), 1)) == 1


def test_an_answer_by_topic_id_is_reported_by_name() -> None:
    sent = tell(LeaderAndIsr((partition(0), partition(1)), (partition(0, "payments", PAYMENTS),), ()))
    answer = (
        bytes.fromhex("00000007 00 0000 03")
        + bytes(range(16))
        + bytes.fromhex("03 00000000 0000 00 00000001 000b 00 00")
        + bytes(15)
        + bytes.fromhex("01 02 00000000 0038 00 00 00")
    )

    acknowledged = encoder().decode_acknowledgement(sent, answer)

    assert acknowledged.errors == {
        TopicPartition("orders", 1): ErrorCode.STALE_CONTROLLER_EPOCH,
        TopicPartition("payments", 0): ErrorCode.KAFKA_STORAGE_ERROR,
    }
    assert (acknowledged.broker, acknowledged.broker_epoch, acknowledged.command) == (2, 0xBE, sent.command)


def test_tagged_fields_in_an_answer_are_skipped() -> None:
    sent = tell(LeaderAndIsr((partition(0), partition(1)), (), ()))
    answer = (
        bytes.fromhex("00000007 00 0000 02")
        + bytes(range(16))
        + bytes.fromhex("03 00000000 0000 01 05 02 ffff 00000001 0038 00 00 00")
    )

    acknowledged = encoder().decode_acknowledgement(sent, answer)

    assert acknowledged.errors == {TopicPartition("orders", 1): ErrorCode.KAFKA_STORAGE_ERROR}


def test_an_error_of_topics_without_id_counts_for_each_that_may_be_meant() -> None:
    views = (partition(0, topic_id=None), partition(0, "payments", None), partition(1, "payments", None))
    answer = bytes.fromhex("00000007 00 0000 02") + bytes(16) + bytes.fromhex("02 00000000 0038 00 00 00")

    acknowledged = encoder().decode_acknowledgement(tell(LeaderAndIsr(views, (), ())), answer)

    assert acknowledged.errors == {
        TopicPartition("orders", 0): ErrorCode.KAFKA_STORAGE_ERROR,
        TopicPartition("payments", 0): ErrorCode.KAFKA_STORAGE_ERROR,
    }


def test_a_command_refused_as_a_whole_keeps_its_error() -> None:
    sent = tell(UpdateMetadata((), ()))

    acknowledged = encoder().decode_acknowledgement(sent, bytes.fromhex("00000007 00 004d 00"))

    assert acknowledged.error == ErrorCode.STALE_BROKER_EPOCH
    assert not acknowledged.errors


def test_an_unknown_error_is_an_unknown_server_error() -> None:
    sent = tell(UpdateMetadata((), ()))

    acknowledged = encoder().decode_acknowledgement(sent, bytes.fromhex("00000007 00 270f 00"))

    assert acknowledged.error == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    "answer", ["", "00000007", "00000007 00 0000", "00000007 00 0000 00 00", "00000007 00 0000 ffffffff07"]
)
def test_an_answer_that_breaks_the_rules_is_malformed(answer: str) -> None:
    sent = tell(LeaderAndIsr((partition(),), (), ()))

    with pytest.raises(Malformed, match=r"broker 2 answered LEADER_AND_ISR version 7 .* check that"):
        encoder().decode_acknowledgement(sent, bytes.fromhex(answer))
