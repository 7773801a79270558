"""Which entries may be created, in Kafka's words?

Source: Kafka's AclApis.handleCreateAcls, AclAuthorizer.createAcls, AclBinding and AclEntry.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core.acls.numbers import ANY, MATCH, OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from controller.core.clients.authorization import CLUSTER
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import AclCreation, CreateAcls
from zk_layout.znodes.acls import AclEntry, ResourcePattern, ResourceType

WRONG_CLUSTER = Refusal(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
NO_NAME = Refusal(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
NOT_CREATED = Refusal(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
UNEXPECTED = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
NO_PATH = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "ZooKeeper takes no znode of this name; choose another resource name")

_NO_ZNODE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Characters that no ZooKeeper path may contain; beyond the basic plane ZooKeeper sees surrogates."""


def is_senseless(request: CreateAcls) -> bool:
    """Whether an entry is a filter. A broker then refuses the whole request without a message."""
    return any(
        creation.resource_type == ANY
        or creation.pattern_type in (ANY, MATCH)
        or creation.operation == ANY
        or creation.permission == ANY
        for creation in request.creations
    )


def refuse(creation: AclCreation) -> Refusal | None:
    """The reason why an entry can never be created."""
    if RESOURCE_TYPES.get(creation.resource_type) is ResourceType.CLUSTER and creation.name != CLUSTER.name:
        return WRONG_CLUSTER
    if not creation.name:
        return NO_NAME
    is_known = (
        creation.resource_type in RESOURCE_TYPES
        and creation.pattern_type in PATTERN_TYPES
        and creation.operation in OPERATIONS
        and creation.permission in PERMISSIONS
    )
    if not is_known or "/" in creation.name:
        return NOT_CREATED
    return None if is_znode_name(creation.name) else NO_PATH


def is_znode_name(name: str) -> bool:
    """Whether ZooKeeper can have a znode of this name.

    >>> is_znode_name("*"), is_znode_name("a/b"), is_znode_name("..")
    (True, False, False)
    """
    return name not in ("", ".", "..") and "/" not in name and not _NO_ZNODE.search(name)


def resource_of(creation: AclCreation) -> ResourcePattern:
    """The pattern of a valid entry."""
    return ResourcePattern(RESOURCE_TYPES[creation.resource_type], creation.name, PATTERN_TYPES[creation.pattern_type])


def entry_of(creation: AclCreation) -> AclEntry:
    """The entry itself, if it is valid."""
    return AclEntry(creation.principal, creation.host, OPERATIONS[creation.operation], PERMISSIONS[creation.permission])


def is_principal(text: str) -> bool:
    """Whether it has a type and a name. Otherwise a broker can write no entry of the same pattern.

    >>> is_principal("User:"), is_principal("ann")
    (True, False)
    """
    return ":" in text
