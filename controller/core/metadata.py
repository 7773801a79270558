"""Metadata: what does a client see of the cluster?

Source: Kafka's MetadataCache and KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from controller.core.clients.open_requests import EVERY
from controller.core.duty import Duty
from controller.core.errors import ErrorCode
from controller.core.events import Asked
from controller.core.outbox import Outbox
from controller.core.replies import ClusterDescription, Node, PartitionMetadata, TopicMetadata
from controller.core.requests import DescribeCluster, TopicReference
from controller.core.shared import Shared
from controller.core.stage import in_force
from controller.core.state.topics import Partition, TopicView
from controller.core.view import Cluster
from zk_layout.ids import NO_LEADER, LeaderEpoch, PartitionId, TopicName, TopicPartition

PARTITIONS_AT_ONCE = 10_000
"""More of one topic take several turns to describe."""


class Metadata(Duty):
    """Answers at once, from what is known."""

    requests = (DescribeCluster,)

    def __init__(self, shared: Shared) -> None:
        """Everything it says is in the view."""
        self._shared = shared
        self._names: list[TopicName] = []

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Brokers, the controller and topics, as a client on this listener reaches them."""
        request = asked.request
        if not isinstance(request, DescribeCluster):
            raise TypeError(f"{type(request).__name__} is not served here")
        cluster_id = self._shared.settings.cluster_id
        names = self._behind(request.after) if request.topics is None else ()
        out.answer(asked.call, describe(request, names, asked.caller.listener, cluster_id, self._shared.cluster))

    def _behind(self, after: TopicName | None) -> Sequence[TopicName]:
        """What an answer in parts goes on with: whoever begins sees all topics, sorted once for all its parts."""
        if after is None or not self._names:
            self._names = sorted(self._shared.cluster.topics)
        return self._names if after is None else self._names[bisect_right(self._names, after) :]


def describe(
    request: DescribeCluster, names: Sequence[TopicName], listener: str, cluster_id: str | None, cluster: Cluster
) -> ClusterDescription:
    """Brokers that have the client's listener, ourselves among them, and the topics asked for: all means `names`."""
    nodes = []
    for broker in cluster.nodes():
        registration = cluster.brokers[broker].registration
        endpoint = registration.endpoint(listener)
        if endpoint is not None:
            nodes.append(Node(broker, endpoint.host, endpoint.port, registration.rack))
    found: Iterable[TopicView | TopicMetadata]
    if request.topics is None:
        found = (cluster.topics[name] for name in names if _exists(name, cluster))
    else:
        found = (_asked(reference, cluster) for reference in request.topics)
    topics: list[TopicMetadata] = []
    most = EVERY if request.most_partitions is None else PARTITIONS_AT_ONCE
    left = request.most_partitions or EVERY
    within, rest = request.within, None
    for topic in found:
        if isinstance(topic, TopicMetadata):
            topics.append(topic)
        else:
            begin = within.partition if within is not None and within.topic == topic.name else PartitionId(0)
            described, rest = _topic(topic, begin, most, listener, cluster)
            topics.append(described)
        within = None
        left -= max(1, len(topics[-1].partitions))
        if left <= 0 or rest is not None:
            return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics), False, rest)
    return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics))


def _asked(reference: TopicReference, cluster: Cluster) -> TopicView | TopicMetadata:
    if reference.topic_id is not None:
        name = cluster.topic_names.get(reference.topic_id)
        if name is None or not _exists(name, cluster):
            return TopicMetadata(None, reference.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return cluster.topics[name]
    topic = cluster.topics.get(reference.name) if reference.name is not None else None
    if topic is None or topic.is_queued_for_deletion:
        return TopicMetadata(reference.name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _exists(name: TopicName, cluster: Cluster) -> bool:
    """Clients see nothing of a topic from the moment at which its deletion begins."""
    topic = cluster.topics.get(name)
    return topic is not None and not topic.is_queued_for_deletion


def _topic(
    topic: TopicView, begin: PartitionId, most: int, listener: str, cluster: Cluster
) -> tuple[TopicMetadata, TopicPartition | None]:
    """So many of its partitions from one on, and the next one, if there is one."""
    numbers = sorted(n for n, held in topic.partitions.items() if n >= begin and held.assignment.replicas)
    partitions = tuple(
        _partition(TopicPartition(topic.name, number), topic.partitions[number], listener, cluster)
        for number in numbers[:most]
    )
    rest = TopicPartition(topic.name, numbers[most]) if len(numbers) > most else None
    return TopicMetadata(topic.name, topic.topic_id, ErrorCode.NONE, partitions), rest


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
