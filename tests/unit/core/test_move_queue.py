"""What begins, what waits, and for how long, where moves are limited?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.core.messages.events import ReadRefused
from controller.core.reassignment.queue import MoveQueue
from controller.core.transactions.owner import Transactions
from tests.unit.core.builders import Term, ids
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, present
from zk_layout.ids import PartitionId, Replicas, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove, WaitingMoves, WaitingMovesAddress, encode

ONE = "set moves_at_once=1"
KEPT = "set keeps_reassignment_znodes=true"
PART = "/kafka_zk_controller/waiting_moves/orders-0"
LEGACY = "/admin/reassign_partitions"
FOLDER = "/admin/reassignments"
PAUSE = "znode /kafka_zk_controller/paused {}"
RESUME = "remove /kafka_zk_controller/paused"
THREE = "topic orders 0=1,2 1=1,2 2=1,2"


def limited(*more: str, limit: str = ONE, topic: str = THREE, brokers: str = "1,2,3,4,5") -> Play:
    """A controller that lets only so much move."""
    return Play(limit, f"brokers {brokers}", topic, "elect", *more)


def assignment(play: Play, number: int = 0, topic: str = "orders") -> Assignment:
    """What the topic's znode says of a partition."""
    return play.state().topics.views[TopicName(topic)].partitions[PartitionId(number)].assignment


def waiting(play: Play, path: str = PART) -> dict[int, list[int]]:
    """The targets recorded as waited for."""
    data = play.data(path)
    moves: dict[str, Any] = {} if data is None else json.loads(data)["moves"]
    return {int(number): move["to"] for number, move in moves.items()}


def moving(play: Play) -> list[int]:
    """The partitions of `orders` that move and copy."""
    partitions = play.state().topics.views[TopicName("orders")].partitions
    return sorted(number for number, held in partitions.items() if held.assignment.adding)


def arrive(play: Play, number: int, isr: str) -> list[str]:
    """All replicas of a partition are in sync: its move ends."""
    return play.do(f"isr orders-{number} {isr}", "time +1s")


# ---- without limits -------------------------------------------------------------------------------------------


def test_without_limits_everything_begins_at_once_and_nothing_is_recorded() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=3,2", limit="set unclean_election=false")

    assert moving(play) == [0, 1, 2]
    assert play.data(PART) is None


# ---- the limits -----------------------------------------------------------------------------------------------


def test_a_request_beyond_the_limit_is_accepted_and_begins_when_there_is_room() -> None:
    play = limited()

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    assert some(lines, "answer orders-1 NONE")
    assert some(lines, "orders-1 waits to move to [4, 2]: 1 of 1 moves are in flight")
    assert (moving(play), waiting(play)) == ([0], {1: [4, 2]})

    assert some(arrive(play, 0, "1,2,3"), "asked to move orders-1 to [4, 2]; it has waited")
    assert (moving(play), play.data(PART)) == ([1], None)


def test_a_broker_receives_no_more_than_its_limit_and_others_go_on() -> None:
    play = limited(limit="set moves_into_broker=1")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2 orders-2 to=4,2")

    assert some(lines, "orders-1 waits to move to [3, 2]: 1 of 1 moves into broker 3 are in flight")
    assert (moving(play), waiting(play)) == ([0, 2], {1: [3, 2]})


def test_a_replica_that_is_in_sync_makes_room_although_its_move_waits_for_others() -> None:
    play = limited("ask reassign orders-0 to=3,4 orders-1 to=3,2", limit="set moves_into_broker=1")
    assert moving(play) == [0]

    arrive(play, 0, "1,2,3")

    assert moving(play) == [0, 1]


def test_the_leader_of_a_partition_gives_no_more_than_its_limit() -> None:
    play = limited(limit="set moves_out_of_broker=1", topic="topic orders 0=1,2 1=1,2 2=2,1")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,1")

    assert some(lines, "orders-1 waits to move to [4, 2]: 1 of 1 moves out of broker 1 are in flight")
    assert (moving(play), waiting(play)) == ([0, 2], {1: [4, 2]})


def test_the_room_that_a_move_takes_goes_with_the_leader() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", limit="set moves_out_of_broker=1")

    play.do("broker 1 dies")  # 2 leads both

    assert moving(play) == [0]
    assert some(arrive(play, 0, "2,3"), "asked to move orders-1")


@pytest.mark.parametrize("kind", ["to=2,1", "to=1"])
def test_what_copies_nothing_never_waits(kind: str) -> None:
    play = limited("ask reassign orders-0 to=3,2")

    play.do(f"ask reassign orders-1 {kind}", "time +1s")

    assert {*assignment(play, 1).target} <= {1, 2}
    assert play.data(PART) is None


def test_moves_begin_in_the_order_in_which_they_were_accepted() -> None:
    play = limited("ask reassign orders-2 to=3,2", "ask reassign orders-1 to=3,2", "ask reassign orders-0 to=3,2")

    assert moving(play) == [2]
    arrive(play, 2, "1,2,3")
    assert moving(play) == [1]
    arrive(play, 1, "1,2,3")
    assert moving(play) == [0]


def test_a_later_request_does_not_overtake_one_that_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2")

    play.do("broker 4 hangs", "isr orders-0 1,2,3", "ask reassign orders-2 to=5,2", "time +1s")

    assert moving(play) == [1]


# ---- two requests about one partition -------------------------------------------------------------------------


def together(play: Play, *asked: str) -> list[str]:
    """These requests are decided in one step: they arrive while the topic is being written."""
    play.do("hold request", "ask reassign orders-2 to=2,1")
    play.do(*asked)
    return play.do("reply")


def test_two_requests_of_one_partition_in_one_step_do_not_pass_for_a_redirection() -> None:
    """What the first decided is not written: it takes no room yet that the second could inherit."""
    play = limited("ask reassign orders-0 to=4,2", limit="set moves_into_broker=1")

    lines = together(play, "ask reassign orders-1 to=2,1,3", "ask reassign orders-1 to=4,2")

    # Each is judged by what ZooKeeper shows: the first begins, and is then redirected, as moves in flight may be.
    began, redirected = (n for n, line in enumerate(lines) if "asked to move orders-1 to" in line)
    assert any(line.startswith("committed") for line in lines[began:redirected])


def test_a_second_request_in_one_step_does_not_begin_what_waits_by_the_first() -> None:
    play = limited("ask reassign orders-0 to=3,2")

    lines = together(play, "ask reassign orders-1 to=3,2", "ask reassign orders-1 to=4,2")

    assert moving(play) == [0]
    assert waiting(play) == {1: [4, 2]}
    assert len(some(lines, "answer orders-1 NONE")) == 2


def test_the_second_of_two_equal_requests_in_one_step_is_answered_when_the_first_is_written() -> None:
    play = limited("ask reassign orders-0 to=3,2")
    play.do("hold request", "ask reassign orders-2 to=2,1")
    play.do("ask reassign orders-1 to=3,2", "ask reassign orders-1 to=3,2", "hold request")

    assert not some(play.do("reply"), "answer orders-1")

    assert len(some(play.do("reply", "time +1s"), "answer orders-1 NONE")) == 2
    assert waiting(play) == {1: [3, 2]}


def test_a_cancellation_in_the_step_of_the_request_takes_it_back() -> None:
    play = limited("ask reassign orders-0 to=3,2")

    lines = together(play, "ask reassign orders-1 to=3,2", "ask cancel orders-1")

    assert len(some(lines, "answer orders-1 NONE")) == 2
    assert (moving(play), waiting(play)) == ([0], {})


def test_requests_of_several_topics_in_one_turn_share_the_room() -> None:
    play = Play(ONE, "brokers 1,2,3,4", "topic orders 0=1,2", "topic sales 0=1,2", "elect")

    play.do("ask reassign orders-0 to=3,2 sales-0 to=3,2")

    both = [assignment(play), assignment(play, topic="sales")]
    assert sum(bool(held.adding) for held in both) == 1


def test_room_is_kept_until_the_outcome_of_a_transaction_is_known() -> None:
    play = Play(ONE, "brokers 1,2,3,4", "topic orders 0=1,2", "topic sales 0=1,2", "elect")

    play.do("lose reply", "ask reassign orders-0 to=3,2", "ask reassign sales-0 to=3,2", "time +5s")
    assert assignment(play).adding == ids("3")
    assert not assignment(play, topic="sales").is_moving


def test_room_is_given_back_when_a_transaction_was_refused() -> None:
    play = Play(ONE, "brokers 1,2,3,4", "topic orders 0=1,2", "topic sales 0=1,2", "elect")

    play.do("refuse /brokers/topics/orders", "ask reassign orders-0 to=3,2", "time +5s", "ask reassign sales-0 to=3,2")
    play.do("time +60s")

    assert assignment(play, topic="sales").adding == ids("3")
    assert not assignment(play).is_moving


def test_redirecting_a_move_in_flight_takes_effect_at_once_even_above_a_limit() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", limit="set moves_into_broker=1")

    play.do("ask reassign orders-1 to=3,2")

    assert assignment(play, 1).target == ids("3,2")
    play.do("ask reassign orders-2 to=3,2")
    assert waiting(play) == {2: [3, 2]}
    arrive(play, 0, "1,2,3")
    assert waiting(play) == {2: [3, 2]}
    arrive(play, 1, "1,2,3")
    assert moving(play) == [2]


def test_a_move_in_flight_that_copies_nothing_lends_no_room_to_one_that_does() -> None:
    play = limited("isr orders-1 1", "ask reassign orders-1 to=2", "ask reassign orders-0 to=3,2")
    assert (assignment(play, 1).removing, moving(play)) == (ids("1"), [0])

    play.do("ask reassign orders-1 to=4,2")

    assert moving(play) == [0]
    assert waiting(play) == {1: [4, 2]}


# ---- what becomes of those that wait --------------------------------------------------------------------------


def test_a_cancellation_takes_a_move_out_of_the_queue() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    lines = play.do("ask cancel orders-1")

    assert some(lines, "asked to cancel: orders-1 no longer waits to move to [4, 2]")
    assert some(lines, "answer orders-1 NONE")
    assert play.data(PART) is None
    arrive(play, 0, "1,2,3")
    assert moving(play) == []
    assert some(play.do("ask status 1"), "1 cancelled, 1 completed")


def test_another_target_takes_the_place_of_the_first() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", "ask reassign orders-1 to=5,2")

    assert waiting(play) == {1: [5, 2]}
    arrive(play, 0, "1,2,3")
    assert assignment(play, 1).target == ids("5,2")


def test_the_same_target_again_changes_nothing() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    lines = play.do("ask reassign orders-1 to=4,2")

    assert some(lines, "answer orders-1 NONE")
    assert not some(lines, PART)


def test_to_ask_for_the_present_replicas_is_to_cancel() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    lines = play.do("ask reassign orders-1 to=1,2")

    assert some(lines, "answer orders-1 NONE")
    assert play.data(PART) is None


def test_what_copies_nothing_supersedes_what_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", "ask reassign orders-1 to=2,1")

    assert assignment(play, 1) == Assignment(ids("2,1"))
    assert play.data(PART) is None


def test_what_another_rule_begins_waits_no_longer_in_the_same_step() -> None:
    play = limited("ask reassign payments-0 to=2,3", topic="topic payments 0=2", brokers="2,3")
    play.do("create topic orders 0=101,2")
    topic = play.state().topics.views[TopicName("orders")]
    moves = {PartitionId(0): WaitingMove(ids("3,2"), ids("101,2"), 1)}
    play.do("znode " + PART + " " + encode(WaitingMoves(topic.czxid, moves, topic.topic_id)).decode())

    lines = play.do("elect 101")

    begins = lines.index(*some(lines, "[101, 2] of orders-0 becomes [3, 2]"))
    assert some(lines[begins : lines.index("committed #1")], f"delete {PART}")
    assert assignment(play).target == ids("3,2")


def test_waiting_moves_are_listed_with_the_present_replicas() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    lines = play.do("ask list")

    assert some(lines, "orders-0 replicas=[3, 2, 1] adding=[3] removing=[1]")
    assert some(lines, "orders-1 replicas=[1, 2] adding=[4] removing=[1]")
    assert some(play.do("elect 101", "ask list"), "orders-1 replicas=[1, 2] adding=[4] removing=[1]")


def test_a_topic_that_is_deleted_takes_its_waiting_moves_along() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    play.do("delete topic orders", "time +10s")

    assert play.data("/brokers/topics/orders") is None
    assert play.data(PART) is None


def test_what_waited_in_a_topic_does_not_begin_in_another_of_its_name() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")
    part = play.data(PART)
    assert part is not None

    play.do("delete topic orders", "time +10s", "create topic orders 0=1,2 1=1,2 id=none", "time +5s")
    play.do("znode " + PART + " " + part, "elect 101", "time +5s")

    assert moving(play) == []
    assert play.data(PART) is None


def test_a_part_of_a_topic_that_is_gone_is_removed_by_the_next_term() -> None:
    gone = "/kafka_zk_controller/waiting_moves/gone-0"
    play = Play(
        ONE,
        "brokers 1,2,3",
        "znode " + gone + ' {"version":1,"czxid":7,"moves":{"0":{"to":[3],"former":[1],"order":1}}}',
    )

    lines = play.do("elect", "time +1s")

    assert some(lines, "what waited to move in topic gone is forgotten: that topic is gone")
    assert play.data(gone) is None


def test_a_topic_may_grow_while_moves_wait_in_it() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", "add partition orders 3=1,2", "time +1s")

    assert waiting(play) == {1: [4, 2]}
    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]


def test_a_move_waits_for_a_broker_that_has_died_and_the_next_goes_first() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2", "broker 4 dies")

    arrive(play, 0, "1,2,3")
    assert (moving(play), waiting(play)) == ([2], {1: [4, 2]})
    assert play.figures()["waiting_moves_absent"] == 1

    arrive(play, 2, "1,2,5")
    assert moving(play) == []
    play.do("broker 4 returns")
    assert moving(play) == [1]


def test_a_move_whose_leader_is_gone_waits_on() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", "broker 1 dies", "broker 2 dies", "time +5s")

    play.do("broker 2 returns", "broker 1 returns", "time +5s")
    arrive(play, 0, "2,3")

    assert moving(play) in ([0], [1])
    assert assignment(play, 1).target == ids("4,2") or waiting(play) == {1: [4, 2]}


def test_what_someone_else_has_moved_meanwhile_is_not_begun() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")
    play.theatre.machine = None
    moved = play.data("/brokers/topics/orders")
    assert moved is not None
    play.do("znode /brokers/topics/orders " + moved.replace('"1":[1,2]', '"1":[5,2]'))

    lines = play.do("elect 101", "time +1s")

    assert some(lines, "notice (overtaken move)", "meanwhile another process has moved it to [5, 2]")
    assert play.data(PART) is None


def test_what_someone_else_has_moved_to_the_same_place_is_done() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")
    play.theatre.machine = None
    moved = play.data("/brokers/topics/orders")
    assert moved is not None
    play.do("znode /brokers/topics/orders " + moved.replace('"1":[1,2]', '"1":[4,2]'))

    lines = play.do("elect 101", "time +1s")

    assert some(lines, "orders-1 no longer waits to move to [4, 2]: it is there, or on its way")
    assert play.data(PART) is None


# ---- across terms, pauses, and trouble ------------------------------------------------------------------------


def test_the_next_term_goes_on_with_what_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2", "elect 101", "time +1s")

    assert (moving(play), waiting(play)) == ([0], {1: [4, 2], 2: [5, 2]})
    arrive(play, 0, "1,2,3")
    assert (moving(play), waiting(play)) == ([1], {2: [5, 2]})


def test_a_beginning_of_unknown_outcome_is_neither_lost_nor_repeated() -> None:
    for trouble in ("lose reply", "lose request"):
        play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2")

        play.do(trouble, "isr orders-0 1,2,3", "time +10s")

        assert (moving(play), waiting(play)) == ([1], {2: [5, 2]})


def test_a_term_without_limits_begins_all_that_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2")

    play.do("set moves_at_once=null", "elect 101", "time +1s")

    assert (moving(play), play.data(PART)) == ([0, 1, 2], None)


def test_nothing_that_waits_begins_during_a_pause() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", PAUSE)

    arrive(play, 0, "1,2,3")
    assert (moving(play), waiting(play)) == ([], {1: [4, 2]})
    assert play.figures()["waiting_moves_paused"] == 1

    play.do(RESUME)
    assert moving(play) == [1]


def test_what_waits_can_be_cancelled_during_a_pause() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", PAUSE)

    assert some(play.do("ask cancel orders-1"), "answer orders-1 NONE")
    assert play.data(PART) is None


def test_a_part_that_cannot_be_read_stays_and_says_so() -> None:
    play = limited("ask reassign orders-0 to=3,2", f"malformed {PART}", "elect 101")

    lines = play.do("ask reassign orders-1 to=4,2")

    assert some(lines, "answer orders-1 UNKNOWN_SERVER_ERROR", f"{PART} cannot be read")
    assert play.data(PART) == "{not json"


def test_what_waits_in_a_part_that_may_not_be_read_cannot_be_cancelled_and_is_answered() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")
    address = WaitingMovesAddress(TopicName("orders"), PartNumber(0))
    assert play.theatre.machine is not None
    play.theatre.machine.turn([ReadRefused(address.path, "no permission", address)], play.theatre.now)

    assert some(play.do("ask cancel orders-1"), "answer orders-1 UNKNOWN_SERVER_ERROR", f"{PART} cannot be read")


def test_what_waits_in_a_topic_that_can_be_read_only_later_is_known_then() -> None:
    term, at = Term("1,2,3,4"), TopicAddress(TopicName("orders"))
    queue = MoveQueue(term.shared, term.memory.queue)
    value = WaitingMoves(Zxid(10), {PartitionId(0): WaitingMove(ids("3,2"), ids("1,2"), 1)})
    stat = Stat(Zxid(11), Zxid(11), ZnodeVersion(0))
    told = [
        (present(WaitingMovesAddress(at.topic, PartNumber(0)), value, stat), {}),
        (present(at, Topic({PartitionId(0): Assignment(ids("1,2"))}), Stat(Zxid(10), Zxid(12), ZnodeVersion(0))), {0}),
    ]
    for fact, waiting_then in told:
        term.fold(fact)
        changes = term.changes()
        queue.follow(changes, term.out())
        queue.announce(changes, term.out())

        assert term.memory.queue.waiting.get(at.topic, {}).keys() == {*waiting_then}


def test_a_part_that_may_not_be_written_costs_its_topic_alone() -> None:
    play = Play(ONE, "brokers 1,2,3,4", "topic orders 0=1,2 1=1,2", "topic sales 0=1,2", "elect")
    play.do("ask reassign orders-0 to=3,2", f"refuse {PART}")

    play.do("ask reassign orders-1 to=4,2", "ask reassign sales-0 to=3,2", "time +100s")

    assert play.data("/kafka_zk_controller/waiting_moves/sales-0") is not None


def test_a_replica_on_a_controllers_id_is_put_right_and_what_waits_goes_on_from_there() -> None:
    play = limited("ask reassign orders-0 to=3,2", topic="topic orders 0=1,2 1=101,2 2=1,2")
    play.do("ask reassign orders-1 to=4,2")

    play.do("controllers 101", "time +5s")

    assert 101 not in assignment(play, 1).target or waiting(play) == {1: [4, 2]}


def test_limits_that_are_raised_during_a_term_let_more_begin_at_once() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2")

    play.do("adjust moves_at_once=2")
    assert moving(play) == [0, 1]
    play.do("adjust moves_at_once=1")
    assert moving(play) == [0, 1]
    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]
    play.do("adjust moves_at_once=null")
    assert moving(play) == [1, 2]


# ---- the other doors ------------------------------------------------------------------------------------------


def test_entries_of_the_legacy_znode_obey_the_limits_and_stay_until_their_turn() -> None:
    play = limited("legacy orders-0=3,2 orders-1=4,2", "time +1s")

    assert moving(play) == [0]
    assert play.data(PART) is None
    assert '"replicas": [4, 2]' in (play.data(LEGACY) or "")
    assert some(play.do("ask list"), "orders-1 replicas=[1, 2] adding=[4] removing=[1]")

    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]
    arrive(play, 1, "1,2,4")
    assert play.data(LEGACY) is None


def test_that_entries_wait_is_said_once() -> None:
    play = limited()

    lines = play.do("legacy orders-0=3,2 orders-1=4,2 orders-2=4,2", "time +1s", "isr orders-0 1,2,3", "time +60s")

    (said,) = some(lines, "notice (limited legacy reassignment)")
    assert "(3 are left, with those under way); a native controller that takes over begins all of them at once" in said


def test_the_status_names_waiting_entries_until_the_last_has_begun() -> None:
    play = limited("legacy orders-0=3,2 orders-1=4,2", "time +1s")
    assert play.theatre.machine is not None
    assert "(2 are left" in str(play.theatre.machine.held_up())

    arrive(play, 0, "1,2,3")

    assert play.theatre.machine.held_up() == ()


def test_an_entry_that_wants_no_move_overrules_an_older_request_that_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    lines = play.do("legacy orders-1=1,2", "time +1s")

    assert some(lines, f"orders-1 no longer waits to move to [4, 2]: {LEGACY} asks for [1, 2]")
    assert (play.data(PART), play.data(LEGACY)) == (None, None)


def test_the_status_no_longer_names_entries_of_a_znode_that_is_gone() -> None:
    play = limited("legacy orders-0=3,2 orders-1=4,2", "time +1s", f"remove {LEGACY}", "time +1s")

    assert play.theatre.machine is not None
    assert play.theatre.machine.held_up() == ()


def test_a_request_overrules_an_entry_that_waits() -> None:
    play = limited("legacy orders-0=3,2 orders-1=4,2", "time +1s", "ask reassign orders-1 to=5,2")

    assert waiting(play) == {1: [5, 2]}
    assert "[4, 2]" not in (play.data(LEGACY) or "")
    arrive(play, 0, "1,2,3")
    assert assignment(play, 1).target == ids("5,2")


def test_a_cancellation_removes_an_entry_that_waits() -> None:
    play = limited("legacy orders-0=3,2 orders-1=4,2", "time +1s")

    assert some(play.do("ask cancel orders-1"), "answer orders-1 NONE")

    assert "[4, 2]" not in (play.data(LEGACY) or "")
    arrive(play, 0, "1,2,3")
    assert moving(play) == []


def test_an_entry_overrules_a_request_that_waits() -> None:
    play = limited("ask reassign orders-0 to=3,2 orders-1 to=4,2", "legacy orders-1=5,2", "time +1s")

    assert play.data(PART) is None
    arrive(play, 0, "1,2,3")
    assert assignment(play, 1).target == ids("5,2")


def test_an_entry_waits_for_a_broker_that_is_down_and_takes_no_room() -> None:
    play = limited("broker 5 dies", "legacy orders-0=5,2", "time +1s", "ask reassign orders-1 to=4,2", "time +1s")
    assert moving(play) == [1]

    arrive(play, 1, "1,2,4")
    play.do("broker 5 returns", "time +1s")
    assert moving(play) == [0]


def test_children_obey_the_limits_and_stay_until_their_turn() -> None:
    play = Play(KEPT, ONE, "brokers 1,2,3,4,5", THREE, "elect")
    for number in (0, 1):
        play.do(f'znode {FOLDER}/orders-{number} {{"version":1,"assignment":[3,2]}}')

    play.do("elect 101", "time +1s")
    assert moving(play) == [0]
    assert play.data(f"{FOLDER}/orders-1") == '{"version":1,"assignment":[3,2]}'

    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]


def test_a_child_that_is_removed_while_it_waits_is_forgotten() -> None:
    play = Play(KEPT, ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2")
    play.do(f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[4,2]}}', f"remove {FOLDER}/orders-1")

    arrive(play, 0, "1,2,3")

    assert moving(play) == []


def test_a_child_does_not_overrule_a_newer_request_that_waits() -> None:
    play = Play(KEPT, ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2")
    play.do(f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[4,2]}}', "time +1s")

    play.do("ask reassign orders-1 to=5,2", "time +1s", "elect 101", "time +1s")
    assert waiting(play) == {1: [5, 2]}
    assert play.data(f"{FOLDER}/orders-1") is None

    arrive(play, 0, "1,2,3")
    assert assignment(play, 1).target == ids("5,2")


def test_a_child_overrules_an_older_request_that_waits() -> None:
    play = Play(KEPT, ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2 orders-1 to=4,2")

    play.do(f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[5,2]}}', "time +1s")

    assert play.data(PART) is None
    arrive(play, 0, "1,2,3")
    assert assignment(play, 1).target == ids("5,2")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_child_that_wants_no_move_overrules_an_older_request_that_waits(*, is_kept: bool) -> None:
    kept = (KEPT,) if is_kept else ()
    play = Play(*kept, ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2 orders-1 to=4,2")

    play.do(f"znode {FOLDER}", f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[1,2]}}')
    play.do(*(() if is_kept else (KEPT, "elect 101")), "time +1s")

    assert (play.data(PART), play.data(f"{FOLDER}/orders-1")) == (None, None)
    arrive(play, 0, "1,2,3")
    assert moving(play) == []


def test_a_child_that_a_former_term_left_behind_overrules_no_newer_request() -> None:
    play = Play(ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2", f"znode {FOLDER}")
    play.do(f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[1,2]}}', "ask reassign orders-1 to=4,2")

    play.do(KEPT, "elect 101", "time +1s")

    assert (waiting(play), play.data(f"{FOLDER}/orders-1")) == ({1: [4, 2]}, None)


def test_a_cancellation_removes_a_child_that_waits() -> None:
    play = Play(KEPT, ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2")
    play.do(f'znode {FOLDER}/orders-1 {{"version":1,"assignment":[4,2]}}', "time +1s")

    assert some(play.do("ask cancel orders-1"), "answer orders-1 NONE")

    assert play.data(f"{FOLDER}/orders-1") is None


# ---- many -----------------------------------------------------------------------------------------------------


def test_moves_of_more_than_a_hundred_partitions_wait_in_parts() -> None:
    wide = " ".join(f"{n}=1,2" for n in range(150))
    play = limited(topic=f"topic orders {wide}")

    play.do("ask reassign " + " ".join(f"orders-{n} to=3,2" for n in range(150)))

    assert sorted(waiting(play)) == list(range(1, 100))
    assert sorted(waiting(play, PART.replace("-0", "-1"))) == list(range(100, 150))


def replicas_of(play: Play) -> list[Replicas]:
    """Where all partitions are."""
    return [assignment(play, n).replicas for n in range(3)]


def test_all_that_waits_arrives_in_the_end_whatever_the_limits() -> None:
    for limit in (
        ONE,
        "set moves_into_broker=1",
        "set moves_out_of_broker=1",
        "set moves_at_once=2 moves_into_broker=1",
    ):
        play = limited("ask reassign orders-0 to=3,4 orders-1 to=4,3 orders-2 to=5,3", limit=limit)
        for _ in range(3):
            for number in moving(play):
                held = assignment(play, number)
                arrive(play, number, ",".join(map(str, sorted({*held.replicas}))))

        assert replicas_of(play) == [ids("3,4"), ids("4,3"), ids("5,3")]
        assert play.data(PART) is None


def test_a_topic_that_is_not_written_now_keeps_no_room_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper has refused its transactions several times in a row."""
    play = Play(ONE, "brokers 1,2,3", *(f"topic {name} 0=1,2" for name in ("audit", "orders", "sales")), "elect")
    play.do(*(f"ask reassign {name}-0 to=3,2" for name in ("audit", "orders", "sales")))
    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "is_waiting", lambda _, subject: subject.name == "orders")
        play.do("isr audit-0 1,2,3")

    assert assignment(play, topic="sales").adding == ids("3")
    play.do("isr sales-0 1,2,3", "time +20s")
    assert assignment(play).adding == ids("3")
