"""Do moves begin by the bytes that they copy, and who is asked for these, how often?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import DescribeLogDirs, Effect
from controller.core.messages.events import LogDirsDescribed, ReplicaSize
from controller.core.messages.requests import ListReassignments
from controller.core.reassignment import waiting_sizes
from controller.core.reassignment.waiting_sizes import AGAIN_S, AWAITED_S, RETRIED_S
from controller.core.scheduling.log_dir_questions import GIVEN_UP_S
from tests.unit.core.test_move_order import begun, moving
from tests.unit.core.test_move_queue import LEGACY, ONE
from tests.unit.traps.play import Play, some
from zk_layout.ids import BrokerId

SMALL, LARGE = 'set moves_order=["small"]', 'set moves_order=["large"]'
TOPIC = "topic orders 0=1,2 1=1,2 2=2,1"
SIZES = ("sizes orders-0 1=3000000", "sizes orders-1 1=1000000", "sizes orders-2 2=2000000")
ALL = "ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,1"


class Watched:
    """A play in which questions about moves that wait are kept, and answered only if that is wanted."""

    def __init__(self, *commands: str, order: str = SMALL, topic: str = TOPIC) -> None:
        self.play = Play(ONE, order, "brokers 1,2,3,4", topic, "elect")
        self.asked: list[DescribeLogDirs] = []
        self.are_held = False
        self.play.theatre.is_held = self._is_held
        self.play.do(*commands)

    def _is_held(self, effect: Effect) -> bool:
        if not (isinstance(effect, DescribeLogDirs) and effect.is_of_waiting):
            return False
        self.asked.append(effect)
        return self.are_held

    def numbers(self) -> list[tuple[int, list[int]]]:
        """Who was asked for which partitions since the last call."""
        found = [(int(asked.broker), [int(at.partition) for at in asked.partitions]) for asked in self.asked]
        self.asked.clear()
        return found

    def answer(self, asked: DescribeLogDirs) -> None:
        """A broker answers after all."""
        self.play.theatre._describe(asked)
        self.play.theatre.run()


# ---- the order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "first"),
    [(SMALL, ["orders-1", "orders-2", "orders-0"]), (LARGE, ["orders-0", "orders-2", "orders-1"])],
)
def test_moves_begin_by_the_bytes_they_copy_also_the_first_one(order: str, first: list[str]) -> None:
    play = Play(ONE, order, "brokers 1,2,3,4", TOPIC, "elect", *SIZES, ALL)

    assert begun(play) == first


def test_what_a_move_copies_counts_once_for_each_of_its_receivers() -> None:
    play = Play(ONE, SMALL, "brokers 1,2,3,4", TOPIC, "elect", *SIZES)

    play.do("ask reassign orders-1 to=3,4 orders-2 to=3,1", "time +1s")
    assert moving(play) == ["orders-1"], "2 MB by order of acceptance, as 2 MB"
    play.do("ask cancel orders-1 orders-2", "sizes orders-1 1=1000001")
    play.do("ask reassign orders-1 to=3,4 orders-2 to=3,1", "time +1s")

    assert moving(play) == ["orders-2"]


@pytest.mark.parametrize("order", [SMALL, LARGE])
def test_what_is_not_known_goes_last_and_is_said_to_be_not_known(order: str) -> None:
    play = Play(ONE, order, "brokers 1,2,3,4", TOPIC, "elect", *SIZES[1:])

    lines = play.do(ALL)
    assert play.figures()["waiting_moves_without_size"] == 1
    assert some(lines, "it has waited, and copies", "B as of 0 s ago")
    seen = moving(play)
    play.do(f"isr {seen[0]} 1,2,3")
    play.do(f"isr {moving(play)[0]} 1,2,3")

    assert moving(play) == ["orders-0"]


def test_that_it_is_not_known_is_said_when_the_move_begins() -> None:
    play = Play(ONE, SMALL, "brokers 1,2,3,4", TOPIC, "elect")

    assert some(play.do(ALL), "commit", "it has waited, and how much it copies is not known")


def test_the_age_is_said_when_a_move_begins() -> None:
    play = Play(ONE, SMALL, "brokers 1,2,3,4", TOPIC, "elect", *SIZES, ALL, "time +185s")

    assert some(play.do("isr orders-1 1,2,3"), "orders-2", "it has waited, and copies 1.9 MB as of 3 min ago")


def test_policies_are_chained() -> None:
    play = Play(ONE, 'set moves_order=["round-robin","small"]', "brokers 1,2,3,4", TOPIC, "topic sales 0=1,2", "elect")
    play.do(*SIZES, "sizes sales-0 1=1", "ask reassign sales-0 to=3,2", ALL, "time +2s")

    assert begun(play, 2) == ["sales-0", "orders-0"]


def test_one_that_is_never_the_smallest_is_not_put_off_for_ever() -> None:
    numbers = range(1, 31)
    topic = "topic orders 0=1,2 " + " ".join(f"{n}=1,2" for n in numbers)
    play = Play(ONE, SMALL, "brokers 1,2,3,4", topic, "elect", "sizes orders-0 1=9000000")
    play.do(*(f"sizes orders-{n} 1={n}" for n in numbers))
    asked = " ".join(f"orders-{n} to=3,2" for n in numbers)

    play.do(f"ask reassign orders-0 to=3,2 {asked}", "time +1s")

    assert "orders-0" in begun(play, 12)


def test_entries_of_the_legacy_znode_are_put_in_order_too() -> None:
    play = Play(ONE, SMALL, "brokers 1,2,3,4", TOPIC, "elect", *SIZES)
    play.do("legacy orders-0=3,2 orders-1=3,2 orders-2=3,1", "time +1s")

    assert begun(play) == ["orders-1", "orders-2", "orders-0"]
    assert play.data(LEGACY) is None


def test_the_order_counts_at_once_when_it_is_changed() -> None:
    play = Play(ONE, "brokers 1,2,3,4", TOPIC, "elect", *SIZES, ALL, "time +5s")
    assert moving(play) == ["orders-0"]
    assert play.figures()["waiting_moves_without_size"] == 0

    play.do('adjust moves_order=["large"]', "time +1s")
    assert play.figures()["waiting_moves_oldest_size_timestamp_seconds"] > 0
    play.do("isr orders-0 1,2,3", "time +1s")
    assert moving(play) == ["orders-2"]

    play.do("adjust moves_order=[]", "time +1s")
    assert play.figures()["waiting_moves_oldest_size_timestamp_seconds"] == 0
    play.do("isr orders-2 1,2,3", "time +1s")
    assert moving(play) == ["orders-1"]


# ---- who is asked ---------------------------------------------------------------------------------------------


def test_only_leaders_of_what_waits_are_asked_each_once() -> None:
    watched = Watched(*SIZES)
    watched.play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", "time +60s")

    assert watched.numbers() == [(1, [0, 1])]


@pytest.mark.parametrize("order", ["set moves_order=[]", 'set moves_order=["round-robin","weight","min-isr"]'])
def test_without_an_order_by_size_nobody_is_asked(order: str) -> None:
    watched = Watched(*SIZES, ALL, "time +60s", order=order)

    assert watched.asked == []


def test_what_copies_nothing_is_not_asked_for() -> None:
    watched = Watched("adjust changes_a_second=1", *SIZES)

    watched.play.do("ask reassign orders-0 to=2,1 orders-1 to=2,1 orders-2 to=1,2", "time +60s")

    assert watched.asked == []


def test_many_are_asked_for_some_at_a_time_and_not_faster_than_a_broker_is_to_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_sizes, "AT_ONCE", 2)
    topic = "topic orders " + " ".join(f"{n}=1,2" for n in range(5))
    watched = Watched(*(f"sizes orders-{n} 1={9 - n}" for n in range(5)), topic=topic)

    watched.play.do("ask reassign " + " ".join(f"orders-{n} to=3,2" for n in range(5)))
    assert watched.numbers() == [(1, [0, 1])]
    assert moving(watched.play) == [], "an answer may say that another one is smaller"
    watched.play.do("time +0.9s")
    assert watched.numbers() == []
    watched.play.do("time +0.2s")
    assert watched.numbers() == [(1, [2, 3])]
    watched.play.do("time +1.1s")
    assert watched.numbers() == [(1, [4])]

    assert moving(watched.play) == ["orders-4"]


def test_a_broker_that_is_slow_has_one_question_at_a_time_and_holds_others_up_for_some_seconds_only() -> None:
    watched = Watched(*SIZES)
    watched.are_held = True

    watched.play.do("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=3,2", f"time +{AWAITED_S - 1}s")
    assert (watched.numbers(), moving(watched.play)) == ([(1, [0])], [])
    watched.play.do("time +2s")
    assert moving(watched.play) == ["orders-0"]

    watched.are_held = False
    watched.play.do(f"time +{GIVEN_UP_S - AWAITED_S}s")
    assert watched.numbers() == [(1, [1])]


def test_others_go_first_while_a_slow_broker_is_asked() -> None:
    watched = Watched(*SIZES)
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2 orders-2 to=3,1")
    slow, other = watched.asked
    watched.answer(other)
    assert moving(watched.play) == []

    watched.play.do(f"time +{AWAITED_S + 1}s")

    assert moving(watched.play) == ["orders-2"]
    watched.answer(slow)
    assert watched.play.figures()["waiting_moves_without_size"] == 0


def test_what_was_said_is_asked_for_again_after_a_while_and_counts_until_then() -> None:
    watched = Watched(*SIZES, ALL)
    assert watched.numbers() == [(1, [0, 1]), (2, [2])]
    said_at = watched.play.figures()["waiting_moves_oldest_size_timestamp_seconds"]
    watched.play.do("sizes orders-2 2=9000000", f"time +{AGAIN_S - 1}s")
    assert watched.numbers() == []
    assert watched.play.figures()["waiting_moves_oldest_size_timestamp_seconds"] == said_at

    watched.play.do("time +2s")

    assert watched.numbers() == [(1, [0]), (2, [2])]
    now_at = watched.play.figures()["waiting_moves_oldest_size_timestamp_seconds"]
    assert now_at == pytest.approx(said_at + AGAIN_S, abs=1)
    assert begun(watched.play) == ["orders-1", "orders-0", "orders-2"]


def test_a_broker_that_says_nothing_is_named_once_and_asked_again_later() -> None:
    watched = Watched(*SIZES)
    watched.play.theatre.mute[BrokerId(1)] = None

    lines = watched.play.do(ALL)

    (said,) = some(lines, "(unknown sizes)")
    assert "broker 1 does not say how large its replicas are (no answer)" in said
    assert moving(watched.play) == ["orders-2"]
    assert watched.play.figures()["waiting_moves_without_size"] == 2
    assert watched.numbers() == [(1, [0, 1]), (2, [2])]
    assert some(watched.play.do(f"time +{RETRIED_S - 1}s"), "(unknown sizes)") == []
    assert watched.numbers() == []

    assert some(watched.play.do("time +2s"), "(unknown sizes)") == []
    assert watched.numbers() == [(1, [0, 1])]


def test_a_partition_without_a_leader_is_asked_for_once_it_has_one() -> None:
    topic = "topic orders 0=4 1=1,2 2=2,1"
    watched = Watched(*SIZES[1:], "sizes orders-0 4=500", "broker 4 dies", "time +1s", topic=topic)
    watched.play.do("ask reassign orders-0 to=3,4 orders-1 to=3,2 orders-2 to=3,1")
    assert watched.numbers() == [(1, [1]), (2, [2])]
    assert moving(watched.play) == ["orders-1"]

    watched.play.do("broker 4 returns", "time +1s")

    assert watched.numbers() == [(4, [0])]


def test_an_answer_of_a_former_life_does_not_count() -> None:
    watched = Watched(*SIZES)
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2")
    (asked,) = watched.asked
    watched.play.do("broker 1 bounces", "time +1s")

    watched.answer(asked)

    assert watched.play.figures()["waiting_moves_without_size"] == 1 - len(moving(watched.play))


def test_an_answer_about_moves_under_way_is_none_about_what_waits() -> None:
    watched = Watched(*SIZES)
    watched.are_held = True
    watched.play.do("ask reassign orders-0 to=3,2")
    (asked,) = watched.asked

    sizes = {at: ReplicaSize(1) for at in asked.partitions}
    watched.play.theatre._events.append(LogDirsDescribed(asked.broker, asked.broker_epoch, sizes))
    watched.play.theatre.run()

    assert watched.play.figures()["waiting_moves_without_size"] == 1


def test_an_answer_about_what_waits_is_none_about_moves_under_way() -> None:
    play = Play(ONE, SMALL, "brokers 1,2,3,4", TOPIC, "elect", *SIZES, "ask reassign orders-0 to=3,2", "time +5s")
    machine = play.theatre.machine
    assert machine is not None
    progress = machine._serving[ListReassignments]._progress  # type: ignore[attr-defined]
    leader = BrokerId(1)
    progress._asked[leader] = play.theatre.now, tuple(progress._stages)

    epoch = play.theatre.epoch_of(leader)
    play.theatre._events.append(LogDirsDescribed(leader, epoch, {}, is_of_waiting=True))
    play.theatre.run()

    assert leader in progress._asked


def test_a_successor_asks_anew() -> None:
    watched = Watched(*SIZES, ALL)
    watched.numbers()

    watched.play.do("elect 101", "time +1s")

    assert watched.numbers() == [(1, [0]), (2, [2])]
