"""Who may do what with which resource, and which resource's rights have changed: `/kafka-acl/<type>/<name>` …?

Rights are kept by literal name and by the beginning of names. Whoever changes them leaves a notification, which
brokers follow.

Source: KIP-11, KIP-290; Kafka's AclEntry, ZkAclStore, ZkAclChangeStore and SecurityUtils.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from msgspec import Struct

from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder, one_line

_NAME_OF_CHANGES: Final = "acl_changes_"


class ResourceType(StrEnum):
    """What rights are about, as the znodes' paths spell it."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"
    USER = "User"


class PatternType(StrEnum):
    """Whether a resource's name is the whole name, or what names begin with."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class AclOperation(StrEnum):
    """What may be done, as the znodes spell it. `UNKNOWN` is one of a later Kafka, and matches nothing."""

    UNKNOWN = "Unknown"
    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"


class PermissionType(StrEnum):
    """Whether it is allowed. `UNKNOWN` is one of a later Kafka, and does neither."""

    UNKNOWN = "Unknown"
    DENY = "Deny"
    ALLOW = "Allow"


ROOTS: MappingProxyType[PatternType, str] = MappingProxyType(
    {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
)
"""Below these is a folder for each type of resource, and in it a znode for each name."""

CHANGES: MappingProxyType[PatternType, str] = MappingProxyType(
    {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
)
_TYPES_BELOW: Final = {root: pattern_type for pattern_type, root in ROOTS.items()}
FOLDERS: Final = tuple(f"{root}/{resource_type}" for root in ROOTS.values() for resource_type in ResourceType)


class ResourcePattern(Struct, frozen=True, gc=False):
    """What rights are given for: one resource, all of a type (the literal `*`), or those whose names begin so."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AclAddress(Struct, frozen=True, gc=False):
    """The rights that one pattern gives and takes."""

    resource: ResourcePattern

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOTS[self.resource.pattern_type]}/{self.resource.resource_type}/{self.resource.name}"


def address_below(root: str, resource_type: str, name: str) -> AclAddress:
    """The rights to this name, below one of `ROOTS`."""
    return AclAddress(ResourcePattern(ResourceType(resource_type), name, _TYPES_BELOW[root]))


class AclChangeAddress(Struct, frozen=True, gc=False):
    """One notification that the rights to a literal name have changed. Brokers delete it after a while."""

    name: str = _NAME_OF_CHANGES

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it; without a name of its own, what ZooKeeper adds a number to."""
        return f"{CHANGES[PatternType.LITERAL]}/{self.name}"


class ExtendedAclChangeAddress(Struct, frozen=True, gc=False):
    """One notification that the rights to names with a common beginning have changed."""

    name: str = _NAME_OF_CHANGES

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it; without a name of its own, what ZooKeeper adds a number to."""
        return f"{CHANGES[PatternType.PREFIXED]}/{self.name}"


class AclEntry(Struct, frozen=True, gc=False):
    """Who is allowed, or denied, what from where.

    Shape:
        `principal` has a type and a name, as in `User:ann`; `User:*` is everybody. `host` is an address, or `*`.
    """

    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType


class Acls(Struct, frozen=True):
    """The entries of one resource pattern, each of them once."""

    entries: tuple[AclEntry, ...]


class AclChange(Struct, frozen=True):
    """The pattern whose entries have changed.

    Kafka 2.4 and 2.5 write and read `TransactionalId` where later ones have `TRANSACTIONAL_ID`, and neither
    knows the other's spelling: `is_of_2_4` tells them apart. What is one word is the same to all.
    """

    resource: ResourcePattern
    is_of_2_4: bool = False


class _EntryJson(Struct):
    principal: str
    permissionType: str  # noqa: N815  # Kafka's spelling
    operation: str
    host: str


class _AclsJson(Struct):
    version: Literal[1]
    acls: tuple[_EntryJson, ...]


class _ChangeJson(Struct, rename="camel"):
    resource_type: str
    name: str
    pattern_type: str
    version: int = 1


_acls_decoder = json_decoder(_AclsJson)
_change_decoder = json_decoder(_ChangeJson)

Spelt = TypeVar("Spelt", AclOperation, PermissionType)
_OPERATIONS: Final = {operation.upper(): operation for operation in AclOperation}
_PERMISSIONS: Final = {permission.upper(): permission for permission in PermissionType}
_CHANGED_TYPES: Final = {
    **{resource_type.upper(): (resource_type, True) for resource_type in ResourceType},
    **{resource_type.name: (resource_type, False) for resource_type in ResourceType},
}
"""As notifications spell them, and whether only Kafka 2.4 and 2.5 do."""


def decode(data: bytes) -> Acls:
    """The entries. In a znode without data there are none. As to brokers, case does not matter in what is one of few.

    >>> entry = b'{"principal":"User:ann","permissionType":"Allow","operation":"READ","host":"*"}'
    >>> decode(b'{"version":1,"acls":[' + entry + b"]}").entries[0].operation.value
    'Read'

    Raises:
        Undecodable: not the JSON of version 1, or an entry that Kafka would not read either.
    """
    if not data:
        return Acls(())
    json = _acls_decoder(data)
    return Acls(tuple(dict.fromkeys(_entry(entry) for entry in json.acls)))


def _entry(json: _EntryJson) -> AclEntry:
    if ":" not in json.principal:
        raise Undecodable(f"principal {one_line(json.principal)!r} has no type; expected one such as User:ann")
    return AclEntry(
        json.principal,
        json.host,
        _one_of(_OPERATIONS, json.operation, AclOperation.UNKNOWN),
        _one_of(_PERMISSIONS, json.permissionType, PermissionType.UNKNOWN),
    )


def _one_of(known: dict[str, Spelt], text: str, unknown: Spelt) -> Spelt:
    spelt = text.upper()
    if spelt == "ANY":
        raise Undecodable(f"{one_line(text)!r} is for filters only")
    return known.get(spelt, unknown)


def encode(acls: Acls) -> bytes:
    """As brokers write it."""
    entries = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission,
            "operation": entry.operation,
            "host": entry.host,
        }
        for entry in acls.entries
    ]
    return encode_json({"version": 1, "acls": entries})


def changes(resource: ResourcePattern) -> tuple[AclChange, ...]:
    """The notifications after which brokers of every version follow; one that cannot read one of them ignores it.

    >>> [change.is_of_2_4 for change in changes(ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t"))]
    [False, True]
    """
    is_one_word = resource.resource_type.name == resource.resource_type.upper()
    return (AclChange(resource),) if is_one_word else (AclChange(resource), AclChange(resource, is_of_2_4=True))


def change_address(change: AclChange) -> AclChangeAddress | ExtendedAclChangeAddress:
    """Where a notification is created, with a number that ZooKeeper adds."""
    is_literal = change.resource.pattern_type is PatternType.LITERAL
    return AclChangeAddress() if is_literal else ExtendedAclChangeAddress()


def decode_change(data: bytes) -> AclChange:
    """The literal name, in text.

    >>> decode_change(b"Topic:a:b") == decode_change(b"TOPIC:a:b")
    True

    Raises:
        Undecodable: not a type that Kafka knows, and a name.
    """
    try:
        spelt, colon, name = data.decode().partition(":")
    except UnicodeDecodeError as error:
        raise Undecodable(f"not UTF-8: {excerpt(data)}") from error
    if not colon:
        raise Undecodable(f"no resource type and name in {excerpt(data)}")
    return _change(spelt, name, PatternType.LITERAL)


def decode_extended_change(data: bytes) -> AclChange:
    """The beginning of names, in JSON.

    Raises:
        Undecodable: not a notification's JSON of version 1, or of a type that Kafka does not know.
    """
    json = _change_decoder(data)
    if json.version > 1:
        raise Undecodable(f"version {json.version}; expected 1")
    if json.pattern_type != PatternType.PREFIXED:
        raise Undecodable(f"pattern type {one_line(json.pattern_type)!r}; expected PREFIXED")
    return _change(json.resource_type, json.name, PatternType.PREFIXED)


def _change(spelt: str, name: str, pattern_type: PatternType) -> AclChange:
    known = _CHANGED_TYPES.get(spelt.upper())
    if known is None:
        raise Undecodable(f"unknown resource type {one_line(spelt)!r}")
    resource_type, is_of_2_4 = known
    return AclChange(ResourcePattern(resource_type, name, pattern_type), is_of_2_4)


def encode_change(change: AclChange) -> bytes:
    """As brokers write it: text for a literal name, JSON for the beginning of names.

    >>> encode_change(AclChange(ResourcePattern(ResourceType.TOPIC, "orders")))
    b'TOPIC:orders'
    """
    resource = change.resource
    spelt = resource.resource_type.value if change.is_of_2_4 else resource.resource_type.name
    if resource.pattern_type is PatternType.LITERAL:
        return f"{spelt}:{resource.name}".encode()
    return encode_json({"version": 1, "resourceType": spelt, "name": resource.name, "patternType": "PREFIXED"})
