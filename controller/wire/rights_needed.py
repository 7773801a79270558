"""Which rights does a request need before it may be relayed to a broker?

The broker takes this process for the sender, which may do everything, so the client must be allowed here all that it
asks for. A request whose answer depends on the client, or whose meaning is unknown, is never relayed: sent to a broker
itself, it gets Kafka's answer.

Source: Kafka's KafkaApis, AuthHelper, ConfigHelper and AclApis, the same in 2.4 to 3.9 unless noted.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.clients.authorization import CLUSTER
from controller.wire import metadata_request
from controller.wire.any_node import ConfigResource, config_resources
from controller.wire.apis import BY_BROKERS_ON_STANDBY, RELAYABLE, ApiKey, row_of
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader
from controller.wire.requests import reading
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

Right = tuple[AclOperation, ResourcePattern]
Rights = tuple[Right, ...]

TO_WRITE_IDEMPOTENTLY: Rights = ((AclOperation.IDEMPOTENT_WRITE, CLUSTER),)
"""On brokers from 2.8 on, Write on any topic is enough (KIP-679)."""

_GROUP, _TRANSACTION = 0, 1  # what a coordinator is looked for
_OF_TOPIC, _OF_BROKER, _OF_LOGGERS, _OF_METRICS = 2, 4, 8, 16  # what the configuration belongs to


def needed(header: RequestHeader, frame: bytes) -> Rights | None:
    """All rights that this request needs; None if it must not be relayed.

    Raises:
        MalformedRequest: it is cut off, or claims more than it holds.
    """
    row = row_of(header.api_key)
    if row is None or header.api_key not in _PASSED_ON or row.versions is None:
        return None
    if header.api_version not in row.versions:
        return None
    with reading(header, frame) as cursor:
        if row.on_cluster is not None:
            return ((row.on_cluster, CLUSTER),)
        return _READERS[ApiKey(header.api_key)](cursor, header.api_version)


def _coordinators(cursor: Cursor, version: int) -> Rights | None:
    key = cursor.string("key") if version < 4 else ""
    kind = cursor.int8("key_type") if version >= 1 else _GROUP
    keys = (key,) if version < 4 else tuple(cursor.string("coordinator_key") for _ in cursor.array("keys", 1))
    types = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}
    if kind not in types:
        return None
    return tuple((AclOperation.DESCRIBE, ResourcePattern(types[kind], name)) for name in keys)


def _producer_id(cursor: Cursor, _version: int) -> Rights:
    transaction = cursor.nullable_string("transactional_id")
    if transaction is None:
        return TO_WRITE_IDEMPOTENTLY
    return ((AclOperation.WRITE, ResourcePattern(ResourceType.TRANSACTIONAL_ID, transaction)),)


def _configs(api: ApiKey, operation: AclOperation) -> Callable[[Cursor, int], Rights | None]:
    def read(cursor: Cursor, version: int) -> Rights | None:
        rights = [_of_config(resource, operation) for resource in config_resources(cursor, api, version)]
        return None if None in rights else tuple(right for right in rights if right is not None)

    return read


def _of_config(resource: ConfigResource, operation: AclOperation) -> Right | None:
    if resource.kind == _OF_TOPIC:
        return operation, ResourcePattern(ResourceType.TOPIC, resource.name)
    return (operation, CLUSTER) if resource.kind in (_OF_BROKER, _OF_LOGGERS, _OF_METRICS) else None


def _cluster(cursor: Cursor, version: int) -> Rights | None:
    """Not relayed with operations: the answer lists those of the client."""
    return None if metadata_request.describe_cluster(cursor, version).with_cluster_operations else ()


def _metadata(cursor: Cursor, version: int) -> Rights | None:
    """Only by name: of all topics each client sees its own, and the topic of an id is not known here."""
    asked = metadata_request.read(cursor, version)
    described = asked.described
    if described.topics is None or described.with_cluster_operations or described.with_topic_operations:
        return None
    names = [reference.name for reference in described.topics if reference.name]
    if len(names) < len(described.topics):
        return None
    # It is not known here whether a topic exists and therefore need not be created.
    operations = (_DESCRIBE, AclOperation.CREATE) if asked.may_create_topics else (_DESCRIBE,)
    return tuple((operation, ResourcePattern(ResourceType.TOPIC, name)) for name in names for operation in operations)


_ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
_DESCRIBE, _DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
_PASSED_ON = RELAYABLE | BY_BROKERS_ON_STANDBY
_READERS: dict[ApiKey, Callable[[Cursor, int], Rights | None]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _coordinators,
    ApiKey.INIT_PRODUCER_ID: _producer_id,
    ApiKey.DESCRIBE_CONFIGS: _configs(ApiKey.DESCRIBE_CONFIGS, _DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _configs(ApiKey.ALTER_CONFIGS, _ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, _ALTER_CONFIGS),
    ApiKey.DESCRIBE_CLUSTER: _cluster,
}
"""Rights that depend on the request's content."""
