"""Are these the bytes of Kafka's own Java classes?

`fixtures/wire/kafka_clients_3_9_1.txt` has one message a line: direction, name, version, and its bytes with header
and without size. Kafka's generated classes wrote it from the values below.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.messages.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    ClusterDescription,
    IsrResult,
    Node,
    OngoingMove,
    PartitionMetadata,
    PartitionResult,
    PartitionsAltered,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ShutdownPermitted,
    TopicMetadata,
)
from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    DescribeCluster,
    IsrProposal,
    ListReassignments,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.wire.apis import ApiKey
from controller.wire.broker_side import decode_command, encode_acknowledgement
from controller.wire.commands import CommandEncoder
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from controller.wire.requests import decode_request
from controller.wire.versions import InterBrokerProtocol, parse_protocol
from tests.equipment.client_side import decode_reply, encode_request
from zk_layout.ids import TopicPartition
from zk_layout.znodes.brokers import Endpoint

LINES = (Path(__file__).parents[2] / "fixtures" / "wire" / "kafka_clients_3_9_1.txt").read_text().splitlines()
MESSAGES = [tuple(line.split()) for line in LINES if not line.startswith("#")]
KEYS = {"".join(word.capitalize() for word in key.name.split("_")): key for key in ApiKey}
COMMANDS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
ORDERS_0 = TopicPartition("orders", 0)


def messages(direction: str, *, of_commands: bool) -> list[tuple[str, int, bytes]]:
    return [
        (name, int(version), bytes.fromhex(message))
        for way, name, version, message in MESSAGES
        if way == direction and (name in COMMANDS) == of_commands
    ]


def asked(name: str, version: int) -> Request:
    by_id = TopicReference(topic_id=TOPIC_ID)
    by_name = TopicReference(name="orders")
    match name:
        case "Metadata":
            return DescribeCluster((by_id if version == 12 else by_name,))
        case "ControlledShutdown":
            return ControlledShutdown(5, 9) if version >= 2 else ControlledShutdown(5)
        case "AllocateProducerIds":
            return AllocateProducerIds(5, 9)
        case "ListPartitionReassignments":
            return ListReassignments((ORDERS_0, TopicPartition("orders", 5)))
        case "AlterPartitionReassignments":
            return AlterReassignments(
                (PartitionReassignment(ORDERS_0, (3, 4)), PartitionReassignment(TopicPartition("orders", 1), None))
            )
        case _:
            proposal = IsrProposal(
                by_id if version >= 2 else by_name,
                9,
                leader_epoch=4,
                partition_epoch=17,
                isr=(1, 2),
                broker_epochs=(0xBAD, -1) if version >= 3 else (),
                leader_recovery_state=1 if version >= 1 else 0,
            )
            return AlterPartition(1, 0xBAD, (proposal,), names_topics_by_id=version >= 2)


def answered(name: str, version: int) -> Reply:
    topic_id = TOPIC_ID if version >= 10 or (name == "AlterPartition" and version >= 2) else None
    match name:
        case "Metadata":
            partition = PartitionMetadata(
                3,
                ErrorCode.LEADER_NOT_AVAILABLE,
                -1,
                5 if version >= 7 else -1,
                replicas=(1, 2),
                isr=(2,),
                offline=(2,) if version >= 5 else (),
            )
            return ClusterDescription(
                (Node(2, "h", 9092, "r1" if version >= 1 else None),),
                "abc" if version >= 2 else None,
                2 if version >= 1 else -1,
                (TopicMetadata("orders", topic_id, ErrorCode.NONE, (partition,)),),
            )
        case "ControlledShutdown":
            return ShutdownPermitted((TopicPartition("orders", 3),))
        case "AllocateProducerIds":
            return ProducerIdsAllocated(5000, 1000)
        case "ListPartitionReassignments":
            return ReassignmentsListed((OngoingMove(ORDERS_0, (3, 1), (3,), (1,)),), message="")
        case "AlterPartitionReassignments":
            refused = PartitionResult(TopicPartition("orders", 1), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no")
            return ReassignmentsAltered((refused,), message="")
        case _:
            error = ErrorCode.INVALID_UPDATE_VERSION
            topic = None if topic_id else "orders"
            recovering = 1 if version >= 1 else 0
            return PartitionsAltered((IsrResult(topic, topic_id, 9, error, 1, 4, (1, 2), recovering, 18),))


@pytest.mark.parametrize(("name", "version", "message"), messages("request", of_commands=False))
def test_a_request_is_understood(name: str, version: int, message: bytes) -> None:
    header, request = decode_request(message)

    assert (header.api_key, header.api_version, header.correlation_id) == (KEYS[name], version, 7)
    assert request == asked(name, version)


@pytest.mark.parametrize(("name", "version", "message"), messages("request", of_commands=False))
def test_a_request_is_asked_alike(name: str, version: int, message: bytes) -> None:
    header, request = decode_request(message)

    encoded = encode_request(header, request)[4:]

    assert encoded == message


@pytest.mark.parametrize(("name", "version", "message"), messages("response", of_commands=False))
def test_a_response_is_given_and_understood_alike(name: str, version: int, message: bytes) -> None:
    header = RequestHeader(KEYS[name], version, 7)

    assert encode_reply(header, answered(name, version))[4:] == message
    assert decode_reply(header, message) == answered(name, version)


VIEW = PartitionView("orders", TOPIC_ID, 0, 2, 1, 3, (1,), 4, 1, (1, 2), (2,), (1,), (2,))
NEW = PartitionView("orders", TOPIC_ID, 1, 2, -1, 3, (), 4, 0, (2, 1))
BROKER = LiveBroker(1, (Endpoint("OUT", "example.org", 19092, "SSL"), Endpoint("IN", "h", 9092)), "r")
TOLD: dict[str, Command] = {
    "LeaderAndIsr": LeaderAndIsr((VIEW,), (NEW,), (BROKER,)),
    "UpdateMetadata": UpdateMetadata((VIEW, NEW), (BROKER, LiveBroker(2, ()))),
    "StopReplica": StopReplica((ReplicaStop("orders", 0, -2, True), ReplicaStop("orders", 1, 5, True))),
}


def speaking(name: str, version: int) -> InterBrokerProtocol:
    releases = ("2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.4")
    versions = {
        "LeaderAndIsr": lambda protocol: protocol.leader_and_isr,
        "UpdateMetadata": lambda protocol: protocol.update_metadata,
        "StopReplica": lambda protocol: protocol.stop_replica,
    }
    return next(p for p in map(parse_protocol, releases) if versions[name](p) == version)


def tell(name: str) -> Tell:
    return Tell(2, broker_epoch=0xBE, controller_epoch=0xCE, command=TOLD[name])


@pytest.mark.parametrize(("name", "version", "message"), messages("request", of_commands=True))
def test_a_command_has_the_same_bytes(name: str, version: int, message: bytes) -> None:
    encoder = CommandEncoder(100, speaking(name, version), "IN")

    (request,) = encoder.encode(tell(name), 7)

    assert b"".join(request.chunks)[4:] == message


REFUSED = {
    "LeaderAndIsr": (ErrorCode.NONE, {ORDERS_0: ErrorCode.KAFKA_STORAGE_ERROR}),
    "UpdateMetadata": (ErrorCode.STALE_BROKER_EPOCH, {}),
    "StopReplica": (ErrorCode.NONE, {ORDERS_0: ErrorCode.FENCED_LEADER_EPOCH}),
}


@pytest.mark.parametrize(("name", "version", "message"), messages("response", of_commands=True))
def test_an_answer_to_a_command_is_understood(name: str, version: int, message: bytes) -> None:
    encoder = CommandEncoder(100, speaking(name, version), "IN")

    acknowledged = encoder.decode_acknowledgement(tell(name), message)

    assert (acknowledged.error, acknowledged.errors) == REFUSED[name]


@pytest.mark.parametrize(("name", "version", "message"), messages("response", of_commands=True))
def test_a_simulated_broker_answers_a_command_alike(name: str, version: int, message: bytes) -> None:
    (request,) = CommandEncoder(100, speaking(name, version), "IN").encode(tell(name), 7)
    error, errors = REFUSED[name]

    response = encode_acknowledgement(decode_command(b"".join(request.chunks)[4:]), error, errors)

    assert response[4:] == message
