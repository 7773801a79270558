"""May one more move begin that copies nothing, where only so many changes a second are allowed?

Such a move reorders replicas or removes some. It takes no room for long, but all brokers must hear of it.
"""

from __future__ import annotations

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.quotas.token_bucket import TokenBucket
from controller.core.reassignment.places import CHANGES, NOWHERE, Place, Places
from controller.core.turn.shared import Shared

NEXT_CHANGE = Place(CHANGES)


class ChangesAllowed(Alarm, frozen=True):
    """A second's worth of changes is allowed again."""


class Rate:
    """The changes of one term. Once they are used up, a second's worth is allowed together: those of one topic share
    the writes of its znode.
    """

    def __init__(self, shared: Shared) -> None:
        """Begin with a second's worth."""
        self._shared = shared
        self._bucket: TokenBucket | None = None
        self._is_alarm_set = False
        self.are_used_up = False

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._shared.settings.changes_a_second is not None

    def before(self) -> Places:
        """What a move that copies nothing must wait for."""
        return (NEXT_CHANGE,) if self.is_limited else NOWHERE

    def adjust(self) -> None:
        """Begin again with the changed limit."""
        self._bucket, self.are_used_up = None, False

    def take(self) -> None:
        """One begins."""
        rate = self._shared.settings.changes_a_second
        if rate is not None and self._bucket is not None:
            self.are_used_up |= self._bucket.take(1, rate, rate, self._bucket.used_ms) < 1

    def look(self, out: Outbox) -> None:
        """Look at the clock, and have it looked at again when more are allowed."""
        rate, now_ms = self._shared.settings.changes_a_second, round(out.now * 1000)
        if rate is None:
            return
        if self._bucket is None:
            self._bucket = TokenBucket(rate, now_ms)
        left = self._bucket.take(0, rate, rate, now_ms)
        if self.are_used_up and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(ChangesAllowed(), out.now + (rate - left) / rate + 0.001)

    def woke(self) -> None:
        """The alarm rang."""
        self._is_alarm_set = self.are_used_up = False
