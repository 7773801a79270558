"""Which ACLs does this request ask about?

Kafka accepts the number 0, which it calls unknown, in no request; other unknown numbers are rejected later.

Source: Kafka's DescribeAclsRequest, CreateAclsRequest and DeleteAclsRequest, and their JSON; KIP-140, KIP-290.
"""

from __future__ import annotations

from controller.core.acls.numbers import ANY, PATTERN_TYPE_NUMBERS, UNKNOWN
from controller.core.messages.requests import AclCreation, AclFilter, CreateAcls, DeleteAcls, DescribeAcls
from controller.wire.cursor import Cursor
from zk_layout.znodes.acls import PatternType

_LITERAL = PATTERN_TYPE_NUMBERS[PatternType.LITERAL]
_LEAST_CREATION, _LEAST_FILTER = 9, 7


def describe_acls(cursor: Cursor, version: int) -> DescribeAcls:
    """DescribeAcls (29), versions 0 to 3."""
    return DescribeAcls(_filter(cursor, version))


def create_acls(cursor: Cursor, version: int) -> CreateAcls:
    """CreateAcls (30), versions 0 to 3."""
    return CreateAcls(tuple(_creation(cursor, version) for _ in cursor.structs("creations", _LEAST_CREATION)))


def delete_acls(cursor: Cursor, version: int) -> DeleteAcls:
    """DeleteAcls (31), versions 0 to 3."""
    return DeleteAcls(tuple(_filter(cursor, version) for _ in cursor.structs("filters", _LEAST_FILTER)))


def _filter(cursor: Cursor, version: int) -> AclFilter:
    """One filter. What follows it is left to the caller, who knows whether it is part of a list."""
    return AclFilter(
        _known(cursor, "resource_type_filter"),
        cursor.nullable_string("resource_name_filter"),
        _known(cursor, "pattern_type_filter") if version >= 1 else _LITERAL,
        cursor.nullable_string("principal_filter"),
        cursor.nullable_string("host_filter"),
        _known(cursor, "operation"),
        _known(cursor, "permission_type"),
    )


def _creation(cursor: Cursor, version: int) -> AclCreation:
    return AclCreation(
        _known(cursor, "resource_type"),
        cursor.string("resource_name"),
        _known(cursor, "resource_pattern_type") if version >= 1 else _LITERAL,
        cursor.string("principal"),
        cursor.string("host"),
        _known(cursor, "operation"),
        _known(cursor, "permission_type"),
    )


def _known(cursor: Cursor, what: str) -> int:
    number = cursor.int8(what)
    if number == UNKNOWN:
        raise cursor.malformed(what, f"is {UNKNOWN}, which has no meaning; {ANY} means any")
    return number
