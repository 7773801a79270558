"""What must a controller do on every secured cluster, and what must fail there without the right?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until
from tests.cluster.secured import Client

_ACLS = "kafka.admin.AclCommand"


def allow(cluster: LocalCluster) -> None:
    """Alice may create and delete topics and move partitions; Bob may see topics."""
    on_cluster = ["User:alice", "--cluster"]
    for operation in ("Create", "Alter", "Describe", "AlterConfigs", "DescribeConfigs"):
        on_cluster += ["--operation", operation]
    on_topics = ["User:alice", "--allow-principal", "User:bob", "--operation", "Describe", "--topic", "*"]
    for entry in (on_cluster, on_topics, ["User:alice", "--operation", "Delete", "--topic", "*"]):
        said = cluster.tools.run(
            _ACLS, "--authorizer-properties", f"zookeeper.connect={cluster.zookeeper_connect}", "--add",
            "--allow-principal", *entry,
        )  # fmt: skip
        assert said.exit_code == 0, said.output


def replicas(zookeeper: KazooClient, topic: str) -> Any:
    return json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]


def moved(cluster: LocalCluster, client: Client, address: str, directory: Path) -> tuple[int, str]:
    """Move each partition of `orders` to the other broker, by Kafka's own tool or, if that uses ZooKeeper, ours."""
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        before = replicas(zookeeper, "orders")
    plan = [{"topic": "orders", "partition": int(p), "replicas": [3 - now[0]]} for p, now in before.items()]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    if cluster.version != "2.4.1":
        said = client.run("kafka-reassign-partitions", address, "--reassignment-json-file", str(file), "--execute")
        return said.exit_code, said.output
    to = ["--bootstrap-server", address, "--command-config", str(client.file), "--reassignment-json-file", str(file)]
    command = [sys.executable, "-m", "controller", "reassign", *to, "--execute"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout + ran.stderr


class Walk:
    """A take-over, a topic, a move with a SIGKILL, and the hand-back; Alice may request it, Bob may not."""

    def __init__(
        self, cluster: LocalCluster, ours: Replica, directory: Path, clients: Callable[[str], Mapping[str, Any]]
    ) -> None:
        """`clients` gives a user's properties by name."""
        self.cluster, self.ours, self.directory = cluster, ours, directory
        self.address = f"localhost:{ours.port}"
        self.alice, self.bob = (Client(cluster, directory, name, clients(name)) for name in ("alice", "bob"))

    def run(self) -> None:
        """Walk all of it."""
        with zookeeper_client(self.cluster.zookeeper_connect) as zookeeper:
            wait_until(lambda: holder(zookeeper) == self.ours.broker_id, "we lead")
            allow(self.cluster)
            self.create(zookeeper)
            self.move(zookeeper)
            self.delete(zookeeper)
            self.ours.process.stop()
            wait_until(lambda: holder(zookeeper) in (1, 2), "a broker leads again", 60)
            assert self.alice.create(self.cluster.bootstrap_servers, "later").exit_code == 0

    def create(self, zookeeper: KazooClient) -> None:
        """A topic that gets leaders."""
        refused = self.bob.create(self.address, "orders")
        assert "uthorization failed" in refused.output, refused.output
        assert not zookeeper.exists("/brokers/topics/orders")
        wait_until(lambda: self.alice.create(self.address, "orders").exit_code == 0, "alice was let", 60)

        def has_leaders() -> bool:
            states = (f"/brokers/topics/orders/partitions/{p}/state" for p in range(2))
            return all(zookeeper.exists(s) and json.loads(zookeeper.get(s)[0])["leader"] > 0 for s in states)

        wait_until(has_leaders, "the partitions had leaders")

    def move(self, zookeeper: KazooClient) -> None:
        """Move every partition to the other broker, with a SIGKILL as soon as it is under way; we return and lead."""
        before = replicas(zookeeper, "orders")
        code, text = moved(self.cluster, self.bob, self.address, self.directory)
        assert code, text
        assert "luster authorization failed" in text, text
        assert replicas(zookeeper, "orders") == before
        code, text = moved(self.cluster, self.alice, self.address, self.directory)
        self.ours.process.kill()
        assert code == 0, text
        self.ours.process.start()
        self.ours.await_phase("active", 60)
        expected = {p: [3 - now[0]] for p, now in before.items()}
        wait_until(lambda: replicas(zookeeper, "orders") == expected, "the partitions had moved", 60)

    def delete(self, zookeeper: KazooClient) -> None:
        """Delete the topic, with every replica on disk."""
        args = ["kafka-topics", self.address, "--delete", "--topic", "orders"]
        refused = self.bob.run(*args)
        assert "uthorization failed" in refused.output, refused.output
        assert zookeeper.exists("/brokers/topics/orders")
        assert not zookeeper.exists("/admin/delete_topics/orders")
        assert self.alice.run(*args).exit_code == 0
        wait_until(lambda: not zookeeper.exists("/brokers/topics/orders"), "the topic was gone", 60)
        kept = [name for broker in self.cluster.brokers.values() for name in broker.replicas if name.startswith("ord")]
        assert kept == []
