"""What does a broker read in a command, and which bytes answer it?"""

from __future__ import annotations

import pytest

from controller.core.messages.commands import LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.wire.broker_side import decode_command, encode_acknowledgement
from controller.wire.commands import CommandEncoder
from controller.wire.requests import MalformedRequest, UnsupportedApi
from controller.wire.versions import parse_protocol
from zk_layout.ids import TopicPartition

VIEW = PartitionView("orders", "AAECAwQFBgcICQoLDA0ODw", 0, 2, 1, 3, (1,), 4, 0, (1, 2))
COMMANDS = {
    "LeaderAndIsr": LeaderAndIsr((VIEW,), (), ()),
    "UpdateMetadata": UpdateMetadata((VIEW,), ()),
    "StopReplica": StopReplica(()),
}


def frame_of(command: LeaderAndIsr | UpdateMetadata | StopReplica, protocol: str = "3.9") -> bytes:
    encoder = CommandEncoder(100, parse_protocol(protocol), "IN")
    (request,) = encoder.encode(Tell(2, 0xBE, 0xCE, command), 7)
    return b"".join(request.chunks)[4:]


def test_a_broker_learns_who_commands_in_which_epochs() -> None:
    received = decode_command(frame_of(COMMANDS["StopReplica"]))

    assert (received.controller, received.controller_epoch, received.broker_epoch) == (100, 0xCE, 0xBE)
    assert (received.header.correlation_id, received.header.client_id) == (7, "100")


def test_the_same_metadata_sent_to_many_brokers_is_read_once() -> None:
    first = decode_command(frame_of(COMMANDS["UpdateMetadata"]))
    second = decode_command(frame_of(COMMANDS["UpdateMetadata"]))

    assert first.command is second.command


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("protocol", ["2.4-IV0", "2.4", "2.8", "3.9"])
def test_a_command_that_breaks_off_anywhere_is_malformed(name: str, protocol: str) -> None:
    frame = frame_of(COMMANDS[name], protocol)

    for kept in range(len(frame)):
        with pytest.raises(MalformedRequest):
            decode_command(frame[:kept])
    assert decode_command(frame + b"\0") == decode_command(frame)


def test_what_is_no_command_is_left_to_others() -> None:
    with pytest.raises(UnsupportedApi, match="api key 3 is not a command"):
        decode_command(b"\0\3\0\0\0\0\0\1\xff\xff\0\0\0\0")


def test_a_command_refused_as_a_whole_lists_no_partitions() -> None:
    received = decode_command(frame_of(COMMANDS["LeaderAndIsr"]))

    response = encode_acknowledgement(received, ErrorCode.STALE_CONTROLLER_EPOCH)

    assert response == bytes.fromhex("00000009 00000007 00 000b 01 00")


@pytest.mark.parametrize("protocol", ["2.4-IV0", "2.4", "2.8", "3.9"])
def test_refused_partitions_reach_the_controller(protocol: str) -> None:
    encoder = CommandEncoder(100, parse_protocol(protocol), "IN")
    command = LeaderAndIsr((VIEW,), (), ())
    refused = {TopicPartition("orders", 0): ErrorCode.KAFKA_STORAGE_ERROR}

    response = encode_acknowledgement(decode_command(frame_of(command, protocol)), errors=refused)

    assert encoder.decode_acknowledgement(Tell(2, 0xBE, 0xCE, command), response[4:]).errors == refused
