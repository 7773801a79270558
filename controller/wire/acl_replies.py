"""Which kio value answers a request about rights?

Source: Kafka's DescribeAclsResponse.json, CreateAclsResponse.json and DeleteAclsResponse.json.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from controller.core.acls.numbers import (
    OPERATION_NUMBERS,
    PATTERN_TYPE_NUMBERS,
    PERMISSION_NUMBERS,
    RESOURCE_TYPE_NUMBERS,
)
from controller.core.messages.replies import AclBinding, AclsCreated, AclsDeleted, AclsDescribed
from controller.wire.schema import MessageSchema
from zk_layout.znodes.acls import AclEntry, ResourcePattern


def acls_created(schema: MessageSchema, _version: int, reply: AclsCreated) -> Any:
    """CreateAcls (30)."""
    made = tuple(schema.outcome("AclCreationResult", result) for result in reply.results)
    return schema.make("CreateAclsResponse", results=made)


def acls_deleted(schema: MessageSchema, _version: int, reply: AclsDeleted) -> Any:
    """DeleteAcls (31)."""
    filtered = tuple(
        schema.outcome(
            "DeleteAclsFilterResult",
            result,
            matching_acls=tuple(_deleted(schema, binding) for binding in result.deleted),
        )
        for result in reply.results
    )
    return schema.make("DeleteAclsResponse", filter_results=filtered)


def acls_described(schema: MessageSchema, _version: int, reply: AclsDescribed) -> Any:
    """DescribeAcls (29)."""
    resources = tuple(
        schema.make(
            "DescribeAclsResource",
            **_resource(resource),
            acls=tuple(schema.make("AclDescription", **_entry(binding.entry)) for binding in bindings),
        )
        for resource, bindings in groupby(reply.bindings, lambda binding: binding.resource)
    )
    return schema.outcome("DescribeAclsResponse", reply, resources=resources)


def _deleted(schema: MessageSchema, binding: AclBinding) -> Any:
    return schema.outcome("DeleteAclsMatchingAcl", binding, **_resource(binding.resource), **_entry(binding.entry))


def _resource(resource: ResourcePattern) -> dict[str, object]:
    return {
        "resource_type": RESOURCE_TYPE_NUMBERS[resource.resource_type],
        "resource_name": resource.name,
        "pattern_type": PATTERN_TYPE_NUMBERS[resource.pattern_type],
    }


def _entry(entry: AclEntry) -> dict[str, object]:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": OPERATION_NUMBERS[entry.operation],
        "permission_type": PERMISSION_NUMBERS[entry.permission],
    }
