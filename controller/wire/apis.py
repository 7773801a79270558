"""Which APIs are there, and who answers each, in which versions, from which memory, with which right?

The one table of APIs: a row holds everything constant about one. `ApiKey` has every request that a broker of 2.4 to 3.9
knows; everything else about an API is derived from the rows.

Source: Kafka's ApiKeys and schemas; KafkaApis for the rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum, StrEnum, unique
from types import MappingProxyType
from typing import Self

from msgspec import Struct

from controller.core.messages import requests
from controller.core.messages.requests import Request
from zk_layout.znodes.acls import AclOperation


class VersionRange(Struct, frozen=True):
    """The versions of one request, both ends included.

    >>> 3 in VersionRange(0, 3), 4 in VersionRange(0, 3)
    (True, False)
    """

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest} to {self.highest}" if self.lowest != self.highest else str(self.lowest)


class Treatment(StrEnum):
    """What becomes of a request to the leading replica."""

    SERVED = "served"
    RELAYED = "relayed"
    ANSWERED = "answered"
    ACKNOWLEDGED = "acknowledged"
    CLOSED = "closed"


@unique
class Answerer(Enum):
    """Who may answer a request."""

    CONTROLLER = "the replica that leads; others refuse it"
    CONTROLLER_BY_WAY_OF_OTHERS = "the replica that leads; others forward it there"
    CONTROLLER_OR_ANY_BROKER = "the replica that leads; on others a broker, to which it is relayed"
    THIS_NODE = "the node that is asked"
    ANY_BROKER = "any broker"
    ANY_BROKER_OR_THIS_NODE = "any broker; this node if a resource in it is this node"
    BROKER_THAT_SEES_WHO_ASKS = "any broker, but not by way of a process that has logged in"
    LEADER_OR_COORDINATOR = "the leader of a partition, or a coordinator; never this node"
    NO_NODE = "no node of a cluster in ZooKeeper mode"


@unique
class Pool(Enum):
    """Which memory a request takes while it is open; pools do not wait for each other."""

    BROKERS_OWN = "what only brokers send"
    READS = "reads"
    CHANGES = "what administrators change; the audit trail names it"
    RELAYED = "what a broker answers"


class Api(Struct, frozen=True, kw_only=True):
    """One row: everything constant about an API.

    Shape:
        `versions` are those understood here: answered, or decoded to check rights; None if only the header is read.
        `first_flexible` has compact lengths and tagged fields (KIP-482); None if no version has.
        `right` is an operation on the cluster or, in words, rights that depend on the request's content; empty where
        the connection is closed. `why` explains the treatment to users.
        `believed` are the versions that every broker from 2.4 to 3.9 answers. `most_entries` limits the entries in all
        arrays of a request together: topics, partitions, replicas, settings, users; 100,000 moves of three replicas
        each have 400,000. `throttled_since` is the first version whose answer has a throttle time, for requests that
        quotas on topic changes limit. `request` is the core's request type; None if the core is not asked.
    """

    treatment: Treatment
    answerer: Answerer
    pool: Pool
    versions: VersionRange | None
    first_flexible: int | None
    right: AclOperation | str
    why: str
    believed: VersionRange | None = None
    most_entries: int = 100_000
    throttled_since: int | None = None
    request: type[Request] | None = None

    @property
    def on_cluster(self) -> AclOperation | None:
        """The operation on the cluster that it needs, whatever its content; None if there is none such."""
        return self.right if isinstance(self.right, AclOperation) else None


def _to(highest: int) -> VersionRange:
    return VersionRange(0, highest)


def _led(*, first_flexible: int | None, believed: VersionRange | None = None) -> Api:
    return Api(
        treatment=Treatment.CLOSED,
        answerer=Answerer.LEADER_OR_COORDINATOR,
        pool=Pool.READS,
        versions=None,
        first_flexible=first_flexible,
        right="",
        why="asked of a leader or coordinator, which this node never is; listed for clients that expect it of every "
        "node",
        believed=believed,
    )


def _of_kraft(*, first_flexible: int) -> Api:
    return Api(
        treatment=Treatment.CLOSED,
        answerer=Answerer.NO_NODE,
        pool=Pool.READS,
        versions=None,
        first_flexible=first_flexible,
        right="",
        why="of KRaft; brokers in ZooKeeper mode do not know it either",
    )


def _of_tokens(highest_believed: int) -> Api:
    """Delegation tokens belong to the user who creates them: relayed, they would belong to this process's user."""
    return Api(
        treatment=Treatment.RELAYED,
        answerer=Answerer.BROKER_THAT_SEES_WHO_ASKS,
        pool=Pool.RELAYED,
        versions=None,
        first_flexible=2,
        right="not passed on: the answer depends on who asks",
        why="any broker can answer it; closed on a listener with TLS or SASL, where a broker has to see who asks",
        believed=_to(highest_believed),
    )


_ADMIN = "tools ask the controller; a replica that does not lead passes it on to the leader"
_LIMITED = f"{_ADMIN}; limited by quotas (KIP-599)"
_ANY_BROKER = "any broker can answer it"
_OWN_CONFIGS = f"{_ANY_BROKER}; this node answers for its own settings, and changes of them have no effect"
_COMMANDED = "a native controller that leads takes this node for a broker"
_ACLS = "SECURITY_DISABLED without an authorizer; by a replica that does not lead, relayed"
_LOGIN = "the login, on a SASL listener; on others ILLEGAL_SASL_STATE, as on those of a broker"


@unique
class ApiKey(IntEnum):
    """Kafka's numbers, each with its row."""

    row: Api
    _value_: int

    def __new__(cls, number: int, *rows: Api) -> Self:
        """One row; `ApiKey(3)` looks a number up."""
        member = int.__new__(cls, number)
        member._value_ = number
        (member.row,) = rows
        return member

    @property
    def api_name(self) -> str:
        """Kafka's name.

        >>> ApiKey(45).api_name
        'AlterPartitionReassignments'
        """
        return "".join(word.capitalize() for word in self.name.split("_"))

    # fmt: off
    PRODUCE = 0, _led(first_flexible=9, believed=_to(8))
    FETCH = 1, _led(first_flexible=12, believed=_to(11))
    LIST_OFFSETS = 2, _led(first_flexible=6, believed=_to(5))
    METADATA = 3, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_OR_ANY_BROKER, pool=Pool.READS,
        versions=_to(12), first_flexible=9, believed=_to(9), most_entries=50_000, request=requests.DescribeCluster,
        right="Describe on each topic that is shown",
        why="all live brokers, and this node as their controller; by a replica that does not lead, relayed",
    )
    LEADER_AND_ISR = 4, Api(
        treatment=Treatment.ACKNOWLEDGED, answerer=Answerer.THIS_NODE, pool=Pool.BROKERS_OWN,
        versions=_to(7), first_flexible=4, most_entries=1_000_000,
        right=AclOperation.CLUSTER_ACTION, why=_COMMANDED,
    )
    STOP_REPLICA = 5, Api(
        treatment=Treatment.ACKNOWLEDGED, answerer=Answerer.THIS_NODE, pool=Pool.BROKERS_OWN,
        versions=_to(4), first_flexible=2, most_entries=1_000_000,
        right=AclOperation.CLUSTER_ACTION, why=_COMMANDED,
    )
    UPDATE_METADATA = 6, Api(
        treatment=Treatment.ACKNOWLEDGED, answerer=Answerer.THIS_NODE, pool=Pool.BROKERS_OWN,
        versions=_to(8), first_flexible=6,
        right=AclOperation.CLUSTER_ACTION, why=_COMMANDED,
    )
    CONTROLLED_SHUTDOWN = 7, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER, pool=Pool.BROKERS_OWN,
        versions=_to(3), first_flexible=3, request=requests.ControlledShutdown,
        right=AclOperation.CLUSTER_ACTION, why="brokers ask their controller",
    )
    OFFSET_COMMIT = 8, _led(first_flexible=8)
    OFFSET_FETCH = 9, _led(first_flexible=6)
    FIND_COORDINATOR = 10, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER, pool=Pool.RELAYED,
        versions=_to(6), first_flexible=3, believed=_to(2),
        right="Describe on the group, or on the transactional id", why=_ANY_BROKER,
    )
    JOIN_GROUP = 11, _led(first_flexible=6)
    HEARTBEAT = 12, _led(first_flexible=4)
    LEAVE_GROUP = 13, _led(first_flexible=4)
    SYNC_GROUP = 14, _led(first_flexible=4)
    DESCRIBE_GROUPS = 15, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(5), first_flexible=5,
        right="Describe on each group", why="NOT_COORDINATOR, as by a broker; kafka_exporter asks every node",
    )
    LIST_GROUPS = 16, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(5), first_flexible=3,
        right="none: of each group Describe, or on the cluster, would be needed", why="there are none here",
    )
    SASL_HANDSHAKE = 17, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(1), first_flexible=None,
        right="none", why=_LOGIN,
    )
    API_VERSIONS = 18, Api(
        treatment=Treatment.SERVED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(4), first_flexible=3,
        right="none", why="with what is served, answered, relayed or asked of leaders",
    )
    CREATE_TOPICS = 19, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(7), first_flexible=5, most_entries=200_000, throttled_since=2, request=requests.CreateTopics,
        right="Create on the cluster, or on each topic; its settings are shown with DescribeConfigs on it",
        why=_LIMITED,
    )
    DELETE_TOPICS = 20, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(6), first_flexible=4, most_entries=50_000, throttled_since=1, request=requests.DeleteTopics,
        right="Delete on each topic; by id also Describe", why=_LIMITED,
    )
    DELETE_RECORDS = 21, _led(first_flexible=2)
    INIT_PRODUCER_ID = 22, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER, pool=Pool.RELAYED,
        versions=_to(5), first_flexible=2, believed=_to(1),
        right="Write on the transactional id; without one IdempotentWrite on the cluster or, by brokers from 2.8 "
        "on, Write on any topic",
        why=_ANY_BROKER,
    )
    OFFSET_FOR_LEADER_EPOCH = 23, _led(first_flexible=4)
    ADD_PARTITIONS_TO_TXN = 24, _led(first_flexible=3)
    ADD_OFFSETS_TO_TXN = 25, _led(first_flexible=3)
    END_TXN = 26, _led(first_flexible=3)
    WRITE_TXN_MARKERS = 27, _led(first_flexible=1)
    TXN_OFFSET_COMMIT = 28, _led(first_flexible=3)
    DESCRIBE_ACLS = 29, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_OR_ANY_BROKER, pool=Pool.READS,
        versions=_to(3), first_flexible=2, believed=_to(1), request=requests.DescribeAcls,
        right=AclOperation.DESCRIBE, why=_ACLS,
    )
    CREATE_ACLS = 30, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_OR_ANY_BROKER, pool=Pool.CHANGES,
        versions=_to(3), first_flexible=2, believed=_to(1), most_entries=50_000, request=requests.CreateAcls,
        right=AclOperation.ALTER, why=_ACLS,
    )
    DELETE_ACLS = 31, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_OR_ANY_BROKER, pool=Pool.CHANGES,
        versions=_to(3), first_flexible=2, believed=_to(1), most_entries=1_000, request=requests.DeleteAcls,
        right=AclOperation.ALTER, why=_ACLS,
    )
    DESCRIBE_CONFIGS = 32, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER_OR_THIS_NODE, pool=Pool.RELAYED,
        versions=_to(4), first_flexible=4, believed=_to(2),
        right="DescribeConfigs on each topic; of brokers, their loggers and metrics on the cluster", why=_OWN_CONFIGS,
    )
    ALTER_CONFIGS = 33, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER_OR_THIS_NODE, pool=Pool.RELAYED,
        versions=_to(2), first_flexible=2, believed=_to(1),
        right="AlterConfigs on each topic; of brokers on the cluster", why=_OWN_CONFIGS,
    )
    ALTER_REPLICA_LOG_DIRS = 34, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(2), first_flexible=2,
        right=AclOperation.ALTER, why="LOG_DIR_NOT_FOUND: there are no logs here",
    )
    DESCRIBE_LOG_DIRS = 35, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(4), first_flexible=2,
        right=AclOperation.DESCRIBE, why="one directory without replicas",
    )
    SASL_AUTHENTICATE = 36, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(2), first_flexible=2,
        right="none", why=_LOGIN,
    )
    CREATE_PARTITIONS = 37, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(3), first_flexible=2, most_entries=200_000, throttled_since=0, request=requests.CreatePartitions,
        right="Alter on each topic", why=_LIMITED,
    )
    CREATE_DELEGATION_TOKEN = 38, _of_tokens(1)
    RENEW_DELEGATION_TOKEN = 39, _of_tokens(1)
    EXPIRE_DELEGATION_TOKEN = 40, _of_tokens(1)
    DESCRIBE_DELEGATION_TOKEN = 41, _of_tokens(1)
    DELETE_GROUPS = 42, _led(first_flexible=2)
    ELECT_LEADERS = 43, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(2), first_flexible=2, most_entries=200_000, request=requests.ElectLeaders,
        right=AclOperation.ALTER, why=_ADMIN,
    )
    INCREMENTAL_ALTER_CONFIGS = 44, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER_OR_THIS_NODE, pool=Pool.RELAYED,
        versions=_to(1), first_flexible=1, believed=_to(0),
        right="AlterConfigs on each topic; of brokers, their loggers and metrics on the cluster", why=_OWN_CONFIGS,
    )
    ALTER_PARTITION_REASSIGNMENTS = 45, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(0), first_flexible=0, most_entries=600_000, request=requests.AlterReassignments,
        right=AclOperation.ALTER, why=_ADMIN,
    )
    LIST_PARTITION_REASSIGNMENTS = 46, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.READS,
        versions=_to(0), first_flexible=0, most_entries=200_000, request=requests.ListReassignments,
        right=AclOperation.DESCRIBE, why=_ADMIN,
    )
    OFFSET_DELETE = 47, _led(first_flexible=None)
    DESCRIBE_CLIENT_QUOTAS = 48, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER, pool=Pool.RELAYED,
        versions=_to(1), first_flexible=1,
        right=AclOperation.DESCRIBE_CONFIGS, why=_ANY_BROKER,
    )
    ALTER_CLIENT_QUOTAS = 49, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER, pool=Pool.RELAYED,
        versions=_to(1), first_flexible=1,
        right=AclOperation.ALTER_CONFIGS, why=_ANY_BROKER,
    )
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, Api(
        treatment=Treatment.RELAYED, answerer=Answerer.ANY_BROKER, pool=Pool.RELAYED,
        versions=_to(0), first_flexible=0,
        right=AclOperation.DESCRIBE, why=_ANY_BROKER,
    )
    ALTER_USER_SCRAM_CREDENTIALS = 51, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(0), first_flexible=0, most_entries=50_000, request=requests.AlterScramCredentials,
        right=AclOperation.ALTER, why=_ADMIN,
    )
    VOTE = 52, _of_kraft(first_flexible=0)
    BEGIN_QUORUM_EPOCH = 53, _of_kraft(first_flexible=1)
    END_QUORUM_EPOCH = 54, _of_kraft(first_flexible=1)
    DESCRIBE_QUORUM = 55, _of_kraft(first_flexible=0)
    ALTER_PARTITION = 56, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER, pool=Pool.BROKERS_OWN,
        versions=_to(3), first_flexible=0, most_entries=600_000, request=requests.AlterPartition,
        right=AclOperation.CLUSTER_ACTION, why="leaders ask their controller, from 2.7 on",
    )
    UPDATE_FEATURES = 57, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_BY_WAY_OF_OTHERS, pool=Pool.CHANGES,
        versions=_to(1), first_flexible=0, request=requests.UpdateFeatures,
        right=AclOperation.ALTER, why="no broker in ZooKeeper mode supports a feature: they can only be taken away",
    )
    ENVELOPE = 58, Api(
        treatment=Treatment.CLOSED, answerer=Answerer.NO_NODE, pool=Pool.READS,
        versions=None, first_flexible=0,
        right="", why="sent by brokers that forward requests, which they do only in a migration to KRaft",
    )
    FETCH_SNAPSHOT = 59, _of_kraft(first_flexible=0)
    DESCRIBE_CLUSTER = 60, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER_OR_ANY_BROKER, pool=Pool.READS,
        versions=_to(1), first_flexible=0, request=requests.DescribeCluster,
        right="none; operations are shown with Describe on the cluster", why="as Metadata",
    )
    DESCRIBE_PRODUCERS = 61, _led(first_flexible=0)
    BROKER_REGISTRATION = 62, _of_kraft(first_flexible=0)
    BROKER_HEARTBEAT = 63, _of_kraft(first_flexible=0)
    UNREGISTER_BROKER = 64, _of_kraft(first_flexible=0)
    DESCRIBE_TRANSACTIONS = 65, _led(first_flexible=0)
    LIST_TRANSACTIONS = 66, Api(
        treatment=Treatment.ANSWERED, answerer=Answerer.THIS_NODE, pool=Pool.READS,
        versions=_to(1), first_flexible=0,
        right="none: of each transactional id Describe would be needed", why="there are none here",
    )
    ALLOCATE_PRODUCER_IDS = 67, Api(
        treatment=Treatment.SERVED, answerer=Answerer.CONTROLLER, pool=Pool.BROKERS_OWN,
        versions=_to(0), first_flexible=0, request=requests.AllocateProducerIds,
        right=AclOperation.CLUSTER_ACTION, why="brokers ask their controller, from 3.0 on",
    )
    CONSUMER_GROUP_HEARTBEAT = 68, _led(first_flexible=0)
    CONSUMER_GROUP_DESCRIBE = 69, _led(first_flexible=0)
    CONTROLLER_REGISTRATION = 70, _of_kraft(first_flexible=0)
    GET_TELEMETRY_SUBSCRIPTIONS = 71, _of_kraft(first_flexible=0)
    PUSH_TELEMETRY = 72, _of_kraft(first_flexible=0)
    ASSIGN_REPLICAS_TO_DIRS = 73, _of_kraft(first_flexible=0)
    LIST_CLIENT_METRICS_RESOURCES = 74, _of_kraft(first_flexible=0)
    DESCRIBE_TOPIC_PARTITIONS = 75, _of_kraft(first_flexible=0)
    # The versions understood of these APIs, without those understood in none.


def _answered_by(*answerers: Answerer) -> frozenset[int]:
    return frozenset(key.value for key in ApiKey if key.row.answerer in answerers)


def _versions(keys: frozenset[int]) -> MappingProxyType[int, VersionRange]:
    """Versions understood, of those that are understood in any."""
    rows = ((key.value, key.row.versions) for key in ApiKey if key in keys)
    return MappingProxyType({key: versions for key, versions in rows if versions is not None})


def _treated(treatment: Treatment) -> frozenset[int]:
    return frozenset(key.value for key in ApiKey if key.row.treatment is treatment)


SERVED = _versions(_treated(Treatment.SERVED))
"""What this controller answers itself: versions by api key."""
COMMANDS = _versions(_treated(Treatment.ACKNOWLEDGED))
"""A native controller's commands to brokers: versions that a broker knows, by api key."""
CONFIGS = _answered_by(Answerer.ANY_BROKER_OR_THIS_NODE)
"""Requests that concern this node only if a resource in them does."""
ANSWERED = _versions(_treated(Treatment.ANSWERED) | CONFIGS)
"""What this node answers as any node does, entirely or for itself: versions by api key."""
RELAYABLE = _treated(Treatment.RELAYED)
"""Requests that any broker can answer."""
OF_THE_USER = _answered_by(Answerer.BROKER_THAT_SEES_WHO_ASKS)
"""Delegation tokens, which belong to the user who asks for them."""
CHANGES = frozenset(key.value for key in ApiKey if key.row.pool is Pool.CHANGES)
"""Changes by administrators."""
BY_BROKERS_ON_STANDBY = _answered_by(Answerer.CONTROLLER_OR_ANY_BROKER)
"""What a replica answers itself while it leads, and any broker otherwise: above all who the controller is."""
FORWARDED = _answered_by(Answerer.CONTROLLER_BY_WAY_OF_OTHERS)
"""What clients ask the controller. A replica that does not lead forwards it to the leader: some clients keep the
address of a controller that was killed, and get answers there again as soon as it has been restarted."""
LED = _answered_by(Answerer.LEADER_OR_COORDINATOR)
"""Requests only for leaders or coordinators, so never for the controller, but listed in ApiVersions: clients derive the
cluster's capabilities from what each node lists. Java clients before 3.0 break if one node does not list Produce."""
BELIEVED: Mapping[int, VersionRange] = MappingProxyType(
    {key.value: key.row.believed for key in ApiKey if key.row.believed is not None}
)
"""What every broker from 2.4 to 3.9 answers. Offered while no broker can be asked: clients assume that no node of the
cluster understands an unlisted request, and give up; one whose connection is closed asks another node."""
THROTTLED_SINCE: Mapping[int, int] = MappingProxyType(
    {key.value: key.row.throttled_since for key in ApiKey if key.row.throttled_since is not None}
)
"""Requests that quotas on topic changes limit, with the first version whose answer has a throttle time."""

_ROWS: Mapping[int, Api] = MappingProxyType({key.value: key.row for key in ApiKey})
_NAMES: Mapping[int, str] = MappingProxyType({key.value: f"{key.api_name} ({key.value})" for key in ApiKey})


def requests_of(keys: Iterable[int]) -> tuple[type[Request], ...]:
    """The core's request types with these keys."""
    found = (_ROWS[key].request for key in sorted(keys))
    return tuple(dict.fromkeys(request for request in found if request is not None))


def row_of(api_key: int) -> Api | None:
    """The row of an API; None for an unknown number."""
    return _ROWS.get(api_key)


def pool_of(api_key: int) -> Pool:
    """Which memory a request with this key takes; a request with an unknown key is about to be refused.

    >>> pool_of(ApiKey.CREATE_TOPICS).name, pool_of(999).name
    ('CHANGES', 'READS')
    """
    row = _ROWS.get(api_key)
    return Pool.READS if row is None else row.pool


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields (KIP-482).

    >>> is_flexible(ApiKey.LEADER_AND_ISR, 3), is_flexible(ApiKey.LEADER_AND_ISR, 4)
    (False, True)

    Raises:
        KeyError: not one of `ApiKey`.
    """
    first = _ROWS[api_key].first_flexible
    return first is not None and version >= first


def api_name(api_key: int) -> str:
    """Its name and number; only the number if it is unknown.

    >>> api_name(45), api_name(999)
    ('AlterPartitionReassignments (45)', 'api key 999')
    """
    return _NAMES.get(api_key, f"api key {api_key}")
