"""Does a move that copies wait until the disks of its receivers have room, and who is asked for that, how often?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import DescribeDisks, DescribeLogDirs, Effect
from controller.core.messages.events import Directory, DisksDescribed
from controller.core.reassignment import disk_room
from controller.core.reassignment.disk_room import AGAIN_S, AWAITED_S, COUNTS_S
from controller.core.reassignment.disks import rounded_up
from controller.core.scheduling.log_dir_questions import GIVEN_UP_S
from tests.unit.core.test_move_queue import FOLDER, LEGACY, moving, waiting
from tests.unit.traps.play import Play, some
from zk_layout.ids import BrokerId

TEN, NINE_TENTHS = "set moves_need_disks_percent=10", "set moves_need_disks_percent=90"
BEGIN = "set moves_ignore_unknown_disks=true"
TOPIC = "topic orders 0=1,2 1=1,2 2=1,2"
MOVE = 65_536
SIZES = tuple(f"sizes orders-{n} 1={MOVE}" for n in (0, 1, 2))
ROOMY = tuple(f"disks {b} /a=1000000/900000" for b in (1, 2, 3, 4, 5))
JUST = 100_000 + MOVE  # usable of a million, for one move if a tenth is to stay


def told(*more: str, setting: str = TEN, topic: str = TOPIC) -> Play:
    """A controller that lets moves begin only where a tenth of the disks stays; all brokers have room."""
    return Play(setting, "brokers 1,2,3,4,5", topic, *ROOMY, *SIZES, "elect", *more)


def held_up(play: Play) -> tuple[str, ...]:
    assert play.theatre.machine is not None
    return play.theatre.machine.held_up()


class Watched:
    """A play in which questions about disks are kept, and answered only if that is wanted."""

    def __init__(self, *commands: str, setting: str = TEN, topic: str = TOPIC) -> None:
        self.play = told(setting=setting, topic=topic)
        self.asked: list[DescribeDisks] = []
        self.sizes_asked: list[DescribeLogDirs] = []
        self.are_held = False
        self.play.theatre.is_held = self._is_held
        self.play.do(*commands)

    def _is_held(self, effect: Effect) -> bool:
        if isinstance(effect, DescribeLogDirs) and effect.is_of_waiting:
            self.sizes_asked.append(effect)
        if not isinstance(effect, DescribeDisks):
            return False
        self.asked.append(effect)
        return self.are_held

    def brokers(self) -> list[int]:
        """Who was asked since the last call."""
        found = [int(asked.broker) for asked in self.asked]
        self.asked.clear()
        return found

    def answer(self, asked: DescribeDisks, usable: int = 900_000) -> None:
        """A broker answers after all."""
        said = DisksDescribed(asked.broker, asked.broker_epoch, (Directory("/a", 1_000_000, usable),))
        self.play.theatre._events.append(said)
        self.play.theatre.run()


# ---- the rule -------------------------------------------------------------------------------------------------


def test_moves_begin_at_once_where_there_is_room() -> None:
    play = told("ask reassign orders-0 to=3,2 orders-1 to=4,3,2")

    assert (moving(play), waiting(play), held_up(play)) == ([0, 1], {}, ())
    assert play.figures()["waiting_moves_disks"] == 0


def test_a_move_waits_while_its_receiver_would_have_less_than_that_left_and_begins_when_it_has_room() -> None:
    play = told(f"disks 3 /a=1000000/{JUST - 1}")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +1s")

    assert some(lines, "answer orders-0 NONE")
    assert (moving(play), waiting(play)) == ([1], {0: [3, 2]})
    assert play.figures()["waiting_moves_disks"] == 1
    play.do(f"disks 3 /a=1000000/{JUST}", f"time +{AGAIN_S + 1}s")
    assert (moving(play), waiting(play)) == ([0, 1], {})
    assert play.figures()["waiting_moves_disks"] == 0


def test_it_begins_where_exactly_that_much_would_be_left() -> None:
    play = told(f"disks 3 /a=1000000/{JUST}", "ask reassign orders-0 to=3,2", "time +1s")

    assert moving(play) == [0]


def test_the_directory_with_the_least_to_spare_counts() -> None:
    play = told(f"disks 3 /large=10000000/{1_000_000 + MOVE - 1} /small=1000000/{JUST}")

    play.do("ask reassign orders-0 to=3,2", "time +1s")
    assert (moving(play), "in /large" in held_up(play)[0]) == ([], True)
    play.do(f"disks 3 /large=10000000/{1_000_000 + MOVE} /small=1000000/{JUST}", f"time +{AGAIN_S + 1}s")

    assert moving(play) == [0]


def test_each_of_several_receivers_needs_room() -> None:
    play = told("disks 3 /a=1000000/0", "disks 4 /a=1000000/0", "ask reassign orders-0 to=3,4", "time +1s")

    play.do("disks 3 /a=1000000/900000", f"time +{AGAIN_S + 1}s")
    assert moving(play) == []
    play.do("disks 4 /a=1000000/900000", f"time +{AGAIN_S + 1}s")

    assert moving(play) == [0]


def test_what_has_begun_is_on_its_way_and_leaves_room_for_no_more() -> None:
    play = told(f"disks 3 /a=1000000/{JUST + MOVE}")

    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", "time +1s")
    assert (moving(play), waiting(play)) == ([0, 1], {2: [3, 2]})
    assert "left in /a, 128.0 kB are on their way there, 64.0 kB would follow" in held_up(play)[0]
    play.do(f"time +{5 * AGAIN_S}s")

    assert moving(play) == [0, 1], "nothing has arrived, and no room has been made"


def test_what_has_arrived_is_not_counted_again_as_on_its_way() -> None:
    play = told(f"disks 3 /a=1000000/{JUST + MOVE}")
    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", "time +1s")
    assert moving(play) == [0, 1]

    half = MOVE // 2
    play.do(f"sizes orders-0 3={half}", f"sizes orders-1 3={half}", f"disks 3 /a=1000000/{JUST}")
    play.do(f"time +{AGAIN_S + 1}s")
    assert moving(play) == [0, 1], "half of both is still to come"
    play.do(f"disks 3 /a=1000000/{JUST + MOVE}", f"time +{AGAIN_S + 1}s")

    assert moving(play) == [0, 1, 2]


def test_what_ends_takes_room_until_the_broker_has_said_how_much_it_has_after_that() -> None:
    play = told(f"disks 3 /a=1000000/{JUST}")
    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", "time +1s")
    assert moving(play) == [0]

    play.do("isr orders-0 1,2,3", "time +2s")
    assert moving(play) == [], "it has arrived, and may be in no answer yet"
    play.do(f"time +{AGAIN_S + 1}s")

    assert moving(play) == [1]


def test_what_ends_between_a_question_and_its_answer_takes_room_until_the_next_answer() -> None:
    watched = Watched(f"disks 3 /a=1000000/{JUST}")
    play = watched.play
    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", "time +1s")
    assert moving(play) == [0]
    watched.are_held = True
    watched.asked.clear()
    play.do(f"time +{AGAIN_S + 1}s")
    (asked,) = watched.asked

    play.do("isr orders-0 1,2,3", "time +1s")
    watched.answer(asked, JUST)
    assert moving(play) == [], "the broker may have looked before it arrived"
    watched.are_held = False
    play.do(f"time +{AGAIN_S + 1}s")

    assert moving(play) == [1]


def test_a_move_that_is_cancelled_gives_its_room_back_with_the_next_answer() -> None:
    play = told(f"disks 3 /a=1000000/{JUST}")
    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", "time +1s")

    play.do("ask cancel orders-0", f"time +{AGAIN_S + 1}s")

    assert moving(play) == [1]


def test_what_grows_on_its_leader_while_it_moves_is_on_its_way_too() -> None:
    play = told(f"disks 3 /a=1000000/{JUST + 2 * MOVE}")
    play.do("ask reassign orders-0 to=3,2", "time +1s")

    play.do(f"sizes orders-0 1={3 * MOVE}", "time +30s", "ask reassign orders-1 to=3,2", "time +1s")
    assert moving(play) == [0]
    play.do(f"disks 3 /a=1000000/{JUST + 3 * MOVE}", f"time +{AGAIN_S + 1}s")

    assert moving(play) == [0, 1]


def test_of_many_moves_those_begin_for_which_there_is_room_whatever_their_size() -> None:
    play = told(f"sizes orders-0 1={4 * MOVE}", f"disks 3 /a=1000000/{JUST + MOVE}")

    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", "time +1s")

    assert (moving(play), waiting(play)) == ([1, 2], {0: [3, 2]})


# ---- what does not wait ---------------------------------------------------------------------------------------


def test_a_move_that_copies_nothing_to_a_full_broker_does_not_wait() -> None:
    play = told(*(f"disks {b} /a=1000000/0" for b in (1, 2)))

    play.do("ask reassign orders-0 to=2,1 orders-1 to=2 orders-2 to=3,2", "time +1s")

    assert (moving(play), waiting(play)) == ([2], {})


def test_what_is_under_way_goes_on_and_may_be_redirected() -> None:
    play = told("ask reassign orders-0 to=3,2 orders-1 to=3,2", "disks 4 /a=1000000/0", "time +1s")

    play.do("ask reassign orders-0 to=4,2", "ask cancel orders-1", "time +1s")

    assert (moving(play), waiting(play)) == ([0], {})


def test_a_move_that_cures_its_partition_waits_too() -> None:
    play = told("adjust moves_need_min_isr=true", "config <default> min.insync.replicas=2", "isr orders-0 1")

    play.do("disks 3 /a=1000000/0", "ask reassign orders-0 to=1,3", "time +1s")

    assert moving(play) == []


@pytest.mark.parametrize("limit", ['moves_order=["round-robin"]', "moves_at_once=1", "moves_into_broker=1"])
def test_one_that_waits_keeps_no_room_from_others(limit: str) -> None:
    play = told("disks 3 /a=1000000/0", f"adjust {limit}", "time +1s")

    play.do("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2", "time +2s")

    assert moving(play) == [1]


def test_one_that_waits_for_disks_collects_no_room_from_others() -> None:
    topic = "topic orders " + " ".join(f"{n}=1,2" for n in range(40))
    sizes = (f"sizes orders-{n} 1={MOVE}" for n in range(40))
    play = told(
        'adjust moves_into_broker=1 moves_order=["weight"]',
        *sizes,
        f"disks 3 /a=1000000/{JUST}",
        "disks 4 /a=90000000/80000000",
        topic=topic,
    )
    play.do("ask reassign orders-39 to=3,2", "time +1s")
    play.do("ask reassign orders-0 to=3,4 " + " ".join(f"orders-{n} to=4,2" for n in range(1, 39)), "time +2s")

    begun = set()
    for _ in range(35):
        n = moving(play)[0]
        begun.add(n)
        play.do(f"isr orders-{n} 1,2,4", "time +1s")

    assert len(begun) == 35


def test_without_the_setting_nobody_is_asked() -> None:
    watched = Watched("disks 3 /a=1000000/0", setting="set moves_at_once=1")

    watched.play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", "time +600s")

    assert (watched.asked, watched.sizes_asked, moving(watched.play)) == ([], [], [0])


# ---- what is not known ----------------------------------------------------------------------------------------


def test_where_a_broker_does_not_say_it_moves_wait_or_begin_as_the_setting_says() -> None:
    play = told("disks 3", "ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +1s")

    assert (moving(play), waiting(play)) == ([1], {0: [3, 2]})
    assert play.figures()["brokers_with_unknown_room"] == 1
    assert play.figures()["brokers_without_room"] == 0
    lines = play.do("adjust moves_ignore_unknown_disks=true", "time +1s")
    assert moving(play) == [0, 1]
    assert some(lines, "(moves held up) waiting moves begin again")


def test_nothing_begins_before_brokers_and_leaders_were_asked_also_where_moves_need_not_wait() -> None:
    watched = Watched(BEGIN, "elect 101")
    watched.are_held = True

    watched.play.do("ask reassign orders-0 to=3,2", f"time +{AWAITED_S - 1}s")
    assert moving(watched.play) == []
    assert held_up(watched.play) == ()
    watched.play.do("time +2s")

    assert moving(watched.play) == [0]


def test_leaders_are_asked_first_also_where_brokers_have_said_how_much_room_they_have() -> None:
    play = told(f"sizes orders-1 1={16 * MOVE}", setting=f"{TEN} moves_ignore_unknown_disks=true")
    play.do("ask reassign orders-0 to=3,2", "time +2s", "isr orders-0 1,2,3", "time +1s")

    play.do("ask reassign orders-1 to=3,2", "time +2s")

    assert (moving(play), waiting(play)) == ([], {1: [3, 2]})


def test_an_answer_that_comes_in_time_counts_where_moves_need_not_wait() -> None:
    watched = Watched(BEGIN, "elect 101")
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2", "time +1s")

    watched.answer(watched.asked[0], 0)
    watched.play.do(f"time +{2 * AWAITED_S}s")

    assert moving(watched.play) == []


@pytest.mark.parametrize(("setting", "is_moving"), [(TEN, []), (BEGIN, [0])])
def test_a_move_of_unknown_size_is_not_known_to_have_room(setting: str, is_moving: list[int]) -> None:
    play = Play(TEN, setting, "brokers 1,2,3,4,5", TOPIC, *ROOMY, "elect", "ask reassign orders-0 to=3,2", "time +60s")

    assert moving(play) == is_moving
    if not is_moving:
        assert "how much would be copied to broker 3 is not known" in held_up(play)[0]
        assert play.figures()["brokers_without_room"] == 0
        play.do(SIZES[0], "time +61s")
        assert moving(play) == [0]


def test_a_mute_leader_is_named_with_what_follows_from_it() -> None:
    play = told()
    play.theatre.mute[BrokerId(1)] = None

    lines = play.do("ask reassign orders-0 to=3,2", "time +1s")
    assert some(lines, "(unknown sizes) broker 1", "do not begin, for it is not known whether disks have room for them")

    play = told(BEGIN, "elect 101")
    play.theatre.mute[BrokerId(1)] = None
    lines = play.do("ask reassign orders-0 to=3,2", "time +1s")
    assert some(lines, "(unknown sizes) broker 1", "begin whether or not disks have room for them")


def test_a_directory_of_unknown_room_makes_its_broker_unknown() -> None:
    play = told("disks 3 /a=1000000/900000 /b=-1/-1", "ask reassign orders-0 to=3,2", "time +1s")

    assert moving(play) == []
    assert "it does not say it of /b" in held_up(play)[0]


def test_a_broker_without_a_directory_that_is_online_is_unknown() -> None:
    play = told()
    play.theatre.disks[BrokerId(3)] = ()

    play.do("ask reassign orders-0 to=3,2", "time +1s")

    assert (moving(play), "it has no log directory that is online" in held_up(play)[0]) == ([], True)


def test_moves_of_a_former_leader_make_a_broker_unknown_until_their_size_is() -> None:
    topic = "topic orders 0=1,2 1=2,1"
    play = told(f"sizes orders-1 2={MOVE}", "ask reassign orders-0 to=3,2", "time +1s", topic=topic)
    play.theatre.mute[BrokerId(1)] = None

    play.do("elect 101", "ask reassign orders-1 to=3,2", "time +12s")
    assert moving(play) == [0]
    assert "(how much of orders-0 it has yet to copy is not known)" in held_up(play)[0]
    del play.theatre.mute[BrokerId(1)]
    play.do("time +120s")

    assert moving(play) == [0, 1]


# ---- who is asked ---------------------------------------------------------------------------------------------


def test_only_receivers_of_what_waits_are_asked_and_again_only_while_it_waits() -> None:
    watched = Watched("disks 3 /a=1000000/0")

    watched.play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2", f"time +{AGAIN_S - 1}s")
    assert sorted(watched.brokers()) == [3, 4]
    watched.play.do("time +2s")
    assert watched.brokers() == [3]
    watched.play.do(f"time +{AGAIN_S}s")
    assert watched.brokers() == [3]

    watched.play.do("ask cancel orders-0", f"time +{10 * AGAIN_S}s")
    assert watched.brokers() == []


def test_an_old_broker_is_not_asked_more_often_where_moves_come_and_go() -> None:
    watched = Watched("disks 3", "ask reassign orders-0 to=3,2", "time +1s")
    assert watched.brokers() == [3]

    for _ in range(5):
        watched.play.do(
            "ask cancel orders-0", "ask reassign orders-1 to=4,2", "time +2s", "ask reassign orders-0 to=3,2"
        )
        watched.play.do("ask cancel orders-1", "isr orders-1 1,2", "time +2s")

    assert 3 not in watched.brokers()


def test_a_broker_is_asked_with_what_copies_to_it() -> None:
    watched = Watched(f"disks 3 /a=1000000/{JUST + MOVE}")
    watched.play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", "time +1s")
    watched.asked.clear()

    watched.play.do("isr orders-1 1,2,3", f"time +{AGAIN_S}s")

    assert [str(at) for at in watched.asked[0].partitions] == ["orders-0"]


def test_of_very_many_moves_a_broker_is_asked_about_some_and_the_others_count_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_room, "AT_ONCE", 1)
    watched = Watched(f"disks 3 /a=1000000/{JUST + MOVE}")
    watched.play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", "time +1s")

    watched.play.do(f"sizes orders-0 3={MOVE}", f"sizes orders-1 3={MOVE}", f"disks 3 /a=1000000/{JUST}")
    watched.play.do(f"time +{AGAIN_S + 1}s")

    assert len(watched.asked[-1].partitions) == 1
    assert moving(watched.play) == [0, 1], "one of both is taken for what is still to come"


def test_what_was_said_counts_for_its_time_and_no_longer() -> None:
    watched = Watched("adjust moves_into_broker=1", "ask reassign orders-0 to=3,2 orders-1 to=3,2")
    watched.are_held = True
    watched.play.do(f"time +{COUNTS_S - 10}s", "isr orders-0 1,2,3", "time +1s")
    assert moving(watched.play) == [1]

    watched.play.do("ask reassign orders-2 to=3,2", "time +11s", "isr orders-1 1,2,3", "time +1s")
    assert moving(watched.play) == []
    assert "how much room broker 3 has on its disks is not known" in held_up(watched.play)[0]


def test_a_broker_that_stops_answering_is_believed_for_a_while_and_asked_again() -> None:
    play = told("adjust moves_at_once=1", "ask reassign orders-0 to=4,2 orders-1 to=3,2", "time +1s")
    play.theatre.mute[BrokerId(3)] = None

    play.do(f"time +{COUNTS_S + 31}s", "isr orders-0 1,2,4", "time +1s")
    assert (moving(play), "(no answer)" in held_up(play)[0]) == ([], True)
    del play.theatre.mute[BrokerId(3)]
    play.do(f"time +{AGAIN_S + 1}s")

    assert moving(play) == [1]


def test_an_answer_that_never_comes_is_given_up() -> None:
    watched = Watched()
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2", f"time +{GIVEN_UP_S - 1}s")
    assert watched.brokers() == [3]

    watched.are_held = False
    watched.play.do("time +2s")

    assert (watched.brokers(), moving(watched.play)) == ([3], [0])


def test_a_broker_that_restarts_is_asked_anew_and_its_former_answer_counts_for_nothing() -> None:
    watched = Watched()
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2", "time +1s")
    (asked,) = watched.asked

    watched.play.do("broker 3 bounces", "time +1s")
    assert watched.brokers() == [3, 3]
    watched.answer(asked)
    assert moving(watched.play) == []


def test_what_a_broker_said_before_it_restarted_counts_for_nothing() -> None:
    watched = Watched("adjust moves_into_broker=1", "ask reassign orders-0 to=3,2 orders-1 to=3,2")
    watched.are_held = True

    watched.play.do("time +1s", "broker 3 bounces", "time +1s", "isr orders-0 1,2,3", "time +1s")

    assert moving(watched.play) == []


def test_a_successor_asks_anew() -> None:
    watched = Watched("disks 3 /a=1000000/0", "ask reassign orders-0 to=3,2", "time +1s")
    watched.brokers()

    watched.play.do("elect 101", "time +1s")

    assert (watched.brokers(), moving(watched.play)) == ([3], [])


# ---- what is said ---------------------------------------------------------------------------------------------


def test_the_log_says_once_for_whose_disks_moves_wait_and_once_that_they_begin_again() -> None:
    play = told("disks 3 /a=1000000/120000")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", f"time +{3 * AGAIN_S}s")
    (said,) = some(lines, "(moves held up)")
    has = "broker 3 has 117.2 kB of 976.6 kB left in /a, 64.0 kB would follow"
    assert f"waiting moves do not begin: {has}, and 10 % are to stay" in said

    lines = play.do("disks 3 /a=1000000/900000", f"time +{3 * AGAIN_S}s")
    assert len(some(lines, "(moves held up) waiting moves begin again: none waits for disks any more")) == 1


def test_the_log_says_that_moves_begin_again_while_others_wait_for_something_else() -> None:
    play = told("disks 3 /a=1000000/0", "adjust moves_at_once=1", "ask reassign orders-0 to=3,2 orders-1 to=3,2")
    play.do("time +1s", "disks 3 /a=1000000/900000")

    lines = play.do(f"time +{AGAIN_S + 1}s")

    assert len(some(lines, "(moves held up) waiting moves begin again: none waits for disks any more")) == 1
    assert play.figures()["waiting_moves_disks"] == 0
    assert play.figures()["waiting_moves_cluster"] == 1


def test_where_moves_begin_nevertheless_the_log_says_once_who_does_not_say_it() -> None:
    play = told("disks 3", "adjust moves_at_once=1", "adjust moves_ignore_unknown_disks=true")

    lines = play.do("ask reassign orders-0 to=4,2 orders-1 to=3,2 orders-2 to=3,2", f"time +{3 * AGAIN_S}s")

    (said,) = some(lines, "(unknown disks)")
    assert "moves begin nevertheless, as the settings say: how much room broker 3 has" in said
    assert "(it is too old)" in said
    assert held_up(play) == ()
    assert play.figures()["brokers_with_unknown_room"] == 1


def test_status_pages_name_the_brokers_while_anything_waits_for_them() -> None:
    play = told("disks 3 /a=1000000/120000", "disks 4", "ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +1s")

    (sentence,) = held_up(play)
    assert sentence.startswith("moves that copy wait for room on disks: broker 3 has 117.2 kB of 976.6 kB left in /a")
    assert sentence.endswith("how much room broker 4 has on its disks is not known (it is too old)")
    assert (play.figures()["brokers_without_room"], play.figures()["brokers_with_unknown_room"]) == (1, 1)

    play.do("ask cancel orders-0 orders-1", "time +1s")
    assert held_up(play) == ()
    assert (play.figures()["brokers_without_room"], play.figures()["brokers_with_unknown_room"]) == (0, 0)


def test_of_many_brokers_some_are_named() -> None:
    topic = "topic orders " + " ".join(f"{n}=1,2" for n in range(7))
    sizes = (f"sizes orders-{n} 1={MOVE}" for n in range(7))
    play = Play(TEN, "brokers 1,2,3,4,5,6,7,8,9", topic, *sizes, "elect")

    play.do("ask reassign " + " ".join(f"orders-{n} to={n + 3},2" for n in range(7)), "time +1s")

    assert held_up(play)[0].endswith(
        "how much room broker 7 has on its disks is not known (it is too old); and 2 more brokers"
    )


def test_the_sentence_about_a_waiting_move_names_the_disk() -> None:
    play = told("disks 3 /a=1000000/120000", "ask reassign orders-0 to=3,2", "time +1s")

    lines = play.do("ask reassign orders-1 to=3,2")

    assert some(lines, "orders-1 waits to move to [3, 2]:")


# ---- changed at run time --------------------------------------------------------------------------------------


def test_another_percentage_counts_at_once() -> None:
    play = told(f"disks 3 /a=1000000/{JUST + MOVE}", "ask reassign orders-0 to=3,2", setting=NINE_TENTHS)
    play.do("time +1s")
    assert moving(play) == []

    play.do("adjust moves_need_disks_percent=10", "time +1s")
    assert moving(play) == [0]
    play.do("adjust moves_need_disks_percent=50", "ask reassign orders-1 to=3,2", "time +1s")
    assert (moving(play), waiting(play)) == ([0], {1: [3, 2]})
    play.do("adjust moves_need_disks_percent=0", "time +1s")
    assert (moving(play), held_up(play)) == ([0, 1], ())


def test_what_was_under_way_when_it_was_turned_on_is_on_its_way() -> None:
    play = told("ask reassign orders-0 to=3,2", "time +30s", setting="set moves_need_disks_percent=0")

    play.do(f"disks 3 /a=1000000/{JUST}", "adjust moves_need_disks_percent=10", "time +30s")
    play.do("ask reassign orders-1 to=3,2", "time +60s")

    assert moving(play) == [0]
    play.do(f"disks 3 /a=1000000/{JUST + MOVE}", f"time +{AGAIN_S + 1}s")
    assert moving(play) == [0, 1]


# ---- other doors ----------------------------------------------------------------------------------------------


def test_an_entry_of_the_legacy_znode_waits_there() -> None:
    play = told("disks 3 /a=1000000/0")
    entry = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'

    play.do(f"znode {LEGACY} {entry}", "time +1s")
    assert (moving(play), play.data(LEGACY)) == ([], entry)

    play.do("disks 3 /a=1000000/900000", f"time +{AGAIN_S + 1}s")
    assert moving(play) == [0]


def test_a_child_of_the_folder_waits_there() -> None:
    play = told("set keeps_reassignment_znodes=true", "elect 101", "disks 3 /a=1000000/0")

    play.do(f'znode {FOLDER}/orders-0 {{"version":1,"assignment":[3,2]}}', "time +1s")
    assert moving(play) == []

    play.do("disks 3 /a=1000000/900000", f"time +{AGAIN_S + 1}s")
    assert moving(play) == [0]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1_000, 2**40 + 1])
def test_a_size_is_rounded_up_by_an_eighth_at_most(count: int) -> None:
    assert count <= rounded_up(count) <= count + count / 8
