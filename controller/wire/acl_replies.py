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
from controller.wire.schema import UNTHROTTLED, MessageSchema
from zk_layout.znodes.acls import AclEntry, ResourcePattern


def acl_reply(schema: MessageSchema, reply: AclsDescribed | AclsCreated | AclsDeleted) -> Any:
    """The answer to one of these requests."""
    match reply:
        case AclsDescribed():
            return _described(schema, reply)
        case AclsCreated(results):
            made = tuple(schema.make("AclCreationResult", error_code=r.error, error_message=r.message) for r in results)
            return schema.make("CreateAclsResponse", throttle_time=UNTHROTTLED, results=made)
        case AclsDeleted(results):
            filtered = tuple(
                schema.make(
                    "DeleteAclsFilterResult",
                    error_code=r.error,
                    error_message=r.message,
                    matching_acls=tuple(_deleted(schema, binding) for binding in r.deleted),
                )
                for r in results
            )
            return schema.make("DeleteAclsResponse", throttle_time=UNTHROTTLED, filter_results=filtered)


def _described(schema: MessageSchema, reply: AclsDescribed) -> Any:
    resources = tuple(
        schema.make(
            "DescribeAclsResource",
            **_resource(resource),
            acls=tuple(schema.make("AclDescription", **_entry(binding.entry)) for binding in bindings),
        )
        for resource, bindings in groupby(reply.bindings, lambda binding: binding.resource)
    )
    return schema.make(
        "DescribeAclsResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        error_message=reply.message,
        resources=resources,
    )


def _deleted(schema: MessageSchema, binding: AclBinding) -> Any:
    return schema.make(
        "DeleteAclsMatchingAcl",
        error_code=binding.error,
        error_message=binding.message,
        **_resource(binding.resource),
        **_entry(binding.entry),
    )


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
