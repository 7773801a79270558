"""Metadata: what does a client see of the cluster?

Source: Kafka's MetadataCache and KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

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
    found: Iterable[TopicMetadata]
    if request.topics is None:
        found = (_topic(cluster.topics[name], listener, cluster) for name in names if _exists(name, cluster))
    else:
        found = (_asked(reference, listener, cluster) for reference in request.topics)
    topics: list[TopicMetadata] = []
    left = request.most_partitions
    for topic in found:
        topics.append(topic)
        if left is not None:
            left -= max(1, len(topic.partitions))
            if left <= 0:
                return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics), is_whole=False)
    return ClusterDescription(tuple(nodes), cluster_id, cluster.own_id, tuple(topics))


def _asked(reference: TopicReference, listener: str, cluster: Cluster) -> TopicMetadata:
    if reference.topic_id is not None:
        name = cluster.topic_names.get(reference.topic_id)
        if name is None or not _exists(name, cluster):
            return TopicMetadata(None, reference.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _topic(cluster.topics[name], listener, cluster)
    topic = cluster.topics.get(reference.name) if reference.name is not None else None
    if topic is None or topic.is_queued_for_deletion:
        return TopicMetadata(reference.name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(topic, listener, cluster)


def _exists(name: TopicName, cluster: Cluster) -> bool:
    """Clients see nothing of a topic from the moment at which its deletion begins."""
    topic = cluster.topics.get(name)
    return topic is not None and not topic.is_queued_for_deletion


def _topic(topic: TopicView, listener: str, cluster: Cluster) -> TopicMetadata:
    partitions = tuple(
        _partition(TopicPartition(topic.name, number), held, listener, cluster)
        for number, held in sorted(topic.partitions.items())
        if held.assignment.replicas
    )
    return TopicMetadata(topic.name, topic.topic_id, ErrorCode.NONE, partitions)


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
