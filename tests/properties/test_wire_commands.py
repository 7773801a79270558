"""Are packed commands the bytes kio makes of the same command, only faster?"""

from __future__ import annotations

import contextlib
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2

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
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.broker_side import decode_command, encode_acknowledgement
from controller.wire.commands import CommandEncoder
from controller.wire.cursor import Malformed
from controller.wire.requests import UnreadableRequest
from controller.wire.schema import encode_entity, request_schema, response_schema, topic_uuid
from controller.wire.versions import InterBrokerProtocol, parse_protocol
from zk_layout.ids import TopicPartition
from zk_layout.znodes.brokers import SECURITY_PROTOCOLS, Endpoint

Sender = tuple[int, int, tuple[int, int]]
Views = tuple[PartitionView, ...]
LiveBrokers = tuple[LiveBroker, ...]
Stops = tuple[ReplicaStop, ...]

LISTENER = "INSIDE"
PROTOCOLS = ["2.4-IV0", "2.4", "2.6", "2.8-IV0", "2.8", "3.2", "3.4", "3.9"]
TOPICS = {
    "orders": "AAECAwQFBgcICQoLDA0ODw",
    "payments": "_-_-_-_-_-_-_-_-_-_-_w",
    "üñí.code": None,
    "t" * 249: "AAAAAAAAAAAAAAAAAAAAAQ",
}

int32 = st.integers(-(2**31), 2**31 - 1)
brokers = st.integers(0, 2**31 - 1)
replicas = st.one_of(
    st.lists(brokers, max_size=4).map(tuple),
    st.integers(120, 300).map(lambda count: tuple(range(count))),
)
small = st.lists(brokers, max_size=3).map(tuple)
views = st.builds(
    lambda topic, *rest: PartitionView(topic, TOPICS[topic], *rest),
    st.sampled_from(sorted(TOPICS)),
    int32,
    int32,
    st.integers(-2, 2**31 - 1),
    int32,
    replicas,
    int32,
    st.integers(0, 1),
    replicas,
    small,
    small,
    small,
)
many_views = st.lists(views, max_size=12).map(tuple)
texts = st.text(st.characters(codec="utf-8"), max_size=200)
endpoints = st.builds(
    Endpoint,
    st.sampled_from([LISTENER, "OUTSIDE", ""]),
    texts,
    int32,
    st.sampled_from(SECURITY_PROTOCOLS),
)
live_brokers = st.lists(
    st.builds(LiveBroker, int32, st.lists(endpoints, max_size=3).map(tuple), st.none() | texts), max_size=4
).map(tuple)
stops = st.lists(st.builds(ReplicaStop, st.sampled_from(sorted(TOPICS)), int32, int32, st.booleans()), max_size=20).map(
    tuple
)
protocols = st.sampled_from(PROTOCOLS).map(parse_protocol)
epochs = st.tuples(int32, st.integers(-1, 2**63 - 1))
senders = st.tuples(int32, int32, epochs)


def told(sender: Sender, protocol: InterBrokerProtocol, command: Any) -> list[bytes]:
    """The requests our encoder makes, whole."""
    controller, correlation_id, (controller_epoch, broker_epoch) = sender
    encoder = CommandEncoder(controller, protocol, LISTENER)
    tell = Tell(5, broker_epoch, controller_epoch, command)
    return [b"".join(request.chunks) for request in encoder.encode(tell, min(correlation_id, 2**31 - 2))]


def twin(sender: Sender, key: ApiKey, version: int, position: int, **fields: Any) -> bytes:
    """The same request from kio alone."""
    controller, correlation_id, (controller_epoch, broker_epoch) = sender
    schema = request_schema(key, version)
    name = "".join(word.capitalize() for word in key.name.split("_")) + "Request"
    entity = schema.make(
        name,
        controller_id=controller,
        is_k_raft_controller=False,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        type_=0,
        **fields,
    )
    header = (HeaderV2 if is_flexible(key, version) else HeaderV1)(
        request_api_key=key,
        request_api_version=version,
        correlation_id=min(correlation_id, 2**31 - 2) + position,
        client_id=str(controller),
    )
    message = encode_entity(header) + encode_entity(entity)
    return struct.pack(">i", len(message)) + message


def grouped(items: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(item.topic, []).append(item)
    return groups


@given(senders, protocols, many_views, many_views, live_brokers)
def test_leader_and_isr_is_packed_as_kio_encodes_it(
    sender: Sender, protocol: InterBrokerProtocol, existing: Views, new: Views, leaders: LiveBrokers
) -> None:
    version = protocol.leader_and_isr
    schema = request_schema(ApiKey.LEADER_AND_ISR, version)
    states = [(view, False) for view in existing] + [(view, True) for view in new]
    topics: dict[str, list[Any]] = {}
    for view, is_new in states:
        state = schema.make(
            "LeaderAndIsrPartitionState",
            partition_index=view.partition,
            controller_epoch=view.controller_epoch,
            leader=view.leader,
            leader_epoch=view.leader_epoch,
            isr=view.isr,
            partition_epoch=view.partition_epoch,
            replicas=view.replicas,
            adding_replicas=view.adding,
            removing_replicas=view.removing,
            is_new=is_new,
            leader_recovery_state=view.leader_recovery_state,
        )
        topics.setdefault(view.topic, []).append(state)
    expected = twin(
        sender,
        ApiKey.LEADER_AND_ISR,
        version,
        0,
        topic_states=tuple(
            schema.make(
                "LeaderAndIsrTopicState",
                topic_name=topic,
                topic_id=topic_uuid(TOPICS[topic]),
                partition_states=tuple(partitions),
            )
            for topic, partitions in topics.items()
        ),
        live_leaders=tuple(
            schema.make(
                "LeaderAndIsrLiveLeader",
                broker_id=leader.broker,
                host_name=chosen[0].host,
                port=chosen[0].port,
            )
            for leader in leaders
            if (chosen := [e for e in leader.endpoints if e.listener == LISTENER])
        ),
    )

    assert told(sender, protocol, LeaderAndIsr(existing, new, leaders)) == [expected]


@given(senders, protocols, many_views, live_brokers)
def test_update_metadata_is_packed_as_kio_encodes_it(
    sender: Sender, protocol: InterBrokerProtocol, partitions: Views, known: LiveBrokers
) -> None:
    version = protocol.update_metadata
    schema = request_schema(ApiKey.UPDATE_METADATA, version)
    expected = twin(
        sender,
        ApiKey.UPDATE_METADATA,
        version,
        0,
        topic_states=tuple(
            schema.make(
                "UpdateMetadataTopicState",
                topic_name=topic,
                topic_id=topic_uuid(TOPICS[topic]),
                partition_states=tuple(
                    schema.make(
                        "UpdateMetadataPartitionState",
                        partition_index=view.partition,
                        controller_epoch=view.controller_epoch,
                        leader=view.leader,
                        leader_epoch=view.leader_epoch,
                        isr=view.isr,
                        zk_version=view.partition_epoch,
                        replicas=view.replicas,
                        offline_replicas=view.offline,
                    )
                    for view in group
                ),
            )
            for topic, group in grouped(partitions).items()
        ),
        live_brokers=tuple(
            schema.make(
                "UpdateMetadataBroker",
                id_=broker.broker,
                endpoints=tuple(
                    schema.make(
                        "UpdateMetadataEndpoint",
                        port=e.port,
                        host=e.host,
                        listener=e.listener,
                        security_protocol=SECURITY_PROTOCOLS.index(e.security_protocol),
                    )
                    for e in broker.endpoints
                ),
                rack=broker.rack,
            )
            for broker in known
        ),
    )

    assert told(sender, protocol, UpdateMetadata(partitions, known)) == [expected]


@given(senders, st.sampled_from(["2.6", "3.4", "3.9"]).map(parse_protocol), stops)
def test_stop_replica_is_packed_as_kio_encodes_it(sender: Sender, protocol: InterBrokerProtocol, stops: Stops) -> None:
    version = protocol.stop_replica
    schema = request_schema(ApiKey.STOP_REPLICA, version)
    expected = twin(
        sender,
        ApiKey.STOP_REPLICA,
        version,
        0,
        topic_states=tuple(
            schema.make(
                "StopReplicaTopicState",
                topic_name=topic,
                partition_states=tuple(
                    schema.make(
                        "StopReplicaPartitionState",
                        partition_index=stop.partition,
                        leader_epoch=stop.leader_epoch,
                        delete_partition=stop.is_deletion,
                    )
                    for stop in group
                ),
            )
            for topic, group in grouped(stops).items()
        ),
    )

    assert told(sender, protocol, StopReplica(stops)) == [expected]


@given(senders, st.sampled_from(["2.4-IV0", "2.4"]).map(parse_protocol), stops)
def test_before_leader_epochs_replicas_to_keep_and_to_delete_go_apart_as_kio_encodes_them(
    sender: Sender, protocol: InterBrokerProtocol, stops: Stops
) -> None:
    version = protocol.stop_replica
    schema = request_schema(ApiKey.STOP_REPLICA, version)
    parts = [(is_deletion, [s for s in stops if s.is_deletion == is_deletion]) for is_deletion in (False, True)]
    parts = [part for part in parts if part[1]] or [(False, [])]
    expected = [
        twin(
            sender,
            ApiKey.STOP_REPLICA,
            version,
            position,
            delete_partitions=is_deletion,
            topics=tuple(
                schema.make("StopReplicaTopicV1", name=topic, partition_indexes=tuple(s.partition for s in group))
                for topic, group in grouped(part).items()
            ),
        )
        for position, (is_deletion, part) in enumerate(parts)
    ]

    assert told(sender, protocol, StopReplica(stops)) == expected


def without_what_the_version_lacks(protocol: InterBrokerProtocol, view: PartitionView, **gone: Any) -> PartitionView:
    fields = {name: getattr(view, name) for name in PartitionView.__struct_fields__} | gone
    fields["topic_id"] = view.topic_id if protocol.leader_and_isr >= 5 else None
    if protocol.leader_and_isr < 6:
        fields["leader_recovery_state"] = 0
    return PartitionView(**fields)


def in_topic_order(views: Any, order: Any) -> tuple[Any, ...]:
    return tuple(view for topic in grouped(order) for view in views if view.topic == topic)


@given(senders, protocols, many_views, many_views)
def test_a_broker_reads_in_leader_and_isr_what_was_told(
    sender: Sender, protocol: InterBrokerProtocol, existing: Views, new: Views
) -> None:
    (request,) = told(sender, protocol, LeaderAndIsr(existing, new, ()))

    arrived = decode_command(request[4:])

    def seen(views: Any) -> tuple[PartitionView, ...]:
        ordered = in_topic_order(views, (*existing, *new))
        return tuple(without_what_the_version_lacks(protocol, view, offline=()) for view in ordered)

    assert arrived.command == LeaderAndIsr(seen(existing), seen(new), ())
    assert (arrived.controller, (arrived.controller_epoch, arrived.broker_epoch)) == (sender[0], sender[2])


@given(senders, protocols, many_views, live_brokers)
def test_a_broker_reads_in_update_metadata_what_was_told(
    sender: Sender, protocol: InterBrokerProtocol, partitions: Views, known: LiveBrokers
) -> None:
    (request,) = told(sender, protocol, UpdateMetadata(partitions, known))

    arrived = decode_command(request[4:])

    seen = tuple(
        without_what_the_version_lacks(protocol, view, adding=(), removing=(), leader_recovery_state=0)
        for view in in_topic_order(partitions, partitions)
    )
    assert arrived.command == UpdateMetadata(seen, known)


@given(protocols, many_views, many_views, st.data())
def test_leader_and_isr_is_acknowledged_as_kio_encodes_it_and_every_refusal_is_found(
    protocol: InterBrokerProtocol, existing: Views, new: Views, data: st.DataObject
) -> None:
    version = protocol.leader_and_isr
    encoder = CommandEncoder(1, protocol, LISTENER)
    # Topics without an id cannot be told apart in these responses: see the unit tests.
    told_apart = [tuple(view for view in some if view.topic_id or version < 5) for some in (existing, new)]
    tell = Tell(5, 7, 9, LeaderAndIsr(told_apart[0], told_apart[1], ()))
    arrived = decode_command(b"".join(encoder.encode(tell, 3)[0].chunks)[4:])
    assert isinstance(arrived.command, LeaderAndIsr)
    views = (*arrived.command.partitions, *arrived.command.new)
    codes = st.sampled_from([ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
    errors = {TopicPartition(view.topic, view.partition): data.draw(codes) for view in views}

    response = encode_acknowledgement(arrived, errors=errors)

    schema = response_schema(ApiKey.LEADER_AND_ISR, version)

    def error_of(view: PartitionView, **more: Any) -> Any:
        code = errors[TopicPartition(view.topic, view.partition)]
        return schema.make("LeaderAndIsrPartitionError", partition_index=view.partition, error_code=code, **more)

    expected = schema.make(
        "LeaderAndIsrResponse",
        error_code=ErrorCode.NONE,
        partition_errors=tuple(error_of(view, topic_name=view.topic) for view in views),
        topics=version >= 5
        and tuple(
            schema.make(
                "LeaderAndIsrTopicError",
                topic_id=topic_uuid(TOPICS[topic]),
                partition_errors=tuple(error_of(view) for view in group),
            )
            for topic, group in grouped(views).items()
        ),
    )
    header_size = 5 if is_flexible(ApiKey.LEADER_AND_ISR, version) else 4
    assert response[4 + header_size :] == encode_entity(expected)
    acknowledged = encoder.decode_acknowledgement(tell, response[4:])
    assert acknowledged.errors == {p: code for p, code in errors.items() if code != ErrorCode.NONE}


@given(protocols, stops, st.data())
def test_stop_replica_is_acknowledged_with_every_refusal_found(
    protocol: InterBrokerProtocol, stops: Stops, data: st.DataObject
) -> None:
    encoder = CommandEncoder(1, protocol, LISTENER)
    tell = Tell(5, 7, 9, StopReplica(stops))
    codes = st.sampled_from([ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH])
    errors = {TopicPartition(stop.topic, stop.partition): data.draw(codes) for stop in stops}

    responses = [
        encode_acknowledgement(decode_command(b"".join(request.chunks)[4:]), errors=errors)[4:]
        for request in encoder.encode(tell, 3)
    ]

    acknowledged = encoder.decode_acknowledgement(tell, *responses)
    assert acknowledged.errors == {p: code for p, code in errors.items() if code != ErrorCode.NONE}


@given(protocols, many_views, many_views, live_brokers)
def test_what_is_shared_changes_no_byte_of_any_command(
    protocol: InterBrokerProtocol, existing: Views, new: Views, known: LiveBrokers
) -> None:
    commands = [
        LeaderAndIsr(existing, new, known),
        UpdateMetadata((*existing, *new), known),
        LeaderAndIsr(new, existing, known),
        UpdateMetadata((*existing, *new), known),
    ]
    sharing = CommandEncoder(1, protocol, LISTENER)

    for broker, command in enumerate(commands * 2):
        tell = Tell(broker, broker, 9, command)
        alone = CommandEncoder(1, protocol, LISTENER)
        assert sharing.encode(tell, 3) == alone.encode(tell, 3)


changes = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])), min_size=1, max_size=4
)


def changed(frame: bytes, at: list[tuple[int, int]]) -> bytes:
    broken = bytearray(frame)
    for place, value in at:
        broken[place % len(broken)] = value
    return bytes(broken)


@given(protocols, many_views, stops, changes)
def test_broken_commands_and_answers_are_read_or_refused_in_one_way_only(
    protocol: InterBrokerProtocol, partitions: Views, stops: Stops, at: list[tuple[int, int]]
) -> None:
    encoder = CommandEncoder(1, protocol, LISTENER)
    for command in (LeaderAndIsr(partitions, (), ()), UpdateMetadata(partitions, ()), StopReplica(stops)):
        tell = Tell(5, 7, 9, command)
        frames = [b"".join(request.chunks)[4:] for request in encoder.encode(tell, 3)]
        answers = [encode_acknowledgement(decode_command(frame))[4:] for frame in frames]

        # Any other exception would fail the test, and an absurd reservation would end it.
        with contextlib.suppress(UnreadableRequest):
            decode_command(changed(frames[0], at))
        with contextlib.suppress(Malformed):
            encoder.decode_acknowledgement(tell, *(changed(answer, at) for answer in answers))
