"""Does Kafka's own controller, at a day's work, decide as an observer would? And does the observer write nothing?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.comparing.judging import DIFFERENCES, Outcome
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, wait_until
from tests.cluster.test_observe import log_of
from tests.replay.native_history import Work
from zk_layout.storage.operations import CLOSE_SESSION, CREATE_SESSION

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]


@pytest.fixture(params=["3.9.1", "2.4.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    settings = ClusterSettings(version=request.param, overrides={"zookeeper.session.timeout.ms": 10_000})
    try:
        made = LocalCluster(settings)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture
def zk(cluster: LocalCluster) -> Iterator[KazooClient]:
    with zookeeper_client(cluster.zookeeper_connect) as client:
        yield client


def test_a_days_work_of_kafkas_controller_shows_no_difference(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    """Topics, moves by each interface, a cancelled one, crashes, a clean stop, elections, a deletion, a fail-over."""
    with Replica(
        cluster.zookeeper_connect, tmp_path, command="observe", inter_broker_protocol_version="auto"
    ) as observer:
        observer.await_phase("observing", timeout_s=90)
        work = Work(cluster, zk, print)
        for step in (
            work.create, work.fill, work.set_min_isr, work.move_by_api, work.cancel, work.move_by_znode,
            work.crash_a_broker, work.elect_preferred, work.restart_a_broker, work.elect_by_znode,
            work.move_across_a_crash, work.delete, work.fail_over, work.move_after,
        ):  # fmt: skip
            step()

        def compared(outcome: Outcome) -> float:
            return observer.measure("compared_decisions_total", outcome=outcome.value)

        wait_until(lambda: observer.measure("moving_partitions") == 0, "the last move was seen to end")
        seen = {outcome.value: compared(outcome) for outcome in Outcome}
        differences = observer.leader()["differences"]
        assert not any(seen[outcome] for outcome in DIFFERENCES), (seen, differences)
        assert differences == []
        assert seen[Outcome.SAME] >= 30, seen
        observer.process.stop()
        assert observer.process.exit_code == 0
    sessions: dict[int, list[int]] = {}
    for _, _, session, _, kind, *_ in log_of(cluster.zookeeper):
        sessions.setdefault(session, []).append(kind)
    assert [CREATE_SESSION, CLOSE_SESSION] in sessions.values(), "the observer's session changed something"
