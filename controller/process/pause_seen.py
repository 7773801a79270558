"""Which pause of moves does this process know of, and since when?"""

from __future__ import annotations

import time

from msgspec.structs import replace

from controller.core.candidacy.events import HolderSeen
from controller.http.status import Status
from zk_layout.znodes.pause import Pause


class PauseSeen:
    """The last pause that was seen; it counts while ZooKeeper cannot be asked."""

    def __init__(self) -> None:
        """No pause is known."""
        self._pause: Pause | None = None
        self._seen_at = 0.0

    def note(self, seen: HolderSeen | None) -> None:
        """Take in what ZooKeeper shows, None if nothing."""
        if seen is not None and seen.pause != self._pause:
            self._pause, self._seen_at = seen.pause, time.time()

    def shown_in(self, status: Status, *, is_obeyed: bool | None = None) -> Status:
        """The status with this pause; `is_obeyed`: what a machine that leads knows, None without one."""
        pause = self._pause
        is_paused = pause is not None if is_obeyed is None else is_obeyed
        if pause is None:
            return replace(status, is_paused=is_paused)
        by = f"{pause.by} ({pause.reason})" if pause.reason else pause.by
        since = pause.at_ms / 1000 if pause.at_ms else self._seen_at
        return replace(status, is_paused=is_paused, paused_by=by, paused_since=since)
