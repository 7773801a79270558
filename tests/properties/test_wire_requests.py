"""Is every request read back as it was asked, and every broken one refused in one way only?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

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
    TopicReference,
    UpdateFeatures,
)
from controller.wire.apis import SERVED
from controller.wire.frames import RequestHeader
from controller.wire.requests import ApiVersionsRequest, MalformedRequest, UnreadableRequest, decode_request
from tests.equipment.client_side import api_key_of, encode_request
from zk_layout.ids import TopicPartition

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=260)
ids = st.sampled_from(["AAECAwQFBgcICQoLDA0ODw", "_-_-_-_-_-_-_-_-_-_-_w"])
ORDERS = TopicReference(name="orders")
numbers = st.lists(int32, max_size=4).map(tuple) | st.just(tuple(range(200)))
partitions = st.builds(TopicPartition, names, int32)


def versions(of: Any) -> st.SearchStrategy[int]:
    served = SERVED[api_key_of(of)]
    return st.integers(served.lowest, served.highest)


def asked(request: Any) -> st.SearchStrategy[tuple[RequestHeader, Any]]:
    """A request with a header in any version it can be told in."""
    key = api_key_of(request)
    clients = st.none() | names
    return st.builds(
        lambda version, correlation_id, client: (
            RequestHeader(key, version, correlation_id, None if (key, version) == (7, 0) else client),
            request,
        ),
        versions(request),
        int32,
        clients,
    )


references = st.builds(TopicReference, name=names) | st.builds(TopicReference, topic_id=ids)
proposals = st.lists(
    st.builds(
        lambda topic, partition, epoch, state_epoch, isr, recovery, broker_epoch: IsrProposal(
            topic, partition, epoch, state_epoch, isr, (broker_epoch,) * len(isr), recovery
        ),
        references,
        int32,
        int32,
        int32,
        numbers,
        st.integers(0, 1),
        int64,
    ),
    max_size=5,
)
milliseconds = st.integers(0, 2**31 - 1)
new_topics = st.builds(
    NewTopic,
    names,
    int32,
    st.integers(-(2**15), 2**15 - 1),
    st.lists(st.tuples(int32, numbers), max_size=3).map(tuple),
    st.lists(st.tuples(names, st.none() | names), max_size=3).map(tuple),
)
growths = st.builds(Growth, names, int32, st.none() | st.lists(numbers, max_size=3).map(tuple))
requests = st.one_of(
    st.builds(ApiVersionsRequest, names, names),
    st.builds(DescribeCluster, st.none() | st.lists(references, max_size=4).map(tuple)),
    st.builds(ListReassignments, st.none() | st.lists(partitions, max_size=4).map(tuple)),
    st.builds(
        AlterReassignments,
        st.lists(st.builds(PartitionReassignment, partitions, st.none() | numbers, int32), max_size=4).map(tuple),
        st.sampled_from(("", "gentle", "forced", "other")),
        int32,
        st.none() | int64,
        st.none() | names,
        st.none() | int64,
    ),
    st.builds(AlterPartition, int32, int64, proposals.map(tuple)),
    st.builds(ControlledShutdown, int32, int64),
    st.builds(AllocateProducerIds, int32, int64),
    st.builds(
        UpdateFeatures,
        st.lists(st.builds(FeatureUpdate, names, st.integers(-(2**15), 2**15 - 1), st.integers(1, 3)), max_size=3).map(
            tuple
        ),
        milliseconds,
        st.booleans(),
    ),
    st.builds(CreateTopics, st.lists(new_topics, max_size=3).map(tuple), milliseconds, st.booleans()),
    st.builds(DeleteTopics, st.lists(references, max_size=4).map(tuple), milliseconds),
    st.builds(CreatePartitions, st.lists(growths, max_size=3).map(tuple), milliseconds, st.booleans()),
    st.builds(ElectLeaders, st.none() | st.lists(partitions, max_size=4).map(tuple), st.booleans(), milliseconds),
).flatmap(asked)


def as_the_version_tells_it(version: int, request: Any) -> Any:
    """What can be left of a request in a version; topics in a way the version cannot name become orders."""

    def named(topic: TopicReference, by_id: bool, by_name: bool) -> TopicReference:
        if (topic.topic_id is not None and by_id) or (topic.name is not None and by_name):
            return topic
        return TopicReference(topic_id="AAECAwQFBgcICQoLDA0ODw") if by_id else TopicReference(name="orders")

    match request:
        case ApiVersionsRequest() if version < 3:
            return ApiVersionsRequest()
        case DescribeCluster(topics=topics):
            if not topics:
                return DescribeCluster(None if version == 0 else topics)
            # Version 10 and 11 have ids, but no way to leave out the name.
            return DescribeCluster(tuple(named(t, by_id=version >= 12, by_name=True) for t in topics))
        case ControlledShutdown(broker=broker) if version < 2:
            return ControlledShutdown(broker)
        case AlterPartition(broker=broker, broker_epoch=epoch, proposals=proposals):
            return AlterPartition(
                broker,
                epoch,
                tuple(
                    IsrProposal(
                        named(p.topic, by_id=version >= 2, by_name=version < 2),
                        p.partition,
                        p.leader_epoch,
                        p.partition_epoch,
                        p.isr,
                        p.broker_epochs if version >= 3 else (),
                        p.leader_recovery_state if version >= 1 else 0,
                    )
                    for p in proposals
                ),
                names_topics_by_id=version >= 2,
            )
        case _:
            return topics_as_the_version_tells_them(version, request)


def topics_as_the_version_tells_them(version: int, request: Any) -> Any:
    match request:
        case UpdateFeatures(updates) if version < 1:
            known = tuple(replace(update, kind=min(update.kind, 2)) for update in updates)
            return replace(request, updates=known, is_validation_only=False)
        case CreateTopics():
            validates = request.is_validation_only and version >= 1
            return replace(request, is_validation_only=validates, knows_quota_exceeded=version >= 6)
        case CreatePartitions():
            return replace(request, knows_quota_exceeded=version >= 3)
        case DeleteTopics(topics=topics):
            told = tuple(t if version >= 6 or t.name is not None else ORDERS for t in topics)
            told_of_quotas = replace(request, knows_quota_exceeded=version >= 5)
            return replace(told_of_quotas, topics=told, knows_deletion_disabled=version >= 3)
        case ElectLeaders() if version < 1:
            return replace(request, is_unclean=False)
        case _:
            return request


def frame_of(header: RequestHeader, request: Any) -> bytes:
    return encode_request(header, as_the_version_tells_it(header.api_version, request))[4:]


@given(requests)
def test_a_request_encoded_by_kio_is_read_back_whole_in_every_version(asking: tuple[RequestHeader, Any]) -> None:
    header, request = asking

    found, read = decode_request(frame_of(header, request))
    assert (replace(found, reads_additions=False), read) == (
        header,
        as_the_version_tells_it(header.api_version, request),
    )


@given(requests, st.data())
def test_a_request_that_breaks_off_anywhere_is_malformed(
    asking: tuple[RequestHeader, Any], data: st.DataObject
) -> None:
    frame = frame_of(*asking)
    kept = data.draw(st.integers(0, len(frame) - 1))

    with pytest.raises(MalformedRequest):
        decode_request(frame[:kept])


@given(requests, st.binary(min_size=1, max_size=5))
def test_bytes_after_the_end_mean_nothing(asking: tuple[RequestHeader, Any], more: bytes) -> None:
    frame = frame_of(*asking)

    assert decode_request(frame + more) == decode_request(frame)


@given(requests, st.data())
def test_bytes_changed_anywhere_are_read_or_refused_but_never_break_anything(
    asking: tuple[RequestHeader, Any], data: st.DataObject
) -> None:
    frame = bytearray(frame_of(*asking))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))

    # Any other exception would fail the test, and an absurd reservation would end it.
    with contextlib.suppress(UnreadableRequest):
        decode_request(bytes(frame))


@given(st.sampled_from(sorted(SERVED)), st.integers(0, 12), st.binary(max_size=60))
@example(3, 12, b"\0\0\0\1\xff\xff\0\xff\xff\xff\xff\x07")
def test_anything_at_all_is_read_or_refused(key: int, version: int, rest: bytes) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + rest

    with contextlib.suppress(UnreadableRequest):
        decode_request(frame)
