"""What does a replica do about a silent or lost session?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core.candidacy.candidacy import FAILED
from controller.core.candidacy.events import (
    Event,
    HolderSeen,
    IdClash,
    NotGivenUp,
    Reconnected,
    Resumed,
    SessionLost,
    StartRefused,
    Suspended,
    TermSessionEnded,
    Unreachable,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    Claim,
    Exit,
    Severity,
)
from controller.core.candidacy.phases import Phase
from tests.unit.core.candidacies import (
    OURS,
    SESSION_S,
    TO_CONTEND,
    TO_HAND_BACK,
    TO_LEAD,
    TO_LOAD,
    VACANT,
    Replica,
    another,
    claimed,
    mine,
)
from zk_layout.ids import ControllerEpoch


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
