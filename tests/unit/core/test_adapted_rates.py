"""Does the rate of a receiving broker follow what its neighbours' replicas show, within its bounds?"""

from __future__ import annotations

import json

import pytest

from controller.core.messages.effects import DescribeLogEnds
from controller.core.reassignment.lagging import TOPICS
from tests.unit.traps.play import Play, some
from zk_layout.znodes.throttles import BROKERS, FOLLOWER_RATE

LEAST, ASKED = 1_000_000, 8_000_000
SETTINGS = (f"set moves_throttle={ASKED}", f"set moves_throttle_min={LEAST}")
# Broker 1 leads orders, which moves to broker 3, and users; broker 2 leads others.
CLUSTER = ("brokers 1,2,3,4", "topic orders 0=1,2", "topic users 0=1,4", "topic others 0=2,4")
MOVE = "ask reassign orders-0 to=3,2"
SHRINKS, RETURNS = "isr users-0 1", "isr users-0 1,4"


def moving(*before: str, ask: str = MOVE) -> Play:
    """A throttled move that is under way."""
    play = Play(*SETTINGS, *CLUSTER, *before, "elect")
    play.do(ask, "time +6s")
    assert '"adding_replicas":{"0":[3]}' in str(play.data("/brokers/topics/orders"))
    return play


def rate(play: Play) -> int | None:
    """The rate of broker 3; None without one."""
    data = play.data("/config/brokers/3")
    found = {} if data is None else json.loads(data)["config"]
    return int(found[FOLLOWER_RATE]) if FOLLOWER_RATE in found else None


def halvings(play: Play) -> int:
    """How often a rate was halved by what was played last."""
    return sum(m.measure == "reassignment_throttle_halvings" for m in play.theatre.measured)


def test_a_replica_that_leaves_the_isr_halves_the_rate_at_once() -> None:
    play = moving()
    assert rate(play) == ASKED

    said = play.do(SHRINKS, "time +1s")

    assert rate(play) == ASKED // 2
    assert some(said, "broker 3 copies throttled replicas at 4000000 bytes/s: replica 4 of users-0 has left the ISR")
    assert halvings(play) == 1
    shown = [m for m in play.theatre.measured if m.measure == "reassignment_throttle_bytes_per_second"]
    assert [(m.labels, m.value) for m in shown] == [(("3",), ASKED / 2)]


def test_what_follows_within_the_window_of_a_cut_is_a_sign_of_the_former_rate() -> None:
    play = moving()

    play.do(SHRINKS, "time +2s", RETURNS, "time +2s", SHRINKS, "time +2s")
    assert rate(play) == ASKED // 2
    play.do(RETURNS, "time +7s", SHRINKS, "time +1s")

    assert rate(play) == ASKED // 4


def test_no_rate_is_halved_below_the_least() -> None:
    play = moving()

    play.do(*[SHRINKS, "time +6s", RETURNS, "time +7s"] * 6)

    assert rate(play) == LEAST
    assert halvings(play) == 3


@pytest.mark.parametrize("broker", ["1", "2", "3", "4"])
def test_only_what_a_broker_copies_to_or_from_counts(broker: str) -> None:
    """Broker 3 copies from broker 1 alone."""
    others = {"1": "0=1,2", "2": "0=2,4", "3": "0=3,4", "4": "0=4,2"}
    play = moving(f"topic beside {others[broker]}")

    play.do(f"isr beside-0 {broker}", "time +1s")

    assert rate(play) == (ASKED // 2 if broker in "13" else ASKED)


def test_a_lagging_replica_on_the_receiver_or_its_source_counts_too() -> None:
    for replica, expected in (("1", ASKED // 2), ("2", ASKED), ("3", ASKED // 2)):
        play = moving(f"topic beside 0=4,{replica}")
        play.do("isr beside-0 4", "time +1s")
        assert rate(play) == expected


@pytest.mark.parametrize(
    "what",
    [
        ("broker 4 dies",),
        ("shutdown 4",),
        ("ask reassign users-0 to=1,2", "time +6s", "isr users-0 1,4,2", "time +20s"),
        ("isr orders-0 1,2,3", "isr orders-0 1,2"),
    ],
    ids=["a broker fails", "a broker stops", "a move removes a replica", "an added replica leaves again"],
)
def test_other_changes_of_an_isr_are_no_sign(what: tuple[str, ...]) -> None:
    play = moving()

    play.do(*what, "time +1s")

    assert not halvings(play)
    assert rate(play) in (ASKED, None)


def test_a_follower_that_has_less_than_its_leader_had_ten_seconds_ago_halves_the_rate() -> None:
    play = moving("ends users-0 1=1000 4=1000")

    play.do("time +12s", "ends users-0 1=2000 4=1000", "time +12s")
    assert rate(play) == ASKED
    said = play.do("ends users-0 1=3000 4=1999", "time +12s", "time +1s")

    assert rate(play) == ASKED // 2
    assert some(said, "bytes/s: replica 4 of users-0 is more than 10 s behind")


def test_no_rate_climbs_while_a_follower_is_far_behind() -> None:
    play = moving()

    for round_ in range(10):
        play.do(f"ends users-0 1={round_ * 100 + 100} 4={round_}", "time +12s")
    assert rate(play) == LEAST
    play.do("ends users-0 1=2000 4=2000", "time +90s")

    assert (rate(play) or 0) > LEAST


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ("time +1s", ASKED // 2),
        ("broker 4 hangs", ASKED),
        ("broker 4 dies", ASKED),
        ("broker 1 dies", ASKED),
        ("ask reassign users-0 to=1,2", ASKED),
    ],
)
def test_only_followers_in_sync_that_no_move_concerns_are_compared(meanwhile: str, expected: int) -> None:
    play = moving("ends users-0 1=1000 4=0")

    play.do("time +7s", meanwhile, "time +12s", "time +1s")

    assert rate(play) == expected


def test_what_other_brokers_lead_is_not_compared() -> None:
    play = moving("ends others-0 2=1000 4=0")

    play.do("time +60s")

    assert rate(play) == ASKED


def test_few_partitions_are_asked_about_and_others_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    play, asked = moving(*(f"topic beside{n:02} 0=1,4 1=1,4" for n in range(50))), list[DescribeLogEnds]()
    monkeypatch.setattr(play.theatre, "_end", asked.append)

    play.do("time +12s", "time +12s")

    assert [one.broker for one in asked] == [1, 1]
    assert all(TOPICS <= len(one.partitions) <= 2 * TOPICS for one in asked)
    assert len({at for one in asked for at in one.partitions}) >= 2 * TOPICS


def test_without_a_least_rate_no_broker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    play, asked = moving(), list[DescribeLogEnds]()
    play.do("adjust moves_throttle_min=null")
    monkeypatch.setattr(play.theatre, "_end", asked.append)

    play.do("time +60s")

    assert asked == []


def test_without_a_least_rate_none_is_halved() -> None:
    play = Play(SETTINGS[0], *CLUSTER, "elect", MOVE, "time +6s")

    play.do(SHRINKS, "time +15s")

    assert rate(play) == ASKED


def test_a_rate_climbs_in_steps_to_what_was_asked_for_and_no_further() -> None:
    play = moving()
    play.do(SHRINKS, "time +1s", RETURNS, "time +28s")
    assert rate(play) == ASKED // 2

    play.do("time +3s")
    assert ASKED // 2 < (rate(play) or 0) < ASKED // 2 + 1_000_000
    play.do("time +12s")
    assert rate(play) == ASKED // 2 + 1_000_000
    play.do("time +600s")

    assert rate(play) == ASKED


def test_no_rate_climbs_while_a_replica_is_out_of_sync() -> None:
    play = moving()

    play.do(SHRINKS, "time +120s")
    assert rate(play) == ASKED // 2
    play.do(RETURNS, "time +60s")

    assert (rate(play) or 0) > ASKED // 2


def test_a_replica_whose_broker_is_gone_keeps_no_rate_down() -> None:
    play = moving()

    play.do(SHRINKS, "time +1s", "broker 4 dies", "time +90s")

    assert (rate(play) or 0) > ASKED // 2


def test_a_lower_rate_that_a_request_asks_for_is_neither_halved_below_the_least_nor_exceeded() -> None:
    play = moving(ask=f"ask reassign throttle={LEAST // 2} orders-0 to=3,2")

    play.do(SHRINKS, "time +1s", RETURNS, "time +120s")

    assert rate(play) == LEAST // 2


def test_a_rate_that_was_there_before_is_halved_too_and_restored() -> None:
    play = moving(f"config 3 {FOLLOWER_RATE}=6000000")
    assert rate(play) == 6_000_000

    play.do(SHRINKS, "time +1s")
    assert rate(play) == 3_000_000
    play.do("isr orders-0 1,2,3", "time +5s")

    assert rate(play) == 6_000_000


@pytest.mark.parametrize("prior", [None, "900000000"])
def test_a_successor_goes_on_from_the_rate_in_force_and_restores_what_was_there(prior: str | None) -> None:
    play = moving(*(() if prior is None else (f"config 3 {FOLLOWER_RATE}={prior}",)))
    play.do(SHRINKS, RETURNS, "time +1s")

    play.do("elect 101", "time +25s")
    assert rate(play) == ASKED // 2
    play.do("time +25s")
    assert ASKED // 2 < (rate(play) or 0) < ASKED
    play.do("isr orders-0 1,2,3", "time +5s")

    assert rate(play) == (None if prior is None else int(prior))
    assert not [path for path in play.theatre.zookeeper.nodes if path.startswith(f"{BROKERS}/")]


def test_a_rate_that_someone_else_has_changed_is_theirs() -> None:
    play = moving()

    play.do(f"config 3 {FOLLOWER_RATE}=7000000", SHRINKS, "time +60s")

    assert rate(play) == 7_000_000


def test_a_changed_setting_counts_at_once() -> None:
    play = moving()
    play.do(SHRINKS, "time +1s")

    play.do("adjust moves_throttle_min=5000000", "time +1s")
    assert ASKED // 2 < (rate(play) or 0) <= 5_000_000
    play.do("adjust moves_throttle_min=null", "time +15s")

    assert rate(play) == ASKED
