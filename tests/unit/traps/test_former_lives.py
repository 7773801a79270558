"""May a replica join the ISR for what its leader has seen of a former life of its broker?

A leader names no life of its followers before KIP-903, and in ZooKeeper mode none does: the broker epochs of an
AlterPartition are -1. What it asks for may arrive after the follower's broker has died and come back without its log.
"""

from __future__ import annotations

import json

import pytest

from controller.core.isr import alter_partition
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import IsrResult
from controller.core.messages.requests import AlterPartition, IsrProposal, TopicReference
from controller.core.steps.change import Change
from tests.unit.core.builders import AT, Term, ids, state
from tests.unit.traps.play import Play, cluster, index, some
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

STATE = "/brokers/topics/orders/partitions/0/state"


def behind(*more: str) -> Play:
    """Brokers 1, the leader, and 3 are in sync; 2 is catching up, and nothing is left to be told."""
    lines = ("brokers 1,2,3", "topic orders 0=1,2,3", "state orders-0 leader=1 isr=1,3 leader_epoch=3", *more)
    return Play(*lines, "elect", "time +1s")


def asked_now(play: Play) -> str:
    """What the leader may ask for as things are: that 2 is in sync, too."""
    data, version = play.data(STATE), play.theatre.zookeeper.nodes[STATE].version
    assert data is not None
    return f"isr orders-0 1,3,2 leader_epoch={json.loads(data)['leader_epoch']} partition_epoch={version}"


def test_what_was_asked_for_before_a_followers_broker_died_does_not_count_when_it_is_back() -> None:
    play = behind()
    late = asked_now(play)
    play.do("broker 2 dies", "time +1s", "broker 2 returns", "time +1s")

    assert not some(play.do(late), "isr=[1, 3, 2]")


@pytest.mark.parametrize("trouble", ["refuse /brokers/topics/orders", "malformed /brokers/topics/orders"])
def test_a_topic_that_can_be_neither_written_nor_read_keeps_no_replica_out_of_the_isr(trouble: str) -> None:
    """The higher leader epoch is in the state, which is a znode of its own."""
    play = behind(trouble) if trouble.startswith("refuse") else behind()
    play.do(trouble, "ask reassign orders-0 to=1,3", "time +5s", "broker 2 bounces", "time +5s")

    assert some(play.do(asked_now(play)), "answer orders-0 NONE", "isr=[1, 3, 2]")


@pytest.mark.parametrize("how", [("broker 2 bounces",), ("broker 2 dies", "broker 2 returns")])
def test_its_leader_hears_of_a_higher_leader_epoch_before_the_broker_is_back(how: tuple[str, ...]) -> None:
    lines = behind().do(*how, "time +1s")

    told = index(lines, "tell 1", "LeaderAndIsr orders-0 leader=1", "isr=[1, 3]")
    assert told < lines.index("connect 2"), lines


@pytest.mark.parametrize("how", [("broker 2 bounces",), ("broker 2 dies", "time +1s", "broker 2 returns")])
def test_who_joins_by_a_write_that_was_on_its_way_when_its_broker_died_leaves_again_before_the_broker_is_back(
    how: tuple[str, ...],
) -> None:
    play = behind()
    play.do("hold reply", "isr orders-0 1,3,2", *how, "time +1s")
    assert '"isr":[1,3,2]' in (play.data(STATE) or "")

    lines = play.do("reply", "time +1s")

    told = index(lines, "tell 1,3", "LeaderAndIsr orders-0 leader=1 leader_epoch=5 isr=[1, 3]")
    assert told < lines.index("connect 2"), lines


def test_it_joins_the_isr_when_it_has_caught_up_in_the_new_leader_epoch() -> None:
    play = behind()
    play.do("broker 2 bounces", "time +1s")

    assert some(play.do("isr orders-0 1,3,2"), "set", "isr=[1, 3, 2]")


def test_a_follower_in_sync_costs_no_more_than_leaving_the_isr() -> None:
    lines = behind().do("broker 3 dies", "time +1s", "broker 3 returns", "time +1s")

    assert len(some(lines, f"set {STATE}")) == 1, lines


def test_what_was_asked_of_the_former_controller_counts_only_if_it_is_asked_again_in_a_new_leader_epoch() -> None:
    play = behind()
    asked_at_first = asked_now(play)
    play.do("elect")

    late = play.do(asked_at_first)

    assert not some(late, "isr=[1, 3, 2]"), late


def test_nor_where_the_followers_broker_comes_back_only_in_the_new_term() -> None:
    play = behind()
    play.do("broker 2 dies", "time +1s", "elect", "time +1s")
    late = asked_now(play)
    play.do("broker 2 returns", "time +1s")

    assert not some(play.do(late), "isr=[1, 3, 2]")


def test_a_cluster_whose_replicas_are_all_in_sync_costs_nothing_at_a_fail_over() -> None:
    play = cluster()

    assert not some(play.do("elect", "time +1s"), "/state")


def test_nobody_joins_before_its_leader_has_been_given_a_new_leader_epoch() -> None:
    term = Term("1,2")
    stat = Stat(Zxid(1), Zxid(1), ZnodeVersion(1))
    term.fold(
        present(TopicAddress(AT.topic), Topic({AT.partition: Assignment(ids("1,2"))}), stat),
        present(StateAddress(*AT), state(1, "1"), stat),
    )
    proposal = IsrProposal(TopicReference(name=AT.topic), AT.partition, LeaderEpoch(3), PartitionEpoch(1), ids("1,2"))
    request = AlterPartition(BrokerId(1), BrokerEpoch(1), (proposal,), names_topics_by_id=True)

    def asked() -> object:
        return alter_partition.consider(request, proposal, AT, term.cluster)

    assert isinstance(asked(), Change)
    term.memory.brokers.unannounced[AT] = None
    refused = asked()
    assert isinstance(refused, IsrResult)
    assert refused.error is ErrorCode.INELIGIBLE_REPLICA
    del term.memory.brokers.unannounced[AT]
    term.memory.brokers.returning[BrokerId(2)] = None  # not all of its partitions have been looked at
    refused = asked()
    assert isinstance(refused, IsrResult)
    assert refused.error is ErrorCode.INELIGIBLE_REPLICA
    term.memory.brokers.note_returned(BrokerId(2))
    assert isinstance(asked(), Change)
