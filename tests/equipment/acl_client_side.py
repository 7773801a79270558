"""How are ACL requests encoded and their answers decoded, by kio?

Source: Kafka's DescribeAclsRequest.json, CreateAclsRequest.json, DeleteAclsRequest.json and their responses.
"""

from __future__ import annotations

from typing import Any

from controller.core.acls.numbers import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from controller.core.messages.replies import (
    AclBinding,
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    AclsFiltered,
)
from controller.core.messages.requests import AclCreation, AclFilter, AclRequest, CreateAcls, DeleteAcls, DescribeAcls
from controller.wire.cursor import Cursor
from controller.wire.schema import MessageSchema
from zk_layout.znodes.acls import AclEntry, PatternType, ResourcePattern


def acl_request_entity(schema: MessageSchema, request: AclRequest) -> Any:
    """One of these requests."""
    match request:
        case DescribeAcls(wanted):
            return schema.make("DescribeAclsRequest", **_filter(wanted))
        case CreateAcls(creations):
            return schema.make(
                "CreateAclsRequest",
                creations=tuple(schema.make("AclCreation", **_creation(creation)) for creation in creations),
            )
        case DeleteAcls(filters):
            return schema.make(
                "DeleteAclsRequest",
                filters=tuple(schema.make("DeleteAclsFilter", **_filter(wanted)) for wanted in filters),
            )


def _filter(wanted: AclFilter) -> dict[str, object]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _creation(creation: AclCreation) -> dict[str, object]:
    return {
        "resource_type": creation.resource_type,
        "resource_name": creation.name,
        "resource_pattern_type": creation.pattern_type,
        "principal": creation.principal,
        "host": creation.host,
        "operation": creation.operation,
        "permission_type": creation.permission,
    }


def acls_described(cursor: Cursor, version: int) -> AclsDescribed:
    """The ACLs in an answer."""
    cursor.int32("throttle_time_ms")
    error, message = cursor.error(), cursor.nullable_string("error_message")
    bindings = []
    for _ in cursor.array("resources", 7):
        resource = _resource(cursor, version)
        for _ in cursor.array("acls", 6):
            bindings.append(AclBinding(resource, _entry(cursor)))
            cursor.tags()
        cursor.tags()
    return AclsDescribed(tuple(bindings), error, message)


def acls_created(cursor: Cursor, _version: int) -> AclsCreated:
    """The results for new entries."""
    cursor.int32("throttle_time_ms")
    results = []
    for _ in cursor.array("results", 3):
        results.append(AclCreated(cursor.error(), cursor.nullable_string("error_message")))
        cursor.tags()
    return AclsCreated(tuple(results))


def acls_deleted(cursor: Cursor, version: int) -> AclsDeleted:
    """The results for deleted entries."""
    cursor.int32("throttle_time_ms")
    results = []
    for _ in cursor.array("filter_results", 5):
        error, message = cursor.error(), cursor.nullable_string("error_message")
        deleted = tuple(_deleted(cursor, version) for _ in cursor.array("matching_acls", 9))
        results.append(AclsFiltered(deleted, error, message))
        cursor.tags()
    return AclsDeleted(tuple(results))


def _deleted(cursor: Cursor, version: int) -> AclBinding:
    error, message = cursor.error(), cursor.nullable_string("error_message")
    binding = AclBinding(_resource(cursor, version), _entry(cursor), error, message)
    cursor.tags()
    return binding


def _resource(cursor: Cursor, version: int) -> ResourcePattern:
    resource_type, name = RESOURCE_TYPES[cursor.int8("resource_type")], cursor.string("resource_name")
    pattern_type = PATTERN_TYPES[cursor.int8("pattern_type")] if version >= 1 else PatternType.LITERAL
    return ResourcePattern(resource_type, name, pattern_type)


def _entry(cursor: Cursor) -> AclEntry:
    principal, host = cursor.string("principal"), cursor.string("host")
    return AclEntry(principal, host, OPERATIONS[cursor.int8("operation")], PERMISSIONS[cursor.int8("permission_type")])
