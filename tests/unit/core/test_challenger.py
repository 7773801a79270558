"""When is a leader challenged, and when may it be replaced? Each race, as a short story."""

from __future__ import annotations

from itertools import pairwise

import pytest

from controller.core.candidacy.challenger import (
    AGAIN_S,
    LASTING_S,
    LONGEST_PAUSE_S,
    MOST_PATIENCE,
    PARTS,
    PATIENT_FOR_S,
    SHORTEST_PAUSE_S,
    Answered,
    Challenger,
    ChallengerEvent,
    ChallengerOrder,
    Gone,
    Heard,
    HungUp,
    Made,
    Make,
    NotMade,
    Outcome,
    Replace,
    Replaced,
    RingAt,
    Rung,
    Settled,
    Sign,
    Suspect,
    Sync,
    Synced,
    Unheard,
    Unsynced,
    Watches,
    Withdraw,
    suspect_of,
)
from controller.core.candidacy.events import HolderSeen, Unanswered
from controller.core.candidacy.orders import Say
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim

TIMEOUT_S = 1.0
PART_S = TIMEOUT_S / PARTS
LEADER = Suspect(BrokerId(901), ControllerEpoch(7))
NEXT = Suspect(BrokerId(903), ControllerEpoch(8))
CHALLENGE = Unanswered(ControllerEpoch(7), ZnodeVersion(12))


class Story:
    """A standby that follows a leader; time passes only where it is said."""

    def __init__(self, leader: Suspect | None = LEADER) -> None:
        self.challenger = Challenger(TIMEOUT_S)
        self.now = 100.0
        self.tell(Watches(leader))

    def tell(self, event: ChallengerEvent, after_s: float = 0.0) -> list[ChallengerOrder]:
        """What is ordered, without log lines."""
        self.now += after_s
        return [order for order in self.challenger.step(event, self.now) if not isinstance(order, Say)]

    def suspects(self) -> list[ChallengerOrder]:
        """The leader is silent for long enough."""
        return [*self.tell(Unheard()), *self.tell(Unheard(), LASTING_S + 0.001)]

    def challenges(self) -> None:
        """Up to the challenge that stands."""
        assert self.suspects() == [Make(LEADER)]
        assert self.tell(Made(CHALLENGE)) == [Sync()]

    def until_the_time_is_over(self) -> list[ChallengerOrder]:
        """ZooKeeper answers each sync at once; what is ordered last."""
        orders: list[ChallengerOrder] = []
        for _ in range(PARTS * MOST_PATIENCE + 1):
            orders = self.tell(Synced())
            if not isinstance(orders[0], RingAt):
                return orders
            self.now = orders[0].at
            assert self.tell(Rung()) == [Sync()]
        return orders


def test_a_silent_leader_is_challenged_and_replaced_when_the_time_is_over() -> None:
    story = Story()
    story.challenges()
    began = story.now

    assert story.until_the_time_is_over() == [Replace(CHALLENGE)]
    assert story.now - began == pytest.approx(TIMEOUT_S)
    assert story.tell(Settled(is_won=True)) == [Outcome("replaced")]


def test_one_sign_of_life_that_is_missing_proves_nothing() -> None:
    story = Story()

    assert story.tell(Unheard()) == []
    assert story.tell(Heard(), LASTING_S) == []
    assert story.tell(Unheard(), LASTING_S) == []
    assert story.tell(Unheard(), LASTING_S / 2) == []


def test_a_leader_that_nobody_may_replace_is_not_challenged() -> None:
    story = Story(leader=None)

    assert story.suspects() == []


def test_a_leader_that_answers_stays_and_is_challenged_less_and_less_often() -> None:
    story = Story()
    pauses = []
    for _ in range(10):
        assert story.suspects()[-1:] == [Make(LEADER)]
        story.tell(Made(CHALLENGE))
        assert story.tell(Answered(), 0.01) == [Outcome("answered"), Withdraw()]
        answered = story.now
        while not any(isinstance(order, Make) for order in story.tell(Unheard(), 0.01)):
            pass
        pauses.append(story.now - answered)
        story.tell(NotMade("another replica challenges it"))
        story.now += AGAIN_S

    expected = [min(SHORTEST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(10)]
    assert pauses == pytest.approx(expected, abs=0.02)


def test_a_sign_of_life_ends_the_pause() -> None:
    story = Story()
    story.challenges()
    story.tell(Answered())
    story.tell(Heard(), 2 * SHORTEST_PAUSE_S)
    story.challenges()
    story.tell(Answered())

    assert story.suspects() == []
    assert story.tell(Unheard(), SHORTEST_PAUSE_S) == [Make(LEADER)]


def test_a_leader_that_answers_over_a_new_connection_is_asked_in_zookeeper_once_whether_it_is_the_same() -> None:
    story = Story()
    story.tell(Heard())
    assert story.tell(Heard(is_reopened=True)) == [Make(LEADER)]
    assert story.tell(Heard()) == []
    assert story.tell(Made(CHALLENGE)) == [Sync()]
    assert story.tell(Heard()) == []
    assert story.tell(Answered()) == [Outcome("answered"), Withdraw()]

    assert story.tell(Heard(), LONGEST_PAUSE_S) == []
    assert story.tell(Heard(is_reopened=True), LONGEST_PAUSE_S) == [Make(LEADER)]


def test_a_leader_whose_connection_ends_is_challenged_at_once_and_once() -> None:
    story = Story()
    story.tell(Heard())

    assert story.tell(HungUp()) == [Make(LEADER)]
    assert story.tell(Made(CHALLENGE)) == [Sync()]
    assert story.tell(Answered()) == [Outcome("answered"), Withdraw()]
    assert story.tell(Heard(is_reopened=True)) == []
    assert story.tell(Heard(), LONGEST_PAUSE_S) == []


@pytest.mark.parametrize("sign", [Heard(is_reopened=True), Heard(), Unheard(), HungUp()])
def test_what_the_address_of_a_lost_leader_answers_does_not_matter(sign: Sign) -> None:
    story = Story()
    story.tell(HungUp())
    story.tell(Made(CHALLENGE))
    story.tell(sign)

    assert story.until_the_time_is_over() == [Replace(CHALLENGE)]


def test_a_connection_that_is_refused_after_a_lost_one_may_lead_to_another_process_later() -> None:
    story = Story()
    story.tell(HungUp())
    story.tell(Made(CHALLENGE))
    story.tell(Answered())
    story.tell(Unheard())
    story.tell(Heard(is_reopened=True))

    assert story.tell(Heard(), SHORTEST_PAUSE_S) == [Make(LEADER)]


def test_a_leader_that_nobody_may_replace_or_that_came_later_is_not_challenged_for_a_lost_connection() -> None:
    story = Story(leader=None)
    assert story.tell(HungUp()) == []
    story.tell(Watches(LEADER))
    assert story.tell(Heard()) == []

    story.tell(HungUp())
    story.tell(NotMade("another controller leads"))
    story.tell(Watches(NEXT))
    assert story.tell(Heard(), LONGEST_PAUSE_S) == []


def test_connections_that_never_last_challenge_a_leader_less_and_less_often() -> None:
    story, challenged_at = Story(), list[float]()
    while story.now < 1000.0:
        for sign in (HungUp(), Heard(is_reopened=True)):
            if Make(LEADER) in story.tell(sign, 0.01):
                challenged_at.append(story.now)
                story.tell(Made(CHALLENGE))
                story.tell(Answered())

    pauses = [later - sooner for sooner, later in pairwise(challenged_at)]
    assert pauses[:5] == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0], abs=0.03)
    assert max(pauses) == pytest.approx(LONGEST_PAUSE_S, abs=0.03)


@pytest.mark.parametrize("false_alarms", [1, 8])
def test_a_death_soon_after_false_alarms_is_challenged_as_soon_as_after_the_first(false_alarms: int) -> None:
    story = Story()
    for _ in range(false_alarms):
        story.tell(Unheard(), LONGEST_PAUSE_S)
        story.tell(Unheard(), LONGEST_PAUSE_S)
        story.tell(Made(CHALLENGE))
        story.tell(Answered())
    story.tell(Heard(), 0.01)

    assert story.tell(HungUp(), 0.01) == []
    assert story.tell(Unheard(), SHORTEST_PAUSE_S) == [Make(LEADER)]


def test_another_process_at_the_address_of_a_dead_leader_does_not_pass_for_it() -> None:
    story = Story()
    story.tell(Unheard())
    assert story.tell(Heard(is_reopened=True)) == [Make(LEADER)]
    story.tell(Made(CHALLENGE))

    assert story.until_the_time_is_over() == [Replace(CHALLENGE)]


def test_a_doubt_lasts_until_it_is_resolved_or_another_leads() -> None:
    story = Story()
    story.tell(Heard(is_reopened=True))
    story.tell(NotMade("another replica challenges it"))
    assert story.tell(Heard(), AGAIN_S / 2) == []
    assert story.tell(Heard(), AGAIN_S / 2 + 0.001) == [Make(LEADER)]
    story.tell(Watches(NEXT))
    story.tell(Made(CHALLENGE))

    assert story.tell(Heard(), LONGEST_PAUSE_S) == []


@pytest.mark.parametrize(
    ("event", "orders"),
    [
        (Heard(), [Outcome("withdrawn"), Withdraw()]),
        (Watches(None), [Outcome("withdrawn"), Withdraw()]),
        (Watches(NEXT), [Outcome("withdrawn"), Withdraw()]),
        (Unsynced(), [Outcome("withdrawn"), Withdraw()]),
        (Gone(), [Outcome("withdrawn"), Withdraw()]),
        (Answered(), [Outcome("answered"), Withdraw()]),
        (Unheard(), []),
        (HungUp(), []),
        (Watches(LEADER), []),
        (Replaced(), []),
        (Settled(is_won=False), []),
        (NotMade("late"), []),
    ],
)
def test_what_ends_a_challenge_and_what_does_not(event: ChallengerEvent, orders: list[ChallengerOrder]) -> None:
    story = Story()
    story.challenges()

    assert story.tell(event, 0.01) == orders
    if orders:
        assert story.tell(Synced()) == []  # the time counts no more


@pytest.mark.parametrize("event", [Heard(), Watches(None), Watches(NEXT)])
def test_what_changes_while_the_challenge_is_being_made_withdraws_it(event: ChallengerEvent) -> None:
    story = Story()
    story.suspects()
    story.tell(event)

    assert story.tell(Made(CHALLENGE)) == [Outcome("withdrawn"), Withdraw()]


@pytest.mark.parametrize(
    "event", [Answered(), Gone(), Heard(), HungUp(), Unheard(), Watches(None), Synced(), Unsynced(), Rung()]
)
def test_while_the_claim_is_in_flight_only_its_outcome_counts(event: ChallengerEvent) -> None:
    story = Story()
    story.challenges()
    story.until_the_time_is_over()

    assert story.tell(event) == []
    assert story.tell(Settled(is_won=False)) == [Outcome("refused"), Withdraw()]


def test_another_replicas_challenge_is_waited_for() -> None:
    story = Story()
    story.suspects()

    assert story.tell(NotMade("another replica challenges it")) == []
    assert story.tell(Unheard(), AGAIN_S / 2) == []
    assert story.tell(Unheard(), AGAIN_S / 2 + 0.001) == [Make(LEADER)]


def test_a_leader_that_answers_before_its_challenge_is_looked_at_is_challenged_less_and_less_often() -> None:
    story, pauses = Story(), list[float]()
    story.suspects()

    for _ in range(4):
        story.tell(NotMade("the leader has answered already", has_answered=True))
        since = story.now
        while story.tell(Unheard(), AGAIN_S) != [Make(LEADER)]:
            pass
        pauses.append(story.now - since)

    assert pauses == sorted({*pauses})


def test_why_a_leader_is_not_challenged_is_said_once() -> None:
    story = Story()

    def said() -> int:
        story.tell(Unheard(), AGAIN_S)
        story.tell(Unheard(), AGAIN_S)
        return len(story.challenger.step(NotMade("no right"), story.now))

    assert [said(), said(), said()] == [1, 0, 0]


def test_a_slow_zookeeper_lets_the_time_begin_again() -> None:
    story = Story()
    story.challenges()

    (ring,) = story.tell(Synced(), 1.01 * PART_S)
    began = story.now

    assert isinstance(ring, RingAt)
    story.now = ring.at
    assert story.tell(Rung()) == [Sync()]
    assert story.until_the_time_is_over() == [Replace(CHALLENGE)]
    assert story.now - began == pytest.approx(TIMEOUT_S)


def test_a_zookeeper_that_does_not_answer_lets_nothing_be_decided() -> None:
    story = Story()
    story.challenges()

    assert [story.tell(Rung(), 1.0) for _ in range(100)] == [[]] * 100
    (ring,) = story.tell(Synced())
    assert isinstance(ring, RingAt)


def test_a_process_that_stood_still_begins_again() -> None:
    """As if the whole machine had been asleep, with ZooKeeper and the leader."""
    story = Story()
    story.challenges()
    (ring,) = story.tell(Synced())
    assert isinstance(ring, RingAt)
    story.now = ring.at + 10.0

    assert story.tell(Rung()) == [Sync()]
    began = story.now
    assert story.until_the_time_is_over() == [Replace(CHALLENGE)]
    assert story.now - began == pytest.approx(TIMEOUT_S)


def test_the_last_sync_is_asked_for_after_the_time_is_over() -> None:
    """ZooKeeper tells of an answer before it answers a later sync."""
    story = Story()
    story.challenges()
    last = 0.0
    while isinstance((orders := story.tell(Synced(), 0.9 * PART_S))[0], RingAt):
        story.now = max(story.now, orders[0].at)
        last = story.now
        assert story.tell(Rung()) == [Sync()]

    assert orders == [Replace(CHALLENGE)]
    assert last - 100.0 - LASTING_S > TIMEOUT_S - 0.001


def test_each_change_by_a_challenge_doubles_the_time_out_for_a_minute_and_none_shortens_it() -> None:
    challenger = Challenger(TIMEOUT_S)
    patience = []
    for second in range(0, 200, 20):
        challenger.step(Replaced(), second)
        patience.append(challenger.timeout_s(second))

    assert patience == [2.0, 4.0, 8.0, *[16.0] * 7]
    assert challenger.timeout_s(180 + PATIENT_FOR_S - 1) == 16.0
    assert challenger.timeout_s(180 + PATIENT_FOR_S) == TIMEOUT_S


def test_who_replaced_a_leader_or_was_replaced_waits_twice_as_long_the_next_time() -> None:
    story = Story()
    story.tell(Replaced())
    story.challenges()
    began = story.now
    story.until_the_time_is_over()
    assert story.now - began == pytest.approx(2 * TIMEOUT_S)

    story.tell(Settled(is_won=True))
    assert story.challenger.timeout_s(story.now) == 4 * TIMEOUT_S


OURS = ControllerClaim(BrokerId(901), is_ours=True, timestamp_ms=1)


@pytest.mark.parametrize(
    ("holder", "is_mine", "expected"),
    [
        (OURS, False, LEADER),
        (OURS, True, None),
        (ControllerClaim(BrokerId(1), is_ours=False, timestamp_ms=1), False, None),
        (ControllerClaim(BrokerId(3000), kraft_epoch=5), False, None),
        (ControllerClaim(BrokerId(901), is_ours=True, timestamp_ms=1, kraft_epoch=5), False, None),
        (Malformed("junk", 1), False, None),
        (None, False, None),
    ],
)
def test_only_another_replica_of_ours_is_ever_suspected(
    holder: ControllerClaim | Malformed | None, is_mine: bool, expected: Suspect | None
) -> None:
    assert suspect_of(HolderSeen(holder, is_mine, ControllerEpoch(7))) == expected
