"""Unreadable znodes: which cannot be read, and what becomes of them?"""

from __future__ import annotations

from controller.core.duty import Duty
from controller.core.outbox import Outbox
from controller.core.shared import Shared
from controller.core.state.changes import Changes


class UnreadableZnodes(Duty):
    """Each version of a znode that cannot be read is named once."""

    def __init__(self, shared: Shared) -> None:
        """The facts tell."""
        self._shared = shared

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Say which, and why."""
        for path, reason in changes.malformed:
            out.notice("malformed znode", f"{path}: {reason}")
