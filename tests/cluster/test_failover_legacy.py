"""With old brokers, whose leaders write the ISR themselves, a move written to ZooKeeper survives the leader's death."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.core.stage import Stage
from controller.demo.checks import is_completion
from controller.demo.move import next_plan
from controller.demo.waiting import wait_for
from controller.lab.cluster import LocalCluster
from tests.cluster.moves import assert_nothing_lost, led
from zk_layout.znodes.notifications import ISR_CHANGES

PARTITIONS = 8


@pytest.mark.timeout(180)
def test_a_move_written_by_an_old_tool_is_finished_by_the_successor(cluster_2_4: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_2_4, tmp_path) as rule:
        topic = rule.topic("legacy-moves", PARTITIONS)
        target = next_plan(tuple(cluster_2_4.brokers), topic.plan)
        traffic = topic.traffic()
        traffic.fill({p: 400_000 * (p + 1) for p in topic.plan})
        with traffic:
            topic.plan = target
            topic.tool.plan(topic.name, target)
            executed = topic.tool.execute(throttle_bytes_s=500_000)
            assert executed.exit_code == 0, executed.output
            assert rule.znodes.has_legacy_move()

            wait_for(lambda: any(p.stage is Stage.SETTLED for p in topic.partitions), "a first partition at its target")
            victim = rule.leader
            killed_at = rule.pair.kill(victim)
            moving = sum(p.assignment.is_moving for p in topic.partitions)
            change = rule.pair.wait_for_leader(killed_at, other_than=victim)
            topic.await_arrival()
            wait_for(lambda: not rule.znodes.has_legacy_move(), "the end of the legacy move")
            topic.await_exact_disks()

            assert 0 < moving < PARTITIONS
            verified = topic.tool.verify()
            assert sum(map(is_completion, verified.output.splitlines())) == PARTITIONS, verified.output
            wait_for(lambda: not rule.znodes.children(ISR_CHANGES), "every notification of an ISR change removed")
            figures = change.leader.figures()
            # A native controller that led in between may have finished some.
            assert 0 < figures["reassignment_seconds_count"] <= moving
            assert not any(count for key, count in figures.items() if "AlterPartition " in key)
        assert_nothing_lost(traffic, at_least=1000)


def test_a_znode_written_by_hand_moves_what_it_names_and_vanishes(cluster_2_4: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_2_4, tmp_path) as rule:
        topic = rule.topic("by-hand", 2)
        topic.plan = next_plan(tuple(cluster_2_4.brokers), topic.plan)

        rule.znodes.submit_legacy_move(topic.name, topic.plan)

        topic.await_arrival()
        wait_for(lambda: not rule.znodes.has_legacy_move(), "the end of the legacy move")
        topic.await_exact_disks()
