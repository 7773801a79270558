"""Which of the waiting moves begins first, where the operator wants an order?"""

from __future__ import annotations

from controller.core.reassignment.lines import LEFT_OVER, Lines
from controller.core.reassignment.order import LOOKED_AT, Order
from controller.core.reassignment.places import INTO, OUT, Place
from controller.core.settings import MachineSettings
from tests.unit.core.test_move_queue import ONE
from tests.unit.traps.play import Play
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

ORDERS = "topic orders 0=1,2 1=1,2 2=1,2"
SALES = "topic sales 0=1,2 1=1,2 2=1,2"
ROUND_ROBIN = 'set moves_order=["round-robin"]'
MIN_ISR = 'set moves_order=["min-isr"]'
WEIGHT = 'set moves_order=["weight"]'
ALL = "ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2 sales-0 to=3,2 sales-1 to=3,2 sales-2 to=3,2"


def ordered(*more: str, order: str = ROUND_ROBIN) -> Play:
    """A controller that lets one move copy at a time, in this order."""
    return Play(ONE, order, "brokers 1,2,3,4", ORDERS, SALES, "elect", *more)


def moving(play: Play) -> list[str]:
    """The partitions that copy."""
    views = play.state().topics.views
    return [f"{name}-{n}" for name, view in views.items() for n, p in view.partitions.items() if p.assignment.adding]


def begun(play: Play, most: int = 100, isr: str = "1,2,3") -> list[str]:
    """Let every move arrive; the order in which they began."""
    seen: list[str] = []
    while (now := moving(play)) and len(seen) < most:
        seen += now
        play.do(f"isr {now[0]} {isr}", "time +1s")
    return seen


def test_without_an_order_they_begin_as_accepted() -> None:
    play = ordered(ALL, order="set moves_order=[]")

    assert begun(play) == ["orders-0", "orders-1", "orders-2", "sales-0", "sales-1", "sales-2"]


def test_topics_take_turns_also_one_that_comes_later() -> None:
    play = ordered(ALL)

    assert begun(play, 2) == ["orders-0", "sales-0"]
    play.do("create topic late 0=1,2 1=1,2", "time +1s", "ask reassign late-0 to=3,2 late-1 to=3,2")
    assert begun(play)[1:] == ["sales-1", "late-0", "orders-2", "sales-2", "late-1"]


def test_entries_of_the_legacy_znode_take_turns_too() -> None:
    play = ordered("legacy orders-0=3,2 orders-1=3,2 sales-0=3,2 sales-1=3,2", "time +1s")

    assert begun(play) == ["orders-0", "sales-0", "orders-1", "sales-1"]


def test_a_successor_lets_topics_take_turns_with_what_it_finds() -> None:
    play = ordered(ALL)

    play.do("elect", "time +1s")

    assert begun(play) == ["orders-0", "orders-1", "sales-0", "orders-2", "sales-1", "sales-2"]


def test_a_partition_below_its_min_isr_comes_first_also_if_it_falls_below_while_it_waits() -> None:
    two = "config <default> min.insync.replicas=2"
    play = ordered(two, "isr sales-1 1", ALL, order=MIN_ISR)
    assert moving(play) == ["sales-1"]

    play.do("isr sales-0 1", "isr sales-1 1,2,3", "time +1s")

    assert moving(play) == ["sales-0"]
    assert play.figures()["partitions_below_min_isr"] == 0, "counted where moves wait for it, not where they go first"


def test_policies_are_chained() -> None:
    two = "config <default> min.insync.replicas=2"
    play = ordered(two, "isr sales-2 1", ALL, order='set moves_order=["min-isr","round-robin"]')

    assert begun(play, 3) == ["sales-2", "orders-0", "sales-0"]


def test_an_order_that_is_set_while_moves_wait_counts_from_then_on() -> None:
    play = ordered(ALL, order="set moves_order=[]")

    play.do('adjust moves_order=["round-robin"]')
    assert begun(play, 4) == ["orders-0", "orders-1", "sales-0", "orders-2"]
    play.do("adjust moves_order=[]")
    assert begun(play) == ["sales-1", "sales-2"]


def test_the_one_that_has_waited_longest_is_not_put_off_for_ever() -> None:
    many = "topic sales " + " ".join(f"{n}=1,2" for n in range(30))
    short = [f"isr sales-{n} 1" for n in range(30)]
    play = Play(ONE, MIN_ISR, "brokers 1,2,3", ORDERS, many, "config <default> min.insync.replicas=2", "elect", *short)
    moves = " ".join(f"sales-{n} to=3,2" for n in range(30))
    play.do(f"ask reassign orders-0 to=3,2 orders-1 to=3,2 {moves}")

    order = begun(play)

    assert len(order) == 32
    assert (order.index("orders-0"), order.index("orders-1")) == (10, 20)


def test_one_that_cannot_begin_keeps_no_room_though_it_has_waited_longest() -> None:
    many = "topic sales " + " ".join(f"{n}=1,2" for n in range(25))
    play = Play(ONE, ROUND_ROBIN, "brokers 1,2,3,4", "topic orders 0=1,2", many, "elect")
    moves = " ".join(f"sales-{n} to=3,2" for n in range(25))
    play.do(f"ask reassign sales-0 to=3,2 orders-0 to=4,2 {moves}", "broker 4 dies")

    assert "orders-0" not in begun(play, 25)
    play.do("broker 4 returns", "time +11s")
    assert begun(play)[-1] == "orders-0"


def test_what_stands_again_and_again_takes_no_more_memory() -> None:
    order = Order(MachineSettings(BrokerId(100), moves_order=("round-robin",)), lambda _: False, lambda _: None)
    moves = [TopicPartition(TopicName("orders"), PartitionId(n)) for n in range(10)]

    for again in range(1_000):
        for accepted, at in enumerate(moves):
            order.stands(at, accepted)
            if again % 2:
                order.forget(at)

    assert len(order._by_age) <= 2 * len(moves) + LOOKED_AT


def test_those_of_a_higher_weight_come_first_and_without_one_it_is_zero() -> None:
    play = ordered("ask reassign orders-0 to=3,2*-1 orders-1 to=3,2 orders-2 to=3,2*5 sales-0 to=3,2*7", order=WEIGHT)

    assert begun(play) == ["sales-0", "orders-2", "orders-1", "orders-0"]


def test_weights_count_for_a_later_request_and_for_a_successor() -> None:
    play = ordered("ask reassign orders-0 to=3,2*9 orders-1 to=3,2*2 orders-2 to=3,2", order=WEIGHT)

    play.do("ask reassign sales-0 to=3,2*3", "elect", "time +1s")

    assert begun(play) == ["orders-0", "sales-0", "orders-1", "orders-2"]


def test_who_asks_again_may_give_another_weight_and_without_one_the_former_stays() -> None:
    play = ordered("ask reassign orders-0 to=3,2*9 orders-1 to=3,2*2 orders-2 to=3,2*1 sales-0 to=3,2", order=WEIGHT)

    lines = play.do("ask reassign sales-0 to=3,2*5", "ask reassign orders-1 to=3,2")

    assert sum("was asked again" in line for line in lines) == 1
    assert begun(play) == ["orders-0", "sales-0", "orders-1", "orders-2"]


def test_weights_decide_where_nothing_before_them_in_the_chain_does_and_else_nothing() -> None:
    weighted = "ask reassign orders-0 to=3,2*1 orders-1 to=3,2*2 sales-0 to=3,2*3 sales-1 to=3,2*4"

    chained = ordered(weighted, order='set moves_order=["round-robin","weight"]')
    assert begun(chained) == ["sales-0", "orders-0", "sales-1", "orders-1"]
    assert begun(ordered(weighted)) == ["orders-0", "sales-0", "orders-1", "sales-1"]


def test_no_weight_keeps_the_one_that_has_waited_longest_from_its_turn_for_ever() -> None:
    play = ordered("ask reassign orders-0 to=3,2*9 orders-1 to=3,2*-9", order=WEIGHT)

    for number in range(2, 14):
        play.do(f"create topic more-{number} 0=1,2", "time +1s", f"ask reassign more-{number}-0 to=3,2*8")

    assert "orders-1" in begun(play, 12)


def test_a_line_does_not_grow_while_ranks_change() -> None:
    place, other = (Place(INTO, BrokerId(3)),), (Place(INTO, BrokerId(3)), Place(OUT, BrokerId(1)))
    lines = Lines(lambda _: None, lambda _: False, lambda *_: None)
    moves = [TopicPartition(TopicName("orders"), PartitionId(number)) for number in range(20)]

    for rank in range(5_000, 0, -1):
        at = moves[rank % len(moves)]
        lines.leave(at)
        lines.stand(at, (rank,), place if rank % 2 else other)

    assert max(len(group.heap) for group in lines._groups.values()) <= 2 * len(moves) + LEFT_OVER
    assert max(len(line) for line in lines._lines.values()) <= 2 * len(lines._groups) + LEFT_OVER
    assert len(lines._open) <= 2 * len(lines._lines) + LEFT_OVER
    taken = [found[0] for _ in moves if (found := lines.next(lambda: True)) is not None]
    assert taken == [moves[rank % len(moves)] for rank in range(1, 21)]
