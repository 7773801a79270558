"""Our controller serves Kafka's own kafka-reassign-partitions like Kafka's, while a producer runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.demo.checks import is_completion
from controller.demo.move import next_plan
from controller.lab.cluster import LocalCluster
from tests.cluster.moves import after_cancelling, assert_nothing_lost, led, slow_cluster

BYTES = 3_000_000
SLOW_BYTES_S = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Brokers that copy in small steps, so that a throttle is smooth."""
    yield from slow_cluster()


@pytest.mark.timeout(180)
def test_execute_list_verify_and_cancel_do_what_they_say(cluster: LocalCluster, tmp_path: Path) -> None:
    with led(cluster, tmp_path) as rule:
        topic = rule.topic("tool-moves", 3)
        before, target = topic.plan, next_plan(tuple(cluster.brokers), topic.plan)
        traffic, tool = topic.traffic(), topic.tool
        traffic.fill(dict.fromkeys(before, BYTES))
        with traffic:
            tool.plan(topic.name, target)

            executed = tool.execute(throttle_bytes_s=SLOW_BYTES_S)
            assert executed.exit_code == 0, executed.output
            assert "Successfully started partition reassignments for tool-moves-0,tool-moves-1,tool-moves-2" in (
                executed.stdout
            )
            assert [p.assignment.adding for p in topic.partitions] == [(3,), (1,), (2,)]

            listed = tool.list_moves()
            assert listed.exit_code == 0, listed.output
            assert "tool-moves-0: replicas: 3,2,1. adding: 3. removing: 1." in listed.stdout

            unfinished = tool.verify()
            assert unfinished.stdout.count("is still in progress") == 3, unfinished.output

            cancelled = tool.cancel()
            assert cancelled.exit_code == 0, cancelled.output
            assert "Successfully cancelled partition reassignments for: tool-moves-0,tool-moves-1,tool-moves-2" in (
                cancelled.stdout
            )
            topic.plan = after_cancelling(before)
            topic.await_arrival()
            topic.await_exact_disks()
            assert "No partition reassignments found." in tool.list_moves().stdout

            topic.plan = target
            assert tool.execute().exit_code == 0
            topic.await_arrival()
            topic.await_exact_disks()
            finished = tool.verify()
            assert sum(map(is_completion, finished.stdout.splitlines())) == 3, finished.output
        assert_nothing_lost(traffic, at_least=1000)


def test_a_move_to_a_broker_that_does_not_exist_is_refused_by_name(cluster: LocalCluster, tmp_path: Path) -> None:
    with led(cluster, tmp_path) as rule:
        topic = rule.topic("refused-moves", 1)
        topic.tool.plan(topic.name, {0: (1, 77)})

        refused = topic.tool.execute()

        assert refused.exit_code != 0
        assert "77" in refused.output
        assert not any(p.assignment.is_moving for p in topic.partitions)
