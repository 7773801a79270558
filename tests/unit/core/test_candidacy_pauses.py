"""How long does a replica pause after a short term or a refused claim?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.candidacy.events import (
    ClaimFailed,
    HolderSeen,
    HolderUnknown,
    Lost,
    TermFailed,
    TermLoaded,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Abandon,
    Claim,
    Severity,
)
from controller.core.candidacy.pauses import LONG_TERM_S
from controller.core.candidacy.phases import Phase
from tests.unit.core.candidacies import (
    OURS,
    TAKEN,
    TO_CONTEND,
    TO_LEAD,
    VACANT,
    Replica,
    another,
    claimed,
    mine,
)
from zk_layout.ids import ControllerEpoch


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
