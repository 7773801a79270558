"""When must a replica not lead, and when does another term of its own follow at once?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core.candidacy.candidacy import OK
from controller.core.candidacy.events import (
    ClaimFailed,
    Event,
    HolderSeen,
    HolderUnknown,
    Lost,
    ProtocolChanged,
    StopAsked,
    TermDrained,
    TermFailed,
    TermLoaded,
    TermSurpassed,
    Unsound,
    Watching,
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
    Serve,
)
from controller.core.candidacy.phases import Phase
from tests.unit.core.candidacies import (
    SESSION_S,
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
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes.controller import ControllerClaim


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
