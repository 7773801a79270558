"""What can a client or a broker request from the controller?

Values without protocol versions: `controller.wire.requests` decodes them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from zk_layout.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    RequestId,
    TopicId,
    TopicName,
    TopicPartition,
)

DEFAULTED = -1


class TopicReference(Struct, frozen=True):
    """A topic by name or by id; exactly one is given."""

    name: TopicName | None = None
    topic_id: TopicId | None = None


BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
"""The kind of nodes that a client asks for (KIP-919)."""


class DescribeCluster(Struct, frozen=True):
    """Metadata (3) and DescribeCluster (60): brokers, the controller, and some topics (None: all).

    On request, with the caller's rights to the cluster and to each topic (KIP-430).

    Shape:
        With `most_partitions` the answer ends after the topic that reaches that number, and continues with the next of
        `topics`, or with all those after `after` in order of names. A topic with very many partitions is split over
        several answers; `within` is its next partition.
    """

    topics: tuple[TopicReference, ...] | None
    after: TopicName | None = None
    most_partitions: int | None = None
    within: TopicPartition | None = None
    with_cluster_operations: bool = False
    with_topic_operations: bool = False
    endpoint_type: int = BROKER_ENDPOINTS


class ListReassignments(Struct, frozen=True):
    """ListPartitionReassignments (46): moves of some partitions (None: of all), and the status of this request id."""

    partitions: tuple[TopicPartition, ...] | None
    request_id: RequestId | None = None
    timeout_ms: int = 60_000


class Mode(StrEnum):
    """How a request to move or to cancel is meant.

    `GENTLE` cancels keep added replicas that have joined the ISR, and stop only the rest (KIP-455's earlier revision).
    `FORCED` requests are executed even if they stop the only in-sync replicas, as Kafka always does.
    """

    SAFE = ""
    GENTLE = "gentle"
    FORCED = "forced"


class PartitionReassignment(Struct, frozen=True):
    """The replicas that a partition shall have; None cancels its move.

    Shape:
        Of moves that wait, those of a higher `weight` begin first, where the settings ask for that.
    """

    topic_partition: TopicPartition
    replicas: Replicas | None
    weight: int = 0


class AlterReassignments(Struct, frozen=True):
    """AlterPartitionReassignments (45).

    Shape:
        `mode` is as sent; unknown modes are refused. `throttle` is what each receiving broker may copy for these moves;
        None sets no limit. `reason` says why, for people.
    Units:
        `timeout_ms` is how long the client waits for its answer; 0 or less sets no limit. `throttle` is in bytes a
        second. After `give_up_ms` a move that has not begun is dropped: never if it is 0, and when the setting says
        if it is None.
    """

    reassignments: tuple[PartitionReassignment, ...]
    mode: str = Mode.SAFE
    timeout_ms: int = 60_000
    throttle: int | None = None
    reason: str | None = None
    give_up_ms: int | None = None


class IsrProposal(Struct, frozen=True):
    """The ISR a leader wants for one partition, with the epochs it knows.

    Shape:
        `broker_epochs` is empty before version 3, else as long as `isr` (-1: not given).
    """

    topic: TopicReference
    partition: PartitionId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: Replicas
    broker_epochs: tuple[BrokerEpoch, ...] = ()
    leader_recovery_state: int = 0


class AlterPartition(Struct, frozen=True):
    """AlterPartition (56): a leader's ISR changes.

    From version 2 on (3.3), topics are named by id, and INELIGIBLE_REPLICA is understood.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    proposals: tuple[IsrProposal, ...]
    names_topics_by_id: bool = False


class ControlledShutdown(Struct, frozen=True):
    """ControlledShutdown (7): a broker is about to shut down, and wants to lead nothing when it does."""

    broker: BrokerId
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


class AllocateProducerIds(Struct, frozen=True):
    """AllocateProducerIds (67): a broker has used up its producer ids for idempotent producers."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class ScramUpsertion(Struct, frozen=True):
    """A SCRAM credential for a user, with Kafka's number of its mechanism.

    Shape:
        `credential` is what the user's settings shall hold; None if the request is unusable. The salted password that a
        client sends, which is enough to log in, stays within the wire package.
    """

    user: str
    mechanism: int
    iterations: int
    credential: str | None


class ScramDeletion(Struct, frozen=True):
    """A SCRAM credential to remove from a user."""

    user: str
    mechanism: int


class AlterScramCredentials(Struct, frozen=True):
    """AlterUserScramCredentials (51)."""

    upsertions: tuple[ScramUpsertion, ...] = ()
    deletions: tuple[ScramDeletion, ...] = ()

    @property
    def parts(self) -> tuple[ScramUpsertion | ScramDeletion, ...]:
        """All parts of the request."""
        return (*self.upsertions, *self.deletions)


class FeatureUpdate(Struct, frozen=True):
    """A level at which to finalize a feature; a level below 1 removes it.

    Shape:
        `kind` is 1 to raise it, 2 or 3 to lower it, safely or not.
    """

    feature: str
    level: int
    kind: int


class UpdateFeatures(Struct, frozen=True):
    """UpdateFeatures (57)."""

    updates: tuple[FeatureUpdate, ...]
    timeout_ms: int = 60_000
    is_validation_only: bool = False


class AclFilter(Struct, frozen=True):
    """A filter for entries of rights; None matches anything.

    Shape:
        The types, the operation and the permission are Kafka's numbers, as sent.
    """

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


class AclCreation(Struct, frozen=True):
    """An entry of rights to create, with Kafka's numbers as sent."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class DescribeAcls(Struct, frozen=True):
    """DescribeAcls (29)."""

    filter: AclFilter


class CreateAcls(Struct, frozen=True):
    """CreateAcls (30)."""

    creations: tuple[AclCreation, ...]


class DeleteAcls(Struct, frozen=True):
    """DeleteAcls (31)."""

    filters: tuple[AclFilter, ...]


class NewTopic(Struct, frozen=True):
    """A topic to create.

    Shape:
        -1 as `partition_count` or `replication_factor` means the cluster's default. With `assignments`, both must be
        -1. A config value of None is a mistake of the client. `shows_configs`: the client may see the topic's settings,
        as decided when the request arrives.
    """

    name: TopicName
    partition_count: int = DEFAULTED
    replication_factor: int = DEFAULTED
    assignments: tuple[tuple[PartitionId, Replicas], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()
    shows_configs: bool = True


class CreateTopics(Struct, frozen=True):
    """CreateTopics (19); from version 6 on the client knows the error THROTTLING_QUOTA_EXCEEDED.

    Units:
        `timeout_ms` is how long the client wants to wait until brokers know the topics.
    """

    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    is_validation_only: bool = False
    knows_quota_exceeded: bool = True


class DeleteTopics(Struct, frozen=True):
    """DeleteTopics (20).

    From version 3 on the client knows the error TOPIC_DELETION_DISABLED, from version 5 on THROTTLING_QUOTA_EXCEEDED.
    """

    topics: tuple[TopicReference, ...]
    timeout_ms: int = 60_000
    knows_deletion_disabled: bool = True
    knows_quota_exceeded: bool = True


class Growth(Struct, frozen=True):
    """The partition count that a topic shall have, and the replicas of each new one (None: placed as by Kafka)."""

    topic: TopicName
    partition_count: int
    assignments: tuple[Replicas, ...] | None = None


class CreatePartitions(Struct, frozen=True):
    """CreatePartitions (37); from version 3 on the client knows the error THROTTLING_QUOTA_EXCEEDED."""

    growths: tuple[Growth, ...]
    timeout_ms: int = 60_000
    is_validation_only: bool = False
    knows_quota_exceeded: bool = True


class Election(Struct, frozen=True):
    """Another leader for one partition: the preferred one or, if `is_unclean`, any online replica."""

    is_unclean: bool = False


class ElectLeaders(Struct, frozen=True):
    """ElectLeaders (43), for some partitions (None: for all that need it).

    Elects the preferred leader or, if `is_unclean`, any online replica. Unknown kinds of a later Kafka are refused.
    """

    partitions: tuple[TopicPartition, ...] | None
    is_unclean: bool = False
    timeout_ms: int = 60_000
    is_known_kind: bool = True


AclRequest = DescribeAcls | CreateAcls | DeleteAcls
TopicRequest = CreateTopics | DeleteTopics | CreatePartitions | ElectLeaders

Request = (
    DescribeCluster
    | ListReassignments
    | AlterReassignments
    | AlterPartition
    | ControlledShutdown
    | AllocateProducerIds
    | AlterScramCredentials
    | UpdateFeatures
    | DescribeAcls
    | CreateAcls
    | DeleteAcls
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | ElectLeaders
)


def part_count(request: Request) -> int:
    """The number of things in a request that are decided one by one.

    >>> part_count(ElectLeaders((TopicPartition(TopicName("orders"), PartitionId(0)),)))
    1
    """
    match request:
        case (
            AlterReassignments(parts) | AlterPartition(proposals=parts) | ElectLeaders(parts) | ListReassignments(parts)
        ):
            return len(parts or ())
        case CreateTopics(parts) | DeleteTopics(parts) | CreatePartitions(parts):
            return len(parts)
        case CreateAcls(parts) | DeleteAcls(parts):
            return len(parts)
        case _:
            return 0


ANONYMOUS = "User:ANONYMOUS"
"""The principal without authentication. Source: Kafka's KafkaPrincipal."""


class Caller(Struct, frozen=True):
    """Who sent a request: through which of our listeners, from where, and as which principal.

    Shape:
        `address` is an IP address without a port, as rights name hosts.
    """

    listener: str
    address: str
    client_id: str = ""
    principal: str = ANONYMOUS
