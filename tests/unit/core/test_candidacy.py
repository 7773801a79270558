"""When does a replica claim, wait for another, or step down?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from controller.core.candidacy.candidacy import OK
from controller.core.candidacy.events import (
    Event,
    HolderSeen,
    Lost,
    ProtocolChanged,
    Reconnected,
    SessionLost,
    StopAsked,
    TakeOverChosen,
    TermDrained,
    TermFailed,
    TermLoaded,
    Unsound,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    BeginTerm,
    Claim,
    Exit,
    Serve,
    Severity,
)
from controller.core.candidacy.pauses import NATIVE_BEGINS_S
from controller.core.candidacy.phases import Phase, TakeOver
from tests.unit.core.candidacies import (
    NATIVE,
    OURS,
    RELEASED,
    TAKEN,
    TO_CONTEND,
    TO_HAND_BACK,
    TO_LEAD,
    TO_LOAD,
    TO_RESIGN,
    UNREADABLE,
    VACANT,
    Replica,
    another,
    claimed,
    mine,
    paused,
    says,
)
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes.controller import ControllerClaim


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
