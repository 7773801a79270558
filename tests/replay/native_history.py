"""Real work under Kafka's own controller, and the files ZooKeeper keeps of it.

`python -m tests.replay.native_history 2.4.1` makes the fixtures in tests/fixtures/native anew; each file is gzipped
without its preallocated tail.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaConnectionError, KafkaError
from kazoo.client import KazooClient

from controller.demo.waiting import wait_for
from controller.lab.cluster import ClusterSettings, LocalCluster
from zk_layout.znodes import topics

FIXTURES = Path(__file__).parents[1] / "fixtures" / "native"
CHROOTS = {"2.8.2": "/kafka"}
PARTITIONS = 4
RECORDS = 400
RECORD = b"x" * 8_000


class Work:
    """What is done to the cluster, step by step; each waits until the controller is through with it."""

    def __init__(self, cluster: LocalCluster, zookeeper: KazooClient, say: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.zookeeper = zookeeper
        self.say = say

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.ruler(), request_timeout_ms=60_000)

    def all_of_it(self) -> None:
        for step in (
            self.create, self.fill, self.set_min_isr, self.move_by_api, self.cancel, self.move_by_znode,
            self.restart_zookeeper, self.crash_a_broker, self.elect_preferred, self.restart_a_broker,
            self.elect_by_znode, self.move_across_a_crash, self.delete, self.fail_over, self.move_after,
            self.set_min_isr_back,
        ):  # fmt: skip
            self.say(step.__name__)
            step()

    # ---- the steps ------------------------------------------------------------------------------------------

    def create(self) -> None:
        plan = {p: [1 + p % 3, 1 + (p + 1) % 3] for p in range(PARTITIONS)}
        admin = self.admin()
        admin.create_topics(
            {
                "orders": {"assignments": plan},
                "payments": {"assignments": {0: [1, 2, 3], 1: [2, 3, 1]}, "configs": {"min.insync.replicas": "2"}},
                "gone": {"assignments": {0: [1, 2], 1: [3, 1]}},
            }
        )  # fmt: skip
        admin.create_partitions({"payments": {"count": 3, "assignments": [[3, 1, 2]]}})
        admin.close()
        self.await_whole("orders", "payments", "gone")

    def fill(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.cluster.bootstrap_servers, acks="all")
        for number in range(RECORDS):
            producer.send("orders", RECORD, partition=number % PARTITIONS)
        producer.flush()
        producer.close()

    def set_min_isr(self) -> None:
        self.configure("orders", "1")

    def set_min_isr_back(self) -> None:
        self.configure("payments", "3")

    def configure(self, topic: str, min_isr: str) -> None:
        admin = self.admin()
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"min.insync.replicas": min_isr})])
        admin.close()

    def move_by_api(self) -> None:
        self.ask({TopicPartition("orders", p): [1 + (p + 2) % 3, 1 + (p + 1) % 3] for p in range(PARTITIONS)})
        self.await_whole("orders")

    def cancel(self) -> None:
        """A move onto a broker that has just died, cancelled."""
        at, victim = TopicPartition("gone", 0), self.bystander()
        stay = [b for b in (1, 2, 3) if b != victim]
        self.ask({at: stay})
        self.await_whole("gone")
        self.cluster.brokers[victim].kill()
        self.ask({at: [victim, stay[0]]})
        wait_for(lambda: self.is_moving("gone"), "the move has begun")
        wait_for(lambda: self.brokers() == 2, f"broker {victim} has gone")
        self.ask({at: None})
        wait_for(lambda: not self.is_moving("gone"), "the move was cancelled")
        self.back(victim)

    def move_by_znode(self) -> None:
        moves = [{"topic": "orders", "partition": p, "replicas": [1 + (p + 1) % 3, 1 + p % 3]} for p in range(2)]
        self.submit("/admin/reassign_partitions", {"version": 1, "partitions": moves})
        self.await_whole("orders")

    def restart_zookeeper(self) -> None:
        """Begins a new log behind a new snapshot."""
        self.cluster.zookeeper.restart()
        wait_for(lambda: self.zookeeper.connected and self.brokers() == 3, "all brokers are back in ZooKeeper")
        self.admin().close()

    def crash_a_broker(self) -> None:
        victim = self.bystander()
        self.cluster.brokers[victim].kill()
        wait_for(lambda: self.brokers() == 2, f"broker {victim} has gone")
        self.await_leaders()
        self.back(victim)

    def elect_preferred(self) -> None:
        admin = self.admin()
        admin.elect_leaders(0, {"payments": [0, 1, 2]}, raise_errors=False)
        admin.close()

    def restart_a_broker(self) -> None:
        victim = self.bystander()
        self.cluster.brokers[victim].stop()
        wait_for(lambda: self.brokers() == 2, f"broker {victim} has gone")
        self.back(victim)

    def elect_by_znode(self) -> None:
        entries = [{"topic": "orders", "partition": p} for p in range(PARTITIONS)]
        self.submit("/admin/preferred_replica_election", {"version": 1, "partitions": entries})

    def move_across_a_crash(self) -> None:
        """The target dies before the move and comes back during it."""
        at, victim = TopicPartition("gone", 1), self.bystander()
        stay = [b for b in (1, 2, 3) if b != victim]
        self.ask({at: stay})
        self.await_whole("gone")
        self.cluster.brokers[victim].kill()
        self.ask({at: [victim, stay[1]]})
        self.back(victim)

    def delete(self) -> None:
        admin = self.admin()
        admin.delete_topics(["gone"])
        admin.close()
        wait_for(lambda: not self.zookeeper.exists("/brokers/topics/gone"), "the topic is gone")

    def fail_over(self) -> None:
        victim = self.controller()
        assert victim is not None
        self.cluster.brokers[victim].kill()
        wait_for(lambda: self.controller() not in (victim, None), "another broker leads")
        self.await_leaders()
        self.back(victim)

    def move_after(self) -> None:
        self.ask({TopicPartition("payments", p): [3, 2, 1] for p in range(3)})
        self.ask({TopicPartition("orders", p): [1 + p % 3, 1 + (p + 1) % 3] for p in range(PARTITIONS)})
        self.await_whole("orders", "payments")

    # ---- asking and waiting ---------------------------------------------------------------------------------

    def ask(self, wanted: dict[TopicPartition, list[int] | None]) -> None:
        """Asks again where the client fell upon a broker that has died."""

        def answer() -> dict[TopicPartition, type[KafkaError] | None] | None:
            try:
                admin = self.admin()
                try:
                    return dict(admin.alter_partition_reassignments(wanted))
                finally:
                    admin.close()
            except KafkaConnectionError:
                return None

        errors = wait_for(answer, "an answer to the reassignment")
        assert not any(errors.values()), errors

    def submit(self, path: str, value: object) -> None:
        self.zookeeper.create(path, msgspec.json.encode(value))
        wait_for(lambda: not self.zookeeper.exists(path), f"{path} was worked off", timeout_s=120)

    def ruler(self) -> str:
        return self.cluster.brokers[wait_for(self.controller, "a controller")].address

    def bystander(self) -> int:
        """A broker that does not rule."""
        return max(b for b in (1, 2, 3) if b != self.controller())

    def back(self, victim: int) -> None:
        self.cluster.brokers[victim].restart()
        self.cluster.brokers[victim].wait_until_registered()
        self.await_whole(*(t for t in ("orders", "payments", "gone") if self.zookeeper.exists(f"/brokers/topics/{t}")))

    def controller(self) -> int | None:
        if not self.zookeeper.exists("/controller"):
            return None
        return int(msgspec.json.decode(self.zookeeper.get("/controller")[0])["brokerid"])

    def brokers(self) -> int:
        return len(self.zookeeper.get_children("/brokers/ids"))

    def is_moving(self, topic: str) -> bool:
        return any(
            a.is_moving for a in topics.decode(self.zookeeper.get(f"/brokers/topics/{topic}")[0]).partitions.values()
        )

    def states(self, topic: str) -> list[tuple[tuple[int, ...], dict[str, object]]]:
        assignments = topics.decode(self.zookeeper.get(f"/brokers/topics/{topic}")[0]).partitions
        path = f"/brokers/topics/{topic}/partitions"
        return [
            (a.replicas, msgspec.json.decode(self.zookeeper.get(f"{path}/{p}/state")[0]))
            for p, a in assignments.items()
            if self.zookeeper.exists(f"{path}/{p}/state")
        ]

    def await_whole(self, *names: str) -> None:
        """Until nothing moves and all replicas are in sync."""

        def is_whole() -> bool:
            return all(
                not self.is_moving(name)
                and (states := self.states(name))
                and all(set(replicas) == set(state["isr"]) for replicas, state in states)  # type: ignore[call-overload]
                for name in names
            )

        wait_for(is_whole, f"{', '.join(names)} whole", timeout_s=180)

    def await_leaders(self) -> None:
        """Until each leader is a broker that runs."""

        def has_leaders() -> bool:
            running = {int(b) for b in self.zookeeper.get_children("/brokers/ids")}
            return all(s["leader"] in running for t in ("orders", "payments") for _, s in self.states(t))

        wait_for(has_leaders, "live leaders everywhere", timeout_s=120)


def main(version: str, out: Path = FIXTURES) -> None:
    chroot = CHROOTS.get(version, "")
    with LocalCluster(
        ClusterSettings(version=version, chroot=chroot, overrides={"zookeeper.session.timeout.ms": 10_000}),
        progress=_say,
    ) as cluster:
        zookeeper = KazooClient(cluster.zookeeper_connect)
        zookeeper.start(timeout=60)
        try:
            Work(cluster, zookeeper, _say).all_of_it()
        finally:
            zookeeper.stop()
        cluster.zookeeper.restart()
        keep(cluster.directory / "zookeeper" / "version-2", out / f"kafka-{version}")


def keep(data: Path, out: Path) -> None:
    """The logs and the snapshots, gzipped; always the same bytes for the same files."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(data.iterdir()):
        if file.name.startswith(("log.", "snapshot.")):
            whole = file.read_bytes()
            body = whole.rstrip(b"\0") if file.name.startswith("log.") else whole
            # A record ends with its mark; a log with some zeros is as ZooKeeper leaves it.
            tail = bytes(min(64, len(whole) - len(body)))
            (out / f"{file.name}.gz").write_bytes(gzip.compress(body + tail, 9, mtime=0))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
