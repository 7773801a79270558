"""Which requests do clients and brokers send? Every API and version that is answered here, in their encoding."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from controller.core.messages.commands import LeaderAndIsr, PartitionView, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DescribeAcls,
    DescribeCluster,
    ElectLeaders,
    FeatureUpdate,
    Growth,
    IsrProposal,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    ScramDeletion,
    TopicReference,
    UpdateFeatures,
)
from controller.wire.apis import ANSWERED, LED, RELAYABLE, SERVED
from controller.wire.commands import CommandEncoder
from controller.wire.frames import RequestHeader
from controller.wire.requests import ApiVersionsRequest
from controller.wire.versions import parse_protocol
from tests.equipment.admin_client_side import Password, encode_passwords
from tests.equipment.client_side import api_key_of, encode_request
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)

CAPTURED = Path(__file__).parent.parent / "fixtures" / "wire" / "kafka_clients_3_9_1.txt"
_NAME = TopicName("topic-00001")
_AT = TopicPartition(_NAME, PartitionId(0))
_ID = TopicId(f"{1:022}")
_REPLICAS = (BrokerId(3), BrokerId(1))


def sound_frames() -> list[bytes]:
    """Without their sizes."""
    return [*_served(), *_passwords(), *_answered(), *_commands(), *_of_others(), *_captured()]


def _served() -> Iterator[bytes]:
    for key, served in SERVED.items():
        for version in range(served.lowest, served.highest + 1):
            for request in _requests(version):
                if api_key_of(request) == key:
                    header = RequestHeader(int(key), version, 7, "fuzz")
                    try:
                        yield encode_request(header, request)[4:]
                    except (TypeError, ValueError, struct.error):
                        continue  # fields that this version lacks


def _requests(version: int) -> Iterator[Request | ApiVersionsRequest]:
    by_name, by_id = TopicReference(_NAME), TopicReference(topic_id=_ID)
    proposal = IsrProposal(
        by_id if version >= 2 else by_name,
        PartitionId(0),
        LeaderEpoch(0),
        PartitionEpoch(0),
        _REPLICAS,
        (BrokerEpoch(3), BrokerEpoch(1)) if version >= 3 else (),
    )
    yield ApiVersionsRequest("fuzz", "1")
    yield DescribeCluster(None)
    yield DescribeCluster((by_name, TopicReference(TopicName("nowhere"))))
    yield DescribeCluster((by_id,))
    yield ListReassignments(None)
    yield ListReassignments((_AT,))
    yield AlterReassignments((PartitionReassignment(_AT, _REPLICAS), PartitionReassignment(_AT, None)))
    yield AlterPartition(BrokerId(1), BrokerEpoch(1), (proposal,), names_topics_by_id=version >= 2)
    yield ControlledShutdown(BrokerId(2), BrokerEpoch(2)) if version >= 2 else ControlledShutdown(BrokerId(2))
    yield AllocateProducerIds(BrokerId(1), BrokerEpoch(1))
    yield CreateTopics((NewTopic(TopicName("new"), 2, 2, configs=(("retention.ms", "5"),)),), 100, False)
    yield CreateTopics((NewTopic(TopicName("placed"), -1, -1, ((PartitionId(0), _REPLICAS),)),), 100, False)
    yield DeleteTopics((TopicReference(TopicName("topic-00002")),), 100, knows_deletion_disabled=True)
    yield CreatePartitions((Growth(_NAME, 7, None), Growth(TopicName("x"), 3, (_REPLICAS,))), 100, False)
    yield ElectLeaders((_AT,), False, 100)
    yield ElectLeaders(None, False, 100)
    wanted = AclFilter(2, "orders", 3, "User:ann", None, 1, 3)
    yield DescribeAcls(wanted)
    yield CreateAcls((AclCreation(2, "orders", 3, "User:ann", "*", 3, 3),))
    yield DeleteAcls((wanted, AclFilter(1, None, 3, None, "*", 1, 1)))
    yield UpdateFeatures((FeatureUpdate("some", 1, 1), FeatureUpdate("other", 0, 2)), 100, False)


def _passwords() -> Iterator[bytes]:
    passwords = (Password("ann", 1, 4096, b"salt", b"password"), Password("bob", 2, 8192, b"salt", b"password"))
    yield encode_passwords(7, passwords, (ScramDeletion("ann", 2), ScramDeletion("carl", 1)))[4:]


def _answered() -> Iterator[bytes]:
    node = b"\4\0\3900"
    for key, served in ANSWERED.items():
        for version in range(served.lowest, served.highest + 1):
            head = struct.pack(">hhih", int(key), version, 7, 4) + b"fuzz"
            yield head + bytes(4)
            yield head + struct.pack(">i", 1) + node + struct.pack(">i", 1) + b"\0\1a\0\1b" + bytes(3)
            yield head + b"\0\2\4\x04900\2\2a\0\2b\0\0" + bytes(3)


def _commands() -> Iterator[bytes]:
    state = PartitionView(
        _NAME,
        _ID,
        PartitionId(0),
        ControllerEpoch(7),
        BrokerId(1),
        LeaderEpoch(4),
        _REPLICAS,
        PartitionEpoch(2),
        0,
        _REPLICAS,
    )
    commands = (
        UpdateMetadata((state,), ()),
        LeaderAndIsr((state,), (), ()),
        StopReplica((ReplicaStop(_NAME, PartitionId(0), LeaderEpoch(4), True),)),
    )
    for release in ("2.4", "2.6", "2.8", "3.2", "3.9"):
        encoder = CommandEncoder(BrokerId(1), parse_protocol(release), "INSIDE")
        for command in commands:
            tell = Tell(BrokerId(900), BrokerEpoch(5), ControllerEpoch(9), command)
            for request in encoder.encode(tell, 7):
                yield b"".join(request.chunks)[4:]


def _of_others() -> Iterator[bytes]:
    for key in sorted(RELAYABLE | LED | {999, -1}):
        yield struct.pack(">hhih", key, 0, 7, 4) + b"fuzz" + b"\0\5group"


def _captured() -> Iterator[bytes]:
    for line in CAPTURED.read_text().splitlines():
        if line.startswith("request "):
            yield bytes.fromhex(line.split()[3])
