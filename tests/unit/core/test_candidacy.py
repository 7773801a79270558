"""When does a replica claim, wait, pause, or step down?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from controller.core.candidacy.candidacy import FAILED, OK, Candidacy, CandidacySettings
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
    TermEvent,
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
    Severity,
    WakeAt,
)
from controller.core.candidacy.pauses import LONG_TERM_S, NATIVE_BEGINS_S
from controller.core.candidacy.phases import Phase, TakeOver
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import Pause

SESSION_S = 6.0
VACANT = HolderSeen(None, False, ControllerEpoch(4))
NATIVE = HolderSeen(ControllerClaim(1), False, ControllerEpoch(4))
OURS = HolderSeen(ControllerClaim(902, is_ours=True), False, ControllerEpoch(4))
UNREADABLE = HolderSeen(Malformed("no JSON", 1), False, ControllerEpoch(4))
RELEASED = HolderSeen(None, False, ControllerEpoch(4), is_released=True)
TAKEN = "/controller is held by broker 902"


def mine(epoch: int = 5, *, is_released: bool = False) -> HolderSeen:
    """Our own claim as seen in ZooKeeper."""
    return HolderSeen(ControllerClaim(901, is_ours=True), True, ControllerEpoch(epoch), is_released)


def another(epoch: int) -> HolderSeen:
    return HolderSeen(ControllerClaim(902, is_ours=True), False, ControllerEpoch(epoch))


def claimed(epoch: int = 5) -> Claimed:
    return Claimed(ControllerEpoch(epoch), ZnodeVersion(epoch), BrokerEpoch(100 + epoch))


class Replica:
    """A candidacy with a clock of its own, and all that it has said."""

    def __init__(self, *before: Event, take_over: TakeOver = TakeOver.ALWAYS) -> None:
        self.candidacy = Candidacy(CandidacySettings(take_over, SESSION_S))
        self.now = 1000.0
        self.said: list[Say] = []
        self.wake_at: float | None = None
        for event in before:
            self.hears(event)

    def hears(self, *events: Event) -> list[Order]:
        """What it wants done, apart from what it says and when it is to be woken."""
        orders: list[Order] = []
        for order in self.candidacy.step(events, self.now):
            if isinstance(order, Say):
                self.said.append(order)
            elif isinstance(order, WakeAt):
                self.wake_at = order.at
            else:
                orders.append(order)
        return orders

    def sleeps(self, at_most_s: float = 60.0) -> list[Order]:
        """Time goes on until its alarm rings; what it wants done then."""
        assert self.wake_at is not None
        assert self.wake_at <= self.now + at_most_s
        self.now, self.wake_at = self.wake_at, None
        return self.hears(Woken())

    def waits_s(self) -> float:
        """How long until it wants to be woken."""
        assert self.wake_at is not None
        return self.wake_at - self.now

    @property
    def phase(self) -> Phase:
        return self.candidacy.phase

    def is_in(self, phase: Phase) -> bool:
        return self.phase is phase

    def complaints(self) -> list[str]:
        return [say.text for say in self.said if say.severity >= Severity.WARNING]


TO_CONTEND: Sequence[Event] = (Watching(), VACANT)
TO_LOAD: Sequence[Event] = (*TO_CONTEND, claimed())
TO_LEAD: Sequence[Event] = (*TO_LOAD, mine(), TermLoaded("at once"))
TO_RESIGN: Sequence[Event] = (*TO_LEAD, StopAsked("SIGTERM received"))
TO_SUCCESSOR = Release(names_successor=True)
TO_HAND_BACK: Sequence[Event] = (*TO_LEAD, mine(is_released=True))


def test_no_one_claims_before_it_knows_that_its_id_is_free() -> None:
    replica = Replica()

    assert replica.hears(VACANT) == []
    assert replica.hears(Watching()) == [Claim(replace=False)]


def test_a_vacant_controller_is_claimed() -> None:
    assert Replica(Watching()).hears(VACANT) == [Claim(replace=False)]


@pytest.mark.parametrize("holder", [NATIVE, UNREADABLE])
def test_a_native_or_unreadable_controller_is_replaced_or_waited_for_as_configured(holder: HolderSeen) -> None:
    assert Replica(Watching()).hears(holder) == [Claim(replace=True)]
    assert Replica(Watching(), take_over=TakeOver.WHEN_VACANT).hears(holder) == []


def test_a_replica_that_leaves_a_native_controller_alone_says_so() -> None:
    waiting = "broker 1 holds /controller, and controller.takeover=when-vacant waits until it is vacant"
    replica = Replica(Watching(), NATIVE, take_over=TakeOver.WHEN_VACANT)

    assert (replica.candidacy.is_ready, replica.candidacy.reason) == (True, waiting)
    replica.hears(OURS)
    assert replica.candidacy.reason == "broker 902 holds /controller"
    assert "when-vacant" not in Replica(Watching(), NATIVE).candidacy.reason


def test_whom_a_replica_may_replace_can_change_while_it_stands_by() -> None:
    replica = Replica(Watching(), NATIVE, take_over=TakeOver.WHEN_VACANT)

    assert replica.hears(TakeOverChosen(TakeOver.ALWAYS)) == [Claim(replace=True)]


def test_a_leader_goes_on_that_would_not_have_replaced_anybody() -> None:
    leader = Replica(*TO_LEAD)

    assert leader.hears(TakeOverChosen(TakeOver.WHEN_VACANT)) == []
    assert leader.candidacy.phase is Phase.ACTIVE


def test_a_native_controller_that_was_just_elected_may_first_end_the_moves_that_arrived_meanwhile() -> None:
    """Replaced while it ends moves, it has written them as ended and not yet told brokers to delete what they left."""
    replica = Replica(*TO_CONTEND, NATIVE, Lost("/controller is held by broker 1"))

    assert replica.waits_s() == NATIVE_BEGINS_S
    assert replica.sleeps() == [Claim(replace=True)]


def test_native_controllers_that_replace_each_other_are_waited_for_once() -> None:
    replica = Replica(*TO_CONTEND, NATIVE, Lost("/controller is held by broker 1"))
    for other in (2, 3):
        replica.now += NATIVE_BEGINS_S / 3
        assert replica.hears(HolderSeen(ControllerClaim(other), False, ControllerEpoch(5))) == []

    assert replica.sleeps(NATIVE_BEGINS_S / 3 + 0.001) == [Claim(replace=True)]


def test_the_end_of_a_native_controller_ends_the_wait_for_it() -> None:
    replica = Replica(*TO_CONTEND, NATIVE, Lost("/controller is held by broker 1"))
    replica.now += NATIVE_BEGINS_S / 2

    assert replica.hears(VACANT) == [Claim(replace=False)]


@pytest.mark.parametrize("holder", [OURS, RELEASED])
def test_another_of_ours_or_a_release_is_respected(holder: HolderSeen) -> None:
    replica = Replica(Watching())

    assert replica.hears(holder) == []
    assert (replica.phase, replica.candidacy.is_ready, replica.wake_at) == (Phase.STANDBY, True, None)


def wanted(holder: HolderSeen) -> HolderSeen:
    """The same, while someone waits for this replica to lead."""
    return replace(holder, is_wanted=True)


def paused(holder: HolderSeen) -> HolderSeen:
    """The same, while moves are paused."""
    return replace(holder, pause=Pause("ann@host", 1_700_000_000_000, "new disks"))


def says(orders: Sequence[Order]) -> list[Say]:
    """What is logged."""
    return [order for order in orders if isinstance(order, Say)]


@pytest.mark.parametrize("take_over", [TakeOver.ALWAYS, TakeOver.WHEN_VACANT])
def test_a_switchover_replaces_another_of_ours_whatever_it_may_do_to_a_native_one(take_over: TakeOver) -> None:
    replica = Replica(Watching(), OURS, take_over=take_over)

    assert replica.hears(wanted(OURS)) == [Claim(replace=True, replaces_ours=True)]
    assert replica.hears(claimed()) == [BeginTerm()]


def test_a_switchover_asks_nothing_of_who_leads_or_must_not_lead() -> None:
    leader = Replica(*TO_LEAD)
    assert leader.hears(wanted(mine())) == []
    assert Replica(Watching(), Unsound("no broker answers")).hears(wanted(OURS)) == []
    assert Replica(Watching(), take_over=TakeOver.WHEN_VACANT).hears(wanted(NATIVE)) == []
    assert Replica(Watching()).hears(wanted(replace(OURS, is_released=True))) == []


def test_a_switchover_waits_for_the_end_of_a_pause_and_says_so_once() -> None:
    replica = Replica(Watching())
    said = [say.text for _ in range(2) for say in says(replica.candidacy.step((paused(wanted(OURS)),), 1.0))]

    assert said == [
        "moves are paused: none begins, no leader moves for balance, and no switchover is carried out",
        "a switchover to this replica is not carried out while moves are paused",
    ]
    assert replica.hears(wanted(OURS)) == [Claim(replace=True, replaces_ours=True)]


def test_a_leader_that_stops_is_succeeded_by_whom_it_names_also_while_moves_are_paused() -> None:
    replica = Replica(Watching())

    assert replica.hears(paused(replace(OURS, is_named=True))) == [Claim(replace=True, replaces_ours=True)]


def test_a_pause_keeps_nobody_from_leading() -> None:
    assert Replica(Watching()).hears(paused(VACANT)) == [Claim(replace=False)]
    leader = Replica(*TO_LEAD)
    assert leader.hears(paused(mine())) == []
    assert leader.phase is Phase.ACTIVE


def test_beginning_and_end_of_a_pause_are_logged_with_who_and_why() -> None:
    candidacy = Replica(Watching()).candidacy

    first, again, over = (says(candidacy.step((seen,), 1.0)) for seen in (paused(OURS), paused(OURS), OURS))

    assert [(say.severity, say.details) for say in first] == [
        (
            Severity.WARNING,
            {"by": "ann@host", "reason": "new disks", "hint": "end it: kafka-zk-controller resume"},
        )
    ]
    assert again == []
    assert [(say.severity, say.text) for say in over] == [(Severity.INFO, "the pause is over; moves begin again")]


def test_a_leader_that_is_switched_from_stands_by() -> None:
    leader = Replica(*TO_LEAD)

    assert leader.hears(another(6)) == [Abandon()]
    assert leader.phase is Phase.STANDBY


@pytest.mark.parametrize(
    "holder", [VACANT, NATIVE, OURS, UNREADABLE, RELEASED, mine(), wanted(OURS), wanted(NATIVE), wanted(VACANT)]
)
def test_a_replica_that_never_claims_stands_by_whatever_leads_and_whatever_it_is_asked(holder: HolderSeen) -> None:
    replica = Replica(Watching(), take_over=TakeOver.NEVER)

    for event in (holder, ProtocolChanged("3.9"), SessionLost(), Reconnected(), holder, Unsound("odd"), Watching()):
        assert replica.hears(event) == []

    assert (replica.phase, replica.candidacy.is_ready, replica.wake_at) == (Phase.STANDBY, True, None)
    assert replica.hears(StopAsked("SIGTERM received")) == [Exit(OK)]


def test_its_own_claim_that_has_no_term_is_claimed_again() -> None:
    assert Replica(Watching()).hears(mine()) == [Claim(replace=False)]


def test_a_term_is_loaded_then_served() -> None:
    replica = Replica(*TO_CONTEND)

    assert replica.hears(claimed()) == [BeginTerm()]
    assert replica.is_in(Phase.LOADING)
    assert replica.hears(mine()) == []
    assert replica.hears(TermLoaded("loaded in 0.10 s")) == [Serve()]
    assert (replica.phase, replica.candidacy.reason) == (Phase.ACTIVE, "loaded in 0.10 s")


def test_what_was_seen_before_the_claim_does_not_depose() -> None:
    replica = Replica(*TO_LOAD)

    assert replica.hears(another(4)) == []
    assert replica.is_in(Phase.LOADING)


@pytest.mark.parametrize("before", [TO_LOAD, TO_LEAD, TO_HAND_BACK])
@pytest.mark.parametrize("end", [another(5), another(6), TermFailed("fenced")])
def test_a_deposed_replica_abandons_its_term(before: Sequence[Event], end: HolderSeen | TermFailed) -> None:
    replica = Replica(*before)

    assert replica.hears(end) == [Abandon()]
    assert replica.is_in(Phase.STANDBY)
    assert replica.said[-1].severity is Severity.WARNING


def test_once_another_leads_that_is_why_it_stands_by() -> None:
    replica = Replica(*TO_LEAD, TermFailed("fenced"))
    assert replica.candidacy.reason == "fenced"

    replica.hears(another(6))
    assert replica.candidacy.reason == "broker 902 holds /controller"
    replica.hears(NATIVE)
    assert replica.candidacy.reason == "broker 1 holds /controller"


@pytest.mark.parametrize("before", [TO_LOAD, TO_LEAD, TO_HAND_BACK])
@pytest.mark.parametrize("end", [SessionLost(), TermSessionEnded("expired")])
def test_a_lost_session_ends_the_term(before: Sequence[Event], end: SessionLost | TermSessionEnded) -> None:
    replica = Replica(*before)

    assert replica.hears(end) == [Abandon()]
    assert (replica.phase, replica.said[-1].severity) == (Phase.STANDBY, Severity.WARNING)


def test_after_a_lost_session_nothing_is_claimed_before_it_was_seen_who_leads() -> None:
    replica = Replica(Watching(), OURS)

    assert replica.hears(SessionLost()) == []
    assert not replica.candidacy.is_ready
    assert replica.hears(Reconnected()) == []
    assert replica.hears(VACANT) == [Claim(replace=False)]


def test_a_session_that_is_silent_for_too_long_is_given_up_for_lost() -> None:
    replica = Replica(*TO_LEAD)

    assert replica.hears(Suspended()) == []
    assert replica.waits_s() == SESSION_S
    assert replica.sleeps() == [Abandon()]
    assert (replica.phase, replica.candidacy.is_ready) == (Phase.STANDBY, False)
    assert replica.candidacy.reason == "ZooKeeper has been silent for longer than a session lasts"


def test_a_replica_in_standby_is_not_ready_while_zookeeper_is_silent_and_is_again_when_it_answers() -> None:
    replica = Replica(Watching(), OURS, Suspended())
    replica.sleeps()

    assert not replica.candidacy.is_ready
    replica.hears(Resumed(), OURS)
    assert (replica.candidacy.is_ready, replica.candidacy.reason) == (True, "watching /controller")


def test_a_connection_that_is_back_in_time_changes_nothing() -> None:
    replica = Replica(*TO_LEAD, Suspended())
    replica.now += SESSION_S / 2
    replica.hears(Resumed())

    assert replica.sleeps() == []
    assert replica.is_in(Phase.ACTIVE)


def test_a_process_that_slept_hears_of_its_connection_before_it_judges_the_silence() -> None:
    replica = Replica(*TO_LEAD, Suspended())
    replica.now += 10 * SESSION_S

    assert replica.hears(Resumed(), Woken()) == []
    assert replica.is_in(Phase.ACTIVE)


def test_a_claim_that_outlived_the_presumption_is_claimed_again_after_the_pause() -> None:
    replica = Replica(*TO_LEAD, Suspended())
    replica.sleeps()

    assert replica.hears(Resumed(), mine()) == []
    assert replica.waits_s() == 1.0
    assert replica.sleeps() == [Claim(replace=False)]


@pytest.mark.parametrize("found", [mine(), mine(is_released=True), another(6)])
def test_what_could_not_be_given_up_is_given_up_when_zookeeper_answers_again(found: HolderSeen) -> None:
    replica = Replica(*TO_LEAD, Suspended())
    replica.sleeps()

    assert replica.hears(NotGivenUp(), Resumed()) == []
    assert replica.hears(found) == [Abandon()]
    assert replica.hears(found) == []


def test_what_could_not_be_given_up_although_zookeeper_answers_is_tried_again() -> None:
    replica = Replica(*TO_LEAD, another(6), NotGivenUp())

    assert replica.waits_s() == SESSION_S
    assert replica.sleeps() == [Abandon()]
    assert replica.hears(another(6)) == []


def test_what_was_not_given_up_goes_with_the_session() -> None:
    replica = Replica(*TO_LEAD, Suspended())
    replica.sleeps()

    assert replica.hears(NotGivenUp(), SessionLost(), Reconnected(), another(6)) == []


def pauses_s(replica: Replica, epochs: range, length_s: float = 0.0) -> Iterator[float]:
    """How long others go first after a term with each of these epochs."""
    for epoch in epochs:
        replica.hears(claimed(epoch), mine(epoch), TermLoaded("at once"))
        replica.now += length_s
        replica.hears(TermFailed("a bug"))
        replica.hears(HolderSeen(None, False, ControllerEpoch(epoch)))
        assert replica.is_in(Phase.STANDBY)
        yield replica.waits_s()
        assert replica.sleeps() == [Claim(replace=False)]


def test_after_short_terms_others_go_first_for_longer_and_longer() -> None:
    assert list(pauses_s(Replica(*TO_CONTEND), range(5, 12))) == [1, 2, 4, 8, 16, 30, 30]


def test_a_long_term_makes_the_pause_short_again() -> None:
    replica = Replica(*TO_CONTEND)
    assert list(pauses_s(replica, range(5, 8))) == [1, 2, 4]

    assert list(pauses_s(replica, range(8, 9), LONG_TERM_S)) == [1]


def test_a_new_sight_of_the_controller_does_not_end_a_pause_but_the_last_one_counts() -> None:
    replica = Replica(*TO_LEAD, TermFailed("a bug"))

    assert replica.hears(HolderSeen(None, False, ControllerEpoch(5))) == []
    assert replica.hears(another(6)) == []
    replica.now += 60
    assert replica.hears(Woken()) == []
    assert replica.hears(HolderSeen(None, False, ControllerEpoch(6))) == [Claim(replace=False)]


def refusals(replica: Replica, reason: str, times: int, *, needs_mending: bool = True) -> list[float]:
    waits = []
    for _ in range(times):
        replica.hears(Lost(reason, needs_mending))
        waits.append(replica.waits_s())
        assert replica.sleeps() == [Claim(replace=False)]
    return waits


def test_a_refused_claim_is_tried_again_more_slowly() -> None:
    assert refusals(Replica(*TO_CONTEND), TAKEN, 12) == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5, 5]


def test_what_a_person_must_mend_is_loud_once_for_the_same_reason() -> None:
    replica = Replica(*TO_CONTEND)
    refusals(replica, "/controller_epoch is unreadable", 3)
    assert replica.complaints() == ["no replica of this controller can lead"]
    assert replica.said[-1].severity is Severity.DEBUG

    assert refusals(replica, "a broker is too old", 1) == [0.5]
    assert replica.complaints() == ["no replica of this controller can lead"] * 2


def test_that_another_was_faster_is_no_complaint() -> None:
    replica = Replica(*TO_CONTEND)
    refusals(replica, TAKEN, 2, needs_mending=False)

    assert replica.complaints() == []


def test_a_new_sight_of_the_controller_ends_the_wait_after_a_refusal() -> None:
    replica = Replica(*TO_CONTEND, Lost(TAKEN))

    assert replica.hears(VACANT) == [Claim(replace=False)]


def test_what_a_person_must_mend_is_not_tried_at_once_because_of_what_we_did_or_saw_before() -> None:
    """A claim that was won and then came to nothing raised the epoch every half second."""
    replica = Replica(*TO_CONTEND)
    refusals(replica, "NOAUTH: /feature", 3)
    replica.hears(Lost("NOAUTH: /feature", needs_mending=True))

    assert replica.hears(mine(7), VACANT, mine(8)) == []
    assert replica.waits_s() == 2.0
    assert replica.hears(OURS) == []
    assert replica.hears(VACANT) == [Claim(replace=False)]


def test_a_replica_that_cannot_see_who_leads_says_so_once_and_is_not_ready_until_it_sees_it_again() -> None:
    replica = Replica(Watching(), OURS)

    assert replica.hears(HolderUnknown("NOAUTH: /controller"), HolderUnknown("NOAUTH: /controller")) == []
    assert replica.complaints() == ["cannot see who holds /controller; trying again"]
    assert (replica.candidacy.is_ready, replica.candidacy.reason) == (False, "NOAUTH: /controller")

    assert replica.hears(VACANT) == [Claim(replace=False)]
    assert replica.hears(HolderUnknown("NOAUTH: /controller"), Lost("NOAUTH: /controller", needs_mending=True)) == []
    assert len(replica.complaints()) == 3


def test_a_leader_that_cannot_see_its_claim_goes_on() -> None:
    replica = Replica(*TO_LEAD)

    assert replica.hears(HolderUnknown("NOAUTH: /controller")) == []
    assert replica.is_in(Phase.ACTIVE)
    assert replica.candidacy.holder is not None
    assert replica.hears(another(6)) == [Abandon()]


def test_a_claim_that_came_to_nothing_is_tried_again() -> None:
    replica = Replica(*TO_CONTEND, ClaimFailed("the session expired during the election"))

    assert replica.waits_s() == 0.5
    assert replica.sleeps() == [Claim(replace=False)]


def test_a_replica_that_must_not_lead_says_so_once_for_each_reason_and_claims_nothing_until_it_may() -> None:
    replica = Replica(VACANT)
    assert not replica.candidacy.is_ready

    assert replica.hears(Unsound("no cluster"), Unsound("no cluster"), VACANT) == []
    assert replica.complaints() == ["this replica must not lead this cluster; it is looked at again"]
    assert (replica.candidacy.is_ready, replica.candidacy.reason) == (False, "no cluster")
    assert replica.hears(Unsound("no listener")) == []
    assert len(replica.complaints()) == 2

    assert replica.hears(Watching()) == [Claim(replace=False)]
    assert replica.candidacy.reason == "/controller is vacant"


def test_a_leader_that_turns_out_not_to_reach_any_broker_gives_the_cluster_back() -> None:
    replica = Replica(*TO_LEAD)

    assert replica.hears(Unsound("no broker has a listener INSIDE")) == [Drain()]
    assert replica.hears(TermDrained()) == [Release()]
    assert replica.hears(VACANT) == []
    assert (replica.phase, replica.candidacy.is_ready) == (Phase.STANDBY, False)
    assert replica.hears(Watching()) == [Claim(replace=False)]


def test_a_term_that_is_only_loaded_or_won_is_given_up_at_once_by_who_must_not_lead() -> None:
    assert Replica(*TO_CONTEND, claimed()).hears(Unsound("no broker")) == [Release()]
    assert Replica(*TO_CONTEND, Unsound("no broker")).hears(claimed()) == [Release()]


def test_brokers_that_require_another_protocol_get_another_term_and_no_one_comes_in_between() -> None:
    replica = Replica(*TO_LEAD, mine())

    assert replica.hears(ProtocolChanged("3.9")) == [Drain()]
    assert replica.is_in(Phase.RENEWING)
    assert replica.hears(TermDrained()) == [Renew(), Claim(replace=False)]
    assert replica.hears(claimed(6)) == [BeginTerm()]
    assert replica.hears(mine(6), TermLoaded("at once")) == [Serve()]
    assert replica.complaints() == []


def test_a_protocol_that_changes_while_a_term_loads_is_for_the_next_one() -> None:
    replica = Replica(*TO_CONTEND, claimed(), mine(), ProtocolChanged("3.9"))

    assert replica.hears(TermLoaded("at once")) == [Serve(), Drain()]


@pytest.mark.parametrize("before", [(), TO_CONTEND, (VACANT,)])
def test_a_protocol_that_changes_without_a_term_is_for_the_next_one(before: Sequence[Event]) -> None:
    replica = Replica(*before)

    assert replica.hears(ProtocolChanged("3.9")) == []


def test_what_comes_while_a_term_is_renewed_goes_before() -> None:
    renewing = (*TO_LEAD, mine(), ProtocolChanged("3.9"))
    released = Replica(*renewing, mine(is_released=True))
    assert released.hears(TermDrained()) == [Release()]

    stopped = Replica(*renewing, StopAsked("SIGTERM"))
    assert stopped.hears(TermDrained()) == [TO_SUCCESSOR, Exit(OK)]

    unsound = Replica(*renewing, Unsound("no broker"))
    assert unsound.hears(TermDrained()) == [Release()]

    assert Replica(*renewing).hears(another(6)) == [Abandon()]


@pytest.mark.parametrize("refusal", [Lost("NOAUTH", needs_mending=True), ClaimFailed("no answer")])
def test_a_claim_that_was_kept_for_another_term_is_given_up_if_no_term_comes_of_it(refusal: Event) -> None:
    replica = Replica(*TO_LEAD, mine(), ProtocolChanged("3.9"), TermDrained(), refusal)

    orders = replica.sleeps()
    while Abandon() not in orders and replica.now < 1000.0 + 2 * SESSION_S:  # it is tried again meanwhile
        assert orders == [Claim(replace=False)]
        orders = replica.hears(refusal) or replica.sleeps()

    assert replica.now == 1000.0 + SESSION_S


def test_a_claim_that_was_kept_for_another_term_is_given_up_at_once_where_none_may_follow() -> None:
    renewed = (*TO_LEAD, mine(), ProtocolChanged("3.9"), TermDrained(), Lost("NOAUTH", needs_mending=True))

    assert Replica(*renewed).hears(mine(is_released=True)) == [Abandon()]
    unsound = Replica(*renewed, Unsound("no broker"))
    assert unsound.sleeps() == [Abandon()]


def test_a_term_goes_on_as_it_is_while_the_next_one_could_not_see_who_holds_controller() -> None:
    replica = Replica(*TO_LEAD, mine(), HolderUnknown("NOAUTH"))

    assert replica.hears(ProtocolChanged("3.9")) == []
    assert replica.hears(mine()) == [Drain()]


def test_our_former_session_is_waited_for() -> None:
    replica = Replica(*TO_CONTEND, IdClash("id 901 is still registered", is_our_past=True))

    assert replica.complaints() == []
    assert replica.waits_s() == 2.0
    assert replica.sleeps() == [Claim(replace=False)]


@pytest.mark.parametrize("before", [(), TO_CONTEND])
def test_an_id_that_someone_else_has_ends_the_process_with_one_error(before: Sequence[Event]) -> None:
    replica = Replica(*before)

    assert replica.hears(IdClash("id 901 belongs to a broker", is_our_past=False)) == [Exit(FAILED)]
    assert (replica.phase, replica.complaints()) == (Phase.ENDED, ["broker.id is already in use"])


def test_a_start_that_zookeeper_refuses_ends_the_process_with_one_error() -> None:
    replica = Replica()

    assert replica.hears(StartRefused("NOAUTH: /controller")) == [Exit(FAILED)]
    assert replica.complaints() == ["ZooKeeper refused this process"]


def test_who_cannot_reach_zookeeper_says_so_and_is_not_ready() -> None:
    replica = Replica(Unreachable("no ZooKeeper server answers at zk1"))

    assert (replica.candidacy.is_ready, replica.candidacy.reason) == (False, "no ZooKeeper server answers at zk1")


def test_a_session_lost_while_the_claim_is_under_way_makes_it_void() -> None:
    replica = Replica(*TO_CONTEND)

    assert replica.hears(SessionLost()) == []
    assert replica.is_in(Phase.CONTENDING), "one claim at a time: its outcome must come first"
    assert replica.hears(claimed()) == [Abandon()]
    assert replica.is_in(Phase.STANDBY)
    assert replica.hears(Reconnected(), HolderSeen(None, False, ControllerEpoch(5))) == [Claim(replace=False)]


def test_a_leader_finishes_what_is_in_flight_before_it_hands_the_cluster_back() -> None:
    replica = Replica(*TO_LEAD)

    assert replica.hears(mine(is_released=True)) == [Drain()]
    assert (replica.phase, replica.complaints()) == (
        Phase.HANDING_BACK,
        ["the cluster is released to Kafka's own controllers"],
    )
    assert replica.hears(TermDrained()) == [Release()]
    assert replica.is_in(Phase.STANDBY)
    assert replica.candidacy.reason == "the cluster is released to native controllers"
    assert replica.hears(RELEASED) == []


def test_a_release_that_was_undone_is_followed_at_once_by_a_claim() -> None:
    replica = Replica(*TO_HAND_BACK, TermDrained(), RELEASED)

    assert replica.hears(VACANT) == [Claim(replace=False)]


def test_a_release_seen_while_it_loads_is_followed_at_once() -> None:
    replica = Replica(*TO_LOAD)

    assert replica.hears(mine(is_released=True)) == [Release()]
    assert replica.is_in(Phase.STANDBY)


def test_a_release_seen_while_it_claims_is_followed_without_a_term() -> None:
    replica = Replica(*TO_CONTEND, RELEASED)

    assert replica.hears(claimed()) == [Release()]
    assert replica.is_in(Phase.STANDBY)


@pytest.mark.parametrize("before", [(), (Watching(), OURS)])
def test_a_stop_in_standby_ends_the_process(before: Sequence[Event]) -> None:
    assert Replica(*before).hears(StopAsked("SIGTERM received")) == [Exit(OK)]


def test_a_stop_while_loading_gives_the_claim_up_at_once() -> None:
    assert Replica(*TO_LOAD).hears(StopAsked("SIGTERM received")) == [TO_SUCCESSOR, Exit(OK)]


@pytest.mark.parametrize(
    ("outcome", "orders"),
    [
        (claimed(), [TO_SUCCESSOR, Exit(OK)]),
        (Lost(TAKEN), [Exit(OK)]),
        (ClaimFailed("expired"), [Exit(OK)]),
        (IdClash("ours", True), [Exit(OK)]),
    ],
)
def test_a_stop_while_claiming_waits_for_what_is_to_be_given_up(
    outcome: Claimed | Lost | ClaimFailed | IdClash, orders: list[Order]
) -> None:
    replica = Replica(*TO_CONTEND)

    assert replica.hears(StopAsked("SIGTERM received")) == []
    assert replica.hears(outcome) == orders


def test_a_stop_while_claiming_does_not_wait_for_longer_than_a_session() -> None:
    replica = Replica(*TO_CONTEND, StopAsked("SIGTERM received"))

    assert replica.waits_s() == SESSION_S
    assert replica.sleeps() == [Exit(OK)]


@pytest.mark.parametrize(
    ("end", "orders"),
    [
        (TermDrained(), [TO_SUCCESSOR, Exit(OK)]),
        (another(6), [Release(), Exit(OK)]),
        (TermFailed("a bug"), [Release(), Exit(OK)]),
        (SessionLost(), [Abandon(), Exit(OK)]),
        (TermSessionEnded("expired"), [Abandon(), Exit(OK)]),
    ],
)
def test_a_leader_asked_to_stop_ends_once_it_has_drained_or_lost_its_term(
    end: TermEvent | HolderSeen | SessionLost, orders: list[Order]
) -> None:
    replica = Replica(*TO_LEAD)

    assert replica.hears(StopAsked("SIGTERM received")) == [Drain()]
    assert replica.is_in(Phase.RESIGNING)
    assert replica.hears(end) == orders


@pytest.mark.parametrize(
    ("before", "orders"),
    [(TO_CONTEND, [Exit(OK)]), (TO_LEAD, [Abandon(), Exit(OK)]), (TO_HAND_BACK, [Abandon(), Exit(OK)])],
)
def test_a_second_request_to_stop_waits_for_nothing(before: Sequence[Event], orders: list[Order]) -> None:
    replica = Replica(*before, StopAsked("SIGTERM received"))

    assert replica.hears(StopAsked("SIGTERM received")) == orders
    assert replica.is_in(Phase.ENDED)


@pytest.mark.parametrize(("before", "orders"), [(TO_RESIGN, [Release(), Exit(OK)]), (TO_HAND_BACK, [Release()])])
def test_what_is_in_flight_is_not_waited_for_longer_than_a_session(
    before: Sequence[Event], orders: list[Order]
) -> None:
    replica = Replica(*before)

    assert replica.waits_s() == SESSION_S
    assert replica.sleeps() == orders


def test_what_is_in_flight_has_no_more_time_because_of_a_stop() -> None:
    replica = Replica(*TO_HAND_BACK)
    due = replica.wake_at
    replica.now += 1.0

    replica.hears(StopAsked("SIGTERM received"))

    assert replica.wake_at == due
    assert replica.sleeps() == [Release(), Exit(OK)]


@pytest.mark.parametrize(
    "before",
    [
        mine(is_released=True),
        Unsound("a KRaft quorum waits"),
        Suspended(),
        HolderUnknown("NOAUTH"),
    ],
)
def test_a_leader_that_stops_names_no_successor_where_none_is_wanted_or_zookeeper_cannot_be_told(before: Event) -> None:
    replica = Replica(*TO_LEAD, before, StopAsked("SIGTERM received"))

    assert replica.hears(TermDrained()) == [Release(), Exit(OK)]


def test_a_successor_is_named_again_once_zookeeper_answers() -> None:
    replica = Replica(*TO_LEAD, Suspended(), HolderUnknown("a bug"), Resumed(), mine(), StopAsked("SIGTERM received"))

    assert replica.hears(TermDrained()) == [TO_SUCCESSOR, Exit(OK)]


def test_a_stop_while_it_hands_back_drains_only_once_and_ends_the_process() -> None:
    replica = Replica(*TO_HAND_BACK)

    assert replica.hears(StopAsked("SIGTERM received")) == []
    assert replica.is_in(Phase.RESIGNING)
    assert replica.hears(TermDrained()) == [Release(), Exit(OK)]


def test_who_has_ended_wants_nothing_any_more() -> None:
    replica = Replica(*TO_RESIGN, TermDrained())

    assert replica.hears(VACANT, Watching(), StopAsked("again"), Woken()) == []
    assert replica.is_in(Phase.ENDED)


def test_an_alarm_that_rang_early_is_set_again() -> None:
    replica = Replica(*TO_CONTEND, Lost(TAKEN))
    due = replica.wake_at

    replica.wake_at = None
    assert replica.hears(Woken()) == []
    assert replica.wake_at == due


def test_each_step_from_phase_to_phase_is_one_line_that_says_why() -> None:
    replica = Replica(*TO_RESIGN, TermDrained())

    assert [(say.text, say.details["why"], say.details["detail"]) for say in replica.said] == [
        ("standby → contending", "/controller is vacant", "/controller is vacant"),
        ("contending → loading", "the claim was accepted", "controller epoch 5"),
        ("loading → active", "the state in ZooKeeper is loaded", "at once"),
        ("active → resigning", "the process was asked to stop", "SIGTERM received"),
        ("resigning → ended", "nothing is in flight", ""),
    ]


def test_a_leader_that_another_replica_replaces_does_not_call_the_controller_vacant() -> None:
    """A transaction that deletes and creates `/controller` rings the watch for its deletion."""
    replica = Replica(*TO_LEAD)
    replica.said.clear()

    replica.hears(HolderSeen(None, False, ControllerEpoch(5)), another(6))

    assert [(say.text, say.details["why"], say.details["detail"]) for say in replica.said] == [
        ("active → standby", "the term is over", "this process no longer holds /controller"),
    ]
    assert replica.candidacy.reason == "broker 902 holds /controller"


def test_who_was_outranked_by_what_zookeeper_has_lost_claims_far_above_it() -> None:
    replica = Replica(*TO_LEAD)
    replica.hears(
        TermFailed("brokers know a higher epoch", is_outranked=True), HolderSeen(None, False, claimed().epoch)
    )

    assert replica.sleeps() == [Claim(replace=False, raise_by=1000)]

    replica.hears(claimed(1005), mine(1005), TermFailed("fenced"), HolderSeen(None, False, ControllerEpoch(1005)))
    assert replica.sleeps() == [Claim(replace=False)]


def test_who_was_outranked_by_another_controller_claims_right_above_it() -> None:
    replica = Replica(*TO_LEAD)
    replica.hears(TermFailed("brokers know a higher epoch", is_outranked=True), another(6))

    replica.hears(HolderSeen(None, False, ControllerEpoch(6)))
    assert replica.sleeps() == [Claim(replace=False)]


SURPASSED = TermSurpassed("/brokers/topics/orders/partitions/0/state carries controller epoch 57", ControllerEpoch(57))


@pytest.mark.parametrize("before", [(*TO_LOAD, mine()), TO_LEAD])
def test_a_term_below_what_partitions_carry_is_claimed_again_above_it_and_no_one_can_come_between(
    before: Sequence[Event],
) -> None:
    replica = Replica(*before)

    assert replica.hears(SURPASSED) == [Renew(), Claim(replace=False, surpass=ControllerEpoch(57))]
    assert replica.hears(claimed(58)) == [BeginTerm()]
    assert replica.hears(mine(58), TermLoaded("at once")) == [Serve()]


def test_what_partitions_carry_is_remembered_by_every_later_claim() -> None:
    replica = Replica(*TO_LEAD, SURPASSED, claimed(58), mine(58), TermFailed("a bug"))

    replica.hears(HolderSeen(None, False, ControllerEpoch(58)))

    assert replica.sleeps() == [Claim(replace=False, surpass=ControllerEpoch(57))]


@pytest.mark.parametrize(("before", "orders"), [(TO_RESIGN, [TO_SUCCESSOR, Exit(OK)]), (TO_HAND_BACK, [Release()])])
def test_a_term_that_is_given_up_anyway_is_not_claimed_again(before: Sequence[Event], orders: list[Order]) -> None:
    assert Replica(*before).hears(SURPASSED) == orders


def test_after_a_quorum_has_led_the_claim_is_above_the_epoch_that_it_wrote_into_partitions() -> None:
    quorum = HolderSeen(ControllerClaim(3000, kraft_epoch=57), False, ControllerEpoch(4))
    replica = Replica(Watching(), quorum, Lost("held without a session", needs_mending=True), quorum)

    assert replica.hears(VACANT) == [Claim(replace=False, surpass=ControllerEpoch(57))]


def test_an_epoch_that_would_leave_no_room_for_others_is_not_surpassed() -> None:
    quorum = HolderSeen(ControllerClaim(3000, kraft_epoch=2**31 - 1), False, ControllerEpoch(4))

    assert Replica(Watching(), quorum, Lost("held", needs_mending=True)).hears(VACANT) == [Claim(replace=False)]
