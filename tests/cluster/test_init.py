"""`init` beside a real broker: a replica starts with what it wrote, and checking it while it runs is no error."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.demo.waiting import wait_for
from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_ports
from controller.lab.process import Process
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import OLD_AND_NEW


def ask(*arguments: str) -> Result:
    """Run a command to its end."""
    return CliRunner().invoke(main, arguments)


def made(out: Path, port: int, asked: str) -> int:
    """The id in a file that `init` has written, with nothing left to do."""
    answer = ask("init", asked, f"--out={out}", f"--port={port}", "--output=json")
    assert answer.exit_code == 0, answer.output
    report = json.loads(answer.stdout)
    assert report["problems"] == report["warnings"] == report["secrets"] == []
    return int(report["broker_id"])


def test_what_init_writes_may_lead_and_is_checked_beside_the_replica_that_runs_with_it(
    cluster_3_9: LocalCluster, tmp_path: Path
) -> None:
    out, (port, http_port) = tmp_path / "controller.properties", free_ports(2)
    asked = f"--server-properties={cluster_3_9.brokers[1].data_dir / 'server.properties'}"
    number = made(out, port, asked)
    settings = (f"--config={out}", f"--set=http.port={http_port}", "--set=controller.takeover=when-vacant")
    before = ask("run", *settings, "--check-cluster")
    assert before.exit_code == 0, before.output
    assert f"{number} is free" in before.stdout

    replica = Process("replica", [sys.executable, "-m", "controller", "run", *settings], tmp_path / "replica.log")
    replica.start()
    try:
        with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
            path = f"/kafka_zk_controller/replicas/{number}"
            wait_for(lambda: zookeeper.exists(path), "the replica announces itself", timeout_s=60)
        beside = ask("run", *settings, "--check-cluster")
        another = ask("run", *settings, "--check-cluster", f"--set=http.port={http_port + 1}")
        second = made(tmp_path / "second.properties", port, asked)
    finally:
        replica.stop()

    assert beside.exit_code == 0, beside.output
    assert f"{number} is the id of this replica, which runs already: standby since" in beside.stdout
    assert f"a process, as it seems the replica that runs, answers at PLAINTEXT://127.0.0.1:{port}" in beside.stdout
    assert another.exit_code == 1
    assert f"{number} is the id of a replica of this controller at" in another.stdout
    assert second == number + 1


@pytest.mark.thorough
@OLD_AND_NEW
def test_a_broker_that_is_asked_says_the_same_as_its_file(cluster: LocalCluster, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    broker = cluster.brokers[1]
    of_broker, of_file = tmp_path / "1.properties", tmp_path / "2.properties"

    made(of_broker, port, f"--bootstrap-server={broker.address}")
    made(of_file, port, f"--server-properties={broker.data_dir / 'server.properties'}")

    texts = [
        [line for line in path.read_text().splitlines() if line[:1] not in ("", "#")] for path in (of_broker, of_file)
    ]
    assert texts[0] == texts[1]
    assert f"zookeeper.connect={cluster.zookeeper_connect}" in texts[0]
    assert ask("run", f"--config={of_broker}", "--check-cluster").exit_code == 0
