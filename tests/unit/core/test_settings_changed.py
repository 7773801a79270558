"""What an operator changes while a term goes on counts at once, and does to that term what it would do to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import asdict

from controller.core.machine import Machine
from controller.core.messages.events import Loaded, SettingsChanged
from controller.core.seeded_random import SeededRandom
from controller.core.settings import ADJUSTABLE, MachineSettings, TopicDefaults, adjusted
from controller.core.windows import Window
from tests.unit.core.builders import EPOCH, OWN
from tests.unit.traps.play import Play, some

Story = Callable[[Play], list[str]]
MARK = "/admin/delete_topics/orders"
FOREVER = "set deletion_patience_s=1000"


def cluster(*settings: str) -> Play:
    """A led topic on brokers 1 and 2, of three."""
    return Play(*settings, "brokers 1,2,3", "topic orders 0=1,2", "elect")


def unbalanced(*settings: str) -> Play:
    """Broker 2 leads what broker 1 is preferred for."""
    return Play(*settings, "brokers 1,2", "topic orders 0=1,2", "elect", *_away_and_back(1))


def _away_and_back(broker: int) -> tuple[str, ...]:
    return f"broker {broker} dies", f"broker {broker} returns", "isr orders-0 2,1"


def half_moved(*settings: str) -> Play:
    """A finished move waits for broker 1, which does not confirm that its replica is deleted."""
    play = cluster(*settings)
    play.do("broker 1 hangs", "ask reassign orders-0 to=3,2", "isr orders-0 1,2,3")
    return play


# ---- returning leadership -------------------------------------------------------------------------------------


def test_a_rebalance_that_is_turned_on_begins_after_five_seconds() -> None:
    play = unbalanced()
    assert some(play.do("time +1000s"), "preferred") == []

    play.do("adjust rebalance_every_s=300")

    assert some(play.do("time +4s"), "preferred") == []
    assert some(play.do("time +1s"), "1 is the preferred leader of orders-0")


def test_a_rebalance_that_is_turned_off_moves_no_leader() -> None:
    play = unbalanced("set rebalance_every_s=300")

    play.do("adjust rebalance_every_s=null")

    assert some(play.do("time +1000s"), "preferred") == []


def test_the_balance_is_checked_at_the_new_interval_from_now_on() -> None:
    play = unbalanced("set rebalance_every_s=300 imbalance_percentage=100")
    play.do("adjust rebalance_every_s=60", "time +5s", "adjust imbalance_percentage=10")

    assert some(play.do("time +59s"), "preferred") == []
    assert some(play.do("time +1s"), "1 is the preferred leader of orders-0")


def test_a_share_that_is_changed_counts_at_the_next_check() -> None:
    play = unbalanced("set rebalance_every_s=300 imbalance_percentage=100")
    assert some(play.do("time +300s"), "preferred") == []

    play.do("adjust imbalance_percentage=0")

    assert some(play.do("time +300s"), "1 is the preferred leader of orders-0")


# ---- elections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unclean_election", "unclean_election_of_brokers"])
def test_partitions_without_a_leader_get_one_when_unclean_elections_are_allowed(name: str) -> None:
    play = cluster()
    play.do("isr orders-0 1", "broker 1 dies")

    assert some(play.do(f"adjust {name}=true"), "allows 2: records may be lost")


@pytest.mark.parametrize("name", ["unclean_election", "unclean_election_of_brokers"])
def test_no_partition_gets_such_a_leader_once_they_are_forbidden(name: str) -> None:
    play = cluster(f"set {name}=true")
    play.do("isr orders-0 1", f"adjust {name}=false")

    assert some(play.do("broker 1 dies"), "records may be lost") == []


# ---- topics ---------------------------------------------------------------------------------------------------


def test_a_deletion_that_has_begun_is_not_given_up() -> None:
    play = cluster()
    play.do("broker 2 dies", "delete topic orders")

    assert play.do("adjust deletes_topics=false") == []

    play.do("broker 2 returns")
    assert play.data("/brokers/topics/orders") is None


def test_new_topics_get_the_new_defaults() -> None:
    play = cluster()
    play.theatre.adjust({"defaults": TopicDefaults(2, 3)})

    (line,) = some(play.do("ask create payments partitions=-1 replicas=-1"), "asked to create topic payments")

    assert "2 partitions of 3 replicas" in line


def test_new_topics_are_refused_that_a_policy_would_have_to_judge() -> None:
    play = cluster()

    play.do('adjust creation_policy="org.example.Policy"')

    assert some(play.do("ask create payments partitions=1 replicas=1"), "POLICY_VIOLATION", "org.example.Policy")
    play.do('adjust creation_policy=""')
    assert some(play.do("ask create payments partitions=1 replicas=1"), "answer payments NONE")


def test_a_larger_window_lets_more_changes_through_at_once() -> None:
    play = cluster("set quota_window_s=1.0")
    play.do("quota user=ann rate=1", "as ann tool")
    create = "ask create a,b,c partitions=1 replicas=1"

    assert len(some(Play.do(play, create), "THROTTLING_QUOTA_EXCEEDED")) == 1
    play.do("time +100s", "adjust quota_window_s=10.0", "time +100s")
    assert some(play.do("ask create d,e,f,g,h partitions=1 replicas=1"), "THROTTLING_QUOTA_EXCEEDED") == []


# ---- shutdown, moves, statuses, tokens ------------------------------------------------------------------------


def test_a_shutdown_is_refused_once_more_replicas_must_stay() -> None:
    play = cluster()

    play.do("isr orders-0 1", "adjust shutdown_redundancy=1")

    assert some(play.do("shutdown 1"), "notice (refused shutdown) broker 1 must not shut down yet")


def test_a_move_that_waits_waits_only_for_as_long_as_the_settings_now_say() -> None:
    play = half_moved(FOREVER)
    play.do("time +20s")

    assert some(play.do("adjust deletion_patience_s=10"), "has moved to [3, 2]")


def test_a_move_that_waits_waits_longer_if_the_settings_now_say_so() -> None:
    play = half_moved()

    play.do("adjust deletion_patience_s=100")

    assert some(play.do("time +99s"), "has moved") == []
    assert some(play.do("time +2s"), "has moved to [3, 2]")


def test_a_finished_status_is_kept_for_as_long_as_the_settings_now_say() -> None:
    play = cluster()
    play.do("ask reassign orders-0 to=2,1", "time +60s")
    assert play.data("/admin/reassign_partitions_status/1") is not None

    play.do("adjust status_retention_ms=30000", "time +1s")

    assert play.data("/admin/reassign_partitions_status/1") is None


def test_expired_tokens_are_looked_for_at_the_new_interval() -> None:
    token = "znode /delegation_token", "znode /delegation_token/tokens", "znode /delegation_token/token_changes"
    play = Play("set token_expiry_check_s=100000", "brokers 1", *token, "token laptop expires=100 most=1000", "elect")
    assert some(play.do("time +200s"), "has expired") == []

    assert some(play.do("adjust token_expiry_check_s=60"), "laptop has expired")
    play.do("token phone expires=230 most=1000")
    assert some(play.do("time +60s"), "phone has expired")


# ---- all of them ----------------------------------------------------------------------------------------------

OTHERS: Mapping[str, Any] = {
    "changes_a_second": 1,
    "creation_policy": "org.example.Policy",
    "defaults": TopicDefaults(2, 3),
    "deletion_patience_s": 1.0,
    "imbalance_percentage": 1,
    "min_insync_replicas": 2,
    "moves_at_once": 1,
    "moves_give_up_s": 1.0,
    "moves_ignore_unknown_disks": True,
    "moves_into_broker": 1,
    "moves_into_rack": 1,
    "moves_need_brokers": True,
    "moves_need_brokers_after_s": 1.0,
    "moves_need_disks_percent": 10,
    "moves_need_min_isr": True,
    "moves_need_receivers_s": 1.0,
    "moves_order": ("round-robin",),
    "moves_out_of_broker": 1,
    "moves_wait_for_znodes": True,
    "moves_throttle": 1_000_000,
    "moves_throttle_min": 500_000,
    "moves_windows": (Window((0,), 0, 1),),
    "quota_window_s": 1.0,
    "rebalance_every_s": 1.0,
    "shutdown_redundancy": 1,
    "status_retention_ms": 1,
    "token_expiry_check_s": 1.0,
    "unclean_election": True,
    "unclean_election_of_brokers": True,
}


def test_what_is_not_adjustable_stays_as_it_was() -> None:
    before = MachineSettings(OWN)
    other = MachineSettings(**{**{name: object() for name in MachineSettings.__struct_fields__}, **OTHERS})

    assert OTHERS.keys() == ADJUSTABLE
    assert asdict(adjusted(before, other)) == {**asdict(before), **OTHERS}


def test_a_term_that_is_loading_begins_with_what_was_changed_meanwhile() -> None:
    machine = Machine(MachineSettings(OWN), EPOCH, SeededRandom(b"0"))

    assert machine.turn([SettingsChanged(MachineSettings(OWN, rebalance_every_s=60.0))], 1.0) == []

    assert "Rebalance" in str(machine.turn([Loaded()], 2.0))
