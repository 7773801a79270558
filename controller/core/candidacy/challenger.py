"""Does the leader still live, and if not, since when may it be replaced?

A standby asks the leader for a sign of life all the time. If none comes, or the leader hangs up, the standby challenges
it through ZooKeeper, and a leader that answers there stays. One that does not answer in time is replaced while its
session still lives. Pure: events come in with the time as an argument; orders go out.

Safety does not rest on this: the claim is fenced, and it fails if the leader has answered. This keeps a living leader
from being replaced for nothing. So time counts only while ZooKeeper answers this process quickly.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, assert_never

from msgspec import Struct

from controller.core.candidacy.events import HolderSeen, Unanswered
from controller.core.candidacy.orders import Say, Severity
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.znodes.controller import ControllerClaim

LASTING_S: Final = 0.1
"""Silence for less proves nothing."""
PARTS: Final = 4
"""ZooKeeper must answer within this fraction of the time-out."""
AGAIN_S: Final = 0.5
SHORTEST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
PATIENT_FOR_S: Final = 60.0
MOST_PATIENCE: Final = 16


class Suspect(Struct, frozen=True):
    """A leader of ours that this replica may replace, and its controller epoch."""

    broker: BrokerId
    epoch: ControllerEpoch


def suspect_of(seen: HolderSeen) -> Suspect | None:
    """The leader, if it is another replica of ours; None for a native controller, KRaft's, and this replica itself."""
    holder = seen.holder
    if not isinstance(holder, ControllerClaim) or not holder.is_ours or holder.kraft_epoch is not None or seen.is_mine:
        return None
    return Suspect(holder.broker, seen.epoch)


class Watches(Struct, frozen=True):
    """The leader that this replica may replace now; None while it may replace none."""

    suspect: Suspect | None


class Heard(Struct, frozen=True):
    """The leader has given a sign of life.

    `is_reopened`: over a new connection, after one was lost. Another process may answer there: the leader's, which was
    started again, and does not lead.
    """

    is_reopened: bool = False


class Unheard(Struct, frozen=True):
    """The leader was asked for a sign of life and gave none: silence, or no connection."""


class HungUp(Struct, frozen=True):
    """The leader's end of the connection over which it answered was closed: by its death, or something in between."""


Sign = Heard | Unheard | HungUp
"""What a standby sees of the leader, without ZooKeeper."""


class Made(Struct, frozen=True):
    """Our challenge stands in ZooKeeper, unanswered."""

    challenge: Unanswered


class NotMade(Struct, frozen=True):
    """There is no challenge of ours, and why; `has_answered`: the leader was quicker than the look at it."""

    reason: str
    has_answered: bool = False


class Synced(Struct, frozen=True):
    """ZooKeeper has answered the `Sync` that was ordered."""


class Unsynced(Struct, frozen=True):
    """ZooKeeper was lost before it answered."""


class Answered(Struct, frozen=True):
    """The leader has answered the challenge."""


class Gone(Struct, frozen=True):
    """The challenge has gone, and this process did not remove it."""


class Settled(Struct, frozen=True):
    """What became of the claim."""

    is_won: bool


class Replaced(Struct, frozen=True):
    """This process led, lives, and was replaced after a challenge."""


class Rung(Struct, frozen=True):
    """The time of the last `RingAt` has come."""


ChallengerEvent = Watches | Sign | Made | NotMade | Synced | Unsynced | Answered | Gone | Settled | Replaced | Rung


class Make(Struct, frozen=True):
    """Challenge this leader; `Made` or `NotMade` must follow."""

    suspect: Suspect


class Sync(Struct, frozen=True):
    """Ask ZooKeeper for anything that goes as far as a write; `Synced` or `Unsynced` must follow.

    That of an earlier order must not follow any more.
    """


class Withdraw(Struct, frozen=True):
    """Remove our challenge."""


class Replace(Struct, frozen=True):
    """Claim instead of this leader; `Settled` must follow."""

    challenge: Unanswered


class RingAt(Struct, frozen=True):
    """Send `Rung` at this time. Replaces the previous `RingAt`."""

    at: float


class Outcome(Struct, frozen=True):
    """A challenge is over; `result` is one of `OUTCOMES`."""

    result: str


OUTCOMES: Final = ("answered", "replaced", "refused", "withdrawn")
ChallengerOrder = Make | Sync | Withdraw | Replace | RingAt | Outcome | Say


class _Stage(Enum):
    QUIET = auto()
    MAKING = auto()
    WAITING = auto()
    CLAIMING = auto()


class Challenger:
    """What one standby knows of the leader's life.

    Units:
        `timeout_s`: how long a leader may leave a challenge unanswered.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._orders: list[ChallengerOrder] = []
        self._stage = _Stage.QUIET
        self._suspect: Suspect | None = None
        self._unheard_since: float | None = None
        self._is_doubtful = False  # true from the end of a connection to the leader until it answers a challenge
        self._has_hung_up = False  # so that the next connection raises no second doubt
        self._challenge: Unanswered | None = None
        self._since = 0.0  # from when the time-out counts
        self._asked_at: float | None = None  # when the sync in flight was sent
        self._sync_at = 0.0
        self._not_before = 0.0
        self._pause_s = 0.0
        self._patience, self._patient_until = 1, 0.0
        self._said = ""

    def step(self, event: ChallengerEvent, now: float) -> list[ChallengerOrder]:
        """Return the orders that follow, in order.

        Units:
            `now` is in seconds of a monotonic clock.
        """
        self._orders = []
        match event:
            case Watches(suspect):
                self._watches(suspect)
            case Heard(is_reopened):
                self._heard(now, is_reopened=is_reopened)
            case Unheard():
                self._unheard(now)
            case HungUp():
                self._hung_up(now)
            case Made() | NotMade():
                self._made(event, now)
            case Synced() | Unsynced() | Rung():
                self._counts(event, now)
            case Answered() | Gone():
                self._ended(event, now)
            case Settled(is_won):
                self._settled(now, is_won=is_won)
            case Replaced():
                self._be_patient(now)
            case _:
                assert_never(event)
        return self._orders

    def timeout_s(self, now: float) -> float:
        """How long a leader may be silent now: twice as long for a minute after a change of leader by a challenge in
        which this process took part, and twice that after another one in that time."""
        return self._timeout_s * (self._patience if now < self._patient_until else 1)

    def _watches(self, suspect: Suspect | None) -> None:
        if suspect == self._suspect:
            return
        self._suspect, self._unheard_since, self._is_doubtful, self._has_hung_up = suspect, None, False, False
        if self._stage is _Stage.WAITING:
            self._withdraw()

    def _heard(self, now: float, *, is_reopened: bool) -> None:
        self._is_doubtful |= is_reopened and not self._has_hung_up and self._suspect is not None
        self._has_hung_up, self._unheard_since = False, None
        if self._is_doubtful:
            self._challenge_now(now)
            return
        if not is_reopened:
            self._pause_s, self._not_before = 0.0, min(self._not_before, now + SHORTEST_PAUSE_S)
        if self._stage is _Stage.WAITING:
            self._withdraw()

    def _unheard(self, now: float) -> None:
        self._has_hung_up = False
        if self._suspect is None:
            return
        if self._unheard_since is None:
            self._unheard_since = now
        if self._is_doubtful or now - self._unheard_since >= LASTING_S:
            self._challenge_now(now)

    def _hung_up(self, now: float) -> None:
        if self._suspect is not None:
            self._is_doubtful = self._has_hung_up = True
            self._challenge_now(now)

    def _challenge_now(self, now: float) -> None:
        if self._suspect is not None and self._stage is _Stage.QUIET and now >= self._not_before:
            self._stage = _Stage.MAKING
            self._orders.append(Make(self._suspect))

    def _made(self, event: Made | NotMade, now: float) -> None:
        if self._stage is not _Stage.MAKING:
            return
        match event:
            case NotMade(reason, has_answered):
                self._stage, self._not_before = _Stage.QUIET, now + AGAIN_S
                if has_answered:
                    self._is_doubtful = False
                    self._pause(now)
                if reason != self._said:
                    self._said = reason
                    self._say(Severity.INFO, "the leader may be dead, and is not challenged", reason=reason)
            case Made(challenge):
                self._said = ""
                self._challenge, self._since, self._asked_at = challenge, now, None
                self._stage = _Stage.WAITING
                is_in_doubt = self._is_doubtful or self._unheard_since is not None
                if not is_in_doubt or self._suspect is None or self._suspect.epoch != challenge.epoch:
                    self._withdraw()
                    return
                what = "gives no sign of life" if self._unheard_since is not None else "has hung up"
                self._say(Severity.WARNING, f"the leader {what}; challenging it", **self._whom())
                self._sync(now)
            case _:
                assert_never(event)

    def _counts(self, event: Synced | Unsynced | Rung, now: float) -> None:
        """Let the time-out pass, and act at its end, once ZooKeeper has answered quickly until then."""
        if self._stage is not _Stage.WAITING:
            return
        if isinstance(event, Rung):
            if self._asked_at is None and now >= self._sync_at:
                self._begin_again_if_slow(self._sync_at, now)  # this process stood still, and perhaps all others
                self._sync(now)
            return
        asked_at, self._asked_at = self._asked_at, None
        if isinstance(event, Unsynced):
            self._withdraw()
            return
        if asked_at is None:
            return
        self._begin_again_if_slow(asked_at, now)
        deadline = self._since + self.timeout_s(now)
        if asked_at >= deadline and self._challenge is not None:
            self._stage = _Stage.CLAIMING
            self._say(Severity.WARNING, "the leader does not answer; replacing it", **self._whom())
            self._orders.append(Replace(self._challenge))
            return
        self._sync_at = min(now + self._timeout_s / PARTS, max(deadline, now))
        self._orders.append(RingAt(self._sync_at))

    def _begin_again_if_slow(self, due: float, now: float) -> None:
        """If something that should be done at once was not, the leader may have had no chance to answer until now."""
        if now - due > self._timeout_s / PARTS:
            self._since = now

    def _sync(self, now: float) -> None:
        self._asked_at = now
        self._orders.append(Sync())

    def _ended(self, event: Answered | Gone, now: float) -> None:
        if self._stage is not _Stage.WAITING:
            return
        if isinstance(event, Gone):
            self._withdraw()
            self._not_before = now + AGAIN_S
            return
        self._is_doubtful = False
        self._pause(now)
        if self._unheard_since is not None:
            text = "the leader answers in ZooKeeper, though it gives this process no sign of life"
            self._say(Severity.WARNING, text, again_in_s=f"{self._pause_s:g}", **self._whom())
        self._over("answered")
        self._orders.append(Withdraw())

    def _settled(self, now: float, *, is_won: bool) -> None:
        if self._stage is not _Stage.CLAIMING:
            return
        if is_won:
            self._be_patient(now)
            self._over("replaced")
            return
        self._pause(now)
        self._over("refused")
        self._orders.append(Withdraw())

    def _withdraw(self) -> None:
        self._over("withdrawn")
        self._orders.append(Withdraw())

    def _over(self, result: str) -> None:
        self._stage, self._challenge = _Stage.QUIET, None
        self._orders.append(Outcome(result))

    def _pause(self, now: float) -> None:
        """Challenge not so soon again; longer each time until the leader gives a sign of life."""
        self._pause_s = min(2 * self._pause_s or SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self._not_before = now + self._pause_s

    def _be_patient(self, now: float) -> None:
        before = self._patience if now < self._patient_until else 1
        self._patience = min(2 * before, MOST_PATIENCE)
        self._patient_until = now + PATIENT_FOR_S

    def _whom(self) -> dict[str, str]:
        return {} if self._suspect is None else {"leader": str(self._suspect.broker)}

    def _say(self, severity: Severity, text: str, **details: str) -> None:
        self._orders.append(Say(severity, text, details))
