"""Which znodes cannot be read, and when are they read again?

An unreadable znode affects only what depends on it. Its repair may go unnoticed: a change of rights triggers no watch,
and a partition's state is not watched.
"""

from __future__ import annotations

from controller.core.messages.effects import ReadAgain
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.transactions.back_off import doubled_s
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.znodes.pause import PauseAddress

NAMED_AT_ONCE = 50
READ_AT_ONCE = 1_000
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class LookAgain(Alarm, frozen=True):
    """The unreadable znodes may be readable by now."""


class UnreadableZnodes(Duty):
    """Logs each one once: every version of a malformed znode, and a refused one once until it can be read."""

    alarms = (LookAgain,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._unreadable = shared.state.unreadable
        self._tries = 0
        self._is_alarm_set = False
        self._read_last = ""

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Log new ones with their reasons."""
        for path, reason in changes.malformed[:NAMED_AT_ONCE]:
            out.notice("malformed znode", f"{path}: {reason}")
        for path, reason in changes.refused[:NAMED_AT_ONCE]:
            fate = "it is ignored until this controller may read it"
            if path == PauseAddress.path:
                fate = "it exists, so no move begins until it is deleted: `kafka-zk-controller resume`"
            out.notice("unreadable znode", f"{reason}; {fate}")
        more = sum(max(0, len(met) - NAMED_AT_ONCE) for met in (changes.malformed, changes.refused))
        if more > 0:
            out.notice("unreadable znode", f"{more} more znodes cannot be read")
        self._set_alarm(out)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Read those again that have waited longest, less often the longer it lasts."""
        self._is_alarm_set = False
        paths = [*self._unreadable.refusals, *self._unreadable.malformed]
        if not paths:
            self._tries = 0
            return
        start = paths.index(self._read_last) + 1 if self._read_last in paths else 0
        turn = (paths[start:] + paths[:start])[:READ_AT_ONCE]
        self._read_last = turn[-1]
        self._tries += 1
        out.add(ReadAgain(tuple(turn)))
        self._set_alarm(out)

    def _set_alarm(self, out: Outbox) -> None:
        if not self._is_alarm_set and (self._unreadable.refusals or self._unreadable.malformed):
            self._is_alarm_set = True
            out.wake(LookAgain(), out.now + doubled_s(self._tries + 1, FIRST_WAIT_S, LONGEST_WAIT_S))

    def figures(self) -> dict[str, float]:
        """The number of unreadable znodes."""
        return {"unreadable_znodes": len({*self._unreadable.refusals, *self._unreadable.malformed})}
