"""Which state must the cluster be in for a waiting move to begin?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Effect, Read
from tests.unit.core.test_move_queue import FOLDER, LEGACY, arrive, moving, waiting
from tests.unit.traps.play import Play, some
from zk_layout.ids import TopicName
from zk_layout.znodes.configs import TopicConfigAddress

MIN_ISR = "set moves_need_min_isr=true"
BROKERS = "set moves_need_brokers=true"
TWO = "config <default> min.insync.replicas=2"
OTHERS = "topic sales 0=1,2,3"


def gated(*more: str, gate: str = MIN_ISR, topic: str = "topic orders 0=1,2 1=1,2") -> Play:
    """A controller that lets moves begin only in a good state, of which two replicas in sync are a part."""
    return Play(gate, "brokers 1,2,3,4,5", topic, OTHERS, TWO, "elect", *more)


# ---- min.insync.replicas --------------------------------------------------------------------------------------


def test_in_a_healthy_cluster_every_move_begins_at_once() -> None:
    play = gated("ask reassign orders-0 to=3,2 orders-1 to=3,2")

    assert moving(play) == [0, 1]
    assert waiting(play) == {}


def test_nothing_begins_while_another_partition_is_below_its_min_isr_and_all_of_it_afterwards() -> None:
    play = gated("isr sales-0 1")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    assert some(lines, "answer orders-0 NONE")
    assert some(lines, "orders-0 waits", "sales-0 has 1 in-sync replicas, and min.insync.replicas is 2")
    assert (moving(play), waiting(play)) == ([], {0: [3, 2], 1: [4, 2]})
    assert play.figures()["waiting_moves_min_isr"] == 2
    assert play.figures()["partitions_below_min_isr"] == 1

    play.do("isr sales-0 1,2")

    assert (moving(play), waiting(play)) == ([0, 1], {})
    assert play.figures()["waiting_moves_min_isr"] == play.figures()["partitions_below_min_isr"] == 0


def test_what_is_under_way_goes_on_and_may_be_redirected_and_cancelled() -> None:
    play = gated("ask reassign orders-0 to=3,2 orders-1 to=3,2", "isr sales-0 1")

    play.do("ask cancel orders-1", "ask reassign orders-0 to=4,2")

    assert moving(play) == [0]
    assert some(arrive(play, 0, "1,2,4"), "orders-0 has moved to [4, 2]")


@pytest.mark.parametrize("kind", ["to=2,1", "to=1"])
def test_what_copies_nothing_does_not_wait(kind: str) -> None:
    play = gated("isr sales-0 1")

    play.do(f"ask reassign orders-0 {kind}", "time +1s")

    assert waiting(play) == {}


def test_a_partition_that_is_at_its_min_isr_holds_nothing_up() -> None:
    play = gated("isr sales-0 1,2")

    play.do("ask reassign orders-0 to=3,2")

    assert moving(play) == [0]


def test_a_topics_own_setting_comes_first_also_once_it_is_changed() -> None:
    play = gated("config sales min.insync.replicas=1", "isr sales-0 1")
    play.do("ask reassign orders-0 to=3,2")
    assert moving(play) == [0]

    play.do("config sales min.insync.replicas=3", "ask reassign orders-1 to=3,2")
    assert waiting(play) == {1: [3, 2]}

    play.do("config sales min.insync.replicas=1")
    assert moving(play) == [0, 1]


def test_the_value_of_all_brokers_counts_for_topics_without_one_also_once_it_is_changed() -> None:
    play = gated("isr sales-0 1", "ask reassign orders-0 to=3,2")
    assert moving(play) == []

    play.do("config <default> min.insync.replicas=1")

    assert moving(play) == [0]


def test_without_any_setting_the_one_of_the_brokers_counts() -> None:
    play = Play(MIN_ISR, "brokers 1,2,3", "topic orders 0=1,2", OTHERS, "elect", "isr sales-0 1")
    play.do("adjust min_insync_replicas=2", "ask reassign orders-0 to=3,2")
    assert waiting(play) == {0: [3, 2]}

    play.do("adjust min_insync_replicas=1")

    assert moving(play) == [0]


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    play = gated("config orders min.insync.replicas=3")

    play.do("ask reassign orders-0 to=3,2")

    assert moving(play) == [0]


def test_a_partition_without_a_leader_holds_others_up_whatever_its_min_isr() -> None:
    play = Play(MIN_ISR, "brokers 1,2,3,4", "topic orders 0=1,2", "topic sales 0=4", "elect", "broker 4 dies")

    lines = play.do("ask reassign orders-0 to=3,2")

    assert some(lines, "orders-0 waits", "sales-0 has no leader")
    play.do("broker 4 returns", "time +1s")
    assert moving(play) == [0]


def test_a_topic_that_is_deleted_holds_nothing_up() -> None:
    play = gated("isr sales-0 1", "ask reassign orders-0 to=3,2")
    assert moving(play) == []

    play.do("ask delete sales", "time +1s")

    assert moving(play) == [0]


def test_topics_whose_settings_cannot_be_read_must_be_in_sync_altogether() -> None:
    play = gated("malformed /config/topics/sales", "isr sales-0 1,2")

    lines = play.do("ask reassign orders-0 to=3,2")

    assert some(lines, "orders-0 waits", "the settings of its topic cannot be read")


def test_a_successor_begins_nothing_before_it_has_looked_at_all_partitions() -> None:
    play = gated("isr sales-0 1", "ask reassign orders-0 to=3,2")

    play.do("elect 101")
    assert moving(play) == []

    play.do("isr sales-0 1,2")
    assert moving(play) == [0]


# ---- cures ----------------------------------------------------------------------------------------------------


def test_a_move_that_cures_its_own_partition_begins_and_says_so_by_beginning() -> None:
    play = gated("isr orders-0 1")

    play.do("ask reassign orders-0 to=1,3 orders-1 to=4,2")

    assert (moving(play), waiting(play)) == ([0], {1: [4, 2]})
    arrive(play, 0, "1,3")
    assert waiting(play) == {}


def test_a_move_that_leaves_its_partition_below_is_no_cure() -> None:
    play = gated("broker 2 dies", "time +1s")

    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,4")

    assert (moving(play), waiting(play)) == ([1], {0: [3, 2]})


def test_a_move_that_waits_becomes_a_cure_when_its_own_partition_falls_behind() -> None:
    play = gated("isr sales-0 1", "ask reassign orders-0 to=3,4")
    assert moving(play) == []

    play.do("isr orders-0 1")

    assert moving(play) == [0]


# ---- brokers --------------------------------------------------------------------------------------------------


def test_nothing_begins_while_a_broker_with_replicas_is_away() -> None:
    play = gated(gate=BROKERS)
    play.do("broker 3 dies", "time +1s")

    lines = play.do("ask reassign orders-0 to=4,2")

    assert some(lines, "orders-0 waits", "broker 3 is away")
    assert play.figures()["waiting_moves_brokers"] == play.figures()["brokers_away"] == 1
    play.do("broker 3 returns", "time +1s")
    assert moving(play) == [0]


def test_a_broker_without_replicas_may_be_away() -> None:
    play = gated("broker 5 dies", gate=BROKERS)

    play.do("ask reassign orders-0 to=4,2")

    assert moving(play) == [0]


def test_a_move_that_takes_a_replica_off_a_broker_that_is_away_begins() -> None:
    play = gated("broker 2 dies", "time +1s", gate=BROKERS)

    play.do("ask reassign orders-0 to=1,4 sales-0 to=1,2,4")

    assert moving(play) == [0]
    assert waiting(play, "/kafka_zk_controller/waiting_moves/sales-0") == {0: [1, 2, 4]}


# ---- what is said ---------------------------------------------------------------------------------------------


def test_a_move_that_waits_becomes_a_cure_when_a_broker_of_its_target_returns() -> None:
    play = gated("isr sales-0 1", "ask reassign orders-0 to=1,3,2", "broker 3 dies", "broker 2 dies", "time +1s")
    assert moving(play) == []

    play.do("broker 3 returns")

    assert moving(play) == [0]


def test_a_move_that_waits_becomes_a_cure_when_the_broker_goes_that_it_leaves() -> None:
    play = gated("isr orders-0 1", "broker 3 dies", "ask reassign orders-0 to=1,4", gate=BROKERS)
    assert moving(play) == []

    play.do("broker 2 dies")

    assert moving(play) == [0]


def test_each_change_is_said_once() -> None:
    play = gated()
    assert some(play.do("isr sales-0 1"), "notice") == []  # nothing waits

    (shut,) = some(play.do("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=3,2"), "(moves held up)")
    assert "waiting moves do not begin: sales-0 has 1 in-sync replicas" in shut
    assert some(play.do("isr orders-1 1"), "(moves held up)") == []

    assert some(play.do("isr sales-0 1,2", "isr orders-1 1,2"), "begin again") != []


def test_both_conditions_are_named_together() -> None:
    play = gated("set moves_need_brokers=true", "elect 101", "broker 3 dies", "isr sales-0 1", "time +1s")

    lines = play.do("ask reassign orders-0 to=4,2")

    assert some(lines, "sales-0 has 1 in-sync replicas, and min.insync.replicas is 2; broker 3 is away")


# ---- changed at run time --------------------------------------------------------------------------------------


def test_it_counts_at_once_when_moves_are_to_wait_and_when_they_no_longer_are() -> None:
    play = gated("isr sales-0 1", gate="set moves_at_once=5")
    play.do("adjust moves_need_min_isr=true", "ask reassign orders-0 to=3,2")
    assert moving(play) == []

    play.do("adjust moves_need_min_isr=false")

    assert moving(play) == [0]
    assert play.figures()["partitions_below_min_isr"] == 0


def test_brokers_too() -> None:
    play = gated("broker 3 dies", "time +1s", gate=BROKERS)
    play.do("ask reassign orders-0 to=4,2")
    assert moving(play) == []

    play.do("adjust moves_need_brokers=false")

    assert moving(play) == [0]


# ---- other doors ----------------------------------------------------------------------------------------------


def test_an_entry_of_the_legacy_znode_waits_there() -> None:
    play = gated("isr sales-0 1")
    entry = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'

    play.do(f"znode {LEGACY} {entry}", "time +1s")
    assert (moving(play), play.data(LEGACY)) == ([], entry)

    play.do("isr sales-0 1,2")
    assert moving(play) == [0]


def test_a_child_of_the_folder_waits_there() -> None:
    play = gated("isr sales-0 1", gate=f"{MIN_ISR} keeps_reassignment_znodes=true")

    play.do(f'znode {FOLDER}/orders-0 {{"version":1,"assignment":[3,2]}}', "time +1s")
    assert moving(play) == []

    play.do("isr sales-0 1,2")
    assert moving(play) == [0]


def test_an_entry_begins_that_was_found_before_it_was_known_whether_the_cluster_is_healthy() -> None:
    play, entry = gated(), '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'
    theatre, withheld = play.theatre, list[Effect]()

    def withhold(effect: Effect) -> bool:
        is_of_settings = isinstance(effect, Read) and TopicConfigAddress(TopicName("sales")) in effect.addresses
        if is_of_settings and not has_waited:
            withheld.append(effect)
        return is_of_settings and not has_waited

    has_waited = False
    theatre.is_held = withhold
    play.do("isr sales-0 1,2", f"znode {LEGACY} {entry}")
    assert withheld
    assert moving(play) == []

    has_waited = True
    for effect in withheld:
        theatre._carry_out_one(effect)
    theatre.run()
    play.do("time +5s")

    assert moving(play) == [0]


# ---- brokers that are away for a while ------------------------------------------------------------------------

HALF_A_MINUTE = "set moves_need_brokers=true moves_need_brokers_after_s=30"


def test_moves_wait_for_a_broker_only_once_it_has_been_away_for_long_enough() -> None:
    play = gated("broker 1 dies", gate=HALF_A_MINUTE, topic="topic orders 0=2,3 1=2,3")

    play.do("time +29s", "ask reassign orders-0 to=4,3")
    assert moving(play) == [0]
    lines = play.do("time +2s", "ask reassign orders-1 to=4,3")

    assert some(lines, "orders-1 waits to move to [4, 3]: broker 1 is away")
    assert play.figures()["brokers_away"] == 1
    play.do("broker 1 returns")
    assert moving(play) == [0, 1]


def test_a_broker_that_returns_in_time_begins_anew_when_it_goes_again() -> None:
    play = gated(gate=HALF_A_MINUTE, topic="topic orders 0=2,3 1=2,3")
    play.do("broker 1 dies", "time +20s", "broker 1 returns", "time +5s", "broker 1 dies", "time +20s")

    play.do("ask reassign orders-0 to=4,3")

    assert moving(play) == [0]


def test_a_broker_that_was_away_before_the_term_is_waited_for_at_once() -> None:
    play = gated("broker 1 dies", "time +5s", "elect", gate=HALF_A_MINUTE, topic="topic orders 0=2,3 1=2,3")

    assert some(play.do("ask reassign orders-0 to=4,3"), "orders-0 waits to move to [4, 3]: broker 1 is away")


def test_a_shorter_time_counts_at_once() -> None:
    play = gated("broker 1 dies", "time +10s", gate=HALF_A_MINUTE, topic="topic orders 0=2,3 1=2,3")

    play.do("adjust moves_need_brokers_after_s=5")
    assert some(play.do("ask reassign orders-0 to=4,3"), "orders-0 waits", "broker 1 is away")
    play.do("adjust moves_need_brokers_after_s=60")

    assert moving(play) == [0]
