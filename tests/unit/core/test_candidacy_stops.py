"""How does a replica end?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core.candidacy.candidacy import OK
from controller.core.candidacy.events import (
    Claimed,
    ClaimFailed,
    Event,
    HolderSeen,
    HolderUnknown,
    IdClash,
    Lost,
    Resumed,
    SessionLost,
    StopAsked,
    Suspended,
    TermDrained,
    TermEvent,
    TermFailed,
    TermSessionEnded,
    Unsound,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    Claim,
    Drain,
    Exit,
    Order,
    Release,
)
from controller.core.candidacy.phases import Phase
from tests.unit.core.candidacies import (
    OURS,
    RELEASED,
    SESSION_S,
    TAKEN,
    TO_CONTEND,
    TO_HAND_BACK,
    TO_LEAD,
    TO_LOAD,
    TO_RESIGN,
    TO_SUCCESSOR,
    VACANT,
    Replica,
    another,
    claimed,
    mine,
)


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
