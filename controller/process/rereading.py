"""Which settings are in force, and what happens when the operator has the configuration read again?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from controller.runtime.supervision import Troubles, reason_of
from controller.settings import BadSettings, Settings
from controller.settings.rereading import Change, reread
from controller.settings.values import HIDDEN

PART: Final = "reading the settings again"
REFUSED: Final = "the configuration cannot be used"

_log = structlog.get_logger(__name__)


class SettingsInForce:
    """The settings of a process. They follow its configuration each time that is asked for, as far as they can without
    a restart."""

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        adopt: Callable[[Settings], Awaitable[None]],
        troubles: Troubles,
    ) -> None:
        """`read` is called in a thread, and raises BadSettings; `adopt` lets other settings count."""
        self.settings = settings
        self.pending: tuple[str, ...] = ()
        """A sentence for each setting that waits for a restart."""
        self._read = read
        self._adopt = adopt
        self._troubles = troubles
        self._asked = asyncio.Event()
        troubles.expect(PART)

    def read_again(self) -> None:
        """Read the configuration soon; asked for several times at once, it is read once."""
        self._asked.set()

    async def keep(self) -> None:
        """Read it whenever that is asked for, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.follow()

    async def follow(self) -> None:
        """Read it, and let it count as far as it can. One that cannot be used changes nothing."""
        try:
            await self._take(await asyncio.to_thread(self._read))
        except BadSettings as error:
            self._refuse(error.problems)
        except Exception as error:  # whatever it is, the process goes on
            self._troubles.wrong(PART, "the settings cannot be followed", reason_of(error), error)

    def _refuse(self, problems: Iterable[str]) -> None:
        """Say what is wrong each time: an operator who asked wants to hear."""
        self._troubles.note(PART, REFUSED, "; ".join(problems))
        _log.error(
            f"{REFUSED}: all settings stay in force as they are",
            problems=list(problems),
            hint="correct it, and send SIGHUP again; the process would not start with it either",
        )

    async def _take(self, written: Settings) -> None:
        found = reread(self.settings, written)
        if found.changed:
            await self._adopt(found.settings)
        self.settings = found.settings
        pending = tuple(map(waiting, found.pending))
        _log.info("settings read again", changed=list(map(_counting, found.changed)), pending=len(pending))
        if pending and pending != self.pending:
            _log.warning("settings wait for a restart", pending=list(pending), hint="restart this replica")
        self.pending = pending
        self._troubles.right(PART)


def _counting(change: Change) -> str:
    if change.before == change.now:
        return f"{change.key} has another value now, which is not shown"
    return f"{change.key} is {change.now} now, and was {change.before}"


def waiting(change: Change) -> str:
    """One sentence about a setting that waits for a restart.

    >>> waiting(Change("zookeeper.session.timeout.ms", "18000", "30000"))
    'zookeeper.session.timeout.ms is 30000 in the configuration; 18000 is in force until a restart'
    """
    if change.before == change.now:
        hidden = "" if change.now == HIDDEN else f" behind {change.now}"
        return f"{change.key} has another value{hidden} in the configuration, which counts after a restart"
    return f"{change.key} is {change.now} in the configuration; {change.before} is in force until a restart"
