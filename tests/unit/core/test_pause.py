"""What happens while moves are paused, and once they go on?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Notice
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import ReadAllowed, ReadRefused
from controller.core.reassignment.pausing import refusal
from controller.core.state.cluster import ClusterState
from tests.unit.core.builders import ids
from tests.unit.traps.play import Play, cluster, some
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.topics import Assignment

PAUSED = PauseAddress.path
PAUSE = f'znode {PAUSED} {{"version":1,"by":"ann@host","at_ms":1700000000000,"reason":"new disks"}}'
RESUME = f"remove {PAUSED}"
FOLDER = "/admin/reassignments"
LEGACY = "/admin/reassign_partitions"
KEPT = "set keeps_reassignment_znodes=true"


def child(replicas: str, partition: int = 0) -> str:
    """Somebody asks for a move by a child of the folder."""
    return f'znode {FOLDER}/orders-{partition} {{"version":1,"assignment":[{replicas}]}}'


def assignment(play: Play, number: int = 0) -> Assignment:
    """What the topic's znode says of a partition."""
    return play.state().topics.views[TopicName("orders")].partitions[PartitionId(number)].assignment


def kept(*more: str) -> Play:
    """A controller that keeps the folder."""
    return Play(KEPT, "brokers 1,2,3,4", "topic orders 0=1,2", "elect", *more)


# ---- the doors ------------------------------------------------------------------------------------------------


def test_a_client_is_refused_with_the_reason_and_told_how_it_ends() -> None:
    play = cluster(PAUSE)

    (answer,) = some(play.do("ask reassign orders-0 to=3,4"), "answer orders-0")

    assert "POLICY_VIOLATION" in answer
    assert "paused by ann@host (new disks)" in answer
    assert "kafka-zk-controller resume" in answer
    assert assignment(play) == Assignment(ids("1,2"))
    assert some(play.do(RESUME, "ask reassign orders-0 to=3,4"), "answer orders-0 NONE")


def test_a_request_that_is_wrong_or_changes_nothing_is_answered_as_ever() -> None:
    play = cluster(PAUSE)

    assert some(play.do("ask reassign orders-0 to=1,2"), "answer orders-0 NONE")
    assert some(play.do("ask reassign orders-0 to=1,1"), "INVALID_REPLICA_ASSIGNMENT")
    assert some(play.do("ask reassign orders-7 to=1,2"), "UNKNOWN_TOPIC_OR_PARTITION")
    assert some(play.do("ask cancel orders-0"), "NO_REASSIGNMENT_IN_PROGRESS")


def test_even_a_move_of_one_step_does_not_begin() -> None:
    play = cluster(PAUSE)

    assert some(play.do("ask reassign orders-0 to=2,1"), "POLICY_VIOLATION")
    assert some(play.do("ask reassign orders-0 to=1"), "POLICY_VIOLATION")
    assert some(play.do("ask forced reassign orders-0 to=1"), "POLICY_VIOLATION")


@pytest.mark.parametrize("kind", ["cancel orders-0", "gentle cancel orders-0", "reassign orders-0 to=2,1"])
def test_a_move_under_way_can_be_cancelled_and_not_redirected(kind: str) -> None:
    play = cluster("ask reassign orders-0 to=3,2", PAUSE)

    assert some(play.do("ask reassign orders-0 to=4,2"), "POLICY_VIOLATION")
    assert assignment(play).target == ids("3,2")

    assert some(play.do(f"ask {kind}"), "answer orders-0 NONE")
    assert {*assignment(play).replicas} == {1, 2}


def test_a_move_under_way_goes_on_to_its_end_also_under_the_next_leader() -> None:
    play = cluster("ask reassign orders-0 to=3,2", PAUSE)

    play.do("elect 101", "isr orders-0 1,2,3", "time +10s")

    assert assignment(play) == Assignment(ids("3,2"))


def test_an_entry_of_the_legacy_znode_waits_and_begins_when_moves_go_on() -> None:
    play = cluster(PAUSE, "legacy orders-0=3,2", "elect 101", "time +60s")
    assert assignment(play) == Assignment(ids("1,2"))
    assert '"replicas": [3, 2]' in (play.data(LEGACY) or "")

    assert some(play.do(RESUME), "asked to move orders-0 to [3, 2] by /admin/reassign_partitions")


def test_an_entry_that_can_never_begin_is_refused_at_once() -> None:
    lines = cluster(PAUSE).do("legacy orders-0=1,1")

    assert some(lines, "notice (refused legacy reassignment)", "Duplicate replica ids")


def test_an_entry_may_take_a_move_back() -> None:
    play = cluster("ask reassign orders-0 to=3,2", PAUSE, "legacy orders-0=1,2", "time +1s")

    assert (assignment(play), play.data(LEGACY)) == (Assignment(ids("1,2")), None)


def test_a_cancellation_drops_the_entry_that_waits_behind_the_move() -> None:
    play = cluster("ask reassign orders-0 to=3,2", PAUSE, "legacy orders-0=4,2", "time +1s")
    assert assignment(play).target == ids("3,2")

    play.do("ask cancel orders-0")
    assert play.data(LEGACY) is None

    assert not some(play.do(RESUME, "time +60s"), "asked to move")


def test_a_child_waits_and_begins_when_moves_go_on() -> None:
    play = kept(PAUSE, child("3,2"), "elect 101", "time +60s")
    assert assignment(play) == Assignment(ids("1,2"))
    assert play.data(f"{FOLDER}/orders-0") == '{"version":1,"assignment":[3,2]}'

    assert some(play.do(RESUME), "asked to move orders-0 to [3, 2] by /admin/reassignments")


def test_a_child_that_redirects_a_move_outlives_its_end() -> None:
    play = kept("ask reassign orders-0 to=3,2", PAUSE, child("4,2"))

    play.do("isr orders-0 1,2,3", "time +10s")

    assert assignment(play) == Assignment(ids("3,2"))
    assert play.data(f"{FOLDER}/orders-0") == '{"version":1,"assignment":[4,2]}'
    play.do(RESUME)
    assert assignment(play).target == ids("4,2")


def test_a_child_that_waits_is_not_forgotten_where_zookeeper_refuses_the_end_of_the_move_before_it() -> None:
    """The topic's znode is written without its children then: one that differs afterwards must not be outdated."""
    play = Play(KEPT, "brokers 1,2,3,4", "topic orders 0=1,2 1=1,2", "elect")
    play.do("ask reassign orders-0 to=3,2 orders-1 to=3,2", PAUSE, child("4,2"), f"refuse {FOLDER}/orders-1")
    play.do("isr orders-0 1,2,3", "isr orders-1 1,2,3", "time +200s", f"allow {FOLDER}/orders-1", "time +200s")
    assert assignment(play) == assignment(play, 1) == Assignment(ids("3,2"))

    play.do(RESUME, "time +1s")

    assert assignment(play).target == ids("4,2")


@pytest.mark.parametrize("change", [child("1,2"), f"remove {FOLDER}/orders-0"])
def test_a_child_may_cancel_its_move(change: str) -> None:
    play = kept(child("3,2"), PAUSE)
    assert assignment(play).target == ids("3,2")

    play.do(change, "time +1s")

    assert {*assignment(play).replicas} == {1, 2}
    assert not assignment(play).is_moving
    assert play.data(f"{FOLDER}/orders-0") is None


def test_a_cancellation_drops_the_child_that_waits() -> None:
    play = kept("ask reassign orders-0 to=3,2", PAUSE, child("4,2"))

    play.do("ask cancel orders-0", RESUME, "time +1s")

    assert {*assignment(play).replicas} == {1, 2}
    assert not assignment(play).is_moving


def test_a_replica_on_the_id_of_a_controller_waits_for_its_broker() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,100", PAUSE, "elect", "time +60s")
    assert assignment(play) == Assignment(ids("1,100"))

    play.do(RESUME)

    assert assignment(play).target in (ids("1,2"), ids("1,3"))


def test_a_partition_that_only_controllers_had_in_sync_gets_a_leader() -> None:
    play = Play("brokers 1,2", "topic orders 0=100", PAUSE, "elect")

    assert assignment(play).replicas in (ids("1"), ids("2"))


# ---- leaders --------------------------------------------------------------------------------------------------


def unbalanced(*more: str) -> Play:
    """Broker 2 leads, and 1 is preferred and in sync; the next look is at 300 s."""
    return Play(
        "set rebalance_every_s=300", "brokers 1,2", "topic orders 0=1,2", "state orders-0 leader=2 isr=2,1", *more
    )


def test_no_leader_moves_for_balance_until_moves_go_on() -> None:
    play = unbalanced(PAUSE, "elect")

    assert not some(play.do("time +900s"), "preferred leader")
    assert some(play.do(RESUME, "time +300s"), "1 is the preferred leader of orders-0: it takes over from 2")


def looked(*more: str) -> Play:
    """A look has found the imbalance, while an ISR of the same topic is being written; then comes more."""
    play = Play(
        "set rebalance_every_s=300",
        "brokers 1,2",
        "topic orders 0=1,2 1=1,2",
        "state orders-0 leader=2 isr=2,1",
        "elect",
        "hold request",
        "isr orders-1 1",
        "time +5s",
    )
    play.do(*more)
    return play


def test_what_a_look_found_before_the_pause_is_forgotten() -> None:
    assert some(looked().do("reply"), "1 is the preferred leader of orders-0")

    assert not some(looked(PAUSE).do("reply"), "preferred leader")


def test_what_a_client_wants_as_well_is_not_forgotten() -> None:
    assert some(looked("prefer orders-0", PAUSE).do("reply"), "1 is the preferred leader of orders-0")


def test_an_election_that_a_client_asks_for_takes_place() -> None:
    assert some(unbalanced(PAUSE, "elect").do("ask elect preferred orders-0"), "answer orders-0 NONE")
    assert some(unbalanced(PAUSE, "elect").do("prefer orders-0"), "1 is the preferred leader of orders-0")


def test_a_leader_that_dies_is_replaced() -> None:
    lines = cluster(PAUSE).do("broker 1 dies")

    assert some(lines, "leader 1 of orders-0 is offline; 2 is the first online in-sync replica")


# ---- what the znode says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "by-hand", "{}", "null"])
def test_a_pause_counts_whatever_its_znode_holds_and_that_is_said_aloud(content: str) -> None:
    play = cluster()
    lines = play.do(f"malformed {PAUSED} {content}" if content else f"znode {PAUSED}")

    (answer,) = some(play.do("ask reassign orders-0 to=3,4"), "answer orders-0")
    assert "POLICY_VIOLATION" in answer
    assert "an unknown user" in answer
    assert some(lines, "notice (malformed znode)", PAUSED, "kafka-zk-controller resume")
    assert some(play.do(RESUME, "ask reassign orders-0 to=3,4"), "answer orders-0 NONE")


def test_a_pause_that_may_not_be_read_counts_until_it_is_gone() -> None:
    state, address = ClusterState(), PauseAddress()
    state.apply(absent(address, Zxid(5)))
    before = state.is_paused

    state.fold(ReadRefused(address.path, "no permission", address))
    refused = state.is_paused, state.take_changes().pause
    state.fold(ReadAllowed(address.path))
    state.apply(absent(address, Zxid(9)))

    assert (before, refused) == (False, (True, True))
    assert (state.is_paused, state.take_changes().pause) == (False, True)


def test_a_pause_that_may_not_be_read_any_more_still_counts() -> None:
    state, address = ClusterState(), PauseAddress()
    state.apply(present(address, Pause("ann", 1), Stat(Zxid(5), Zxid(5), ZnodeVersion(0))))
    state.fold(ReadRefused(address.path, "no permission", address))
    refused = state.is_paused

    state.fold(ReadAllowed(address.path))

    assert (refused, state.is_paused) == (True, True)


def test_that_a_pause_may_not_be_read_is_said_with_what_follows() -> None:
    machine, address = cluster().theatre.machine, PauseAddress()
    assert machine is not None

    effects = machine.turn([ReadRefused(address.path, f"{address.path}: no permission", address)], now=1000.0)

    (notice,) = [effect for effect in effects if isinstance(effect, Notice)]
    assert notice.kind == "unreadable znode"
    assert "no move begins until it is deleted: `kafka-zk-controller resume`" in notice.text


def test_whoever_pauses_by_hand_is_unknown() -> None:
    state, address = ClusterState(), PauseAddress()

    state.apply(present(address, Malformed("not JSON", 3), Stat(Zxid(5), Zxid(5), ZnodeVersion(0))))

    assert state.is_paused


def test_the_refusal_needs_no_reason() -> None:
    assert refusal(Pause("ann@host", 0)).error is ErrorCode.POLICY_VIOLATION
    assert "Moves are paused by ann@host: " in str(refusal(Pause("ann@host", 0)).message)


def test_the_machine_says_whether_it_is_paused() -> None:
    machine = cluster(PAUSE).theatre.machine

    assert machine is not None
    assert machine.is_paused
    assert not cluster(PAUSE, RESUME).theatre.machine.is_paused  # type: ignore[union-attr]  # it leads
