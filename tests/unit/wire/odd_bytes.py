"""Which bytes are close to those of a valid request? For every API and version that is served here.

`python -m tests.unit.wire.odd_bytes` writes them, one frame a line, for `fixtures/wire/ReadFrames.java`, which says
what a broker makes of them. `python -m tests.unit.wire.odd_bytes read < outcomes` puts that beside the sound frames,
for `fixtures/wire/kafka_reads_<version>.txt`.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Iterator

from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    ElectLeaders,
    FeatureUpdate,
    Growth,
    IsrProposal,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
    UpdateFeatures,
)
from controller.wire.apis import SERVED, ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.requests import ApiVersionsRequest
from tests.equipment.admin_client_side import Password, encode_passwords
from tests.equipment.client_side import api_key_of, encode_request
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)

CLIENT = "odd"
NOWHERE = TopicName("nowhere")
AT = TopicPartition(NOWHERE, PartitionId(0))
ID = TopicId("AAECAwQFBgcICQoLDA0ODw")
NOBODY = BrokerId(77)
REPLICAS = (BrokerId(1), BrokerId(2))


def requests(version: int) -> Iterator[Request | ApiVersionsRequest]:
    """Valid ones that change nothing, whatever single byte of them changes."""
    proposal = IsrProposal(
        TopicReference(topic_id=ID) if version >= 2 else TopicReference(NOWHERE),
        PartitionId(0),
        LeaderEpoch(0),
        PartitionEpoch(0),
        REPLICAS,
        (BrokerEpoch(1), BrokerEpoch(2)) if version >= 3 else (),
    )
    yield ApiVersionsRequest("odd", "1")
    yield DescribeCluster(None)
    yield DescribeCluster((TopicReference(NOWHERE),))
    yield DescribeCluster((TopicReference(topic_id=ID),))
    yield ListReassignments(None)
    yield ListReassignments((AT,))
    yield AlterReassignments((PartitionReassignment(AT, REPLICAS), PartitionReassignment(AT, None)))
    yield AlterPartition(NOBODY, BrokerEpoch(1), (proposal,), names_topics_by_id=version >= 2)
    yield ControlledShutdown(NOBODY, BrokerEpoch(2)) if version >= 2 else ControlledShutdown(NOBODY)
    yield AllocateProducerIds(NOBODY, BrokerEpoch(1))
    if version >= 1:
        yield CreateTopics((NewTopic(NOWHERE, 2, 2, configs=(("retention.ms", "5"),)),), 100, is_validation_only=True)
        yield CreateTopics((NewTopic(NOWHERE, -1, -1, ((PartitionId(0), REPLICAS),)),), 100, is_validation_only=True)
    yield DeleteTopics((TopicReference(NOWHERE),), 100)
    yield CreatePartitions((Growth(NOWHERE, 7, None), Growth(NOWHERE, 3, (REPLICAS,))), 100, is_validation_only=True)
    yield ElectLeaders((AT,), is_unclean=False, timeout_ms=100)
    yield UpdateFeatures((FeatureUpdate("some", 1, 1),), 100)


def sound_frames() -> Iterator[bytes]:
    """Without sizes."""
    for key, served in SERVED.items():
        for version in range(served.lowest, served.highest + 1):
            header = RequestHeader(int(key), version, 7, CLIENT)
            for request in requests(version):
                if api_key_of(request) == key and (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
                    with contextlib.suppress(TypeError, ValueError, struct.error):  # what this version cannot say
                        yield encode_request(header, request)[4:]
    yield encode_passwords(7, (Password(CLIENT, 1, 4096, b"salt", b"password"),))[4:]


def odd(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """The frames close to a frame, with what is odd about each."""
    for more in (b"\0", b"\0\0\0", b"\xff" * 100):
        yield f"{len(more)} bytes more", sound + more
    for at in range(8, len(sound)):
        yield f"ends at byte {at}", sound[:at]
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            if sound[at] != byte:
                yield f"byte {at} is {byte:#x}", sound[:at] + bytes([byte]) + sound[at + 1 :]
        yield f"a zero before byte {at}", sound[:at] + b"\0" + sound[at:]
        yield f"tagged fields at byte {at}", sound[:at] + b"\2\x05\1a\x05\1b" + sound[at + 1 :]


def write() -> None:
    """What is close to all sound frames, or their outcomes beside them."""
    frames = list(sound_frames())
    if "read" not in sys.argv:
        sys.stdout.writelines(f"{close.hex()}\n" for sound in frames for _, close in odd(sound))
        return
    outcomes = iter(sys.stdin.read().strip())
    for sound in frames:
        found = "".join(next(outcomes) for _ in odd(sound))
        sys.stdout.write(f"{sound.hex()} {found}\n")
    assert next(outcomes, None) is None


if __name__ == "__main__":
    write()
