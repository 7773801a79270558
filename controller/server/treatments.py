"""What becomes of each request that a node of a cluster can be sent?

`as_markdown` is docs/requests.md.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from controller.server.api_names import LAST_KEY, api_name
from controller.server.relay import LED, OF_THE_ASKER, RELAYABLE
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


def treated(api_key: int) -> Treated | None:
    """What becomes of the request with this key; None for one that nobody knows.

    >>> treated(45).treatment.value, treated(10).treatment.value, treated(999)
    ('served', 'relayed', None)
    """
    if api_key in SERVED:
        return Treated(Treatment.SERVED, _SERVED_WHY.get(api_key, _ADMIN), SERVED[api_key])
    if api_key in COMMANDS:
        return Treated(Treatment.ACKNOWLEDGED, "a native controller that leads takes this node for a broker")
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
- *acknowledged*, and nothing else.
- *closed*: the connection is closed with a warning, as a broker closes it over a request that it does not know.
"""


def as_markdown() -> str:
    """The whole page."""
    rows = []
    for key in range(LAST_KEY + 1):
        found = treated(key)
        assert found is not None, api_name(key)
        versions = "" if found.versions is None else str(found.versions)
        name = api_name(key).rpartition(" ")[0]
        rows.append(f"| {key} | {name} | {found.treatment} | {versions} | {found.why} |")
    head = ["| key | request | is | versions | why |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([_INTRODUCTION, *head, *rows, ""])
