"""May moves begin at this time of the week?"""

from __future__ import annotations

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.places import HOURS, Place, Places
from controller.core.turn.shared import Shared
from controller.core.windows import LOOKED_AHEAD_DAYS, is_open, next_change

IN_HOURS = Place(HOURS)
LOOK_AGAIN_S = (LOOKED_AHEAD_DAYS - 1) * 24 * 60 * 60


class HoursChange(Alarm, frozen=True):
    """A window for moves opens or shuts."""


class Hours:
    """The windows of the settings, by the wall clock."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._clock_zero_ms = shared.settings.clock_zero_ms
        self.are_shut = bool(shared.settings.moves_windows)

    @property
    def are_set(self) -> bool:
        """Whether moves may begin only at some times."""
        return bool(self._shared.settings.moves_windows)

    def show(self, unix_ms: int, out: Outbox) -> None:
        """Take in the time of the wall clock, which may have been set."""
        self._clock_zero_ms = unix_ms - round(out.now * 1000)
        self.look(out)

    def now_ms(self, now: float) -> int:
        """The Unix time when the machine's clock shows `now`."""
        return self._clock_zero_ms + round(now * 1000)

    def look(self, out: Outbox) -> None:
        """Look at the clock, and have it looked at again when this will change."""
        windows = self._shared.settings.moves_windows
        if not windows:
            self.are_shut = False
            return
        now_ms = self.now_ms(out.now)
        self.are_shut = not is_open(windows, now_ms // 1000)
        change_s = next_change(windows, now_ms // 1000)
        left_s = LOOK_AGAIN_S if change_s is None else change_s - now_ms / 1000
        out.wake(HoursChange(), out.now + left_s + 0.001)

    def before(self) -> Places:
        """What a move that copies must wait for."""
        return (IN_HOURS,) if self.are_set else ()
