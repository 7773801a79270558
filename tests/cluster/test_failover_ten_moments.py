"""The leading replica dies at any moment of a move: the other one finishes it, and no acknowledged record is lost."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import Struct

from controller.core.stage import Stage
from controller.demo.checks import is_completion
from controller.demo.move import copied_share, next_plan
from controller.demo.replicas import Replica
from controller.demo.waiting import wait_for
from controller.lab.cluster import LocalCluster
from tests.cluster.moves import LedCluster, Topic, assert_nothing_lost, led, slow_cluster, submit
from tests.cluster.throttle import throttled

PARTITIONS = 6
BYTES = 4_000_000
RATE_BYTES_S = 250_000
TRIES = 4
JAVA_STARTS_S = 0.3


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Brokers that copy in small steps, so that a throttle is smooth."""
    yield from slow_cluster()


Look = Callable[[Topic], bool]


class Victim(Struct, frozen=True):
    """The leader that will die, and its term."""

    replica: Replica
    epoch: int


class Death(Struct, frozen=True):
    """One leader's death: the partitions' stages, and the time until the other one's first command.

    `native_terms` counts native controllers that held `/controller` in between; `left_by_natives` are logs
    whose deletion they had not sent when they were replaced.
    """

    moment: str
    stages: str
    failover_s: float
    finished_s: float
    native_terms: int
    left_by_natives: dict[int, set[str]]


Die = Callable[[LedCluster, Topic], Death]


def when(moment: str, is_now: Look) -> Die:
    """Die once the move is accepted and this condition holds."""
    return lambda rule, topic: die_when(moment, is_now, rule, topic)


def moments() -> tuple[Die, ...]:
    """The ten; each second one is in the default run."""
    return (
        die_while_the_tool_starts,
        die_on_being_asked,
        when("it has just been accepted", lambda _: True),
        when("a fifth is copied", copied(0.2)),
        when("four fifths are copied", copied(0.8)),
        when("half is copied", copied(0.5)),
        when("a leaving replica must delete its log", at(Stage.LETTING_GO)),
        when("the first partition has arrived", arrived(1)),
        when("half of the partitions have arrived", arrived(PARTITIONS // 2)),
        when("the last partition is left", arrived(PARTITIONS - 1)),
    )


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_leader_killed_at_ten_moments_of_moves_is_replaced_by_the_other_which_finishes(
    cluster: LocalCluster, tmp_path: Path, every: int
) -> None:
    with led(cluster, tmp_path) as rule:
        topic = rule.topic(f"ten-moments-{every}", PARTITIONS)
        traffic = topic.traffic()
        traffic.fill(dict.fromkeys(topic.plan, BYTES // PARTITIONS))
        with throttled(topic, RATE_BYTES_S), traffic:
            deaths = [die(rule, topic) for die in moments()[every - 1 :: every]]
        for death in deaths:
            sys.stdout.write(f"{death}\n")
        topic.tool.plan(topic.name, topic.plan)
        verified = topic.tool.verify()
        assert sum(map(is_completion, verified.stdout.splitlines())) == PARTITIONS, verified.output
        assert_nothing_lost(traffic, at_least=2500 if every > 1 else 5000)


def die_while_the_tool_starts(rule: LedCluster, topic: Topic) -> Death:
    """Before anything was accepted: Kafka's tool finds the successor by itself."""
    victim = set_out(rule, topic)
    topic.tool.plan(topic.name, topic.plan)
    with ThreadPoolExecutor(1) as aside:
        executed = aside.submit(topic.tool.execute)
        time.sleep(JAVA_STARTS_S)
        death = finish("the tool has not asked yet", rule, topic, victim, kill(victim))
        assert executed.result().exit_code == 0, executed.result().output
    return death


def die_on_being_asked(rule: LedCluster, topic: Topic) -> Death:
    """Requested, but not answered: the client asks again, whether or not the request was accepted."""
    victim = set_out(rule, topic)
    with ThreadPoolExecutor(1) as aside:
        answer = aside.submit(submit, victim.replica, topic)
        killed_at = kill(victim)
        if answer.exception() is not None:
            successor = rule.pair.wait_for_leader(killed_at, other_than=victim.replica).leader
            wait_for(lambda: successor.is_leading, "the successor serves")
            submit(successor, topic)
    return finish("it was asked and has not answered", rule, topic, victim, killed_at)


def die_when(moment: str, is_now: Look, rule: LedCluster, topic: Topic) -> Death:
    """Once the move is accepted and this condition holds; retried if a moment of milliseconds was missed."""
    for _ in range(TRIES):
        victim = set_out(rule, topic)
        submit(victim.replica, topic)
        while not (is_seen := is_now(topic)):
            if not any(p.assignment.is_moving for p in topic.partitions):
                break
        if is_seen:
            return finish(moment, rule, topic, victim, kill(victim))
        topic.await_arrival()
    pytest.fail(f"in {TRIES} moves it was never seen that {moment}")


def kill(victim: Victim) -> float:
    """Send SIGKILL; return the time."""
    victim.replica.process.kill()
    return time.monotonic()


def set_out(rule: LedCluster, topic: Topic) -> Victim:
    """Choose other brokers for all partitions; return the leader, which will die."""
    topic.plan = next_plan(tuple(rule.cluster.brokers), topic.plan)
    return Victim(rule.leader, rule.znodes.controller_epoch())


def finish(moment: str, rule: LedCluster, topic: Topic, victim: Victim, killed_at: float) -> Death:
    """The other one takes over and finishes the move; then the dead one returns and stands by."""
    stages = Counter(p.stage.value for p in topic.partitions)
    change = rule.pair.wait_for_leader(killed_at, other_than=victim.replica)
    topic.await_arrival()
    finished_s = time.monotonic() - killed_at
    between = rule.znodes.controller_epoch() - victim.epoch - 1
    left = topic.note_what_a_native_left() if between else {}
    topic.await_exact_disks()
    assert rule.leader is change.leader, f"{moment}: {change.leader.replica_id} did not stay"
    victim.replica.process.start()
    wait_for(lambda: victim.replica.status().get("is_ready"), f"{victim.replica.replica_id} standing by")
    counted = ", ".join(f"{count} {stage}" for stage, count in stages.items())
    return Death(moment, counted, round(change.commanding_s, 2), round(finished_s, 2), between, left)


def copied(share: float) -> Look:
    """The new replicas hold this share of the logs."""

    def is_now(topic: Topic) -> bool:
        shares = copied_share(topic.led.cluster, topic.name, topic.partitions)
        return sum(shares.values()) + PARTITIONS - len(shares) >= share * PARTITIONS

    return is_now


def at(stage: Stage) -> Look:
    """Some partition is at this stage."""
    return lambda topic: any(p.stage is stage for p in topic.partitions)


def arrived(count: int) -> Look:
    """This many partitions have finished, and some still move."""
    return lambda topic: count <= sum(p.stage is Stage.SETTLED for p in topic.partitions) < PARTITIONS
