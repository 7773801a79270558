"""Does our image lead brokers by host name, and does another replica take over when it is killed?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.errors import LabError
from controller.lab.jars import kafka_class_path
from tests.cluster.replica import holder, wait_until
from tests.conformance.adapter_world import someone
from tests.containers import engine
from tests.containers.engine import CLIENT_PORT, Containers

VERSION = "3.9.1"


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[tuple[Containers, str]]:
    """A network, and our image."""
    try:
        kafka_class_path(VERSION)
    except LabError as error:
        pytest.skip(str(error))
    with engine.base_image() as base, engine.our_image(base) as ours:
        started = Containers(tmp_path, base)
        try:
            yield started, ours
        finally:
            started.close()


def state(zookeeper: KazooClient, topic: str) -> dict[str, object]:
    path = f"/brokers/topics/{topic}/partitions/0/state"
    return dict(json.loads(zookeeper.get(path)[0])) if zookeeper.exists(path) else {}


def epoch(zookeeper: KazooClient) -> int:
    return int(zookeeper.get("/controller_epoch")[0])


@pytest.mark.timeout(300)
def test_the_standby_takes_over_from_a_killed_container_and_moves_a_partition(
    containers: tuple[Containers, str],
) -> None:
    started, ours = containers
    server = started.zookeeper("zookeeper")
    with someone(engine.address(server, CLIENT_PORT)) as zookeeper:
        for number in (1, 2):
            started.broker(f"broker{number}", number, "zookeeper", VERSION)
        wait_until(
            lambda: zookeeper.exists("/brokers/ids/1") and zookeeper.exists("/brokers/ids/2"), "both registered", 60
        )
        leading = started.controller("controller901", 901, "zookeeper", ours)
        engine.await_phase(leading, "active")
        standby = started.controller("controller902", 902, "zookeeper", ours)
        engine.await_phase(standby, "standby")
        zookeeper.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1]}}')
        wait_until(lambda: state(zookeeper, "orders").get("leader") == 1, "broker 1 led orders")
        wait_until(lambda: engine.health(leading) == engine.health(standby) == "healthy", "both were healthy", 60)
        before = epoch(zookeeper)

        leading.get_wrapped_container().kill("SIGKILL")
        engine.await_phase(standby, "active")

        # Broker 2 fetches from broker 1, and broker 1 tells the new controller, each by the other's name.
        move = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2]}]}
        zookeeper.create("/admin/reassign_partitions", json.dumps(move).encode())
        wait_until(lambda: not zookeeper.exists("/admin/reassign_partitions"), "the move was over", 60)
        moved = state(zookeeper, "orders")
        assert (moved["leader"], moved["isr"], moved["controller_epoch"]) == (2, [2], before + 1)

        # What the Dockerfile and docs/operations.md say to run in a container, and to end it.
        asked = standby.exec(["kafka-zk-controller", "status"])
        assert (asked.exit_code, b"902" in asked.output) == (0, True), asked.output
        standby.get_wrapped_container().stop(timeout=30)
        assert standby.get_wrapped_container().wait()["StatusCode"] == 0
        wait_until(lambda: holder(zookeeper) in {1, 2}, "a broker's own controller led", 60)
