"""How does a standby find out that the leader is dead, before its session ends?

The challenger decides; here its orders are carried out, in ZooKeeper and by the candidacy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, assert_never

import structlog

from controller.core.candidacy.challenger import (
    Answered,
    Challenger,
    ChallengerEvent,
    Gone,
    HungUp,
    Made,
    Make,
    NotMade,
    Outcome,
    Replace,
    Replaced,
    RingAt,
    Rung,
    Settled,
    Sign,
    Suspect,
    Sync,
    Synced,
    Unheard,
    Unsynced,
    Watches,
    Withdraw,
)
from controller.core.candidacy.events import Unanswered
from controller.core.candidacy.orders import Say
from controller.process.lifetime import Alarm
from controller.runtime.supervision import Troubles, supervised
from controller.settings.claiming import ClaimSettings
from controller.zk import challenging
from controller.zk.answers import Change, Disconnected, Refused, SessionEnded, WatchEvent
from controller.zk.bridge import Bridge
from zk_layout.ids import BrokerId
from zk_layout.znodes.challenge import ChallengeAddress

EVERY_S: Final = 0.2
SOON_S: Final = 0.05
"""After a missing sign of life or a lost connection, unless there were many in a row."""
MANY: Final = 5
SETTLED_S: Final = 3.0
"""After ZooKeeper was away, the leader may find it again so much later than this process."""
AGAIN_AFTER_S: Final = 1.0
PART = "watching the leader"

_log = structlog.get_logger(__name__)


class Pulse(Protocol):
    """Asks the leader for a sign of life: `controller.process.leader_pulse`."""

    async def ask(self, leader: BrokerId) -> Sign | None:
        """Whether the leader answers within a moment; None if there is no way to ask it."""

    async def hangs_up_within(self, time_s: float) -> bool:
        """Wait until the leader closes the connection over which it answered, but no longer; return whether it has."""

    def close(self) -> None:
        """Close what is open."""


class Election(Protocol):
    """The part of the process that may claim."""

    @property
    def suspect(self) -> Suspect | None:
        """The leader that this replica may replace; None if there is none."""

    def replace(self, unanswered: Unanswered) -> bool:
        """Claim instead of the leader; False if this replica must not, after all. `LeaderWatch.settled` follows."""


class LeaderWatch:
    """Watches the leader for as long as the process stands by, unless `challenge_timeout_s` is 0."""

    def __init__(
        self,
        settings: ClaimSettings,
        bridge: Callable[[], Bridge],
        pulse: Pulse,
        election: Election,
        count: Callable[[str], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper; `count` gets the outcome of each challenge."""
        self._own_id = settings.own_id
        self._is_on = settings.challenge_timeout_s > 0
        self._challenger = Challenger(settings.challenge_timeout_s)
        self._bridge = bridge
        self._pulse = pulse
        self._election = election
        self._count = count
        self._troubles = troubles or Troubles()
        self._alarm = Alarm()
        self._work: asyncio.Queue[Make | Withdraw] = asyncio.Queue()
        self._syncing: asyncio.Task[None] | None = None

    async def keep(self) -> None:
        """Watch until cancelled."""
        if not self._is_on:
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                for live in (self._listen, self._carry_out):
                    tasks.create_task(supervised(PART, live, self._troubles, again_after_s=AGAIN_AFTER_S))
        finally:
            self._alarm.cancel()
            self._pulse.close()

    def look(self) -> None:
        """Note that this replica may have begun, or ceased, to stand by for another leader."""
        if self._is_on:
            self._feed(Watches(self._election.suspect))

    def settled(self, *, is_won: bool) -> None:
        """Note the outcome of the claim."""
        self._feed(Settled(is_won))

    def replaced(self) -> None:
        """Note that this process led and was replaced after a challenge, although it lives."""
        self._feed(Replaced())

    async def _listen(self) -> None:
        missing = 0  # until a connection lasts: one that ends at once each time is not opened more often than others
        while True:
            self.look()
            suspect = self._election.suspect
            sign = None if suspect is None else await self._pulse.ask(suspect.broker)
            self._note(sign, suspect)
            if not isinstance(sign, Unheard | HungUp):
                if not await self._pulse.hangs_up_within(EVERY_S):
                    missing = 0
                    continue
                self._note(HungUp(), suspect)
            missing += 1
            await asyncio.sleep(SOON_S if missing < MANY else EVERY_S)

    def _note(self, sign: Sign | None, suspect: Suspect | None) -> None:
        """Take what was seen of a suspect, unless another leads now."""
        if sign is not None and suspect is not None and suspect == self._election.suspect:
            self._feed(sign)

    def _feed(self, event: ChallengerEvent) -> None:
        for order in self._challenger.step(event, asyncio.get_running_loop().time()):
            match order:
                case Say(severity, text, details):
                    _log.log(severity, text, **details)
                case Make() | Withdraw():
                    self._work.put_nowait(order)
                case Sync():
                    if self._syncing is not None:
                        self._syncing.cancel()  # it was asked for an earlier challenge
                    self._syncing = asyncio.create_task(self._sync())
                case RingAt(at):
                    self._alarm.ring(at, lambda: self._feed(Rung()))
                case Outcome(result):
                    self._count(result)
                case Replace(challenge):
                    if not self._election.replace(challenge):
                        self._feed(Settled(is_won=False))
                case _:
                    assert_never(order)

    async def _carry_out(self) -> None:
        """One thing after another, so that what is withdrawn is never a later challenge."""
        while True:
            match await self._work.get():
                case Make(suspect):
                    self._feed(await self._make(suspect))
                case Withdraw():
                    await self._withdraw()

    async def _make(self, suspect: Suspect) -> Made | NotMade:
        bridge = self._bridge()
        if bridge.open_for_s < SETTLED_S:
            return NotMade("ZooKeeper was away a moment ago")
        if self._on_watch not in bridge.watch_listeners:
            bridge.watch_listeners.append(self._on_watch)
        try:
            made = await challenging.make(bridge, suspect, self._own_id)
        except SessionEnded:
            return NotMade("the ZooKeeper session has ended")
        except Disconnected:
            await self._withdraw()
            return NotMade("ZooKeeper does not answer")
        except Refused as error:
            return NotMade(str(error))
        except Exception as error:
            _log.exception("the leader could not be challenged")
            await self._withdraw()
            return NotMade(f"{type(error).__name__}: {error}")
        return NotMade(made, made == challenging.ANSWERED) if isinstance(made, str) else Made(made)

    async def _withdraw(self) -> None:
        """Remove our challenge, however long ZooKeeper is away: it keeps others from challenging."""
        while True:
            try:
                await challenging.withdraw(self._bridge())
            except Disconnected:
                await asyncio.sleep(SOON_S)  # the next attempt waits for the connection
            except SessionEnded:
                return
            except Refused as error:
                _log.warning("a challenge could not be removed; it goes with the session", reason=str(error))
                return
            else:
                return

    async def _sync(self) -> None:
        try:
            await challenging.sync(self._bridge())
        except (Disconnected, SessionEnded):
            self._feed(Unsynced())
        else:
            self._feed(Synced())

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path == ChallengeAddress.path and event.change is Change.CHANGED:
            self._feed(Answered())
        elif event.path == ChallengeAddress.path and event.change is Change.DELETED:
            self._feed(Gone())
