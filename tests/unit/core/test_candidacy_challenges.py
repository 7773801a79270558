"""What does a challenge mean to the candidacy: of a standby that made it, and of a leader that left it unanswered?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.core.candidacy.challenged import REPLACED
from controller.core.candidacy.challenger import Suspect
from controller.core.candidacy.events import (
    ChallengeAnswered,
    Challenged,
    Event,
    Lost,
    StopAsked,
    TermFailed,
    Unanswered,
    Unsound,
    Watching,
)
from controller.core.candidacy.orders import Abandon, BeginTerm, Claim
from controller.core.candidacy.phases import Phase, TakeOver
from tests.unit.core.candidacies import (
    NATIVE,
    OURS,
    TO_LEAD,
    VACANT,
    Replica,
    another,
    claimed,
    paused,
)
from zk_layout.ids import BrokerId, ControllerEpoch, ZnodeVersion

UNANSWERED = Unanswered(ControllerEpoch(4), ZnodeVersion(9))


@pytest.mark.parametrize("take_over", [TakeOver.ALWAYS, TakeOver.WHEN_VACANT])
def test_a_leader_of_ours_that_has_not_answered_is_replaced(take_over: TakeOver) -> None:
    replica = Replica(Watching(), OURS, take_over=take_over)

    assert replica.candidacy.suspect == Suspect(BrokerId(902), ControllerEpoch(4))
    assert replica.hears(UNANSWERED) == [Claim(replace=False, replaces_ours=True, unanswered=UNANSWERED)]
    assert replica.hears(claimed()) == [BeginTerm()]


def test_a_pause_of_moves_does_not_keep_a_dead_leader() -> None:
    assert Replica(Watching(), paused(OURS)).hears(UNANSWERED) != []


@pytest.mark.parametrize(
    "before",
    [
        (Watching(), NATIVE),
        (Watching(), VACANT),
        (Watching(), another(5)),
        (Watching(), replace(OURS, is_released=True)),
        (Watching(), OURS, Unsound("no broker answers")),
        (OURS,),
        TO_LEAD,
    ],
    ids=["native", "vacant", "another epoch", "released", "unsound", "not watching", "leads itself"],
)
def test_nobody_else_is_replaced_because_of_a_challenge(before: tuple[Event, ...]) -> None:
    replica = Replica(*before, take_over=TakeOver.WHEN_VACANT)
    phase = replica.phase

    assert replica.hears(UNANSWERED) == []
    assert replica.phase is phase


@pytest.mark.parametrize(
    "before",
    [
        (Watching(), NATIVE),
        (Watching(), replace(OURS, is_released=True)),
        (Watching(), OURS, Unsound("no broker answers")),
        (OURS,),
        TO_LEAD,
        (Watching(), OURS, StopAsked("SIGTERM received")),
    ],
    ids=["native", "released", "unsound", "not watching", "leads itself", "stops"],
)
def test_a_replica_that_may_not_lead_suspects_nobody(before: tuple[Event, ...]) -> None:
    assert Replica(*before, take_over=TakeOver.WHEN_VACANT).candidacy.suspect is None


def test_while_it_claims_a_replica_suspects_nobody() -> None:
    assert Replica(Watching(), OURS, UNANSWERED).candidacy.suspect is None


def test_a_replica_that_never_claims_suspects_nobody() -> None:
    assert Replica(Watching(), OURS, take_over=TakeOver.NEVER).candidacy.suspect is None


def test_a_claim_that_was_refused_is_not_made_again_for_the_same_challenge() -> None:
    replica = Replica(Watching(), OURS, UNANSWERED)

    assert replica.hears(Lost("the leader has answered the challenge")) == []
    assert replica.hears(OURS) == []
    assert replica.wake_at is None


def test_a_challenge_whose_time_was_over_during_a_pause_is_forgotten() -> None:
    replica = Replica(*TO_LEAD, TermFailed("an invariant is broken"), another(6))

    assert replica.hears(Unanswered(ControllerEpoch(6), ZnodeVersion(9))) == []
    assert replica.sleeps() == []
    assert replica.phase is Phase.STANDBY


def test_a_leader_that_was_replaced_after_a_challenge_says_so_once_it_knows_by_whom() -> None:
    leader = Replica(*TO_LEAD, Challenged())

    assert leader.hears(replace(VACANT, epoch=ControllerEpoch(5))) == [Abandon()]
    assert leader.candidacy.reason == REPLACED
    assert leader.candidacy.challenges.times_replaced == 1
    leader.hears(another(6))
    leader.hears(another(6))

    assert leader.complaints()[-1] == "replaced by 902 after a challenge"
    assert leader.complaints().count("replaced by 902 after a challenge") == 1


@pytest.mark.parametrize("since", [(), (Challenged(), ChallengeAnswered())])
def test_a_leader_that_is_replaced_without_an_open_challenge_does_not_speak_of_one(since: tuple[Event, ...]) -> None:
    leader = Replica(*TO_LEAD, *since)
    leader.hears(another(6))

    assert not any("challenge" in text for text in leader.complaints())
    assert leader.candidacy.challenges.times_replaced == 0


def test_a_challenge_of_an_earlier_term_is_forgotten() -> None:
    leader = Replica(*TO_LEAD, Challenged(), TermFailed("an invariant is broken"))
    times = leader.candidacy.challenges.times_replaced
    leader.now += 60.0
    leader.hears(replace(VACANT, epoch=ControllerEpoch(5)))
    leader.hears(claimed(6))
    leader.hears(another(7))

    assert leader.candidacy.challenges.times_replaced == times
