"""`status` shows every replica, and `switchover` makes the given one lead, without a broker in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, command, content, holder, wait_until

NOBODY_LEADS = 1
STOPS_ON_A_BUSY_MACHINE = 3


def test_every_replica_is_shown_and_a_certain_one_leads_when_asked(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    where = ("--zookeeper", cluster_3_9.zookeeper_connect)
    holders: list[int | None] = []
    with (
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as first,
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 902) as second,
    ):
        wait_until(lambda: "active" in (first.phase, second.phase), "one of them led")
        leader, standby = (first, second) if first.phase == "active" else (second, first)
        standby.await_phase("standby")
        wait_until(lambda: len(command("status", *where)[1]["replicas"]) == 2, "both showed")
        epoch = int(zk.get("/controller_epoch")[0])

        @zk.DataWatch("/controller")  # type: ignore[untyped-decorator]
        def seen(data: bytes | None, _stat: object) -> None:
            holders.append(None if data is None else int(json.loads(data)["brokerid"]))

        code, report, complaints = command("switchover", "--to", str(standby.broker_id), *where)

        assert (code, report["is_done"], report["controller"]) == (0, True, standby.broker_id), complaints
        standby.await_phase("active")
        leader.await_phase("standby")
        assert int(zk.get("/controller_epoch")[0]) == epoch + 1
        assert set(holders) <= {leader.broker_id, standby.broker_id, None}
        wait_until(
            lambda: (
                {r: seen["phase"] for r, seen in command("status", *where)[1]["replicas"].items()}
                == {str(leader.broker_id): "standby", str(standby.broker_id): "active"}
            ),
            "it showed",
        )
        code, report, _ = command("status", *where)
        assert code == 0
        assert (report["controller"], report["is_ours"]) == (standby.broker_id, True)
        assert all(seen["release"] and seen["host"] and seen["is_ready"] for seen in report["replicas"].values())
        assert not zk.exists("/kafka_zk_controller/switchover")

        assert command("switchover", "--to", str(standby.broker_id), *where)[0] == 0, "it leads already"
        code, _, complaints = command("switchover", "--to", "903", *where)
        assert (code, complaints) == (1, "error: replica 903 does not run; these do: 901, 902\n")

    wait_until(lambda: holder(zk) in cluster_3_9.brokers, "a broker ruled again")
    code, report, _ = command("status", *where)
    assert (code, report["replicas"], report["is_ours"]) == (NOBODY_LEADS, {}, False)


def is_succeeded_in_time(first: Replica, second: Replica, zk: KazooClient) -> bool:
    """Whether the standby replaces the leader that stops; false if a busy machine took longer than a second."""
    wait_until(lambda: "active" in (first.phase, second.phase), "one of them led")
    leader, standby = (first, second) if first.phase == "active" else (second, first)
    standby.await_phase("standby")
    shown = f"/kafka_zk_controller/replicas/{standby.broker_id}"
    wait_until(lambda: content(zk, shown).get("is_ready"), "it was announced")
    epoch, offset = int(zk.get("/controller_epoch")[0]), standby.log_size()

    leader.process.stop()

    standby.await_phase("active")
    wait_until(lambda: not zk.exists("/kafka_zk_controller/switchover"), "the request had gone")
    told = [line["event"] for line in leader.log() if "successor" in line["event"]]
    assert told[0] == "waiting for a successor to take over"
    if told[1] != "the successor leads":
        leader.process.start()
        return False
    (claim,) = [line for line in standby.log(offset) if line["event"].startswith("standby → contending")]
    assert claim["why"] == "this replica is asked to lead instead of another"
    assert int(zk.get("/controller_epoch")[0]) == epoch + 1
    return True


@pytest.mark.parametrize("cluster", ["3_9", pytest.param("2_4", marks=pytest.mark.thorough)], indirect=True)
def test_a_leader_that_stops_leaves_nothing_to_native_controllers(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    with (
        Replica(cluster.zookeeper_connect, tmp_path, 901, inter_broker_protocol_version="auto") as first,
        Replica(cluster.zookeeper_connect, tmp_path, 902, inter_broker_protocol_version="auto") as second,
    ):
        assert any(is_succeeded_in_time(first, second, zk) for _ in range(STOPS_ON_A_BUSY_MACHINE))
        assert holder(zk) in (901, 902)


def test_without_a_zookeeper_both_say_so() -> None:
    for arguments in (("status",), ("switchover", "--to", "901")):
        code, _, complaints = command(*arguments, "--zookeeper", "127.0.0.1:1")
        assert code == 3
        assert "127.0.0.1:1" in complaints
