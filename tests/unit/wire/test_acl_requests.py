"""What is asked about rights, and which bytes answer it?"""

from __future__ import annotations

import struct

import pytest
from msgspec import structs

from controller.core.acls.numbers import OPERATIONS, PERMISSIONS, RESOURCE_TYPES
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    AclBinding,
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    AclsFiltered,
    Reply,
)
from controller.core.messages.requests import AclCreation, AclFilter, CreateAcls, DeleteAcls, DescribeAcls, Request
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from controller.wire.requests import MalformedRequest, decode_request
from tests.equipment.client_side import api_key_of, decode_reply, encode_request
from zk_layout.znodes.acls import AclEntry, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType

VERSIONS = range(4)
ANY, LITERAL = 1, 3
FILTER = AclFilter(2, "ördërs", LITERAL, None, "10.0.0.1", 99, ANY)
CREATION = AclCreation(5, "t", LITERAL, "User:ann", "*", 4, 3)
REQUESTS: list[Request] = [
    DescribeAcls(FILTER),
    DescribeAcls(AclFilter(ANY, None, LITERAL, "User:ann", None, ANY, 2)),
    CreateAcls((CREATION, structs.replace(CREATION, resource_type=99))),
    CreateAcls(()),
    DeleteAcls((FILTER, FILTER)),
]
ENTRY = AclEntry("User:ann", "*", AclOperation.IDEMPOTENT_WRITE, PermissionType.DENY)
OTHER = AclEntry("User:bob", "10.0.0.1", AclOperation.READ, PermissionType.ALLOW)
ORDERS, USER = ResourcePattern(ResourceType.TOPIC, "orders"), ResourcePattern(ResourceType.USER, "ann")
DENIED = (ErrorCode.UNKNOWN_SERVER_ERROR, "not written")
REPLIES: list[tuple[ApiKey, Reply]] = [
    (
        ApiKey.DESCRIBE_ACLS,
        AclsDescribed((AclBinding(ORDERS, ENTRY), AclBinding(ORDERS, OTHER), AclBinding(USER, ENTRY))),
    ),
    (ApiKey.DESCRIBE_ACLS, AclsDescribed((), ErrorCode.SECURITY_DISABLED, "none")),
    (ApiKey.CREATE_ACLS, AclsCreated((AclCreated(), AclCreated(ErrorCode.INVALID_REQUEST, "no")))),
    (
        ApiKey.DELETE_ACLS,
        AclsDeleted((AclsFiltered((AclBinding(ORDERS, ENTRY), AclBinding(USER, OTHER, *DENIED))), AclsFiltered())),
    ),
]


def header(key: int, version: int) -> RequestHeader:
    return RequestHeader(key, version, 7, "lab")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_each_version_asks_the_same(request_: Request, version: int) -> None:
    asked = header(api_key_of(request_), version)

    assert decode_request(encode_request(asked, request_)[4:]) == (asked, request_)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("key", "reply"), REPLIES)
def test_each_version_answers_the_same(key: ApiKey, reply: Reply, version: int) -> None:
    assert decode_reply(header(key, version), encode_reply(header(key, version), reply)[4:]) == reply


@pytest.mark.parametrize("version", range(1, 4))
def test_prefixed_patterns_are_told_from_literal_ones(version: int) -> None:
    described = AclsDescribed((AclBinding(ResourcePattern(ResourceType.TOPIC, "o", PatternType.PREFIXED), ENTRY),))
    asked = header(ApiKey.DESCRIBE_ACLS, version)

    assert decode_reply(asked, encode_reply(asked, described)[4:]) == described


@pytest.mark.parametrize("what", ["resource_type", "pattern_type", "operation", "permission"])
def test_what_is_called_unknown_is_read_in_no_request(what: str) -> None:
    """A broker closes the connection, too."""
    unknown = structs.replace(CREATION, **{what: 0})

    with pytest.raises(MalformedRequest, match=r"creations.* is 0, which means nothing"):
        decode_request(encode_request(header(30, 3), CreateAcls((unknown,)))[4:])


def test_numbers_are_kafkas() -> None:
    assert RESOURCE_TYPES[5] is ResourceType.TRANSACTIONAL_ID
    assert RESOURCE_TYPES[7] is ResourceType.USER
    assert (OPERATIONS[2], OPERATIONS[8]) == (AclOperation.ALL, AclOperation.DESCRIBE)
    assert (OPERATIONS[12], OPERATIONS[14]) == (AclOperation.IDEMPOTENT_WRITE, AclOperation.DESCRIBE_TOKENS)
    assert (PERMISSIONS[2], PERMISSIONS[3]) == (PermissionType.DENY, PermissionType.ALLOW)
    assert 15 not in OPERATIONS


def test_too_many_filters_are_not_read() -> None:
    frame = encode_request(header(31, 0), DeleteAcls((FILTER,) * 1_001))[4:]

    with pytest.raises(MalformedRequest, match="filters"):
        decode_request(frame)
    assert struct.unpack_from(">h", frame) == (31,)
