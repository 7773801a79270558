"""How does an AlterPartitionReassignments request ask for gentle or forced mode?

In a tagged field of ours, which Kafka's controllers skip unread (KIP-482).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.wire.cursor import Cursor
from controller.wire.packing import COMPACT

MODE: Final = 20000


def mode_of(fields: Mapping[int, bytes]) -> str:
    """The mode among a request's tagged fields, even if it is unknown here; empty if there is none.

    >>> mode_of({20000: b"\\x07gentle"}), mode_of({})
    ('gentle', '')

    Raises:
        Malformed: not text.
    """
    raw = fields.get(MODE)
    if raw is None:
        return ""
    cursor = Cursor(raw, is_flexible=True)
    mode = cursor.string("mode")
    cursor.finish()
    return mode


def mode_field(mode: str) -> dict[int, bytes]:
    """The field with a mode, if there is one.

    >>> mode_field("gentle"), mode_field("")
    ({20000: b'\\x07gentle'}, {})
    """
    return {MODE: COMPACT.string(mode)} if mode else {}
