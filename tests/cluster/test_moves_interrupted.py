"""Moves on real brokers are cancelled, redirected, overlapped or outgrown before they can finish."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered, ReassignmentsListed
from controller.core.messages.requests import AlterReassignments, ListReassignments, Mode, PartitionReassignment
from controller.demo.waiting import wait_for
from controller.demo.znodes import Plan
from controller.lab.cluster import LocalCluster
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.moves import LedCluster, Topic, led, muted
from tests.equipment.any_request import ask
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

ACCEPTED = {ErrorCode.NONE}


def created(rule: LedCluster, plans: Mapping[str, Plan]) -> dict[str, Topic]:
    """Topics with these replicas, all in sync."""
    for name, plan in plans.items():
        rule.znodes.create_topic(name, plan)
    topics = {name: Topic(rule, name, plan) for name, plan in plans.items()}
    for topic in topics.values():
        topic.await_arrival()
    return topics


def asked_for(
    rule: LedCluster, targets: Mapping[str, tuple[int, ...] | None], mode: Mode = Mode.SAFE
) -> set[ErrorCode]:
    """Request a move of each topic's first partition, or its cancellation; return the answers."""
    reassignments = tuple(
        PartitionReassignment(
            TopicPartition(TopicName(name), PartitionId(0)),
            None if target is None else tuple(map(BrokerId, target)),
        )
        for name, target in targets.items()
    )
    answer = ask(rule.leader.address, AlterReassignments(reassignments, mode))
    assert isinstance(answer, ReassignmentsAltered)
    return {result.error for result in answer.results}


def has_joined(topic: Topic, broker: int) -> bool:
    """Whether a broker is in the ISR of the first partition."""
    state = topic.partitions[0].state
    return state is not None and broker in state.isr


def add_partition(cluster: LocalCluster, name: str, partition: int, replicas: tuple[int, ...]) -> None:
    """Write one more partition into a topic's znode, like an old `kafka-topics --zookeeper`."""
    path = f"/brokers/topics/{name}"
    with zookeeper_client(cluster.zookeeper_connect) as client:
        data, stat = client.get(path)
        topic = json.loads(data)
        topic["partitions"][str(partition)] = list(replicas)
        client.set(path, json.dumps(topic).encode(), stat.version)


def moving(rule: LedCluster) -> set[str]:
    """The topics with moves, according to the controller."""
    answer = ask(rule.leader.address, ListReassignments(None))
    assert isinstance(answer, ReassignmentsListed)
    return {move.topic_partition.topic for move in answer.moves}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fixture", ["cluster_3_9", "cluster_2_4"])
def test_moves_are_interrupted_in_every_way_and_all_come_to_the_end_that_was_asked_last(
    fixture: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster: LocalCluster = request.getfixturevalue(fixture)
    names = ("gently", "cancelled", "redirected", "reordered", "shrunk", "grown", "stacked", "failed-over")
    one, two = {0: (1,)}, {0: (1, 2)}
    with led(cluster, tmp_path) as rule:
        topics = created(rule, {n: two if n in ("reordered", "shrunk") else one for n in names})
        with muted(cluster.brokers[3]):
            # Requests that need it alive go first: a slow machine may lose its session before the rest is done.
            begun: dict[str, tuple[int, ...] | None] = dict.fromkeys(("gently", "cancelled", "stacked"), (2, 3))
            begun |= dict.fromkeys(("redirected", "grown", "failed-over"), (3,))
            assert asked_for(rule, begun) == ACCEPTED

            # A reordering and a shrink are over when they are answered.
            assert asked_for(rule, {"reordered": (2, 1), "shrunk": (2,)}) == ACCEPTED
            assert not moving(rule) & {"reordered", "shrunk"}

            # One of two added replicas has joined the ISR; the other cannot.
            for topic in (topics["gently"], topics["cancelled"]):
                wait_for(partial(has_joined, topic, 2), f"{topic.name}: 2 in the ISR", timeout_s=60)
            assert asked_for(rule, {"gently": None}, Mode.GENTLE) == ACCEPTED
            assert asked_for(rule, {"cancelled": None}) == ACCEPTED
            assert asked_for(rule, {"cancelled": None}) == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

            # Changes on top of each other: the last one counts.
            assert asked_for(rule, {"redirected": (2,)}) == ACCEPTED
            for target in ((2, 1), None, (2,)):
                asked_for(
                    rule, {"stacked": target}
                )  # a move with all replicas in sync is done at once, and leaves nothing to cancel
            add_partition(cluster, "grown", 1, (2, 1))

            # The leader dies after a cancellation; its successor knows of it.
            victim = rule.leader
            assert asked_for(rule, {"failed-over": None}) == ACCEPTED
            change = rule.pair.wait_for_leader(rule.pair.kill(victim), other_than=victim)
            wait_for(lambda: change.leader.is_leading, "the successor serves")
            assert asked_for(rule, {"failed-over": None}) == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

        ends: dict[str, Plan] = {
            "gently": {0: (2, 1)},
            "cancelled": one,
            "redirected": {0: (2,)},
            "reordered": {0: (2, 1)},
            "shrunk": {0: (2,)},
            "grown": {0: (3,), 1: (2, 1)},
            "stacked": {0: (2,)},
            "failed-over": one,
        }
        for name, plan in ends.items():
            topics[name].plan = plan
            topics[name].await_arrival()
        for topic in sorted(topics.values(), key=lambda t: t.name != "stacked"):
            topic.await_exact_disks(timeout_s=100)  # an unconfirmed deletion is requested again every 30 s
        assert not moving(rule)
