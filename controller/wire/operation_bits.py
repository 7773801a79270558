"""Which number encodes a caller's permitted operations?

Source: KIP-430.
"""

from __future__ import annotations

from functools import lru_cache

from controller.core.acls.numbers import OPERATION_NUMBERS
from controller.core.messages.replies import Operations

_NOT_ASKED = -(2**31)


@lru_cache(maxsize=1024)
def operation_bits(operations: Operations | None) -> int:
    """A bit for each operation that the caller may do.

    >>> from zk_layout.znodes.acls import AclOperation
    >>> operation_bits((AclOperation.DESCRIBE,)), operation_bits(()), operation_bits(None)
    (256, 0, -2147483648)
    """
    return _NOT_ASKED if operations is None else sum(1 << OPERATION_NUMBERS[operation] for operation in operations)
