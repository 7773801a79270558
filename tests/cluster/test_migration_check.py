"""`kafka-zk-controller migration --check` on real brokers: traps that are planted are found, and nothing is written."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from tests.cluster.replica import create_topic

STALE = b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":5,"kraft_metadata_offset":812,'
STALE += b'"kraft_metadata_epoch":5}'
OURS = b'{"version":4,"endpoints":["PLAINTEXT://127.0.0.1:1"],"host":"127.0.0.1","port":1,"jmx_port":-1,'
OURS += b'"product":"kafka-zk-controller"}'


def check(cluster: LocalCluster, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the gravest finding of each trap."""
    run = subprocess.run(
        (sys.executable, "-m", "controller", "migration", "--check", "--zookeeper", cluster.zookeeper_connect,
         "--output", "json", *options),
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert run.stdout, run.stderr
    order = ("ok", "unknown", "warning", "stop")
    found: list[dict[str, Any]] = json.loads(run.stdout)["findings"]
    return run.returncode, {f["trap"]: f for f in sorted(found, key=lambda f: order.index(f["result"]))}


@contextmanager
def planted(zk: KazooClient, path: str, data: bytes) -> Iterator[None]:
    """A znode exists meanwhile."""
    zk.create(path, data)
    yield
    zk.delete(path)


def test_what_is_planted_on_real_brokers_is_found(cluster_3_9: LocalCluster, zk: KazooClient) -> None:
    topic = f"to-migrate-{time.monotonic_ns()}"
    create_topic(zk, topic)
    before = zk.get_children("/"), zk.get("/controller"), zk.get("/controller_epoch")

    _, sound = check(cluster_3_9, "--quorum-ids", "3000,3001")

    assert {t: f["text"] for t, f in sound.items() if t in ("protocol", "settings", "control-plane", "authorizer")} == {
        "protocol": "which release of Kafka brokers and KRaft controllers run is not reported",
        "settings": "no broker has zookeeper.metadata.migration.enable yet",
        "control-plane": "no broker has control.plane.listener.name",
        "authorizer": "no broker has an authorizer",
    }
    for trap in ("migration-znode", "own-replicas", "brokers", "node-ids", "reserved-ids", "log-directories"):
        assert sound[trap]["result"] == "ok", sound[trap]
    assert (zk.get_children("/"), zk.get("/controller"), zk.get("/controller_epoch")) == before

    with planted(zk, "/migration", STALE), planted(zk, "/brokers/ids/901", OURS):
        code, found = check(cluster_3_9, "--quorum-ids", "2,901")

    assert code == 1
    assert {t: found[t]["result"] for t in ("migration-znode", "own-replicas", "node-ids")} == {
        "migration-znode": "stop",
        "own-replicas": "warning",
        "node-ids": "stop",
    }
    assert "2 is the id of a broker; 901 is the id of a replica" in found["node-ids"]["text"]
