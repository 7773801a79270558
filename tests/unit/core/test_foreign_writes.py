"""What follows where someone else writes the replicas of a partition into its topic's znode?"""

from __future__ import annotations

import json

import pytest

from controller.core.messages.effects import Effect, Set
from controller.core.reassignment.foreign_writes import ForeignWrites
from controller.core.steps.change import Change
from controller.core.steps.draft import Draft
from tests.simulation.zookeeper import Permission
from tests.unit.core.builders import AT, Term, ids, state
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, present
from zk_layout.ids import PartitionId, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS = "/brokers/topics/orders"
STATE = f"{ORDERS}/partitions/0/state"


def written(partitions: dict[str, list[int]], **fields: object) -> str:
    """The command with which someone writes the topic's znode as a whole."""
    topic = {"version": 2, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}, **fields}
    return f"znode {ORDERS} {json.dumps(topic)}"


def moved() -> Play:
    """A partition that was moved from 1,2 to 3,4,5 in this term."""
    return Play("brokers 1,2,3,4,5", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,4,5", *MOVED)


MOVED = ("isr orders-0 1,2,3,4,5", "time +10s")


def topic_of(play: Play) -> dict[str, dict[str, list[int]]]:
    held: dict[str, dict[str, list[int]]] = json.loads(play.data(ORDERS) or "{}")
    return held


def state_of(play: Play) -> tuple[int, list[int]]:
    state = json.loads(play.data(STATE) or "{}")
    return state["leader"], state["isr"]


def test_former_replicas_that_an_old_tool_writes_back_do_not_come_back() -> None:
    play = moved()
    assert state_of(play) == (3, [3, 4, 5])

    lines = play.do(written({"0": [1, 2], "1": [1, 2]}))

    assert state_of(play) == (3, [3, 4, 5])
    assert topic_of(play)["partitions"] == {"0": [3, 4, 5], "1": [1, 2]}
    assert some(lines, "notice (overwritten assignment)", "orders-0", "[1, 2]", "[3, 4, 5]")
    assert some(lines, "new partition orders-1: 1 leads")
    assert not some(lines, "StopReplica")
    assert not [line for line in some(lines, "LeaderAndIsr") if "orders-0" in line]


def test_a_move_goes_on_that_someone_overwrites() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3")

    play.do(written({"0": [1, 2]}))

    assert topic_of(play)["adding_replicas"] == {"0": [3]}
    play.do("isr orders-0 1,2,3", "time +10s")
    assert topic_of(play)["partitions"] == {"0": [3]}


def test_a_partition_that_someone_leaves_out_is_written_back() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2 1=2,3", "elect")

    lines = play.do(written({"1": [2, 3]}))

    assert topic_of(play)["partitions"] == {"0": [1, 2], "1": [2, 3]}
    assert some(lines, "notice (overwritten assignment)", "orders-0")
    assert state_of(play) == (1, [1, 2])


def test_what_someone_writes_while_our_write_is_under_way_conflicts_and_both_are_put_right() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "hold reply", "ask reassign orders-0 to=3")
    play.do(written({"0": [2, 1]}))

    play.do("reply")

    assert topic_of(play)["partitions"] == {"0": [3, 1, 2]}
    assert topic_of(play)["adding_replicas"] == {"0": [3]}


def test_what_someone_writes_is_not_ours_though_it_says_what_we_wanted_to_write() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=1,2,3", "hold request")
    play.do("ask cancel orders-0", written({"0": [1, 2]}))

    lines = play.do("reply")

    assert topic_of(play)["partitions"] == {"0": [1, 2]}
    assert some(lines, "tell 3  StopReplica orders-0", "delete")
    assert some(lines, "answer orders-0 NONE")


def test_our_own_write_whose_answer_was_lost_is_not_someone_elses() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "lose reply")

    lines = play.do("ask reassign orders-0 to=3")

    assert topic_of(play)["adding_replicas"] == {"0": [3]}
    assert not some(lines, "notice (overwritten assignment)")


@pytest.mark.parametrize("shown_first", [ORDERS, STATE])
def test_nor_is_it_where_it_can_be_read_only_after_the_same_was_tried_again_and_refused(shown_first: str) -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect")
    zookeeper = play.theatre.zookeeper
    for path in (ORDERS, STATE):
        zookeeper.acls[path] = Permission.ALL & ~Permission.READ
        zookeeper.hidden.add(path)
    assert some(play.do("lose reply", "ask reassign orders-0 to=3", "time +60s"), "conflicted #2")

    lines = []
    for path in (shown_first, *{ORDERS, STATE} - {shown_first}):
        del zookeeper.acls[path]
        zookeeper.hidden.discard(path)
        lines += play.do("time +60s")

    assert topic_of(play)["adding_replicas"] == {"0": [3]}
    assert state_of(play) == (1, [1, 2])
    assert not some(lines, "notice (overwritten assignment)")
    assert not some(lines, "StopReplica")


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_write_of_unknown_outcome_is_known_again_once_a_topic_that_was_spoiled_is_put_right(*, is_ours: bool) -> None:
    """The state was spoiled with it: nothing but the content shows that ZooKeeper had accepted the write."""
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect")
    zookeeper, before = play.theatre.zookeeper, play.data(ORDERS)
    for path in (ORDERS, STATE):
        zookeeper.acls[path] = Permission.ALL & ~Permission.READ
        zookeeper.hidden.add(path)
    play.do("lose reply", "ask reassign orders-0 to=3,1,2")
    written = play.data(ORDERS)
    for path in (ORDERS, STATE):
        del zookeeper.acls[path]
        zookeeper.hidden.discard(path)
    play.do(f"malformed {ORDERS}", f"malformed {STATE}", "time +60s")

    lines = play.do(f"znode {ORDERS} {written if is_ours else before}", "time +60s")

    assert not some(lines, "notice (overwritten assignment)")
    assert topic_of(play)["partitions"] == {"0": [3, 1, 2] if is_ours else [1, 2]}


def test_our_earlier_write_stays_ours_while_other_duties_have_not_seen_it_and_we_write_again() -> None:
    """A turn hands out a part of the changes; the rest still shows what was there before the first write."""
    term = Term("1,2,3")
    before, moving = Assignment(ids("1,2")), Assignment(ids("3,1,2"), adding=ids("3"))
    numbers = [PartitionId(n) for n in range(3)]

    def write(version: int) -> list[Effect]:
        held = dict.fromkeys(numbers, before) | dict.fromkeys(numbers[: version + 1], moving)
        duty._ours[AT.topic] = dict.fromkeys(numbers[:2] if version == 1 else numbers[2:], moving)
        duty._accepted[AT.topic] = None
        stat = Stat(Zxid(10), Zxid(10 + version), ZnodeVersion(version))
        term.fold(present(TopicAddress(AT.topic), Topic(held, None), stat))
        out = term.out()
        duty.retract(term.state.take_changes(1), out)
        return out.effects

    duty = ForeignWrites(term.shared, term.memory.foreign_writes)
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    term.fold(present(TopicAddress(AT.topic), Topic(dict.fromkeys(numbers, before), None), stat))
    duty.retract(term.state.take_changes(), term.out())

    said = write(1) + write(2)

    assert [term.cluster.topics[AT.topic].partitions[n].assignment for n in numbers] == [moving] * 3
    assert not said


def test_what_was_written_before_the_term_is_kept_in_a_znode_that_could_not_be_read_meanwhile() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", f"malformed {ORDERS}")

    play.do(written({"0": [3]}))

    assert topic_of(play)["partitions"] == {"0": [1, 2]}


def test_someone_may_write_back_himself_what_was_there() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", f"refuse {ORDERS}", written({"0": [3]}))

    play.do(written({"0": [1, 2]}), f"allow {ORDERS}", "time +60s")

    assert topic_of(play)["partitions"] == {"0": [1, 2]}
    assert state_of(play) == (1, [1, 2])


def test_a_leader_dies_while_its_topics_znode_cannot_be_put_right() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", f"refuse {ORDERS}", written({"0": [3]}))

    play.do("broker 1 dies", "time +60s")

    assert state_of(play)[0] == 2


@pytest.mark.parametrize("written_before", ["1,2", "1,2,9"])
def test_replicas_in_sync_that_a_new_controller_does_not_find_in_the_list_go_on_until_the_others_are_in_sync(
    written_before: str,
) -> None:
    play = Play("brokers 1,2,3,4,5", f"topic orders 0={written_before}", "state orders-0 leader=3 isr=3,4,5")

    lines = play.do("elect")

    assert state_of(play) == (3, [3, 4, 5])
    assert some(lines, "notice (overwritten assignment)", "orders-0", "[3, 4, 5]")
    assert topic_of(play)["removing_replicas"] == {"0": [3, 4, 5]}
    assert not some(lines, "StopReplica")


def test_the_written_replicas_take_over_once_they_are_in_sync() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "state orders-0 leader=3 isr=3,4", "elect")

    lines = play.do("isr orders-0 3,4,1,2", "time +10s")

    assert state_of(play) == (1, [1, 2])
    assert topic_of(play)["partitions"] == {"0": [1, 2]}
    assert some(lines, "tell 3,4  StopReplica", "delete")


def test_such_a_move_can_be_turned_round() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "state orders-0 leader=3 isr=3,4", "elect")

    play.do("ask reassign orders-0 to=3,4", "time +10s")

    assert topic_of(play)["partitions"] == {"0": [3, 4]}
    assert state_of(play) == (3, [3, 4])


def test_a_replica_in_sync_that_is_not_listed_is_cleared_away_where_the_listed_ones_are_in_sync() -> None:
    """Kafka's controller died between the two writes of a cancel."""
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "state orders-0 leader=1 isr=1,2,3")

    lines = play.do("elect", "time +10s")

    assert state_of(play) == (1, [1, 2])
    assert some(lines, "tell 3  StopReplica", "delete")
    assert topic_of(play)["partitions"] == {"0": [1, 2]}


STRAYED = ("brokers 1,2,3", "topic orders 0=3", "state orders-0 leader=3 isr=3,2")


def test_who_is_in_the_isr_but_no_replica_is_not_elected_where_a_replica_was_in_sync() -> None:
    """A decision was cut, and Kafka's controller elected 3 from what was left: 3 has waited for no one since."""
    play = Play(*STRAYED, "broker 3 dies", "elect", "time +60s")
    assert state_of(play) == (-1, [3])

    play.do("broker 3 returns", "time +60s")

    assert state_of(play) == (3, [3])
    assert topic_of(play)["partitions"] == {"0": [3]}


def test_who_is_in_the_isr_but_no_replica_is_not_in_sync_when_it_becomes_one() -> None:
    term = Term("2,3")
    numbers = {AT.partition: Assignment(ids("3"))}
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    term.fold(present(TopicAddress(AT.topic), Topic(numbers, None), stat))
    term.fold(present(StateAddress(AT.topic, AT.partition), state(3, "3,2"), stat))
    draft = Draft(term.cluster.topics[AT.topic], term.cluster)

    draft.take(AT.partition, Change("a move that writes no state", Assignment(ids("2,3"), adding=ids("2"))))

    (atom,) = draft.atoms()
    assert [making.replicas for _, making in draft.made()] == [frozenset()]  # it has its log, and perhaps all records
    assert [w.value.isr for w in atom.before if isinstance(w, Set) and isinstance(w.value, PartitionState)] == [(3,)]
    assert not atom.after


@pytest.mark.parametrize(("after", "comes_first"), [("1", True), ("1,2", False)])
def test_the_state_of_a_partition_that_only_loses_replicas_is_written_before_the_topic(
    after: str, comes_first: bool
) -> None:
    """Its version shows whether a leader has changed the ISR, where one transaction cannot hold both."""
    term = Term("1,2,3")
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    term.fold(present(TopicAddress(AT.topic), Topic({AT.partition: Assignment(ids("1,3"))}, None), stat))
    term.fold(present(StateAddress(AT.topic, AT.partition), state(3, "3,1"), stat))
    draft = Draft(term.cluster.topics[AT.topic], term.cluster)
    adding = ids("2") if after == "1,2" else ()

    draft.take(AT.partition, Change("as asked", Assignment(ids(after), adding=adding), state=state(1, "1", 4)))

    (atom,) = draft.atoms()
    states = [[type(w.address) for w in some] == [StateAddress] for some in (atom.before, atom.after)]
    assert states == [comes_first, not comes_first]


def test_who_is_in_the_isr_but_no_replica_keeps_its_copy_until_the_replicas_are_in_sync() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,3", "state orders-0 leader=1 isr=1,2")

    lines = play.do("elect", "time +60s")

    assert state_of(play) == (1, [1])
    assert topic_of(play)["removing_replicas"] == {"0": [2]}
    assert some(lines, "notice (overwritten assignment)", "orders-0", "[2]")
    assert not some(lines, "StopReplica")

    lines = play.do("isr orders-0 1,2", "isr orders-0 1,2,3", "time +60s")

    assert state_of(play) == (1, [1, 3])
    assert some(lines, "tell 2  StopReplica", "delete")


def test_where_a_decision_has_to_be_cut_no_stray_is_listed_before_it_has_left_the_isr() -> None:
    play = Play("set writes_a_transaction=1", "brokers 1,2,3", "topic orders 0=1,3", "state orders-0 leader=1 isr=1,2")

    play.do("crash after-commit 1", "elect")

    assert state_of(play) == (1, [1])


def test_what_was_refused_is_not_put_back_into_a_topic_that_is_gone() -> None:
    """ZooKeeper refused a move; the topic was written by hand, and then deleted."""
    play = Play("brokers 1,2,3", "topic orders 0=1", "elect", f"refuse {ORDERS}", "ask reassign orders-0 to=2,1")
    play.do("broker 1 hangs", "delete topic orders", written({"0": [3]}), f"allow {ORDERS}")

    lines = play.do("broker 1 goes-on", "broker 1 bounces", "time +60s", "create topic orders 0=2")

    assert some(lines, "topic orders is deleted")
    assert topic_of(play)["partitions"] == {"0": [2]}


def dying(*more: str) -> Play:
    """A topic that is being deleted; broker 2 is away and still has a log of it."""
    return Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "broker 2 dies", *more, "delete topic orders")


@pytest.mark.parametrize("tool", [written({"0": [1]}), written({"1": [1]})])
def test_a_successor_deletes_every_replica_though_a_tool_has_overwritten_the_topic_meanwhile(tool: str) -> None:
    play = dying()

    lines = play.do(tool)
    assert some(lines, "notice (overwritten assignment)", "orders-0", "[1, 2]")
    assert some(lines, "commit", "orders-0 keeps the replicas [1, 2]")
    assert not some(play.do("elect 101", "time +60s"), "topic orders is deleted")

    lines = play.do("broker 2 returns", "time +60s")
    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert some(lines, "topic orders is deleted")


def test_a_successor_deletes_what_a_topic_owes_though_a_tool_has_dropped_the_topics_id_meanwhile() -> None:
    play = dying("ask reassign orders-0 to=1")

    lines = play.do(written({"0": [1]}))
    assert some(lines, "commit", "topic orders gets the id")
    assert not some(play.do("elect 101", "time +60s"), "topic orders is deleted")

    lines = play.do("broker 2 returns", "time +60s")
    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert some(lines, "topic orders is deleted")


def test_a_move_that_someone_overwrites_while_its_topic_is_being_deleted_stays_a_move() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "broker 2 dies", "ask reassign orders-0 to=1,3")

    play.do("delete topic orders", written({"0": [1, 2]}))

    assert topic_of(play)["adding_replicas"] == {"0": [3]}


def test_a_deletion_goes_on_where_an_overwritten_topic_could_not_be_put_right_for_a_while() -> None:
    play = dying(f"refuse {ORDERS}")
    play.do(written({"0": [1]}), "time +60s")

    lines = play.do(f"allow {ORDERS}", "broker 2 returns", "time +60s")

    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert some(lines, "topic orders is deleted")


def test_the_only_copy_is_waited_for_where_it_is_down_and_not_listed() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "state orders-0 leader=3 isr=3", "elect")
    assert state_of(play) == (-1, [3])

    play.do("brokers 3")

    assert state_of(play) == (3, [3])


def test_a_leader_that_is_not_listed_may_change_its_isr() -> None:
    commands = ("topic orders 0=1,2", "state orders-0 leader=3 isr=3,4", f"refuse {ORDERS}", "elect")
    play = Play("brokers 1,2,3,4", *commands)

    lines = play.do("isr orders-0 3", "time +60s")

    assert some(lines, "answer orders-0 NONE leader=3 isr=[3]")


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"removing_replicas": {"0": [1, 2]}}, [1, 2]),
        ({"adding_replicas": {"0": [9]}}, [1, 2]),
        ({"removing_replicas": {"0": [9]}}, [1, 2]),
        ({"adding_replicas": {"0": [2]}, "removing_replicas": {"0": [2]}}, [1, 2]),
    ],
)
def test_fields_that_make_no_sense_move_nothing(fields: dict[str, object], target: list[int]) -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", written({"0": [1, 2]}, **fields), "elect", "time +10s")

    assert topic_of(play)["partitions"] == {"0": target}
    assert state_of(play) == (1, [1, 2])
