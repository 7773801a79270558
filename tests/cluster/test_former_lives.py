"""Does a replica join the ISR because of records that only a former life of its broker had?

The leader finds that a follower has caught up and requests its addition, but the request is delayed. The follower's
broker dies meanwhile, loses its log, and returns; then the request arrives, and the leader dies. Under Kafka's own
controller 3.9.1 the follower then leads, and every acknowledged record is gone.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.demo.clients import KafkaConsumer, KafkaProducer, TopicPartition
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, content, wait_until

ALTER_PARTITION = 56
RECORDS = 200
LEADER, FOLLOWER = 1, 2


class Hold:
    """A port in front of another, which can hold back leaders' ISR requests."""

    def __init__(self) -> None:
        self.port, self.target = free_port(), 0
        self.flows = threading.Event()
        self.flows.set()
        self.has_kept_an_isr_change = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._open = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                self._open.append(far)
                threading.Thread(target=self._send_on, args=(near, far), daemon=True).start()
                threading.Thread(target=self._send_back, args=(far, near), daemon=True).start()

    def _send_on(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                if not self.flows.is_set() and int.from_bytes(data[4:6], "big") == ALTER_PARTITION:
                    self.has_kept_an_isr_change.set()
                    self.flows.wait()
                far.sendall(data)

    @staticmethod
    def _send_back(far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)

    def close(self) -> None:
        """Release the held requests, and close all connections."""
        self.flows.set()
        for opened in self._open:
            with contextlib.suppress(OSError):
                opened.close()


@pytest.fixture
def hold() -> Iterator[Hold]:
    made = Hold()
    yield made
    made.close()


def state(zk: KazooClient) -> dict[str, object]:
    return content(zk, "/brokers/topics/orders/partitions/0/state")


def produce(cluster: LocalCluster, numbers: range) -> None:
    """Produce records, each acknowledged by all in-sync replicas."""
    producer = KafkaProducer(bootstrap_servers=cluster.brokers[LEADER].address, acks="all", retries=0)
    for sent in [producer.send("orders", str(n).encode(), partition=0) for n in numbers]:
        sent.get(30)
    producer.close()


def read(cluster: LocalCluster) -> set[int]:
    at = TopicPartition("orders", 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster.brokers[FOLLOWER].address, consumer_timeout_ms=5000)
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    found = {int(record.value) for record in consumer}
    consumer.close()
    return found


def live_through(cluster: LocalCluster, hold: Hold, zk: KazooClient) -> None:
    """Until the request of the former life has arrived and the leader has died."""
    leader, follower = cluster.brokers[LEADER], cluster.brokers[FOLLOWER]
    zk.create("/brokers/topics/orders", json.dumps({"version": 1, "partitions": {"0": [LEADER, FOLLOWER]}}).encode())
    wait_until(lambda: state(zk).get("isr") == [LEADER, FOLLOWER], "both were in sync")
    time.sleep(1.0)
    produce(cluster, range(RECORDS // 2))
    follower.kill()
    wait_until(lambda: state(zk).get("isr") == [LEADER], "the follower had left the ISR")
    produce(cluster, range(RECORDS // 2, RECORDS))
    hold.flows.clear()
    follower.start()
    assert hold.has_kept_an_isr_change.wait(30), "the leader asked for its follower"
    assert state(zk)["isr"] == [LEADER]
    follower.kill()
    wait_until(lambda: not zk.exists(f"/brokers/ids/{FOLLOWER}"), "the follower had gone")
    time.sleep(2.0)
    shutil.rmtree(follower.log_dir)
    leader.process.signal(signal.SIGSTOP)  # so that the log is not copied again at once
    follower.start()
    time.sleep(2.0)
    hold.flows.set()
    time.sleep(3.0)
    leader.kill()
    wait_until(lambda: not zk.exists(f"/brokers/ids/{LEADER}"), "the leader had gone", 60.0)
    wait_until(lambda: state(zk)["leader"] != LEADER, "the partition had another leader, or none")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two brokers; the leader's session survives its pause."""
    with contextlib.ExitStack() as stack:
        made = LocalCluster(ClusterSettings(broker_ids=(LEADER, FOLLOWER)))
        made.brokers[LEADER].properties["zookeeper.session.timeout.ms"] = 30_000
        stack.callback(made.stop)
        made.start()
        yield made


def test_a_replica_that_a_former_life_had_in_sync_does_not_lead_without_what_was_acknowledged(
    cluster: LocalCluster, hold: Hold, tmp_path: Path
) -> None:
    with (
        zookeeper_client(cluster.zookeeper_connect) as zk,
        Replica(cluster.zookeeper_connect, tmp_path, advertised_listeners=f"PLAINTEXT://127.0.0.1:{hold.port}") as ours,
    ):
        hold.target = ours.port
        ours.await_phase("active")
        live_through(cluster, hold, zk)
        assert state(zk)["isr"] == [LEADER]
        cluster.brokers[LEADER].start()
        wait_until(lambda: state(zk)["leader"] == LEADER, "the leader led again")
        wait_until(lambda: state(zk)["isr"] == [LEADER, FOLLOWER], "the follower was in sync again")
        assert read(cluster) == set(range(RECORDS))
