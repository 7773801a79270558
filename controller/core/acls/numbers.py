"""Which numbers does the Kafka protocol use for resource types, pattern types, operations and permissions?

0 is unknown and 1 any; a number missing here belongs to a later Kafka, and counts as unknown.

Source: Kafka's ResourceType, PatternType, AclOperation and AclPermissionType.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from zk_layout.znodes.acls import AclOperation, PatternType, PermissionType, ResourceType

UNKNOWN: Final = 0
ANY: Final = 1
MATCH: Final = 2

RESOURCE_TYPES: MappingProxyType[int, ResourceType] = MappingProxyType(dict(enumerate(ResourceType, 2)))
PATTERN_TYPES: MappingProxyType[int, PatternType] = MappingProxyType(dict(enumerate(PatternType, 3)))
OPERATIONS: MappingProxyType[int, AclOperation] = MappingProxyType(
    dict(enumerate((operation for operation in AclOperation if operation is not AclOperation.UNKNOWN), 2))
)
PERMISSIONS: MappingProxyType[int, PermissionType] = MappingProxyType({2: PermissionType.DENY, 3: PermissionType.ALLOW})

RESOURCE_TYPE_NUMBERS: Final = {value: number for number, value in RESOURCE_TYPES.items()}
PATTERN_TYPE_NUMBERS: Final = {value: number for number, value in PATTERN_TYPES.items()}
OPERATION_NUMBERS: Final = {value: number for number, value in OPERATIONS.items()}
PERMISSION_NUMBERS: Final = {value: number for number, value in PERMISSIONS.items()}
