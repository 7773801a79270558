"""What becomes of each request that a node of a cluster can be sent?

`as_markdown` is docs/requests.md.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from controller.core.clients.authorization import NEEDED
from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    AlterScramCredentials,
    ControlledShutdown,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    ElectLeaders,
    ListReassignments,
    Request,
    UpdateFeatures,
)
from controller.server.api_names import LAST_KEY, api_name
from controller.server.relay import LED, OF_THE_ASKER, RELAYABLE
from controller.wire import rights_needed
from controller.wire.any_node import ANSWERED, CONFIGS
from controller.wire.broker_side import COMMANDS
from controller.wire.frames import THROTTLED_SINCE
from controller.wire.versions import SERVED, ApiKey, VersionRange


class Treatment(StrEnum):
    """Who answers."""

    SERVED = "served"
    RELAYED = "relayed"
    ANSWERED = "answered"
    ACKNOWLEDGED = "acknowledged"
    CLOSED = "closed"


class Treated(Struct, frozen=True):
    """What becomes of one request, in which versions (None: in those of a broker), and why."""

    treatment: Treatment
    why: str
    versions: VersionRange | None = None


_LEADERS = "asked of a leader or coordinator, which this node never is; listed for clients that expect it of every node"
_ADMIN = "tools ask the controller; a replica that does not lead passes it on to whoever does"
_LIMITED = f"{_ADMIN}; limited by quotas (KIP-599)"
_KRAFT = "of KRaft; brokers in ZooKeeper mode do not know it either"
_ANY_BROKER = "any broker can answer it"
_TOKENS = "any broker can answer it; closed on a listener with TLS or SASL, where a broker has to see who asks"
_SERVED_WHY: dict[int, str] = {
    ApiKey.METADATA: "all live brokers, and this node as their controller; by a replica that does not lead, relayed",
    ApiKey.DESCRIBE_CLUSTER: "as Metadata",
    ApiKey.CONTROLLED_SHUTDOWN: "brokers ask their controller",
    ApiKey.API_VERSIONS: "with what is served, answered, relayed or asked of leaders",
    **dict.fromkeys(
        (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
        "SECURITY_DISABLED without an authorizer; by a replica that does not lead, relayed",
    ),
    **dict.fromkeys(THROTTLED_SINCE, _LIMITED),
    ApiKey.ALTER_PARTITION: "leaders ask their controller, from 2.7 on",
    ApiKey.ALLOCATE_PRODUCER_IDS: "brokers ask their controller, from 3.0 on",
    ApiKey.UPDATE_FEATURES: "no broker in ZooKeeper mode supports a feature: they can only be taken away",
}
_ANSWERED_WHY: dict[int, str] = {
    ApiKey.DESCRIBE_GROUPS: "NOT_COORDINATOR, as by a broker; kafka_exporter asks every node",
    ApiKey.LIST_GROUPS: "there are none here",
    ApiKey.LIST_TRANSACTIONS: "there are none here",
    ApiKey.DESCRIBE_LOG_DIRS: "one directory without replicas",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "LOG_DIR_NOT_FOUND: there are no logs here",
    ApiKey.SASL_HANDSHAKE: "the login, on a SASL listener; on others ILLEGAL_SASL_STATE, as on those of a broker",
    ApiKey.SASL_AUTHENTICATE: "the login, on a SASL listener; on others ILLEGAL_SASL_STATE, as on those of a broker",
}
_CLOSED_WHY: dict[int, str] = {
    58: "sent by brokers that forward requests, which they do only in a migration to KRaft",
    **dict.fromkeys((52, 53, 54, 55, 59, 62, 63, 64, 70, 71, 72, 73, 74, 75), _KRAFT),
}


_RIGHT_ON_CLUSTER: dict[int, type[Request]] = {
    ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdown,
    ApiKey.DESCRIBE_ACLS: DescribeAcls,
    ApiKey.CREATE_ACLS: CreateAcls,
    ApiKey.DELETE_ACLS: DeleteAcls,
    ApiKey.ELECT_LEADERS: ElectLeaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterReassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ListReassignments,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterScramCredentials,
    ApiKey.ALTER_PARTITION: AlterPartition,
    ApiKey.UPDATE_FEATURES: UpdateFeatures,
    ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIds,
}
_RIGHTS: dict[int, str] = {
    ApiKey.METADATA: "Describe on each topic that is shown",
    ApiKey.DESCRIBE_CLUSTER: "none; operations are shown with Describe on the cluster",
    ApiKey.API_VERSIONS: "none",
    ApiKey.CREATE_TOPICS: "Create on the cluster, or on each topic; its settings are shown with DescribeConfigs on it",
    ApiKey.DELETE_TOPICS: "Delete on each topic; by id also Describe",
    ApiKey.CREATE_PARTITIONS: "Alter on each topic",
    ApiKey.DESCRIBE_GROUPS: "Describe on each group",
    ApiKey.LIST_GROUPS: "none: of each group Describe, or on the cluster, would be needed",
    ApiKey.LIST_TRANSACTIONS: "none: of each transactional id Describe would be needed",
    ApiKey.DESCRIBE_LOG_DIRS: "Describe on the cluster",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "Alter on the cluster",
    ApiKey.SASL_HANDSHAKE: "none",
    ApiKey.SASL_AUTHENTICATE: "none",
    **dict.fromkeys(OF_THE_ASKER, "not passed on: the answer depends on who asks"),
    **dict.fromkeys(COMMANDS, "ClusterAction on the cluster"),
}


def right(api_key: int) -> str:
    """What a request needs, where there is an authorizer; empty for one over which the connection is closed.

    >>> right(45), right(50), right(0)
    ('Alter on the cluster', 'Describe on the cluster', '')
    """
    if api_key in _RIGHT_ON_CLUSTER:
        return f"{NEEDED[_RIGHT_ON_CLUSTER[api_key]]} on the cluster"
    if api_key in _RIGHTS:
        return _RIGHTS[api_key]
    return rights_needed.KNOWN[api_key].words if api_key in rights_needed.KNOWN else ""


def treated(api_key: int) -> Treated | None:
    """What becomes of the request with this key; None for one that nobody knows.

    >>> treated(45).treatment.value, treated(10).treatment.value, treated(999)
    ('served', 'relayed', None)
    """
    if api_key in SERVED:
        return Treated(Treatment.SERVED, _SERVED_WHY.get(api_key, _ADMIN), SERVED[api_key])
    if api_key in COMMANDS:
        why = "a native controller that leads takes this node for a broker"
        return Treated(Treatment.ACKNOWLEDGED, why, COMMANDS[api_key])
    if api_key in CONFIGS:
        why = "any broker can answer it; this node answers for its own settings, and changes of them have no effect"
        return Treated(Treatment.RELAYED, why, ANSWERED[api_key])
    if api_key in ANSWERED:
        return Treated(Treatment.ANSWERED, _ANSWERED_WHY[api_key], ANSWERED[api_key])
    if api_key in RELAYABLE:
        return Treated(Treatment.RELAYED, _TOKENS if api_key in OF_THE_ASKER else _ANY_BROKER)
    if api_key in LED:
        return Treated(Treatment.CLOSED, _LEADERS)
    why_closed = _CLOSED_WHY.get(api_key)
    return None if why_closed is None else Treated(Treatment.CLOSED, why_closed)


_INTRODUCTION = """# Requests

<!-- Made by `controller.server.treatments`; a test compares, another finds requests of brokers that are missing. -->

What becomes of each request of the Kafka protocol that this node is sent, by the leader of the controllers:

- *served*: by the controller, in the versions shown. What a native controller refuses is refused with the same error.
- *relayed*: to a live broker, byte for byte, in the versions of that broker; see `listeners` for when.
- *answered*: by this node, which has no replicas.
- *acknowledged*, and nothing else; CLUSTER_AUTHORIZATION_FAILED for who has not the right.
- *closed*: the connection is closed with a warning, as a broker closes it over a request that it does not know.

*Right* is what the client's own principal needs where there is an authorizer, whoever answers. What is relayed is
judged here first, and passed on only to whom all of it is allowed; otherwise the connection is closed, so that the
client asks a broker, which sees who it is and answers with Kafka's error, or with the part that it may see.
"""


def as_markdown() -> str:
    """The whole page."""
    rows = []
    for key in range(LAST_KEY + 1):
        found = treated(key)
        assert found is not None, api_name(key)
        versions = "" if found.versions is None else str(found.versions)
        name = api_name(key).rpartition(" ")[0]
        rows.append(f"| {key} | {name} | {found.treatment} | {versions} | {right(key)} | {found.why} |")
    head = ["| key | request | is | versions | right | why |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([_INTRODUCTION, *head, *rows, ""])
