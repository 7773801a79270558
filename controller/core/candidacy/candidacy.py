"""What does a replica do next to become, remain or cease to be the controller?

Pure: events come in with the time as an argument; orders go out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from controller.core.candidacy import orders
from controller.core.candidacy.challenged import Challenges
from controller.core.candidacy.challenger import Suspect, suspect_of
from controller.core.candidacy.events import (
    ChallengeAnswered,
    Challenged,
    ChallengeEvent,
    Claimed,
    ClaimFailed,
    ClaimOutcome,
    Event,
    HolderSeen,
    HolderUnknown,
    IdClash,
    Lost,
    NotGivenUp,
    ProtocolChanged,
    Reconnected,
    Resumed,
    SessionEvent,
    SessionLost,
    StartEvent,
    StartRefused,
    StopAsked,
    Suspended,
    TakeOverChosen,
    TermDrained,
    TermEvent,
    TermFailed,
    TermLoaded,
    TermSessionEnded,
    TermSurpassed,
    Unanswered,
    Unreachable,
    Unsound,
    Watching,
    Woken,
)
from controller.core.candidacy.holder import KnownHolder, is_native, named, why_waiting
from controller.core.candidacy.pauses import Pauses
from controller.core.candidacy.phases import GONE, IN_TERM, NO_CLAIM, SILENT, STARTING, WATCHING, Phase, TakeOver, Why
from zk_layout.bounds import HIGHEST_SURPASSED_EPOCH
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes.controller import ControllerClaim

OK, FAILED = 0, 1

OVERTAKING = 1000  # epochs at once, so that few terms are enough to pass whatever brokers remember


class CandidacySettings(Struct, frozen=True):
    """The ZooKeeper session timeout, and which controllers the replica may replace."""

    take_over: TakeOver
    session_timeout_s: float


class Candidacy:
    """One replica's candidacy, from the start of its process to the end."""

    def __init__(self, settings: CandidacySettings) -> None:
        self.phase = Phase.STANDBY
        self._known = KnownHolder(STARTING)
        self._settings = settings
        self._orders: list[orders.Order] = []
        self._is_watching = False
        self._unsound: str | None = None
        self._renewal: str | None = None  # why another term must follow this one
        self._is_session_new = False  # true once the session ended after the claim was ordered
        self._give_up_at: float | None = None  # when to release a leftover claim and registration
        self._stop: str | None = None
        self._why = STARTING
        self._epoch = ControllerEpoch(0)
        self._is_outranked = False
        self._surpass = ControllerEpoch(-1)  # the highest epoch that partitions' states are known to carry
        self._pauses = Pauses()
        self.challenges = Challenges()
        self._silent_at: float | None = None
        self._finish_at: float | None = None
        self._alarm: float | None = None

    def step(self, events: Iterable[Event], now: float) -> list[orders.Order]:
        """Return the orders that follow from these events, in order.

        Units:
            `now` is in seconds of a monotonic clock.
        """
        self._orders = []
        for event in events:
            if self.phase is not Phase.ENDED:
                self._happened(event, now)
                self._judge_holder(now)
        if self.phase is not Phase.ENDED:
            self._watch_deadlines(now)
            self._renew(now)
            self._give_up_what_is_owed(now)
            self._contend(now)
            self.challenges.unanswered = None
            self._set_alarm()
        return self._orders

    @property
    def holder(self) -> HolderSeen | None:
        """The last known holder of `/controller`; None while unknown."""
        return self._known.holder

    @property
    def suspect(self) -> Suspect | None:
        """The leader, if it is another replica of ours and this one may lead instead; None otherwise."""
        return suspect_of(self.holder) if self.holder is not None and self._may_claim(self.holder) else None

    @property
    def is_ready(self) -> bool:
        """Whether the replica leads, or could lead if it had to and ever claims."""
        would_lead = self._is_watching and self._unsound is None and self.holder is not None
        return self.phase is Phase.ACTIVE or (self.phase is Phase.STANDBY and would_lead)

    @property
    def reason(self) -> str:
        """Why the replica is in its phase, or why it is not ready."""
        seen = self.holder
        if self.phase is not Phase.STANDBY:
            return self._why
        if seen is None or self._unsound is not None:
            return self._unsound or self._known.why_blind
        return why_waiting(seen, self._settings.take_over) or self._why

    # what happens

    def _happened(self, event: Event, now: float) -> None:
        match event:
            case HolderSeen() | HolderUnknown() | SessionLost() | Suspended() | Resumed() | Reconnected():
                self._session_changed(event, now)
            case Claimed() | Lost() | IdClash() | ClaimFailed():
                self._claim_settled(event, now)
            case TermLoaded() | TermDrained() | TermFailed() | TermSurpassed() | TermSessionEnded():
                self._term_changed(event, now)
            case TakeOverChosen() | Challenged() | ChallengeAnswered() | Unanswered():
                self._informed(event)
            case StopAsked(reason):
                self._stop_asked(reason, now)
            case Watching() | Unsound() | ProtocolChanged() | Unreachable() | StartRefused():
                self._started(event, now)
            case NotGivenUp():
                if self.phase in (Phase.STANDBY, Phase.CONTENDING):  # else the new term took over what was left
                    self._give_up_at = now + self._settings.session_timeout_s
            case Woken():
                self._alarm = None
            case _:
                assert_never(event)

    def _informed(self, event: TakeOverChosen | ChallengeEvent) -> None:
        if not isinstance(event, TakeOverChosen):
            self.challenges.happened(event, leads=self.phase in IN_TERM)
        elif self._settings.take_over is not TakeOver.NEVER:
            self._settings = replace(self._settings, take_over=event.take_over)

    def _started(self, event: StartEvent, now: float) -> None:
        match event:
            case Watching():
                if self._unsound is not None:
                    self._say(orders.Severity.INFO, "this replica may lead this cluster now")
                if not self._is_watching:
                    self._why = self._known.why_blind = WATCHING
                self._is_watching, self._unsound = True, None
            case Unsound(reason):
                self._found_unsound(reason, now)
            case ProtocolChanged(detail):
                self._renewal = detail if self.phase in (Phase.LOADING, Phase.ACTIVE) else None
            case Unreachable(reason):
                if not self._is_watching:
                    self._known.lose(reason)
            case StartRefused(reason):
                if not self._is_watching:
                    self._say(orders.Severity.ERROR, "ZooKeeper refused this process", reason=reason)
                    self._end(Why.FAILED, reason, FAILED)
            case _:
                assert_never(event)

    def _found_unsound(self, reason: str, now: float) -> None:
        """Stop claiming and end the term: a native controller serves this cluster better. Logs each reason once."""
        if reason != self._unsound:
            self._say(
                orders.Severity.ERROR, "this replica must not lead this cluster; it is looked at again", reason=reason
            )
        self._unsound = reason
        if self.phase is Phase.LOADING:
            self._go(Phase.STANDBY, Why.UNSOUND, reason)
            self._orders.append(orders.Release())
        elif self.phase is Phase.ACTIVE:
            self._drain(Phase.HANDING_BACK, Why.UNSOUND, reason, now)
        elif self.phase is Phase.RENEWING:
            self._go(Phase.HANDING_BACK, Why.UNSOUND, reason)

    def _session_changed(self, event: SessionEvent, now: float) -> None:
        match event:
            case HolderSeen():
                self._seen(event, now)
            case HolderUnknown(reason):
                self._orders += self._known.not_seen(reason)
                if self.phase in (Phase.STANDBY, Phase.CONTENDING):
                    self._known.lose(reason)  # a running term continues: any successor fences its writes
            case SessionLost():
                self._silent_at = None
                self._is_session_new, self._give_up_at = True, None
                self._go_blind(GONE, now)
            case Suspended():
                self._silent_at = now + self._settings.session_timeout_s
            case Resumed() | Reconnected():
                self._silent_at = None
            case _:
                assert_never(event)

    def _seen(self, seen: HolderSeen, now: float) -> None:
        self._orders += (*self._known.seen(seen), *self.challenges.seen(seen))
        if isinstance(seen.holder, ControllerClaim) and seen.holder.kraft_epoch is not None:
            self._must_surpass(seen.holder.kraft_epoch)  # it writes this epoch into partitions' states
        if self.phase is Phase.STANDBY and self._known.is_change and isinstance(seen.holder, ControllerClaim):
            self._why = named(seen)
        if not seen.is_mine:  # our own claims are no news
            self._pauses.looked(is_another=self._known.is_another)
        if not is_native(seen):
            self._pauses.native_went()
        elif self._known.is_change:
            self._pauses.native_came(now)
        self._give_up_at = None if self._give_up_at is None else now

    def _claim_settled(self, outcome: ClaimOutcome, now: float) -> None:
        if self.phase not in (Phase.STANDBY, Phase.CONTENDING):
            return
        if isinstance(outcome, IdClash) and not outcome.is_our_past:
            hint = "give every replica a broker.id of its own that no broker has"
            self._say(orders.Severity.ERROR, "broker.id is already in use", reason=outcome.reason, hint=hint)
            self._end(Why.FAILED, "its broker.id is already in use", FAILED)
            return
        if self.phase is Phase.STANDBY:
            return  # at the start our own former session may still hold the id; the first claim waits for it
        if self._stop is not None:
            self._end(Why.STOPPED, self._stop, OK, *([self._release()] if isinstance(outcome, Claimed) else []))
            return
        match outcome:
            case Claimed(epoch):
                self._won(epoch, now)
            case Lost(reason, needs_mending):
                self._refused(reason, now, needs_mending=needs_mending)
            case IdClash(reason):
                self._pauses.clashed(now)
                self._go(Phase.STANDBY, Why.LOST, reason)
            case ClaimFailed(reason):
                self._pauses.failed(now)
                self._go(Phase.STANDBY, Why.LOST, reason)
            case _:
                assert_never(outcome)

    def _won(self, epoch: ControllerEpoch, now: float) -> None:
        self._epoch, self._give_up_at, self._is_outranked, self._renewal = epoch, None, False, None
        self.challenges.term_began()
        self._pauses.won(now)
        if self._is_session_new:
            self._go(Phase.STANDBY, Why.SESSION_LOST, GONE)
            self._orders.append(orders.Abandon())
        elif self._unsound is not None or (self.holder is not None and self.holder.is_released):
            self._go(Phase.STANDBY, Why.RELEASED if self._unsound is None else Why.UNSOUND)
            self._orders.append(orders.Release())
        else:
            self._go(Phase.LOADING, Why.WON, f"controller epoch {epoch}")
            self._orders.append(orders.BeginTerm())

    def _refused(self, reason: str, now: float, *, needs_mending: bool) -> None:
        """Schedule a retry. Logs an error only for the first refusal for a reason."""
        if self._pauses.refused(reason, now, needs_mending=needs_mending) and needs_mending:
            self._say(orders.Severity.ERROR, "no replica of this controller can lead", reason=reason)
        self._go(Phase.STANDBY, Why.LOST, reason)

    def _term_changed(self, event: TermEvent, now: float) -> None:
        match event:
            case TermLoaded(detail):
                if self.phase is Phase.LOADING:
                    self._go(Phase.ACTIVE, Why.LOADED, detail)
                    self._orders.append(orders.Serve())
            case TermDrained():
                self._drained(Why.DRAINED, now)
            case TermFailed(reason, is_outranked):
                self._is_outranked = is_outranked
                self._step_down(Why.DEPOSED, reason, now)
            case TermSurpassed(reason, epoch):
                self._must_surpass(epoch)
                self._lead_above(reason, now)
            case TermSessionEnded(reason):
                self._step_down(Why.SESSION_LOST, reason, now)
            case _:
                assert_never(event)

    def _must_surpass(self, epoch: int) -> None:
        if epoch <= HIGHEST_SURPASSED_EPOCH:
            self._surpass = max(self._surpass, ControllerEpoch(epoch))

    def _lead_above(self, reason: str, now: float) -> None:
        """Keep `/controller`, and claim again; a term that is being given up anyway has nothing in flight."""
        if self.phase in (Phase.LOADING, Phase.ACTIVE):
            self._go(Phase.STANDBY, Why.SURPASSED, reason)
            self._orders.append(orders.Renew())
            self._give_up_at = now + self._settings.session_timeout_s  # unless the next term has begun by then
        else:
            self._drained(Why.DRAINED, now)

    def _renew(self, now: float) -> None:
        """Replace the running term, since a term cannot change its protocol.

        Waits until `/controller` is readable: otherwise the next term could not claim it.
        """
        is_seen = self.holder is not None and self.holder.is_mine and not self._known.is_failing
        if self._renewal is not None and self.phase is Phase.ACTIVE and is_seen:
            self._drain(Phase.RENEWING, Why.PROTOCOL, self._renewal, now)

    def _drained(self, why: Why, now: float) -> None:
        if self.phase is Phase.HANDING_BACK:
            self._go(Phase.STANDBY, why)
            self._orders.append(orders.Release())
        elif self.phase is Phase.RENEWING:
            self._go(Phase.STANDBY, why)
            self._orders.append(orders.Renew())
            self._give_up_at = now + self._settings.session_timeout_s  # unless the next term has begun by then
        elif self.phase is Phase.RESIGNING:
            self._end(why, "", OK, self._release() if why is Why.DRAINED else orders.Release())

    def _release(self) -> orders.Release:
        """Give up `/controller` because this process stops: to a standby, unless a native controller is to lead, or
        ZooKeeper is away."""
        is_away = self._silent_at is not None or self._known.is_failing
        is_for_natives = self._unsound is not None or (self.holder is not None and self.holder.is_released)
        return orders.Release(names_successor=not is_away and not is_for_natives)

    def _stop_asked(self, reason: str, now: float) -> None:
        if self._stop is not None:
            self._stop_asked_again(reason)
            return
        self._stop = reason
        match self.phase:
            case Phase.STANDBY:
                self._end(Why.STOPPED, reason, OK)
            case Phase.CONTENDING:
                # The claim's outcome decides what to release; after this time the session's end releases everything.
                self._finish_at = now + self._settings.session_timeout_s
            case Phase.LOADING:
                self._end(Why.STOPPED, reason, OK, self._release())
            case Phase.ACTIVE:
                self._drain(Phase.RESIGNING, Why.STOPPED, reason, now)
            case Phase.HANDING_BACK | Phase.RENEWING:
                self._go(Phase.RESIGNING, Why.STOPPED, reason)
            case Phase.RESIGNING | Phase.ENDED:
                pass
            case _:
                assert_never(self.phase)

    def _stop_asked_again(self, reason: str) -> None:
        """Exit without waiting any longer."""
        if self.phase is Phase.CONTENDING:
            self._end(Why.STOPPED, reason, OK)
        elif self.phase is Phase.RESIGNING:
            self._end(Why.STOPPED, reason, OK, orders.Abandon())

    def _drain(self, phase: Phase, why: Why, detail: str, now: float) -> None:
        """Drain for at most one session timeout: the successor reads the outcome of what is then still in flight."""
        self._go(phase, why, detail)
        self._finish_at = now + self._settings.session_timeout_s
        self._orders.append(orders.Drain())

    # what follows

    def _judge_holder(self, now: float) -> None:
        """End the term if the holder of `/controller` requires it."""
        seen = self.holder
        if seen is None or self.phase not in IN_TERM:
            return
        if not seen.is_mine:
            # A holder seen before our claim has a lower epoch.
            if seen.epoch >= self._epoch:
                # ZooKeeper reports a replaced claim as deleted; who replaced it shows when it is looked at again.
                self._step_down(Why.DEPOSED, NO_CLAIM if seen.holder is None else named(seen), now)
        elif seen.is_released and self.phase is Phase.LOADING:
            self._go(Phase.STANDBY, Why.RELEASED, named(seen))
            self._orders.append(orders.Release())
        elif seen.is_released and self.phase is Phase.RENEWING:
            self._go(Phase.HANDING_BACK, Why.RELEASED, named(seen))
        elif seen.is_released and self.phase is Phase.ACTIVE:
            self._drain(Phase.HANDING_BACK, Why.RELEASED, named(seen), now)

    def _go_blind(self, reason: str, now: float) -> None:
        """Forget the holder and step down; ZooKeeper reports the holder again once it answers."""
        self._known.lose(reason)
        self._step_down(Why.SESSION_LOST, reason, now)

    def _step_down(self, why: Why, detail: str, now: float) -> None:
        """End this term. After a short term, pause so that other replicas claim first."""
        if self.phase is Phase.RESIGNING:
            self._end(why, detail, OK, orders.Release() if why is Why.DEPOSED else orders.Abandon())
        elif self.phase in IN_TERM:
            self._go(Phase.STANDBY, why, self.challenges.deposed(detail) if why is Why.DEPOSED else detail)
            self._orders.append(orders.Abandon())
            self._pauses.term_failed(now)

    def _end(self, why: Why, detail: str, code: int, *before: orders.Order) -> None:
        self._go(Phase.ENDED, why, detail)
        self._orders += (*before, orders.Exit(code))

    def _watch_deadlines(self, now: float) -> None:
        if self._silent_at is not None and now >= self._silent_at:
            # Only a server can confirm that a session has expired; after so much silence another may lead.
            self._silent_at = None
            self._go_blind(SILENT, now)
        if self._finish_at is not None and now >= self._finish_at:
            self._finish_at = None
            if self.phase is Phase.CONTENDING:
                self._end(Why.STOPPED, self._stop or "", OK)
            else:
                self._drained(Why.NOT_DRAINED, now)

    def _give_up_what_is_owed(self, now: float) -> None:
        """Release what the ended term left, once ZooKeeper answers: it blocks other claims, and brokers see a broker in
        it.
        """
        if self._owes and self._give_up_at is not None and now >= self._give_up_at:
            self._give_up_at = None
            self._orders.append(orders.Abandon())

    @property
    def _owes(self) -> bool:
        return self._give_up_at is not None and self.phase is Phase.STANDBY and self.holder is not None

    def _contend(self, now: float) -> None:
        why = self._reason_to_claim()
        if why is None or self.holder is None or now < self._pauses.until:
            return
        self._is_session_new = False
        self._go(Phase.CONTENDING, why, named(self.holder))
        # If no other controller has raised the epoch, brokers remember one that ZooKeeper has lost.
        raise_by = OVERTAKING if self._is_outranked and self.holder.epoch <= self._epoch else 1
        replace, replaces_ours = why in (Why.NATIVE, Why.SWITCHOVER), why in (Why.SWITCHOVER, Why.SILENT)
        unanswered = self.challenges.unanswered if why is Why.SILENT else None
        self._orders.append(orders.Claim(replace, raise_by, replaces_ours, self._surpass, unanswered))

    def _reason_to_claim(self) -> Why | None:
        """The reason to claim, ignoring pauses; None if the replica may not claim."""
        seen = self.holder
        if seen is None or not self._may_claim(seen):
            return None
        if seen.is_mine:
            return Why.LEFT_OVER  # the session outlived the term
        if seen.holder is None:
            return Why.VACANT
        if isinstance(seen.holder, ControllerClaim) and seen.holder.is_ours:
            # A pause keeps leaders where they are, not one that stops.
            if seen.is_named or (seen.is_wanted and seen.pause is None):
                return Why.SWITCHOVER
            return Why.SILENT if self.challenges.is_silent(seen) else None
        return Why.NATIVE if self._settings.take_over is TakeOver.ALWAYS else None

    def _may_claim(self, seen: HolderSeen) -> bool:
        is_fit = self._settings.take_over is not TakeOver.NEVER and self._is_watching and self._unsound is None
        return self.phase is Phase.STANDBY and is_fit and not seen.is_released

    def _set_alarm(self) -> None:
        if self.phase is Phase.ENDED:
            return
        deadlines = [self._silent_at, self._finish_at, self._give_up_at if self._owes else None]
        if self._reason_to_claim() is not None:
            deadlines.append(self._pauses.until)
        at = min((d for d in deadlines if d is not None), default=None)
        if at is not None and at != self._alarm:
            self._alarm = at
            self._orders.append(orders.WakeAt(at))

    def _go(self, phase: Phase, why: Why, detail: str = "") -> None:
        severity = orders.Severity.INFO
        if why in (Why.DEPOSED, Why.SESSION_LOST):
            severity = orders.Severity.WARNING
        elif self._pauses.is_known_refusal:
            severity = orders.Severity.DEBUG  # a repeated refusal for the same reason is no news
        self._say(severity, f"{self.phase} → {phase}", why=why.value, detail=detail)
        if phase not in (Phase.RESIGNING, Phase.HANDING_BACK):  # a term that is already draining keeps its deadline
            self._finish_at = None
        self.phase, self._why = phase, detail or why.value

    def _say(self, severity: orders.Severity, text: str, **details: str) -> None:
        self._orders.append(orders.Say(severity, text, details))
