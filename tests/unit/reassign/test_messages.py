"""Tagged fields of ours travel in Kafka's messages as our listener writes and reads them."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse, ListPartitionReassignmentsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from controller.core.messages.replies import OngoingMove, ReassignmentsAltered, ReassignmentsListed
from controller.core.messages.requests import AlterReassignments, ListReassignments
from controller.reassign import messages
from controller.reassign.cluster import Added, Edge
from controller.reassign.plans import Replica
from controller.wire import tagged
from controller.wire.apis import ApiKey
from controller.wire.frames import FrameBuffer, RequestHeader
from controller.wire.replies import encode_reply
from controller.wire.requests import decode_request
from tests.unit.reassign.simulated import at, on, status
from zk_layout.ids import RequestId
from zk_layout.znodes.reassignment_status import MoveProgress, ReplicaProgress

TOLD = MoveProgress(RequestId(7), "catching up", 5, None, (ReplicaProgress(on(3)[0], 1, 2, 0.5, 2.0),))


def read_by_our_listener(request: messages.TaggedAlter | messages.TaggedList) -> object:
    """What is asked; it always shows that the tool reads what our controller adds."""
    request.API_VERSION = 0
    request.with_header(correlation_id=5, client_id="tool")
    (frame,) = FrameBuffer(10_000).feed(request.encode(header=True, framed=True))
    header, found = decode_request(frame)
    assert header.reads_additions
    return found


@pytest.mark.parametrize("mode", ["", "gentle", "forced"])
def test_what_is_added_is_read_by_our_listener(mode: str) -> None:
    targets = {at("b-1"): None, at("a-0"): on(3, 1)}
    fields = messages.added_fields(Added(5_000, "disks of rack b", 60_000, {at("a-0"): 7}), targets, mode)

    found = read_by_our_listener(messages.alter_request(targets, 1000, fields))

    assert isinstance(found, AlterReassignments)
    assert (found.mode, found.throttle, found.reason, found.give_up_ms) == (mode, 5_000, "disks of rack b", 60_000)
    assert [wanted.weight for wanted in found.reassignments] == [7, 0]
    assert {str(t.topic_partition): t.replicas for t in found.reassignments} == {"a-0": (3, 1), "b-1": None}


@pytest.mark.parametrize("request_id", [None, 9])
def test_a_request_id_is_read_by_our_listener(request_id: int | None) -> None:
    found = read_by_our_listener(messages.list_request({at("a-0").topic: [0]}, 1000, request_id))

    assert isinstance(found, ListReassignments)
    assert found.request_id == request_id


def listed(reply: ReassignmentsListed) -> ListPartitionReassignmentsResponse:
    header = RequestHeader(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 1, "tool", reads_additions=True)
    return ListPartitionReassignmentsResponse.decode(encode_reply(header, reply), version=0, header=True, framed=True)


def test_what_our_controller_adds_is_found() -> None:
    move = OngoingMove(at("a-0"), on(3, 1), on(3), on(), TOLD)
    found = listed(ReassignmentsListed((move,), controller="ours 1", request_status=status(7)))

    assert messages.understood(tagged.controller_of, found) == "ours 1"
    assert messages.understood(tagged.status_of, found) == status(7)
    assert messages.understood(tagged.progress_of, found.topics[0].partitions[0]) == TOLD


def test_the_id_of_an_accepted_request_is_found() -> None:
    header = RequestHeader(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "tool", reads_additions=True)
    reply = encode_reply(header, ReassignmentsAltered((), request_id=RequestId(12)))

    found = AlterPartitionReassignmentsResponse.decode(reply, version=0, header=True, framed=True)

    assert messages.request_id_of(found) == 12


def test_what_kafkas_controller_answers_has_nothing_of_it() -> None:
    found = listed(ReassignmentsListed((OngoingMove(at("a-0"), on(3, 1), on(3), on()),)))

    assert messages.understood(tagged.controller_of, found) is None
    assert messages.understood(tagged.progress_of, found.topics[0].partitions[0]) is None
    assert messages.request_id_of(found) is None


def test_progress_in_words_of_another_version_is_none() -> None:
    found = listed(ReassignmentsListed((OngoingMove(at("a-0"), on(3, 1), on(3), on()),)))
    found.topics[0].partitions[0].unknown_tags = {"_20000": b"\x03{}"}

    assert messages.understood(tagged.progress_of, found.topics[0].partitions[0]) is None


@pytest.mark.parametrize("edge", [Edge.START, Edge.END])
def test_brokers_are_asked_for_offsets_of_their_own_replicas_as_by_a_debugging_consumer(edge: Edge) -> None:
    replicas = [Replica(3, "a", 0), Replica(3, "b", 1), Replica(3, "a", 2)]
    request = messages.offsets_request(replicas, edge)
    request.API_VERSION = 1

    found = ListOffsetsRequest.decode(request.encode(), version=1)

    assert found.replica_id == -2
    assert {t.name: [(p.partition_index, p.timestamp) for p in t.partitions] for t in found.topics} == {
        "a": [(0, edge.value), (2, edge.value)],
        "b": [(1, edge.value)],
    }


def test_offsets_that_a_broker_refuses_or_does_not_know_are_left_out() -> None:
    answered = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    outcomes = {0: (0, 17), 1: (29, -1), 2: (-1, -1), 3: (0, -1), 4: (3, -1)}
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(
        name="a",
        partitions=[
            answered(partition_index=number, error_code=error, timestamp=-1, offset=offset)
            for number, (error, offset) in outcomes.items()
        ],
    )

    assert messages.offsets_of(3, ListOffsetsResponse(topics=[topic])) == {Replica(3, "a", 0): 17}
