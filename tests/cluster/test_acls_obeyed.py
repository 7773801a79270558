"""With Kafka's authorizer, a client may do the same through our controller as through a native one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from msgspec.structs import replace

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ClusterDescription, PartitionMetadata, TopicMetadata
from controller.core.messages.requests import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    ElectLeaders,
    Growth,
    ListReassignments,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.core.messages.requests import NewTopic as Wanted
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until
from tests.equipment.any_request import ask
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.acls import AclOperation

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
CLUSTER_AUTHORIZATION_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
OPEN, SECRET, HIDDEN, OWN, MORE = map(TopicName, ("open", "secret", "hidden", "own-1", "more"))
PATTERNS = {
    SECRET: ResourcePattern(ResourceType.TOPIC, SECRET),
    HIDDEN: ResourcePattern(ResourceType.TOPIC, HIDDEN),
    OWN: ResourcePattern(ResourceType.TOPIC, "own-", ACLResourcePatternType.PREFIXED),
    None: ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
}
FORBIDDEN = {
    SECRET: (ACLOperation.ALTER, ACLOperation.DELETE),
    HIDDEN: (ACLOperation.DESCRIBE, ACLOperation.DELETE),
    OWN: (ACLOperation.CREATE,),
    None: (ACLOperation.CREATE, ACLOperation.DESCRIBE),
}


def _names(*names: TopicName) -> tuple[TopicReference, ...]:
    return tuple(TopicReference(name) for name in names)


ASKED: tuple[tuple[Request, int], ...] = (
    (DescribeCluster(None, with_cluster_operations=True, with_topic_operations=True), 8),
    (DescribeCluster(_names(OPEN, SECRET, HIDDEN, OWN), with_topic_operations=True, with_cluster_operations=True), 8),
    (
        CreateTopics((Wanted(OWN, 1, 1), Wanted(TopicName("more"), 1, 1), Wanted(OPEN, 1, 1)), is_validation_only=True),
        4,
    ),
    (CreatePartitions((Growth(OPEN, 3), Growth(SECRET, 3), Growth(HIDDEN, 3)), is_validation_only=True), 1),
    (DeleteTopics(_names(SECRET, HIDDEN, TopicName("nothing"))), 3),
    (ListReassignments(None), 0),
    (ElectLeaders((TopicPartition(OPEN, PartitionId(0)),)), 1),
    (AlterReassignments((PartitionReassignment(TopicPartition(OPEN, PartitionId(0)), None),)), 0),
)


@pytest.fixture(params=["2.4.1", "3.9.1"])
def guarded(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Two brokers with an authorizer; resources without ACLs are open."""
    try:
        cluster = LocalCluster(ClusterSettings(version=request.param, broker_ids=(1, 2), overrides=AUTHORIZER))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def forbid(cluster: LocalCluster, which: TopicName | None, *operations: ACLOperation) -> None:
    """Allow everyone everything with a resource, except this operation to clients without a login."""
    pattern = PATTERNS[which]
    entries = [ACL("User:*", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, pattern)]
    entries += [ACL("User:ANONYMOUS", "*", operation, ACLPermissionType.DENY, pattern) for operation in operations]
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.create_acls(entries)
    admin.close()


def answers(address: str) -> list[Any]:
    """The answer to each request, sorted by name, without the nodes, because ours is one more.

    Leaders and ISRs are left out, too: they may change between two of these looks. `partitions` has them.
    """
    return [in_order(ask(address, request, version=version)) for request, version in ASKED]


def in_order(reply: Any) -> Any:
    """A controller's reply, sorted and normalized.

    Kafka's own text for a missing right to the cluster is about the broker's memory; 2.4 says of hidden resources
    that nothing may be done with them, and ends a sentence without a full stop.
    """
    if isinstance(reply, ClusterDescription):
        topics = (
            replace(topic, operations=topic.operations or (), partitions=tuple(map(placed, topic.partitions)))
            for topic in reply.topics
        )
        named = tuple(sorted(topics, key=lambda topic: str(topic.name)))
        return replace(reply, nodes=(), controller=BrokerId(-1), topics=named)
    if getattr(reply, "error", None) is CLUSTER_AUTHORIZATION_FAILED and hasattr(reply, "message"):
        reply = replace(reply, message=None)
    if not hasattr(reply, "results"):
        return reply
    said = (replace(result, message=(result.message or "").rstrip(".")) for result in reply.results)
    return replace(reply, results=tuple(sorted(said, key=str)))


def placed(partition: PartitionMetadata) -> PartitionMetadata:
    """A partition with its replicas, and nothing that changes without a client's request."""
    return replace(
        partition, error=ErrorCode.NONE, leader=BrokerId(-1), leader_epoch=LeaderEpoch(0), isr=(), offline=()
    )


def is_refused(address: str, request: Request, version: int = 0) -> bool:
    """Whether the whole request is refused."""
    return bool(getattr(ask(address, request, version=version), "error", None) is CLUSTER_AUTHORIZATION_FAILED)


def described(address: str) -> dict[TopicName | None, TopicMetadata]:
    """The metadata of each topic that the caller may see."""
    request, version = ASKED[1]
    reply = ask(address, request, version=version)
    assert isinstance(reply, ClusterDescription)
    return {topic.name: topic for topic in reply.topics}


def partitions(address: str) -> dict[TopicName | None, tuple[PartitionMetadata, ...]]:
    """The partitions of each of these topics, with leaders and ISRs."""
    return {name: topic.partitions for name, topic in described(address).items()}


def knows_rights(address: str) -> bool:
    """Whether all that is forbidden is in force. A broker hears of what another has written one resource at a time."""
    topics = described(address)
    return (
        AclOperation.ALTER not in (topics[SECRET].operations or ())
        and topics[HIDDEN].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        and AclOperation.CREATE not in (topics[OWN].operations or ())
        and is_refused(address, ListReassignments(None))
    )


def native(cluster: LocalCluster) -> str:
    """The address of the broker that is the controller."""
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        wait_until(lambda: holder(zookeeper) in cluster.brokers, "a broker was the controller")
        number = holder(zookeeper)
    assert number is not None
    return cluster.brokers[number].address


@pytest.mark.timeout(300)
def test_rights_count_as_with_the_native_controller(guarded: LocalCluster, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers)
    admin.create_topics([NewTopic(name, 2, 2) for name in (OPEN, SECRET, HIDDEN)])
    admin.close()
    for which, operations in FORBIDDEN.items():
        forbid(guarded, which, *operations)
    wait_until(lambda: knows_rights(native(guarded)), "the native controller knew the rights")
    expected = answers(native(guarded))

    protocol = "2.4" if guarded.tools.version == "2.4.1" else "3.9"
    settings: dict[str, Any] = {**AUTHORIZER, "inter.broker.protocol.version": protocol}
    with Replica(guarded.zookeeper_connect, tmp_path, **settings) as ours:
        ours.await_phase("active")

        for found, native_answer in zip(answers(ours.address), expected, strict=True):
            assert found == native_answer, f"ours:   {found}\nnative: {native_answer}"
        broker = guarded.brokers[1].address
        wait_until(lambda: partitions(ours.address) == partitions(broker), "a broker named the same leaders and ISRs")

        forbid(guarded, None, ACLOperation.ALTER)
        wait_until(lambda: is_refused(ours.address, ASKED[-1][0]), "the right was withdrawn")
        assert is_refused(ours.address, ElectLeaders(None), 1)
        ours.process.stop()
    assert is_refused(native(guarded), ASKED[-1][0])
