"""Which entries of rights does a filter match?

Source: Kafka's ResourcePatternFilter and AccessControlEntryFilter; KIP-140, KIP-290.
"""

from __future__ import annotations

from controller.core.acl_authorizer import WILDCARD
from controller.core.acls.numbers import ANY, MATCH, OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from controller.core.messages.requests import AclFilter
from zk_layout.znodes.acls import AclEntry, AclOperation, PatternType, PermissionType, ResourcePattern


def matches_resource(wanted: AclFilter, resource: ResourcePattern) -> bool:
    """Whether a filter matches this pattern. `MATCH` finds every pattern that applies to a resource of its name.

    >>> orders = AclFilter(ANY, "orders", MATCH, None, None, ANY, ANY)
    >>> from zk_layout.znodes.acls import ResourceType
    >>> matches_resource(orders, ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED))
    True
    """
    if wanted.resource_type != ANY and RESOURCE_TYPES.get(wanted.resource_type) is not resource.resource_type:
        return False
    is_exact = PATTERN_TYPES.get(wanted.pattern_type) is resource.pattern_type
    if wanted.pattern_type not in (ANY, MATCH) and not is_exact:
        return False
    if wanted.name is None:
        return True
    if wanted.pattern_type == ANY or is_exact:
        return wanted.name == resource.name
    if resource.pattern_type is PatternType.LITERAL:
        return resource.name in (wanted.name, WILDCARD)
    return wanted.name.startswith(resource.name)


def matches_entry(wanted: AclFilter, entry: AclEntry) -> bool:
    """Whether a filter matches this entry; one for something unknown finds what is unknown here."""
    return (
        wanted.principal in (None, entry.principal)
        and wanted.host in (None, entry.host)
        and (wanted.operation == ANY or OPERATIONS.get(wanted.operation, AclOperation.UNKNOWN) is entry.operation)
        and (wanted.permission == ANY or PERMISSIONS.get(wanted.permission, PermissionType.UNKNOWN) is entry.permission)
    )


def named(wanted: AclFilter) -> tuple[ResourcePattern, ...] | None:
    """The only patterns that a filter can match; None if any known pattern may.

    >>> named(AclFilter(4, "kafka-cluster", ANY, None, None, ANY, ANY))[1].pattern_type.name
    'PREFIXED'
    """
    if wanted.pattern_type != ANY and wanted.pattern_type not in PATTERN_TYPES:
        return () if wanted.pattern_type != MATCH else None
    if wanted.resource_type == ANY or wanted.name is None:
        return None
    resource_type = RESOURCE_TYPES.get(wanted.resource_type)
    if resource_type is None:
        return ()
    types = tuple(PatternType) if wanted.pattern_type == ANY else (PATTERN_TYPES[wanted.pattern_type],)
    return tuple(ResourcePattern(resource_type, wanted.name, pattern_type) for pattern_type in types)
