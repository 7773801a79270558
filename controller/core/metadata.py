"""Metadata: what does a client see of the cluster, and what may he do with it?

Source: Kafka's MetadataCache, KafkaApis.handleTopicMetadataRequest and AuthHelper; KIP-430.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from controller.core.clients.callers_rights import CallersRights
from controller.core.clients.open_requests import EVERY
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ClusterDescription, Node, Operations, PartitionMetadata, TopicMetadata
from controller.core.messages.requests import BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS, DescribeCluster, TopicReference
from controller.core.stage import in_force
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import NO_LEADER, LeaderEpoch, PartitionId, TopicName, TopicPartition

PARTITIONS_AT_ONCE = 10_000
"""More of one topic take several turns to describe."""


class Metadata(Duty):
    """Answers at once, from what is known."""

    requests = (DescribeCluster,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._names: list[TopicName] = []

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Brokers, the controller and topics, as a client on this listener reaches them."""
        request = asked.request
        if not isinstance(request, DescribeCluster):
            raise TypeError(f"{type(request).__name__} is not served here")
        if request.endpoint_type != BROKER_ENDPOINTS:
            out.answer(asked.call, _wrong_endpoints(request.endpoint_type))
            return
        cluster_id = self._shared.settings.cluster_id
        names = self._behind(request.after) if request.topics is None else ()
        rights = CallersRights(
            self._shared.is_allowed, asked.caller, with_topic_operations=request.with_topic_operations
        )
        found = describe(request, names, asked.caller.listener, cluster_id, self._shared.cluster, rights)
        if not rights.are_everybodys:
            found = replace(found, is_for_all=False)
        if request.with_cluster_operations:
            found = replace(found, operations=rights.on_cluster())
        out.answer(asked.call, found)

    def _behind(self, after: TopicName | None) -> Sequence[TopicName]:
        """What an answer in parts goes on with: whoever begins sees all topics, sorted once for all its parts."""
        if after is None or not self._names:
            self._names = sorted(self._shared.cluster.topics)
        return self._names if after is None else self._names[bisect_right(self._names, after) :]


def _wrong_endpoints(endpoint_type: int) -> ClusterDescription:
    """The answer of a broker: this process is one of them to its clients."""
    if endpoint_type == CONTROLLER_ENDPOINTS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
    return ClusterDescription((), None, NO_LEADER, (), error=error, message=message)


def describe(
    request: DescribeCluster,
    names: Sequence[TopicName],
    listener: str,
    cluster_id: str | None,
    cluster: Cluster,
    rights: CallersRights,
) -> ClusterDescription:
    """Brokers that have the client's listener, ourselves among them, and the topics asked for: all means `names`."""
    nodes = []
    for broker in cluster.nodes():
        registration = cluster.brokers[broker].registration
        endpoint = registration.endpoint(listener)
        if endpoint is not None:
            nodes.append(Node(broker, endpoint.host, endpoint.port, registration.rack))
    found: Iterable[tuple[TopicName | None, TopicView | TopicMetadata | None]]
    if request.topics is None:
        found = ((name, _shown(name, cluster, rights)) for name in names)
    else:
        found = ((None, _asked(reference, cluster, rights)) for reference in request.topics)
    topics: list[TopicMetadata] = []
    most = EVERY if request.most_partitions is None else PARTITIONS_AT_ONCE
    left = request.most_partitions or EVERY
    within, rest, after = request.within, None, request.after
    for name, topic in found:
        count = 1  # what must not be shown takes time as well
        if isinstance(topic, TopicMetadata):
            topics.append(topic)
        elif topic is not None:
            begin = within.partition if within is not None and within.topic == topic.name else PartitionId(0)
            described, rest = _topic(topic, begin, most, listener, cluster, rights.on_topic(topic.name))
            topics.append(described)
            count = max(1, len(described.partitions)) + rights.questions_a_topic
        within = None
        after = name if rest is None else after
        left -= count
        if left <= 0 or rest is not None:
            return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics), False, rest, after)
    return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics))


def _shown(name: TopicName, cluster: Cluster, rights: CallersRights) -> TopicView | None:
    return cluster.topics[name] if _exists(name, cluster) and rights.can_see(name) else None


def _asked(reference: TopicReference, cluster: Cluster, rights: CallersRights) -> TopicView | TopicMetadata:
    """Of a name nobody learns whether a topic has it that he may not see; ids are no secret.

    Source: Kafka's KafkaApis.handleTopicMetadataRequest.
    """
    if reference.topic_id is not None:
        name = cluster.topic_names.get(reference.topic_id)
        if name is None or not _exists(name, cluster):
            return TopicMetadata(None, reference.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not rights.can_see(name):
            return TopicMetadata(None, reference.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return cluster.topics[name]
    if reference.name is not None and not rights.can_see(reference.name):
        return TopicMetadata(reference.name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = cluster.topics.get(reference.name) if reference.name is not None else None
    if topic is None or topic.is_queued_for_deletion:
        unknown, operations = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, rights.on_topic(reference.name)
        return TopicMetadata(reference.name, None, unknown, operations=operations)
    return topic


def _exists(name: TopicName, cluster: Cluster) -> bool:
    """Clients see nothing of a topic from the moment at which its deletion begins."""
    topic = cluster.topics.get(name)
    return topic is not None and not topic.is_queued_for_deletion


def _topic(
    topic: TopicView,
    begin: PartitionId,
    most: int,
    listener: str,
    cluster: Cluster,
    operations: Operations | None,
) -> tuple[TopicMetadata, TopicPartition | None]:
    """So many of its partitions from one on, and the next one, if there is one."""
    numbers = sorted(n for n, held in topic.partitions.items() if n >= begin and held.assignment.replicas)
    partitions = tuple(
        _partition(TopicPartition(topic.name, number), topic.partitions[number], listener, cluster)
        for number in numbers[:most]
    )
    rest = TopicPartition(topic.name, numbers[most]) if len(numbers) > most else None
    return TopicMetadata(topic.name, topic.topic_id, ErrorCode.NONE, partitions, operations), rest


def _partition(at: TopicPartition, held: Partition, listener: str, cluster: Cluster) -> PartitionMetadata:
    replicas = in_force(held.assignment, held.state).replicas
    offline = tuple(r for r in replicas if not cluster.is_online(r, at))
    number = PartitionId(at.partition)
    if held.state is None:
        return PartitionMetadata(
            number, ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, LeaderEpoch(-1), replicas, (), offline
        )
    leader = held.state.leader
    broker = cluster.brokers.get(leader)
    if broker is None or broker.registration.endpoint(listener) is None:
        error, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    else:
        error = ErrorCode.NONE
    return PartitionMetadata(number, error, leader, held.state.leader_epoch, replicas, held.state.isr, offline)
