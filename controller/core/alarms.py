"""Which alarm belongs to no duty?"""

from __future__ import annotations

from controller.core.events import Alarm


class Again(Alarm, frozen=True):
    """There is more to decide than one turn may take: take another one."""
