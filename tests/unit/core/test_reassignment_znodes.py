"""Children of `/admin/reassignments` (KIP-236): what is a request, and is the folder equal to the moves in progress?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Delete
from controller.core.reassignment.folder import ReassignmentFolder
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.throttles import Throttles
from controller.core.steps.draft import Draft
from controller.core.steps.step import Step
from tests.scenarios.reading import held_state
from tests.unit.core.builders import AT, Term, commits, ids, state
from tests.unit.traps.play import Play, some
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.reassignments import Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

FOLDER = "/admin/reassignments"
ORDERS = "/brokers/topics/orders"
ON = "set keeps_reassignment_znodes=true"
PAUSE = 'znode /kafka_zk_controller/paused {"version":1,"by":"ann@host","at_ms":1700000000000,"reason":"new disks"}'
NONE_AT_ONCE = "adjust moves_at_once=0"


def kept(*topics: str, brokers: str = "1,2,3,4") -> Play:
    """A controller that keeps the folder has just been elected."""
    return Play(ON, f"brokers {brokers}", *(topics or ("topic orders 0=1,2",)), "elect")


def children(play: Play) -> dict[str, tuple[int, ...]]:
    """What the folder shows."""
    shown: dict[str, tuple[int, ...]] = {}
    for path, node in play.theatre.zookeeper.nodes.items():
        if path.startswith(f"{FOLDER}/"):
            value = catalog.decode(ReassignmentAddress(TopicName("t"), PartitionId(0)), node.data)
            assert isinstance(value, Reassignment)
            shown[path.removeprefix(f"{FOLDER}/")] = value.assignment
    return shown


def moves(play: Play) -> dict[str, tuple[int, ...]]:
    """What the topics' znodes say."""
    moving: dict[str, tuple[int, ...]] = {}
    for path, node in play.theatre.zookeeper.nodes.items():
        address = catalog.address_of(path)
        if isinstance(address, TopicAddress):
            topic = catalog.decode(address, node.data)
            assert isinstance(topic, Topic)
            moving |= {f"{address.topic}-{n}": a.target for n, a in topic.partitions.items() if a.is_moving}
    return moving


def replicas(play: Play) -> list[tuple[int, ...]]:
    """The replicas of all partitions."""
    nodes = play.theatre.zookeeper.nodes.items()
    topics = [
        catalog.decode(address, node.data)
        for path, node in nodes
        if isinstance(address := catalog.address_of(path), TopicAddress)
    ]
    return [held.replicas for topic in topics if isinstance(topic, Topic) for held in topic.partitions.values()]


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("mytopic-42", "mytopic", 42),
        ("a-1-b-0", "a-1-b", 0),
        ("2024-11-07", None, None),
        ("2024-11-7", "2024-11", 7),
        ("t--1", "t-", 1),
        ("t-007", None, None),
        ("t-2147483648", None, None),
        ("t-", None, None),
        ("-1", None, None),
        ("t", None, None),
    ],
)
def test_the_last_dash_divides_a_name_and_the_number_is_written_as_kafka_does(
    name: str, topic: str | None, partition: int | None
) -> None:
    address = catalog.address_of(f"{FOLDER}/{name}")

    if topic is None or partition is None:
        assert address is None
    else:
        assert address == ReassignmentAddress(TopicName(topic), PartitionId(partition))
        assert address.path == f"{FOLDER}/{name}"


@pytest.mark.parametrize(
    "data", [b"{", b"{}", b'{"version":2,"assignment":[1]}', b'{"assignment":[-1]}', b'{"assignment":1}']
)
def test_what_names_no_replicas_is_malformed(data: bytes) -> None:
    assert isinstance(catalog.decode(ReassignmentAddress(TopicName("t"), PartitionId(0)), data), Malformed)


def test_with_the_setting_off_the_folder_is_neither_read_nor_written() -> None:
    play = Play(
        "brokers 1,2,3,4", "topic orders 0=1,2 1=1,2", f'znode {FOLDER}/orders-0 {{"assignment":[3,2]}}', "elect"
    )

    lines = play.do("ask reassign orders-1 to=3,2", f"remove {FOLDER}/orders-0", f"znode {FOLDER}/orders-1 {{}}")

    assert not some(lines, FOLDER)
    assert list(moves(play)) == ["orders-1"]
    assert play.data(FOLDER) == ""


def test_a_folder_that_is_missing_is_created_and_shows_the_moves_found_under_way() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,2", f"remove {FOLDER}")

    play.do(ON, "elect")

    assert children(play) == moves(play) == {"orders-0": (3, 2)}


def test_a_folder_deleted_by_hand_comes_back_with_the_next_move() -> None:
    play = kept()
    play.do(f"remove {FOLDER}")

    play.do("ask reassign orders-0 to=3,2")

    assert children(play) == {"orders-0": (3, 2)}


def test_a_child_of_a_former_topic_moves_nothing_of_the_new_one_of_its_name() -> None:
    play = kept()
    play.do("ask reassign orders-0 to=3,2")
    play.theatre.machine = None
    for path in sorted(
        (p for p in play.theatre.zookeeper.nodes if p.startswith("/brokers/topics/orders")), reverse=True
    ):
        play.do(f"remove {path}")
    play.do("create topic orders 0=1,2")
    assert children(play) == {"orders-0": (3, 2)}

    lines = play.do("elect")

    assert not some(lines, "asked to move")
    assert children(play) == moves(play) == {}


@pytest.mark.parametrize(("taken", "left"), [('{"assignment":[4,2]}', {"orders-0": (4, 2)}), (None, {})])
def test_a_request_that_meets_a_change_of_the_isr_waits_for_the_next_step(
    taken: str | None, left: dict[str, tuple[int, ...]]
) -> None:
    play = kept()
    play.do("ask reassign orders-0 to=3,2")
    state, _ = held_state(play.theatre, TopicPartition(TopicName("orders"), PartitionId(0)))

    play.theatre.run = lambda: None  # type: ignore[method-assign]  # both come in one turn
    play.do("isr orders-0 1", f"znode {FOLDER}/orders-0 {taken}" if taken else f"remove {FOLDER}/orders-0")
    del play.theatre.run
    lines = play.do("time +1s", "ask list")

    assert state.isr == (1, 2)
    assert some(lines, "changes the ISR [1, 2] to [1]")
    assert children(play) == moves(play) == left


def test_an_answer_that_is_lost_is_no_cancel() -> None:
    play = kept("topic orders 0=1,2 1=1,2")
    play.do("ask reassign orders-0 to=3,2")
    play.theatre.trouble.extend(["", "", "lose-reply"])

    lines = play.do("isr orders-0 1,2,3")

    assert some(lines, "unknown", "it was written")
    assert not some(lines, "cancel")
    assert children(play) == moves(play) == {}


@pytest.mark.parametrize("request_text", ["cancel", "reassign"])
def test_a_request_too_large_for_one_transaction_leaves_a_folder_that_a_successor_puts_right(request_text: str) -> None:
    count = 350
    play = kept("topic wide " + " ".join(f"{n}=1,2" for n in range(count)))
    play.do("ask reassign " + " ".join(f"wide-{n} to=3,2" for n in range(count)))
    assert len(children(play)) == count
    assert children(play) == moves(play)

    targets = "" if request_text == "cancel" else " to=4,2"
    play.do("crash after-commit 1", f"ask {request_text} " + " ".join(f"wide-{n}{targets}" for n in range(count)))
    assert play.theatre.machine is None
    play.do("elect")

    assert children(play) == moves(play)
    assert set(moves(play).values()) <= {(3, 2), (4, 2)}


def test_a_refused_request_is_named_once_however_often_its_removal_conflicts() -> None:
    play = kept()
    play.do(f"conflict {FOLDER}/orders-0", f"conflict {FOLDER}/orders-0")

    lines = play.do(f'znode {FOLDER}/orders-0 {{"assignment":[1,1]}}')

    assert len(some(lines, "notice", "Duplicate replica ids")) == 3  # each conflict was a new write of it
    assert children(play) == {}


def test_the_requests_of_children_have_an_id_of_their_own_origin() -> None:
    play = Play(ON, "set status_retention_ms=60000", "brokers 1,2,3,4", "topic orders 0=1,2", "elect")

    lines = play.do(f'znode {FOLDER}/orders-0 {{"assignment":[3,2]}}', "time +10s")

    assert some(lines, "request 1 by /admin/reassignments: 1 in progress")


@pytest.mark.parametrize("is_moving", [True, False])
def test_a_child_later_than_a_legacy_entry_may_also_want_things_to_stay_as_they_are(is_moving: bool) -> None:
    play = kept()
    if is_moving:
        play.do("ask reassign orders-0 to=3,2")
    play.theatre.machine = None
    play.do("legacy orders-0=4,2")
    play.do(f'znode {FOLDER}/orders-0 {{"version":1,"assignment":{[3, 2] if is_moving else [1, 2]}}}')

    lines = play.do("elect")

    assert not some(lines, "asked to move")
    assert play.data("/admin/reassign_partitions") is None
    assert children(play) == moves(play) == ({"orders-0": (3, 2)} if is_moving else {})


def test_of_a_child_and_a_legacy_entry_the_later_one_counts() -> None:
    play = kept("topic orders 0=1,2 1=1,2")
    play.do("crash after-commit 1", "ask cancel orders-0", "ask reassign orders-0 to=3,2")
    play.do(f'znode {FOLDER}/orders-1 {{"assignment":[3,1]}}', "legacy orders-0=4,2 orders-1=4,1")
    play.do(f'znode {FOLDER}/orders-0 {{"assignment":[2,3]}}')

    play.do("elect")

    assert children(play) == moves(play) == {"orders-0": (2, 3), "orders-1": (4, 1)}


def test_a_child_that_may_not_be_written_keeps_no_request_waiting_and_no_leader_epoch_rising() -> None:
    brokers = ("set keeps_reassignment_znodes=true", "brokers 1,2,3,4", "topic sick 0=1,4", "elect")
    play = Play(*brokers, "refuse /admin/reassignments/sick-0")

    lines = play.do("ask reassign sick-0 to=2,3,1", "ask reassign sick-0 to=2,3", "time +30s")

    assert some(lines, "answer sick-0 NONE request 2")
    assert len([line for line in lines if "leader_epoch=" in line and "set " in line and "v0" not in line]) <= 2
    assert some(lines, "notice (set aside)", "/admin/reassignments") or some(lines, "notice (refused transaction)")


def child(number: int, replicas_text: str) -> str:
    """Someone writes a child."""
    return f'znode {FOLDER}/orders-{number} {{"version":1,"assignment":[{replicas_text}]}}'


@pytest.mark.parametrize(
    ("waiting", "last"),
    [
        ((PAUSE, "legacy orders-1=4,2"), child(1, "1,2")),
        ((NONE_AT_ONCE, "legacy orders-1=4,2"), child(1, "1,2")),
        ((NONE_AT_ONCE, "ask reassign orders-2 to=4,2", child(1, "4,1")), "ask cancel orders-1 orders-2"),
        ((NONE_AT_ONCE, "ask reassign orders-2 to=4,2", child(1, "4,1")), "legacy orders-1=4,2 orders-2=2,4"),
    ],
    ids=["a later child, paused", "a later child, no room", "a later request", "a later entry"],
)
def test_a_child_that_an_accepted_wish_makes_superfluous_goes_though_zookeeper_refuses_another_partition(
    waiting: tuple[str, ...], last: str
) -> None:
    """The topic's writes travel without its children then, and nothing but these is left to be written later."""
    play = kept("topic orders 0=3,2 1=1,2 2=1,2")
    play.do(*waiting, f"refuse {ORDERS}/partitions/0/state", "broker 3 dies", "time +1s")

    play.do(last, f"allow {ORDERS}/partitions/0/state", "time +300s")

    assert children(play) == {}
    assert play.data(FOLDER) == '{"version":1,"controller_epoch":1}'


def test_a_child_that_is_no_request_does_not_become_one_when_the_controller_that_removes_it_dies() -> None:
    play = kept()
    play.do("ask reassign orders-0 to=3,2")
    play.do("set keeps_reassignment_znodes=false", "elect", "ask cancel orders-0")
    assert (children(play), moves(play)) == ({"orders-0": (3, 2)}, {})

    play.do(ON, "crash after-commit 1", "elect", "elect")

    assert (children(play), moves(play)) == ({}, {})


@pytest.mark.parametrize("ended_by", ["ask cancel orders-0", "ask reassign orders-0 to=2,1"])
def test_a_child_that_could_not_follow_its_move_is_no_request_to_later_terms(ended_by: str) -> None:
    """Otherwise each fail-over would begin again what has ended, or was cancelled."""
    play = kept()
    play.do("ask reassign orders-0 to=3,2", f"refuse {FOLDER}/orders-0", ended_by, "time +60s")
    assert (children(play), moves(play)) == ({"orders-0": (3, 2)}, {})
    targets = replicas(play)

    first = play.do("elect", "time +60s")
    second = play.do("elect", "time +60s")

    assert some(first, "notice (refused reassignment znode)", "orders-0")
    assert some(second, "orders-0 is refused")
    assert (moves(play), replicas(play)) == ({}, targets)
    play.do(f"allow {FOLDER}/orders-0", "time +60s")
    assert children(play) == {}
    assert some(
        play.do(f'znode {FOLDER}/orders-0 {{"version":1,"assignment":[4,2]}}'), "asked to move orders-0 to [4, 2]"
    )


def test_a_removal_that_came_too_late_for_one_move_does_not_cancel_the_next() -> None:
    play = kept()
    play.do("broker 1 hangs", "ask reassign orders-0 to=3,2", "isr orders-0 1,2,3")
    play.do(f"refuse {FOLDER}/orders-0")

    assert some(play.do(f"remove {FOLDER}/orders-0"), "No partition reassignment is in progress")
    lines = play.do("ask reassign orders-0 to=3,4", "time +1s", "time +60s")

    assert some(lines, "answer orders-0 NONE request 2")
    assert moves(play) == {"orders-0": (3, 4)}


def test_a_child_that_went_with_a_part_of_a_decision_cancels_nothing() -> None:
    """ZooKeeper refuses the topic's znode, and the child of the move that ends was deleted before."""
    play = Play(ON, "set writes_a_transaction=1", "brokers 1,2,3", "topic orders 0=1,2", "elect")
    play.do("ask reassign orders-0 to=1,3", f"refuse {ORDERS}", "legacy orders-0=2,1", "time +5s")
    assert children(play) == {}

    lines = play.do(f"allow {ORDERS}", "time +120s")

    assert not some(lines, "asked to cancel")
    assert '"partitions":{"0":[2,1]}' in (play.data(ORDERS) or "")


def test_a_child_that_someone_removed_while_we_were_to_delete_it_cancels_its_move() -> None:
    play = Play(ON, "brokers 1,2,3", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=1,3", "hold request")
    play.do("legacy orders-0=2,1", f"remove {FOLDER}/orders-0", "remove /admin/reassign_partitions")

    lines = play.do("reply", "time +60s")

    assert some(lines, "asked to cancel the move of orders-0, back to [1, 2] by /admin/reassignments")
    assert moves(play) == {}


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_what_a_child_asks_for_outlives_a_crash_between_the_parts_of_its_decision(commits: int) -> None:
    settings = ("set writes_a_transaction=1", "set keeps_reassignment_znodes=true")
    play = Play(*settings, "brokers 1,2,3", "topic orders 0=1,2,3", "elect")

    asked = 'znode /admin/reassignments/orders-0 {"version":1,"assignment":[1,2]}'
    play.do(f"crash after-commit {commits}", asked, "elect 101")

    assert '"partitions":{"0":[1,2]}' in (play.data("/brokers/topics/orders") or "")
    assert play.data("/admin/reassignments/orders-0") is None


def test_a_child_waits_for_a_topic_that_may_not_be_read_and_goes_when_that_is_gone() -> None:
    term, topic = Term("1,2"), TopicAddress(AT.topic)
    queue = MoveQueue(term.shared, term.memory.queue)
    folder = ReassignmentFolder(term.shared, term.memory.folder, queue, Throttles(term.shared), lambda _: False)
    term.state.refuse(topic.path, "no authentication", topic)
    child = ReassignmentAddress(*AT)
    term.fold(present(child, Reassignment(ids("1,2")), Stat(Zxid(10), Zxid(10), ZnodeVersion(0))))

    def deleted() -> list[str]:
        term.follow(folder)
        writes = [write for commit in commits(term.propose(folder)) for write in commit.writes]
        return [write.address.path for write in writes if isinstance(write, Delete)]

    assert deleted() == []

    term.state.allow(topic.path)
    assert deleted() == [child.path]


@pytest.mark.parametrize(("asked_for", "is_cancelled"), [("3", False), ("2", True)])
def test_a_child_that_was_removed_while_its_topic_was_unreadable_cancels_only_a_move_to_what_it_asked_for(
    asked_for: str, *, is_cancelled: bool
) -> None:
    """A controller that ignores the folder may have begun another move before."""
    term, topic, child = Term("1,2,3"), TopicAddress(AT.topic), ReassignmentAddress(*AT)
    queue = MoveQueue(term.shared, term.memory.queue)
    folder = ReassignmentFolder(term.shared, term.memory.folder, queue, Throttles(term.shared), lambda _: False)
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    term.state.refuse(topic.path, "no permission", topic)
    term.fold(present(child, Reassignment(ids(asked_for)), stat))
    term.follow(folder)
    term.fold(absent(child, Zxid(20)))
    term.follow(folder)

    moving = Topic({AT.partition: Assignment(ids("2,1"), adding=ids("2"), removing=ids("1"))}, None)
    term.fold(present(topic, moving, stat), present(StateAddress(*AT), state(1, "1"), stat))
    term.follow(folder)
    draft = Draft(term.cluster.topics[AT.topic], term.cluster)
    step = Step(AT.topic, {AT.partition: None}, draft)
    folder.open_step(step, term.out())

    assert draft.touches(AT.partition) is is_cancelled
