"""A hundred brokers, a topic of ten thousand partitions, and one that would exceed ZooKeeper's limit.

The brokers are simulated; ZooKeeper, the controller and their connection are real.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    Growth,
    NewTopic,
    PartitionReassignment,
)
from controller.demo.simulated_story import SimulatedBrokers
from controller.demo.znodes import Znodes
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import ZooKeeperServer
from tests.cluster.replica import Replica
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

BROKERS = range(1, 101)
PARTITIONS = 10_000
LARGE = TopicName("large")
LIMIT_BYTES = 340_000


@pytest.mark.timeout(300)
def test_a_topic_grows_to_the_limit_with_a_warning_and_not_beyond(tmp_path: Path) -> None:
    try:
        server = ZooKeeperServer(tmp_path / "zookeeper")
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with (
        server,
        Znodes(server.connect) as znodes,
        SimulatedBrokers(server.connect, BROKERS, counts_only=True),
        Replica(server.connect, tmp_path, jute_maxbuffer=LIMIT_BYTES) as leader,
    ):
        leader.await_phase("active")

        created = leader.ask(CreateTopics((NewTopic(LARGE, PARTITIONS, 2),), timeout_ms=120_000), version=7)

        assert created.results[0].error is ErrorCode.NONE, created
        partitions = znodes.partitions(LARGE)
        assert len(partitions) == PARTITIONS
        led = Counter(held.state.leader for held in partitions if held.state is not None)
        assert led == dict.fromkeys(BROKERS, PARTITIONS // len(BROKERS))
        assert warnings(leader) == []

        grown = leader.ask(CreatePartitions((Growth(LARGE, 20_000, None),), timeout_ms=120_000))

        assert grown.results[0].error is ErrorCode.NONE, grown
        (warning,) = warnings(leader)
        assert warning.startswith("writing /brokers/topics/large takes ")

        refused = leader.ask(CreatePartitions((Growth(LARGE, 40_000, None),), timeout_ms=120_000)).results[0]

        assert refused.error is ErrorCode.INVALID_PARTITIONS
        assert (refused.message or "").startswith("40000 partitions take more than the ")
        moves = leader.ask(AlterReassignments(tuple(move(number) for number in range(9_000))))
        assert {result.error for result in moves.results} == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        assert "above ZooKeeper's limit" in (moves.results[0].message or "")

        few = leader.ask(AlterReassignments((move(0), move(1))))
        assert {result.error for result in few.results} == {ErrorCode.NONE}
        assert leader.phase == "active"
        assert leader.measure("elections_won_total") == 1


def move(number: int) -> PartitionReassignment:
    at = TopicPartition(LARGE, PartitionId(number))
    return PartitionReassignment(at, tuple(map(BrokerId, (97, 98, 99))))


def warnings(leader: Replica) -> list[str]:
    return [str(r["event"]) for r in leader.log() if r.get("kind") == "large znode"]
