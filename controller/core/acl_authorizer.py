"""May this principal do that? Decides as Kafka's AclAuthorizer does, from the same rights.

One matching entry that denies is enough; otherwise one must allow. Entries match by the resource's name, by a prefix of
it, or as wildcards for its type.

Source: KIP-11, KIP-290, KIP-679; Kafka's AclAuthorizer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from itertools import product
from types import MappingProxyType
from typing import Final

from zk_layout.znodes.acls import (
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"

IMPLIED_BY: MappingProxyType[AclOperation, tuple[AclOperation, ...]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
        AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
    }
)
"""A permission for one of these implies the operation. A denial of one denies nothing else."""

_CLOSED: Final = Acls((AclEntry(EVERYBODY, WILDCARD, AclOperation.ALL, PermissionType.DENY),))
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def super_users(text: str) -> frozenset[str]:
    """The principals that may do everything, as `super.users` lists them.

    >>> sorted(super_users("User:ann; User:CN=bob,O=ours"))
    ['User:CN=bob,O=ours', 'User:ann']

    Raises:
        ValueError: one of them has no type.
    """
    listed = text.rstrip("; \t")
    principals = [principal.strip() for principal in listed.split(";")] if listed else []
    for principal in principals:
        if ":" not in principal:
            raise ValueError(f"{principal!r} is no principal; separate those such as User:ann by semicolons")
    return frozenset(principals)


def host_of(address: str) -> str:
    """An address as Java spells it, and therefore entries and tools do.

    >>> host_of("10.0.0.1"), host_of("::1"), host_of("::ffff:10.0.0.1"), host_of("fe80::1%eth0")
    ('10.0.0.1', '0:0:0:0:0:0:0:1', '10.0.0.1', 'fe80:0:0:0:0:0:0:1%eth0')
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address  # no entry matches it
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = ":".join(f"{group:x}" for group in struct.unpack(">8H", found.packed))
    return f"{groups}%{found.scope_id}" if found.scope_id else groups


class KnownAcls:
    """The known rights. A resource type is closed until `open_folder` says that all its patterns are known.

    Closed entries cannot be read: they deny every principal whatever they might deny.
    """

    def __init__(self) -> None:
        self._acls: dict[ResourcePattern, Acls] = {}
        self._names: dict[tuple[AclEntry, ResourceType, PatternType], set[str]] = {}
        self._closed_folders = set(product(ResourceType, PatternType))

    def put(self, resource: ResourcePattern, acls: Acls) -> None:
        """Set the entries of a pattern; without entries the pattern is removed."""
        for entry in self._acls.pop(resource, Acls(())).entries:
            names = self._names[entry, resource.resource_type, resource.pattern_type]
            names.discard(resource.name)
            if not names:
                del self._names[entry, resource.resource_type, resource.pattern_type]
        if acls.entries:
            self._acls[resource] = acls
        for entry in acls.entries:
            self._names.setdefault((entry, resource.resource_type, resource.pattern_type), set()).add(resource.name)

    def close(self, resource: ResourcePattern) -> None:
        """Close a pattern whose entries are unknown."""
        self.put(resource, _CLOSED)

    def close_folder(self, resource_type: ResourceType, pattern_type: PatternType) -> None:
        """Close a kind of pattern that cannot be listed: any name of the type might be denied."""
        self._closed_folders.add((resource_type, pattern_type))

    def open_folder(self, resource_type: ResourceType, pattern_type: PatternType) -> None:
        """Open a kind of pattern: all of it is known."""
        self._closed_folders.discard((resource_type, pattern_type))

    def is_closed(self, resource_type: ResourceType) -> bool:
        """Whether the patterns of a type are not all known."""
        return any((resource_type, pattern_type) in self._closed_folders for pattern_type in PatternType)

    def entries(self, resource: ResourcePattern) -> list[AclEntry]:
        """The entries that match one resource: by its name, by a prefix of it, or as wildcards for its type."""
        return [entry for _, acls in self._about(resource) for entry in acls.entries]

    def bindings_about(self, resource: ResourcePattern) -> Iterator[tuple[ResourcePattern, AclEntry]]:
        """The same entries, each with its pattern."""
        return ((pattern, entry) for pattern, acls in self._about(resource) for entry in acls.entries)

    def _about(self, resource: ResourcePattern) -> list[tuple[ResourcePattern, Acls]]:
        kind, name = resource.resource_type, resource.name
        patterns = [ResourcePattern(kind, name[:end], _PREFIXED) for end in range(1, len(name) + 1)]
        patterns += [ResourcePattern(kind, literal, _LITERAL) for literal in dict.fromkeys((WILDCARD, name))]
        return [(pattern, acls) for pattern in patterns if (acls := self._acls.get(pattern)) is not None]

    def names(
        self, entries: Iterable[AclEntry], resource_type: ResourceType, pattern_type: PatternType
    ) -> list[set[str]]:
        """The names, or prefixes, for which each of these entries exists."""
        found = (self._names.get((entry, resource_type, pattern_type)) for entry in dict.fromkeys(entries))
        return [names for names in found if names]

    def bindings(self, matches: Callable[[ResourcePattern], bool]) -> Iterator[tuple[ResourcePattern, AclEntry]]:
        """The known entries of matching patterns."""
        for resource, acls in self._acls.items():
            if acls is not _CLOSED and matches(resource):
                for entry in acls.entries:
                    yield resource, entry


class AclAuthorizer:
    """Decides from the known rights, for any principal."""

    def __init__(
        self, known: KnownAcls, super_users: Iterable[str] = (), *, allows_everyone_if_no_acl_is_found: bool = False
    ) -> None:
        """The arguments are Kafka's `super.users` and `allow.everyone.if.no.acl.found`."""
        self._known = known
        self._super_users = frozenset(super_users)
        self._allows_everyone = allows_everyone_if_no_acl_is_found

    def is_allowed(self, principal: str, host: str, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether a principal at an address may do this with one resource.

        Shape:
            `host` is spelled as by `host_of`. `resource` is literal; its name may be `*`, which means only itself.
        """
        if principal in self._super_users:
            return True
        if self._known.is_closed(resource.resource_type):
            return False
        entries = self._known.entries(resource)
        if not entries:
            return self._allows_everyone

        def is_there(permission: PermissionType, operations: tuple[AclOperation, ...]) -> bool:
            return any(_counts(entry, permission, operations, (principal, host)) for entry in entries)

        deciding = _deciding(operation)
        return not is_there(*deciding[0]) and is_there(*deciding[1])

    def reason(self, principal: str, host: str, operation: AclOperation, resource: ResourcePattern) -> str:
        """Explain the decision of `is_allowed` for the log; an entry is worded as by Kafka."""
        if principal in self._super_users:
            return "super user"
        if self._known.is_closed(resource.resource_type):
            return "ACLs cannot be read"
        bindings = list(self._known.bindings_about(resource))
        if not bindings:
            return "no ACL found"
        for permission, operations in _deciding(operation):
            for pattern, entry in bindings:
                if _counts(entry, permission, operations, (principal, host)):
                    return _worded(pattern, entry)
        return "no ACL allows it"

    def is_allowed_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a principal at an address may do this with at least one resource of this type, existing or not.

        As in Kafka, no other operation implies this one here.
        """
        if principal in self._super_users:
            return True
        if self._known.is_closed(resource_type):
            return False

        def names(permission: PermissionType, pattern_type: PatternType) -> list[set[str]]:
            keys = product((principal, EVERYBODY), (host, WILDCARD), (operation, AclOperation.ALL))
            return self._known.names((AclEntry(*key, permission) for key in keys), resource_type, pattern_type)

        denied, denied_beginnings = names(PermissionType.DENY, _LITERAL), names(PermissionType.DENY, _PREFIXED)
        if _has(denied, WILDCARD):
            return False
        if self._allows_everyone:
            return True

        def is_left(name: str) -> bool:
            return not any(_has(denied_beginnings, name[:end]) for end in range(1, len(name) + 1))

        allowed_beginnings, allowed = names(PermissionType.ALLOW, _PREFIXED), names(PermissionType.ALLOW, _LITERAL)
        return any(is_left(name) for found in allowed_beginnings for name in found) or any(
            name == WILDCARD or (not _has(denied, name) and is_left(name)) for found in allowed for name in found
        )


def _deciding(operation: AclOperation) -> tuple[tuple[PermissionType, tuple[AclOperation, ...]], ...]:
    """The entries that deny an operation, then those that allow it."""
    named = (operation, AclOperation.ALL)
    return (PermissionType.DENY, named), (PermissionType.ALLOW, (*named, *IMPLIED_BY.get(operation, ())))


def _counts(
    entry: AclEntry, permission: PermissionType, operations: tuple[AclOperation, ...], asking: tuple[str, str]
) -> bool:
    return (
        entry.permission is permission
        and entry.operation in operations
        and entry.principal in (asking[0], EVERYBODY)
        and entry.host in (asking[1], WILDCARD)
    )


def _worded(pattern: ResourcePattern, entry: AclEntry) -> str:
    if entry is _CLOSED.entries[0]:
        return "ACLs cannot be read"
    return (
        f"ACL of {pattern.resource_type}:{pattern.pattern_type}:{pattern.name}: {entry.principal} has "
        f"{entry.permission} permission for operations: {entry.operation} from hosts: {entry.host}"
    )


def _has(found: list[set[str]], name: str) -> bool:
    return any(name in names for names in found)
