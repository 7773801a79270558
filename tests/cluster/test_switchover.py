"""`status` shows every replica, and `switchover` makes the given one lead, without a broker in between."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, holder, wait_until

NOBODY_LEADS = 1


def command(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a command; return its exit code, output and errors."""
    run = subprocess.run(
        (sys.executable, "-m", "controller", *arguments, "--output", "json"),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return run.returncode, json.loads(run.stdout or "{}"), run.stderr


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


def test_without_a_zookeeper_both_say_so() -> None:
    for arguments in (("status",), ("switchover", "--to", "901")):
        code, _, complaints = command(*arguments, "--zookeeper", "127.0.0.1:1")
        assert code == 3
        assert "127.0.0.1:1" in complaints
