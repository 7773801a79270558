"""Offsets say what a receiving replica lacks where sizes mislead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from controller.reassign.cluster import Directories, Edge, Move, PartitionState
from controller.reassign.lagging import Lag, lags
from controller.reassign.plans import Replica
from controller.reassign.progress import Progress, Snapshot
from controller.reassign.refusals import Refused
from controller.reassign.watching import look
from tests.unit.reassign.simulated import HOME, Hours, SimulatedCluster, at, on
from zk_layout.ids import BrokerId
from zk_layout.znodes.reassignment_status import MoveProgress, ReplicaProgress

LEADER, RECEIVER = (Replica(BrokerId(broker), at("a-0").topic, at("a-0").partition) for broker in (2, 3))
BEGUN = Move((3, 1, 2), adding=(3,), removing=(1,))


def moving() -> SimulatedCluster:
    """a-0 moves from broker 1 to 3; broker 2 leads it."""
    cluster = SimulatedCluster({"a-0": (1, 2)})
    cluster.alter({at("a-0"): (3, 2)})
    return cluster


def tell(cluster: SimulatedCluster, *, start: int, end: int, received: int) -> None:
    """Brokers tell these offsets."""
    cluster.edges = {(LEADER, Edge.START): start, (LEADER, Edge.END): end, (RECEIVER, Edge.END): received}


def have(cluster: SimulatedCluster, leader: int, receiver: int) -> None:
    """Brokers tell these sizes."""
    cluster.directory_of = {LEADER: Directories(HOME, None, leader), RECEIVER: Directories(HOME, None, receiver)}


def nothing_yet() -> Snapshot:
    """Before the first look."""
    return Progress({}).advance(0.0, {}, {}, {})


def seen(cluster: SimulatedCluster, progress: Progress, hours: Hours) -> Snapshot:
    """One look at the only move."""
    return look(cluster, progress, cluster.listing().moves, hours.clock)


def test_a_compacted_leader_with_fewer_bytes_than_the_receiver_shows_no_move_as_done() -> None:
    cluster = moving()
    have(cluster, leader=1_000, receiver=5_000)
    tell(cluster, start=0, end=400, received=100)

    first = seen(cluster, Progress({}), Hours())

    assert (first.copied_bytes, first.total_bytes) == (250, 1_000)
    assert first.moving[0].lags == {3: Lag(300, 400)}


def test_the_time_left_follows_from_offsets_while_the_leader_deletes_segments() -> None:
    cluster, progress, hours, last = moving(), Progress({}), Hours(), nothing_yet()
    for second in range(15):
        start = 100 if second >= 8 else 0  # a segment of 100 records leaves
        have(cluster, leader=10 * (1_000 - start), receiver=10 * 20 * second)
        tell(cluster, start=start, end=1_000, received=20 * second)
        hours.seconds = float(second)
        last = seen(cluster, progress, hours)

    assert last.remaining_seconds == pytest.approx((1_000 - 20 * 14) / 20, rel=0.15)
    assert last.moving[0].received[0].bytes_per_second == pytest.approx(200)


def test_where_no_broker_tells_offsets_sizes_count() -> None:
    cluster = moving()
    have(cluster, leader=1_000, receiver=400)

    first = seen(cluster, Progress({}), Hours())

    assert (first.copied_bytes, first.total_bytes, first.moving[0].lags) == (400, 1_000, {})


def test_offsets_that_are_refused_later_are_no_progress() -> None:
    cluster, progress, hours, last = moving(), Progress({}), Hours(), nothing_yet()
    for second in range(20):
        have(cluster, leader=100_000, receiver=90_000 + 10 * second)
        tell(cluster, start=0, end=10_000, received=1_000 + second)
        if second >= 15:
            cluster.edges.clear()
        hours.seconds = float(second)
        last = seen(cluster, progress, hours)

    (receiving,) = last.receiving
    assert receiving.closing == pytest.approx(10, rel=0.2)
    assert receiving.gap_bytes == 10_000 - 10 * 19


def test_a_gap_that_our_controller_reports_from_sizes_is_corrected_too() -> None:
    cluster, progress, hours = moving(), Progress({}), Hours()
    reported = ReplicaProgress(BrokerId(3), 1_000, 1_000, 7.0, 0.0)
    cluster.progress = {at("a-0"): MoveProgress(None, "catching up", 0, replicas=(reported,))}
    tell(cluster, start=0, end=400, received=100)

    (first,) = seen(cluster, progress, hours).moving[0].received
    hours.seconds = 12.0
    tell(cluster, start=0, end=400, received=220)
    (second,) = seen(cluster, progress, hours).moving[0].received

    assert (first.copied_bytes, first.total_bytes, first.bytes_per_second) == (250, 1_000, 7.0)
    assert first.remaining_seconds is None
    assert second.copied_bytes == 550
    assert second.bytes_per_second == pytest.approx(25.0)
    assert second.remaining_seconds == pytest.approx(450 / 25)


def test_who_may_see_moves_and_not_topics_sees_what_our_controller_reports() -> None:
    class Guarded(SimulatedCluster):
        def topics(self, names: Collection[str] | None) -> dict[Any, dict[Any, PartitionState]]:
            raise Refused(f"{names}: Topic authorization failed.")

    cluster = Guarded({"a-0": (1, 2)}, product="kafka-zk-controller 0.1")
    cluster.alter({at("a-0"): (3, 2)})
    reported = ReplicaProgress(BrokerId(3), 5, 1_000, 7.0, 9.0)
    cluster.progress = {at("a-0"): MoveProgress(None, "catching up", 0, replicas=(reported,))}
    tell(cluster, start=0, end=400, received=100)

    assert seen(cluster, Progress({}), Hours()).moving[0].received == (reported,)


@pytest.mark.parametrize(
    ("move", "state", "found"),
    [
        (BEGUN, PartitionState((3, 1, 2), on(1, 2, 3), BrokerId(2)), {RECEIVER: Lag(0, 0)}),
        (BEGUN, PartitionState((3, 1, 2), on(1, 2), BrokerId(-1)), {}),
        (Move((1, 2), adding=(3,), removing=(1,)), PartitionState((1, 2), on(1, 2), BrokerId(2)), {}),
    ],
    ids=["in sync", "no leader", "waits"],
)
def test_nothing_is_asked_about_replicas_that_copy_nothing(
    move: Move, state: PartitionState, found: dict[Replica, Lag]
) -> None:
    cluster = moving()
    tell(cluster, start=0, end=400, received=100)

    assert lags(cluster, {at("a-0"): move}, {at("a-0"): state}) == found
    assert cluster.asked_for_offsets == []


@pytest.mark.parametrize(
    ("start", "received", "lag"),
    [(300, 100, Lag(100, 100)), (0, 450, Lag(0, 400))],
    ids=["the leader has deleted all that it has", "it is ahead of its leader"],
)
def test_a_lag_is_never_more_than_the_log_nor_less_than_nothing(start: int, received: int, lag: Lag) -> None:
    cluster = moving()
    tell(cluster, start=start, end=400, received=received)

    assert lags(cluster, {at("a-0"): BEGUN}, {at("a-0"): PartitionState((3, 1, 2), on(1, 2), BrokerId(2))}) == {
        RECEIVER: lag
    }
