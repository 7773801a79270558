"""What does a controller announce of what it sees in mid-term for the first time, and of what it wrote itself?"""

from __future__ import annotations

import json

import pytest

from controller.core.announcing.announcements import Making
from controller.core.brokers.memory import BrokersMemory
from controller.core.messages.commands import LeaderAndIsr
from controller.core.state.topics import Partition
from tests.unit.core.builders import AT, ids, state
from tests.unit.traps.play import Play, cluster, some
from zk_layout.znodes.topics import Assignment

TOPIC, PARTITION = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0"
STATE = f"{PARTITION}/state"
UNREADABLE = pytest.mark.parametrize("path", [TOPIC, STATE], ids=["topic", "state"])


def mended(path: str, *before: str, then: tuple[str, ...] = ()) -> tuple[Play, list[str]]:
    """A znode cannot be read when the term begins, and is put right later; what came of that."""
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", *before)
    data = play.data(path)
    play.do(f"malformed {path}", "elect", *then)
    lines = play.do(f"znode {path} {data}", "time +5s")
    return play, lines


def new(play: Play) -> dict[str, set[int]]:
    """Which brokers were told in the last `do` that a partition is new."""
    told: dict[str, set[int]] = {}
    for tell in play.theatre.sent:
        for view in tell.command.new if isinstance(tell.command, LeaderAndIsr) else ():
            told.setdefault(f"{view.topic}-{view.partition}", set()).add(tell.broker)
    return told


@UNREADABLE
def test_a_partition_that_can_be_read_only_later_is_not_new(path: str) -> None:
    play, lines = mended(path)

    assert some(lines, "LeaderAndIsr orders-0 leader=1")
    assert new(play) == {}


def test_the_replicas_of_a_partition_are_new_when_this_controller_has_just_created_it() -> None:
    play = cluster(topics=())

    play.do("create topic orders 0=1,2")
    assert new(play) == {"orders-0": {1, 2}}

    play.do("broker 1 bounces", "broker 2 bounces")
    assert new(play) == {}


def test_a_partition_is_new_where_it_was_written_though_no_answer_said_so() -> None:
    play = cluster("lose reply", topics=())

    play.do("create topic orders 0=1,2")

    assert new(play) == {"orders-0": {1, 2}}


def test_a_partition_is_new_in_each_life_of_its_topic() -> None:
    play = cluster("delete topic orders")

    play.do("create topic orders 0=2,3 id=second-life-of-orders_")

    assert new(play) == {"orders-0": {2, 3}}


def test_after_a_fail_over_between_the_write_and_the_telling_nothing_is_new() -> None:
    play = cluster("crash after-commit 1", topics=())
    play.do("create topic orders 0=1,2")

    lines = play.do("elect 101")

    assert some(lines, "LeaderAndIsr orders-0")
    assert new(play) == {}


@pytest.mark.parametrize(("leader", "are_new"), [(1, {1, 2}), (2, set())], ids=["ours", "another"])
def test_a_first_state_makes_replicas_new_only_if_it_is_the_one_that_was_to_be_written(
    leader: int, are_new: set[int]
) -> None:
    memory = BrokersMemory()
    memory.note_making(AT, Making(state(1, "1,2"), frozenset(ids("1,2"))))

    assert memory.take_made(AT, Partition(Assignment(ids("1,2")), state(leader, "1,2"))) == are_new


def test_a_former_replica_is_new_again_only_once_it_was_sent_a_deletion() -> None:
    """A replica may leave without one where a decision is cut, or another process wrote the topic's znode."""
    memory, added = BrokersMemory(), Partition(Assignment(ids("1,2"), adding=ids("2")), state(1, "1"))
    with_log, without = Partition(Assignment(ids("1")), state(1, "1,2")), Partition(Assignment(ids("1")), state(1, "1"))
    memory.note_in_sync(AT, without, with_log)

    memory.note_making(AT, Making(added.assignment, frozenset(ids("2"))))
    assert memory.take_made(AT, added) == set()
    memory.note_former_log_deletion(AT, *ids("2"))
    memory.note_making(AT, Making(added.assignment, frozenset(ids("2"))))
    assert memory.take_made(AT, added) == {2}


def test_a_partition_whose_state_someone_removed_is_not_new_when_it_gets_another() -> None:
    play = cluster()

    lines = play.do(f"remove {STATE}", "broker 2 bounces")

    assert some(lines, "new partition orders-0")
    assert new(play) == {}


def test_a_partition_whose_state_someone_removed_before_the_term_is_not_new() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", f"remove {STATE}")

    lines = play.do("elect")

    assert some(lines, "new partition orders-0")
    assert new(play) == {}


@UNREADABLE
def test_a_move_that_can_be_seen_only_later_goes_on_without_a_fail_over(path: str) -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,4")
    data = play.data(path)
    play.do(f"malformed {path}", "elect 101")

    lines = play.do(f"znode {path} {data}", "time +5s")
    assert some(lines, "leader 1 of orders-0 must get the replicas [3, 4, 1, 2]")
    assert new(play) == {}

    play.do("isr orders-0 1,2,3,4")
    held = json.loads(play.data(TOPIC) or "")
    assert (held["partitions"], held["adding_replicas"]) == ({"0": [3, 4]}, {})


@UNREADABLE
def test_a_deletion_that_can_be_seen_only_later_is_asked_for_in_another_leader_epoch(path: str) -> None:
    owed = '{"replicas":{"0":[4]},"topic_id":"id-of-orders__________","version":1}'
    _, lines = mended(path, f"znode /kafka_zk_controller/replica_deletions/orders {owed}")

    assert some(lines, "LeaderAndIsr orders-0 leader=1 leader_epoch=1")
    assert some(lines, "StopReplica orders-0", "leader_epoch=1")


def test_clients_see_nothing_more_of_a_topic_that_goes_once_it_can_be_read() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2 1=2,1", "elect")
    data = play.data(TOPIC)
    play.do("broker 2 dies", f"malformed {TOPIC}", "elect 101", "znode /admin/delete_topics/orders")

    lines = play.do(f"znode {TOPIC} {data}", "time +5s")

    assert some(lines, "StopReplica orders-0", "delete")
    for number in (0, 1):
        assert len(some(lines, "tell 1,3,4", f"UpdateMetadata orders-{number}", "leader=-2")) == 1


def test_an_added_replica_is_new_once() -> None:
    play = cluster()

    play.do("ask reassign orders-0 to=3,4")
    assert new(play) == {"orders-0": {3, 4}}

    play.do("broker 3 bounces", "broker 1 bounces")
    assert new(play) == {}


@pytest.mark.parametrize(
    ("returns", "are_new"),
    [(3, {"orders-0": {4}}), (1, {}), (2, {"orders-0": {3, 4}})],
    ids=["added", "leader", "other"],
)
def test_an_added_replica_is_new_no_more_once_a_full_update_has_listed_it(
    returns: int, are_new: dict[str, set[int]]
) -> None:
    """ZooKeeper refuses the leader epoch at first, and a broker returns meanwhile: the log may have been made."""
    play = Play("set writes_a_transaction=1", "brokers 1,2,3,4", "topic orders 0=1,2", "elect", f"refuse {STATE}")
    play.do("ask reassign orders-0 to=3,4", "time +10s")
    assert some(play.do(f"broker {returns} bounces"), "LeaderAndIsr orders-0", "leader_epoch=0", "adding=[3, 4]")
    assert new(play) == {}

    told = play.do(f"allow {STATE}", "time +60s")

    assert some(told, "LeaderAndIsr orders-0", "leader_epoch=1", "adding=[3, 4]")
    assert new(play) == are_new


def test_a_replica_that_still_owes_its_deletion_is_not_new_when_it_is_added_again() -> None:
    play = cluster("ask reassign orders-0 to=1,4", "broker 4 hangs", "ask cancel orders-0")

    lines = play.do("ask reassign orders-0 to=3,4")

    assert some(lines, "LeaderAndIsr orders-0", "adding=[3, 4]")
    assert new(play) == {"orders-0": {3}}


def test_what_an_old_leader_has_written_meanwhile_is_read_though_its_topic_could_not_be() -> None:
    play = Play("set leaders_write_isr=true", "brokers 1,2", "topic orders 0=1,2")
    data = play.data(TOPIC)
    play.do(f"malformed {TOPIC}", "elect", "leader writes orders-0 1", "notify orders-0")

    lines = play.do(f"znode {TOPIC} {data}")

    assert some(lines, "LeaderAndIsr orders-0 leader=1", "isr=[1]")


def test_an_entry_of_an_old_tool_waits_for_a_topic_that_cannot_be_read() -> None:
    play, lines = mended(TOPIC, then=("legacy orders-0=3,4 users-0=3,4",))

    assert some(lines, "asked to move orders-0 to [3, 4] by /admin/reassign_partitions")
    assert not some(lines, "refused")
    assert json.loads(play.data("/admin/reassign_partitions") or "")["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [3, 4]}
    ]


def test_an_entry_of_an_old_tool_waits_no_longer_for_a_topic_that_is_gone() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", f"malformed {TOPIC}", "elect", "legacy orders-0=3,4")
    assert play.data("/admin/reassign_partitions") is not None

    lines = play.do(*(f"remove {path}" for path in (STATE, PARTITION, f"{TOPIC}/partitions", TOPIC)), "time +5s")

    assert some(lines, "entry orders-0 of /admin/reassign_partitions is refused and removed")
    assert play.data("/admin/reassign_partitions") is None


@UNREADABLE
def test_a_request_of_before_is_not_over_because_its_topic_cannot_be_read(path: str) -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,4")
    data, status = play.data(path), "/admin/reassign_partitions_status"

    play.do(f"malformed {path}", "elect 101", "time +5s", f"znode {path} {data}", "time +5s", "isr orders-0 1,2,3,4")
    play.do("time +30s")

    assert json.loads(play.data(f"{status}/1") or "")["counts"] == {"completed": 1}
    assert play.data(f"{status}/2") is None


def test_a_leader_learns_of_a_move_after_a_fail_over_though_no_new_replica_is_there() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "crash after-commit 1", "ask reassign orders-0 to=3,2")

    lines = play.do("broker 3 dies", "elect")

    assert some(lines, "leader 1 of orders-0 must get the replicas [3, 2, 1]")
