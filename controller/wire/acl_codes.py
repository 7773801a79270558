"""Which number stands for an operation on a resource?

Source: Kafka's AclOperation; KIP-430 for the bits.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType

from controller.core.replies import Operations
from zk_layout.znodes.acls import AclOperation

OPERATION_CODES: MappingProxyType[AclOperation, int] = MappingProxyType(
    {
        AclOperation.UNKNOWN: 0,
        AclOperation.ALL: 2,
        AclOperation.READ: 3,
        AclOperation.WRITE: 4,
        AclOperation.CREATE: 5,
        AclOperation.DELETE: 6,
        AclOperation.ALTER: 7,
        AclOperation.DESCRIBE: 8,
        AclOperation.CLUSTER_ACTION: 9,
        AclOperation.DESCRIBE_CONFIGS: 10,
        AclOperation.ALTER_CONFIGS: 11,
        AclOperation.IDEMPOTENT_WRITE: 12,
        AclOperation.CREATE_TOKENS: 13,
        AclOperation.DESCRIBE_TOKENS: 14,
    }
)
"""One, any operation, is only used to look for some."""

_NOT_ASKED = -(2**31)


@lru_cache(maxsize=1024)
def operation_bits(operations: Operations | None) -> int:
    """What a caller may do, a bit for each operation.

    >>> operation_bits((AclOperation.DESCRIBE,)), operation_bits(()), operation_bits(None)
    (256, 0, -2147483648)
    """
    return _NOT_ASKED if operations is None else sum(1 << OPERATION_CODES[operation] for operation in operations)
