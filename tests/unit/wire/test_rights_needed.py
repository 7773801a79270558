"""Each request that may be relayed, in each version, as Kafka's schemas write it."""

from __future__ import annotations

import struct
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from controller.core.clients.authorization import CLUSTER
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.requests import MalformedRequest, decode_header
from controller.wire.rights_needed import Rights, needed
from controller.wire.schema import encode_entity
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
DESCRIBE, CREATE = AclOperation.DESCRIBE, AclOperation.CREATE


class Schema:
    """Makes the entities of one request, without the fields that its version does not have."""

    def __init__(self, name: str, version: int) -> None:
        self._module = import_module(f"kio.schema.{name}.v{version}.request")

    def make(self, entity_name: str, /, **values: object) -> Any:
        entity = getattr(self._module, entity_name)
        known = {field.name for field in fields(entity)}
        return entity(**{name: value for name, value in values.items() if name in known})


def frame_of(key: int, version: int, entity: Any) -> bytes:
    tags = b"\0" if is_flexible(key, version) else b""
    return struct.pack(">hhih", key, version, 1, 2) + b"me" + tags + encode_entity(entity)


def judged(key: int, version: int, entity: Any) -> Rights | None:
    frame = frame_of(key, version, entity)
    return needed(decode_header(frame), frame)


def versions(key: int, lowest: int = 0) -> range:
    known = ApiKey(key).row.versions
    assert known is not None
    return range(lowest, known.highest + 1)


def test_what_depends_on_who_asks_is_never_passed_on() -> None:
    token = struct.pack(">hhihi", 41, 1, 1, -1, -1)
    assert needed(decode_header(token), token) is None


def test_an_unknown_version_is_never_passed_on() -> None:
    frame = struct.pack(">hhihi", 50, 1, 1, -1, 0)

    assert needed(decode_header(frame), frame) is None


@pytest.mark.parametrize(
    ("version", "kind", "resource_type"),
    [
        *((version, 0, GROUP) for version in versions(10)),
        *((version, 1, TRANSACTION) for version in versions(10, lowest=1)),
        *((version, 2, None) for version in versions(10, lowest=1)),
    ],
)
def test_whose_coordinator_is_looked_for_must_be_his_to_see(
    version: int, kind: int, resource_type: ResourceType | None
) -> None:
    schema = Schema("find_coordinator", version)
    entity = schema.make("FindCoordinatorRequest", key="a", key_type=kind, coordinator_keys=("a", "b"))
    names = "a" if version < 4 else "ab"

    expected = None if resource_type is None else tuple((DESCRIBE, ResourcePattern(resource_type, n)) for n in names)
    assert judged(10, version, entity) == expected


@pytest.mark.parametrize("version", versions(22))
@pytest.mark.parametrize("transaction", [None, "mine"])
def test_a_producer_id_is_for_who_may_write_without_or_with_a_transaction(
    version: int, transaction: str | None
) -> None:
    entity = Schema("init_producer_id", version).make(
        "InitProducerIdRequest",
        transactional_id=transaction,
        transaction_timeout=timedelta(seconds=1),
        producer_id=-1,
        producer_epoch=-1,
    )

    (right,) = judged(22, version, entity) or ()
    idempotent = (AclOperation.IDEMPOTENT_WRITE, CLUSTER)
    assert right == (idempotent if transaction is None else (AclOperation.WRITE, ResourcePattern(TRANSACTION, "mine")))


@pytest.mark.parametrize(
    ("key", "version", "operation"),
    [
        *((29, version, DESCRIBE) for version in versions(29)),
        *((key, version, AclOperation.ALTER) for key in (30, 31) for version in versions(key)),
        *((48, version, AclOperation.DESCRIBE_CONFIGS) for version in versions(48)),
        *((49, version, AclOperation.ALTER_CONFIGS) for version in versions(49)),
        (50, 0, DESCRIBE),
    ],
)
def test_rights_quotas_and_credentials_are_the_clusters(key: int, version: int, operation: AclOperation) -> None:
    frame = struct.pack(">hhih", key, version, 1, -1) + bytes(20)

    assert needed(decode_header(frame), frame) == ((operation, CLUSTER),)


@pytest.mark.parametrize(
    ("key", "version", "name", "operation"),
    [
        *((32, version, "DescribeConfigs", AclOperation.DESCRIBE_CONFIGS) for version in versions(32)),
        *((33, version, "AlterConfigs", AclOperation.ALTER_CONFIGS) for version in versions(33)),
        *((44, version, "IncrementalAlterConfigs", AclOperation.ALTER_CONFIGS) for version in versions(44)),
    ],
)
def test_configurations_of_topics_are_theirs_and_of_brokers_the_clusters(
    key: int, version: int, name: str, operation: AclOperation
) -> None:
    schema = Schema({32: "describe_configs", 33: "alter_configs", 44: "incremental_alter_configs"}[key], version)

    def asked(*resources: tuple[int, str]) -> Any:
        configs = () if key == 32 else (schema.make("AlterableConfig", name="a", value=None, config_operation=1),)
        kind = "DescribeConfigsResource" if key == 32 else "AlterConfigsResource"
        entities = [
            schema.make(kind, resource_type=k, resource_name=n, configs=configs, configuration_keys=("a", "b"))
            for k, n in resources
        ]
        return schema.make(f"{name}Request", resources=tuple(entities), validate_only=True)

    several = asked((2, "orders"), (4, "1"), (8, "2"), (16, "m"), (4, ""))
    on_cluster = (operation, CLUSTER)
    assert judged(key, version, several) == (
        (operation, ResourcePattern(TOPIC, "orders")), on_cluster, on_cluster, on_cluster, on_cluster,
    )  # fmt: skip
    assert judged(key, version, asked((2, "orders"), (5, "of a later Kafka"))) is None
    frame = frame_of(key, version, several)
    for cut in range(14, len(frame) - 1):
        with pytest.raises(MalformedRequest):
            needed(decode_header(frame), frame[:cut])


@pytest.mark.parametrize("version", versions(60))
def test_who_wants_to_know_what_he_may_do_asks_a_broker(version: int) -> None:
    def asked(*, with_operations: bool) -> Rights | None:
        schema = Schema("describe_cluster", version)
        entity = schema.make(
            "DescribeClusterRequest", include_cluster_authorized_operations=with_operations, endpoint_type=1
        )
        return judged(60, version, entity)

    assert asked(with_operations=False) == ()
    assert asked(with_operations=True) is None


@pytest.mark.parametrize("version", versions(3))
def test_metadata_is_passed_on_for_topics_that_are_named(version: int) -> None:
    schema = Schema("metadata", version)

    def asked(names: tuple[str, ...] | None, *, creates: bool = False, **flags: bool) -> Rights | None:
        topics = (
            None if names is None else tuple(schema.make("MetadataRequestTopic", topic_id=None, name=n) for n in names)
        )
        none = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
        entity = schema.make("MetadataRequest", topics=topics, allow_auto_topic_creation=creates, **none | flags)
        return judged(3, version, entity)

    to_see = [(DESCRIBE, ResourcePattern(TOPIC, name)) for name in ("a", "b")]
    to_create = [(operation, ResourcePattern(TOPIC, name)) for name in ("a", "b") for operation in (DESCRIBE, CREATE)]
    assert asked(("a", "b")) == tuple(to_create if version < 4 else to_see)
    assert asked(("a", "b"), creates=True) == tuple(to_create)
    if version >= 1:
        assert asked(None) is None
        assert asked(()) == ()
    else:
        assert asked(()) is None
    if 8 <= version <= 10:
        assert asked(("a",), include_cluster_authorized_operations=True) is None
    if version >= 8:
        assert asked(("a",), include_topic_authorized_operations=True) is None


@pytest.mark.parametrize("version", versions(3, lowest=10))
def test_an_id_does_not_tell_its_topic(version: int) -> None:
    schema = Schema("metadata", version)
    topics = (schema.make("MetadataRequestTopic", topic_id=UUID(int=7), name=None),)
    flags = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    entity = schema.make("MetadataRequest", topics=topics, allow_auto_topic_creation=False, **flags)

    assert judged(3, version, entity) is None
