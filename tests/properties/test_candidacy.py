"""Whatever happens to a replica, in whatever order: what does it never do, and what does it always come back to?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.core.candidacy.candidacy import Candidacy, CandidacySettings
from controller.core.candidacy.events import (
    Claimed,
    ClaimFailed,
    Event,
    HolderSeen,
    HolderUnknown,
    IdClash,
    Lost,
    NotGivenUp,
    ProtocolChanged,
    Reconnected,
    Resumed,
    SessionLost,
    StartRefused,
    StopAsked,
    Suspended,
    TakeOverChosen,
    TermDrained,
    TermFailed,
    TermLoaded,
    TermSessionEnded,
    TermSurpassed,
    Unreachable,
    Unsound,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    BeginTerm,
    Claim,
    Drain,
    Exit,
    Order,
    Release,
    Renew,
    Say,
    Serve,
    WakeAt,
)
from controller.core.candidacy.pauses import LONG_TERM_S, LONGEST_PAUSE_S, SHORTEST_PAUSE_S
from controller.core.candidacy.phases import Phase, TakeOver
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import BY_HAND, Pause

SESSION_S = 6.0
OUTCOMES = (Claimed, Lost, IdClash, ClaimFailed)

HOLDERS = st.sampled_from(
    # none, native, ours, of a migration, unreadable
    (
        None,
        ControllerClaim(1),
        ControllerClaim(902, is_ours=True),
        ControllerClaim(3000, kraft_epoch=7),
        Malformed("no JSON", 3),
    )
)
EPOCHS = st.integers(0, 12).map(ControllerEpoch)
RARELY = st.sampled_from((False, False, False, True))
PAUSES = st.sampled_from((None, None, Pause("ann@host", 1, "new disks"), BY_HAND))
SEEN = st.builds(HolderSeen, HOLDERS, st.just(False), EPOCHS, RARELY, RARELY, PAUSES)
MINE = st.builds(
    HolderSeen, st.just(ControllerClaim(901, is_ours=True)), st.just(True), EPOCHS, st.sampled_from((False, True))
)
PASSING = st.one_of(
    SEEN,
    MINE,
    st.sampled_from((SessionLost(), Suspended(), Resumed(), Reconnected(), Unreachable("away"), NotGivenUp())),
    st.sampled_from((TermFailed("a bug"), TermSessionEnded("expired"), TermLoaded("at once"), TermDrained(), Woken())),
    st.sampled_from((TakeOverChosen(TakeOver.ALWAYS), TakeOverChosen(TakeOver.WHEN_VACANT))),
    st.builds(TermSurpassed, st.just("states carry a higher one"), EPOCHS),
    st.sampled_from(
        (HolderUnknown("NOAUTH"), HolderUnknown("a bug"), Unsound("no broker answers"), ProtocolChanged("3.9"))
    ),
    st.sampled_from((Lost("held"), Lost("unreadable", True), IdClash("ours", True), ClaimFailed("expired"))),
)
FINAL = st.sampled_from((StopAsked("SIGTERM"), StartRefused("NOAUTH"), IdClash("a broker's", False)))
# None: whatever leads on from where the replica stands.
ONWARD = st.none()
DELAYS = st.sampled_from((0.0, 0.0, 0.1, 0.6, 3.0, 40.0))
PASSING_STORY = st.lists(st.tuples(DELAYS, st.one_of(PASSING, ONWARD, ONWARD)), max_size=40)
ANY_STORY = st.lists(st.tuples(DELAYS, st.one_of(PASSING, ONWARD, ONWARD, ONWARD, FINAL)), max_size=40)
SETTINGS = st.builds(CandidacySettings, st.sampled_from((TakeOver.ALWAYS, TakeOver.WHEN_VACANT)), st.just(SESSION_S))
OBSERVING = CandidacySettings(TakeOver.NEVER, SESSION_S)


class Observer:
    """Tells a candidacy what happens, and knows by itself what it may order then."""

    def __init__(self, settings: CandidacySettings) -> None:
        self.settings = settings
        self.candidacy = Candidacy(settings)
        self.now = 0.0
        self.wake_at: float | None = None
        self.seen: HolderSeen | None = None
        self.is_watching = self.has_begun = self.owes = self.is_kept = False
        self.is_claiming = self.is_held = self.is_begun = self.is_serving = self.has_ended = self.is_stopped = False
        self.claims = 0
        self._began = self._not_before = 0.0
        self._epoch = 20

    def lives(self, story: list[tuple[float, Event | None]]) -> None:
        """All of a story, alarms included."""
        for delay_s, event in story:
            self.waits(delay_s)
            self.hears(self._onward() if event is None else event)

    def waits(self, for_s: float) -> None:
        """Time goes on, and its alarms ring."""
        until = self.now + for_s
        while self.wake_at is not None and self.wake_at <= until:
            self.now, self.wake_at = max(self.now, self.wake_at), None
            self.hears(Woken())
        self.now = until

    def hears(self, event: Event) -> None:
        """One event, and what it orders then."""
        if isinstance(event, HolderSeen) and not self.has_ended:
            self.seen = event
        elif (isinstance(event, Unreachable) and not self.has_begun) or (
            isinstance(event, HolderUnknown) and not self.is_held
        ):
            self.seen = None
        elif isinstance(event, SessionLost):
            self.seen = None
            self.owes = self.is_kept = False
        elif isinstance(event, NotGivenUp):
            self.owes = not self.is_held
        elif isinstance(event, OUTCOMES) and self.is_claiming:
            self.is_claiming, self.is_held = False, isinstance(event, Claimed)
            self._began = self.now
            self.is_kept &= not self.is_held
        if isinstance(event, Watching | Unsound):
            self.is_watching = isinstance(event, Watching)
            self.has_begun |= self.is_watching
        if isinstance(event, TakeOverChosen):
            self.settings = replace(self.settings, take_over=event.take_over)
        self.is_stopped = self.is_stopped or isinstance(event, StopAsked)
        for order in self.candidacy.step((event,), self.now):
            assert not self.has_ended, f"{order} after the end"
            self._ordered(order)

    def _ordered(self, order: Order) -> None:
        match order:
            case Claim():
                self._may_claim(order)
                self.is_claiming = True
                self.claims += 1
            case BeginTerm():
                assert self.is_held
                assert not self.is_begun
                assert not self.is_stopped
                self.is_begun = True
            case Serve():
                assert self.is_begun
                assert not self.is_serving
                self.is_serving = True
            case Drain():
                assert self.is_serving
            case Release() | Renew() | Abandon():
                assert self.is_held or self.owes or self.is_kept
                self.owes, self.is_kept = False, isinstance(order, Renew)
                if isinstance(order, Abandon) and self.is_begun and self.now - self._began < LONG_TERM_S:
                    self._not_before = self.now + SHORTEST_PAUSE_S
                self.is_held = self.is_begun = self.is_serving = False
            case Exit():
                assert not self.is_held, "what was won is given up before the end"
                self.has_ended = True
            case WakeAt(at):
                self.wake_at = at
            case Say():
                pass

    def _may_claim(self, claim: Claim) -> None:
        assert self.is_watching
        assert not self.is_claiming
        assert not self.is_held
        assert not self.is_stopped
        assert self.now >= self._not_before, "others go first"
        assert self.seen is not None
        assert not self.seen.is_released
        holder = self.seen.holder
        if not self.seen.is_mine and holder is not None:
            is_ours = isinstance(holder, ControllerClaim) and holder.is_ours
            assert claim.replace
            assert claim.replaces_ours is is_ours
            is_wanted = self.seen.is_named or (self.seen.is_wanted and self.seen.pause is None)
            assert is_wanted if is_ours else self.settings.take_over is TakeOver.ALWAYS

    def _onward(self) -> Event:
        self._epoch += 1
        match self.candidacy.phase:
            case Phase.STANDBY:
                return HolderSeen(None, False, ControllerEpoch(self._epoch)) if self.is_watching else Watching()
            case Phase.CONTENDING:
                return Claimed(ControllerEpoch(self._epoch), ZnodeVersion(self._epoch), BrokerEpoch(self._epoch))
            case Phase.LOADING:
                return TermLoaded("at once")
            case Phase.ACTIVE:
                return HolderSeen(ControllerClaim(901, is_ours=True), True, ControllerEpoch(self._epoch))
            case Phase.RESIGNING | Phase.HANDING_BACK | Phase.RENEWING:
                return TermDrained()
            case Phase.ENDED:
                return Woken()


@given(SETTINGS, ANY_STORY)
def test_a_replica_never_claims_when_it_may_not_and_never_holds_two_terms(
    settings: CandidacySettings, story: list[tuple[float, Event | None]]
) -> None:
    Observer(settings).lives(story)


@given(ANY_STORY)
def test_a_replica_that_never_claims_orders_nothing_but_its_end(story: list[tuple[float, Event | None]]) -> None:
    replica = Candidacy(OBSERVING)
    orders: list[Order] = []
    for number, (_, event) in enumerate(story):
        if isinstance(event, NotGivenUp):
            continue  # there was no term
        vacant = HolderSeen(None, False, ControllerEpoch(number), is_wanted=number % 2 == 0)
        for happened in (Watching(), vacant) if event is None else (event,):
            orders += replica.step((happened,), float(number))

    assert {type(order) for order in orders} <= {Say, WakeAt, Exit}


@given(SETTINGS, ANY_STORY, PASSING_STORY)
def test_after_a_stop_it_ends_whatever_comes(
    settings: CandidacySettings,
    story: list[tuple[float, Event | None]],
    afterwards: list[tuple[float, Event | None]],
) -> None:
    replica = Observer(settings)
    replica.lives(story)
    replica.hears(StopAsked("SIGTERM"))
    claims = replica.claims

    replica.lives(afterwards)
    replica.waits(SESSION_S)  # what a claim under way comes to, and what is in flight, is waited for that long

    assert replica.has_ended
    assert replica.candidacy.phase is Phase.ENDED
    assert replica.claims == claims


@given(SETTINGS, PASSING_STORY)
def test_once_faults_have_stopped_a_vacant_controller_is_claimed_within_a_bounded_time(
    settings: CandidacySettings, story: list[tuple[float, Event | None]]
) -> None:
    replica = Observer(settings)
    replica.lives(story)
    for event in (Lost("held"), TermFailed("fenced"), Resumed(), Watching()):
        replica.hears(event)
    replica.hears(HolderSeen(None, False, ControllerEpoch(90)))

    replica.waits(LONGEST_PAUSE_S)

    assert replica.is_claiming
    assert replica.candidacy.phase is Phase.CONTENDING


@given(SETTINGS, PASSING_STORY)
def test_no_claim_is_kept_for_long_without_a_term(
    settings: CandidacySettings, story: list[tuple[float, Event | None]]
) -> None:
    replica = Observer(settings)
    replica.lives([(0.0, None)] * 5)
    replica.lives([(0.0, ProtocolChanged("3.9")), (0.0, None)])
    assert replica.is_kept

    replica.lives(story)
    replica.hears(Resumed())  # while ZooKeeper is silent nothing can be given up
    if replica.candidacy.holder is None:
        replica.hears(HolderSeen(ControllerClaim(901, is_ours=True), True, ControllerEpoch(90)))
    until = replica.now + 2 * SESSION_S  # what is in flight is waited for first
    while replica.now < until:
        replica.waits(0.5)
        if replica.is_claiming:
            replica.hears(Lost("NOAUTH", needs_mending=True))

    assert not replica.is_kept


@given(SETTINGS, ANY_STORY)
def test_after_a_second_stop_it_ends_at_once(
    settings: CandidacySettings, story: list[tuple[float, Event | None]]
) -> None:
    replica = Observer(settings)
    replica.lives(story)

    replica.hears(StopAsked("SIGTERM"))
    replica.hears(StopAsked("SIGTERM"))

    assert replica.has_ended


@given(SETTINGS, st.integers(1, 60), st.lists(st.one_of(MINE, st.just(HolderUnknown("NOAUTH"))), max_size=3))
def test_claims_that_a_person_must_mend_become_rare_whatever_is_seen_of_our_own(
    settings: CandidacySettings, for_s: int, sights: list[Event]
) -> None:
    replica = Observer(settings)
    replica.hears(Watching())
    replica.hears(HolderSeen(None, False, ControllerEpoch(1)))

    until = replica.now + for_s
    while replica.now < until:
        if replica.is_claiming:
            replica.hears(Lost("NOAUTH: /brokers/topics", needs_mending=True))
            for event in (
                *sights,
                HolderSeen(ControllerClaim(901, is_ours=True), True, ControllerEpoch(replica.claims)),
            ):
                replica.hears(event)
        replica.waits(0.1)

    assert replica.claims <= 6 + for_s / 3
