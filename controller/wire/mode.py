"""How does an AlterPartitionReassignments request say that it is meant gently, or is forced?

In a tagged field of ours, which Kafka's controllers skip unread (KIP-482).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.wire.cursor import Cursor
from controller.wire.packing import COMPACT

MODE: Final = 20000


def mode_of(fields: Mapping[int, bytes]) -> str:
    """The mode among a request's tagged fields, be it one we know or not; empty where there is none.

    >>> mode_of({20000: b"\\x07gentle"}), mode_of({})
    ('gentle', '')

    Raises:
        Malformed: no text.
    """
    raw = fields.get(MODE)
    if raw is None:
        return ""
    cursor = Cursor(raw, is_flexible=True)
    mode = cursor.string("mode")
    cursor.finish()
    return mode


def mode_field(mode: str) -> dict[int, bytes]:
    """The field with a mode, where there is one.

    >>> mode_field("gentle"), mode_field("")
    ({20000: b'\\x07gentle'}, {})
    """
    return {MODE: COMPACT.string(mode)} if mode else {}
