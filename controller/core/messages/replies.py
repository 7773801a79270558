"""What does the controller answer?

Values without protocol versions: `controller.wire.replies` encodes them in the version of the request.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from zk_layout.ids import (
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
from zk_layout.znodes.acls import AclEntry, AclOperation, ResourcePattern
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus


class Node(Struct, frozen=True):
    """A broker as a client on one listener reaches it."""

    broker: BrokerId
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(Struct, frozen=True):
    """One partition in a Metadata answer."""

    partition: PartitionId
    error: ErrorCode
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: Replicas
    isr: Replicas
    offline: Replicas


Operations = tuple[AclOperation, ...]
"""A caller's rights to a resource; None if not requested, or if there is no such resource."""


class TopicMetadata(Struct, frozen=True):
    """One topic in a Metadata answer; the name is None only for an unknown id."""

    name: TopicName | None
    topic_id: TopicId | None
    error: ErrorCode
    partitions: tuple[PartitionMetadata, ...] = ()
    operations: Operations | None = None


class ClusterDescription(Struct, frozen=True):
    """The answer to `DescribeCluster`; a controller of -1 means there is none.

    Shape:
        Unless `is_whole`, more topics follow: after the name `after`, if all were requested; with `rest`, from that
        partition of the last one on. `is_for_all`: the answer does not depend on the caller's rights.
    """

    nodes: tuple[Node, ...]
    cluster_id: str | None
    controller: BrokerId
    topics: tuple[TopicMetadata, ...]
    is_whole: bool = True
    rest: TopicPartition | None = None
    after: TopicName | None = None
    is_for_all: bool = True
    operations: Operations | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class OngoingMove(Struct, frozen=True):
    """One move in progress; only this controller reports progress, Kafka's own do not."""

    topic_partition: TopicPartition
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    progress: MoveProgress | None = None


class ReassignmentsListed(Struct, frozen=True):
    """The answer to `ListReassignments`.

    Shape:
        `controller` names this software; Kafka's controllers do not send it. `request_status` is that of the requested
        id, None if it is unknown or none was requested. Without an error Kafka's message is empty, not null.
    """

    moves: tuple[OngoingMove, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = ""
    controller: str | None = None
    request_status: RequestStatus | None = None


class PartitionResult(Struct, frozen=True):
    """The outcome of the request for one partition."""

    topic_partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = ""


class ReassignmentsAltered(Struct, frozen=True):
    """The answer to `AlterReassignments`: one result for each partition, in order.

    Shape:
        `request_id` is absent if nothing was accepted, and from Kafka's own controllers.
    """

    results: tuple[PartitionResult, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = ""
    request_id: RequestId | None = None


class IsrResult(Struct, frozen=True):
    """The outcome of one ISR proposal; if `error` is NONE, the leader data are those now in force."""

    topic: TopicName | None
    topic_id: TopicId | None
    partition: PartitionId
    error: ErrorCode
    leader: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    isr: Replicas = ()
    leader_recovery_state: int = 0
    partition_epoch: PartitionEpoch = PartitionEpoch(0)


class PartitionsAltered(Struct, frozen=True):
    """The answer to `AlterPartition`."""

    results: tuple[IsrResult, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class ShutdownPermitted(Struct, frozen=True):
    """The answer to `ControlledShutdown`: the partitions that the broker still leads; without any, it may shut down."""

    remaining: tuple[TopicPartition, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class ProducerIdsAllocated(Struct, frozen=True):
    """The answer to `AllocateProducerIds`: `length` ids from `first` on."""

    first: int = 0
    length: int = 0
    error: ErrorCode = ErrorCode.NONE


class UserAltered(Struct, frozen=True):
    """The outcome for one user's SCRAM credentials."""

    user: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ScramCredentialsAltered(Struct, frozen=True):
    """The answer to `AlterScramCredentials`: one result for each user."""

    results: tuple[UserAltered, ...] = ()


class FeatureUpdated(Struct, frozen=True):
    """The outcome for one feature."""

    feature: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class FeaturesUpdated(Struct, frozen=True):
    """The answer to `UpdateFeatures`: one result for each feature, none if the request is refused as a whole."""

    results: tuple[FeatureUpdated, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AclBinding(Struct, frozen=True):
    """One entry of rights; in a deletion, with its outcome."""

    resource: ResourcePattern
    entry: AclEntry
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AclsDescribed(Struct, frozen=True):
    """The answer to `DescribeAcls`, with the entries of a pattern next to each other."""

    bindings: tuple[AclBinding, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AclCreated(Struct, frozen=True):
    """The outcome for one entry to create."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AclsCreated(Struct, frozen=True):
    """The answer to `CreateAcls`: one result for each entry, in order."""

    results: tuple[AclCreated, ...] = ()


class AclsFiltered(Struct, frozen=True):
    """The outcome for entries that this filter is the first to match."""

    deleted: tuple[AclBinding, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AclsDeleted(Struct, frozen=True):
    """The answer to `DeleteAcls`: one result for each filter, in order."""

    results: tuple[AclsFiltered, ...] = ()


class ConfigSource(IntEnum):
    """The origin of a setting's value, as numbered in Kafka's DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class BrokerConfig(Struct, frozen=True):
    """A broker's setting, as the broker describes it; one that `is_sensitive` has no value.

    Shape:
        `otherwise` is the value without the dynamic one; None if there is no dynamic one.
    """

    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    otherwise: str | None = None


class TopicConfig(Struct, frozen=True):
    """A setting of a topic, either its own or a broker default."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.TOPIC


class TopicCreated(Struct, frozen=True):
    """The outcome for one topic to create; after a refusal counts are -1 and configs None.

    Shape:
        The term fills `configs` with the topic's own settings; the server adds the broker defaults. `configs_error`
        says why there are none.
    """

    topic: TopicName
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: TopicId | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: tuple[TopicConfig, ...] | None = None
    configs_error: ErrorCode = ErrorCode.NONE


class TopicsCreated(Struct, frozen=True):
    """The answer to `CreateTopics`."""

    results: tuple[TopicCreated, ...] = ()
    throttle_ms: int = 0


class TopicDeleted(Struct, frozen=True):
    """The outcome for one topic to delete; the name is None only for an unknown id."""

    topic: TopicName | None
    topic_id: TopicId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class TopicsDeleted(Struct, frozen=True):
    """The answer to `DeleteTopics`."""

    results: tuple[TopicDeleted, ...] = ()
    throttle_ms: int = 0


class TopicGrown(Struct, frozen=True):
    """The outcome for one topic to extend."""

    topic: TopicName
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class PartitionsCreated(Struct, frozen=True):
    """The answer to `CreatePartitions`."""

    results: tuple[TopicGrown, ...] = ()
    throttle_ms: int = 0


class LeadersElected(Struct, frozen=True):
    """The answer to `ElectLeaders`: one result for each partition, by topic."""

    results: tuple[PartitionResult, ...] = ()
    error: ErrorCode = ErrorCode.NONE


TopicResult = TopicCreated | TopicDeleted | TopicGrown
Result = PartitionResult | IsrResult | TopicResult

Reply = (
    ClusterDescription
    | ReassignmentsListed
    | ReassignmentsAltered
    | PartitionsAltered
    | ShutdownPermitted
    | ProducerIdsAllocated
    | ScramCredentialsAltered
    | FeaturesUpdated
    | AclsDescribed
    | AclsCreated
    | AclsDeleted
    | TopicsCreated
    | TopicsDeleted
    | PartitionsCreated
    | LeadersElected
)
