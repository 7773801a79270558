"""Each mistake that would cost the cluster a working controller is found before the claim, and reported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from controller.demo.waiting import wait_for
from controller.demo.znodes import Znodes
from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, wait_until

REFUSAL = "this replica must not lead this cluster; it is looked at again"
FIRST_ID = 911


def wrong_starts(cluster: LocalCluster) -> dict[str, tuple[dict[str, object], tuple[str, ...]]]:
    """By name: the wrong settings, and the expected message."""
    broker = cluster.brokers[1]
    inside = free_port()
    unused = free_port()
    return {
        "chroot": (
            {"zookeeper.connect": f"{cluster.zookeeper_connect}/kafak"},
            ("no Kafka cluster is at", "/kafak: the chroot does not exist", "one is at /", "--new-cluster"),
        ),
        "listener": (
            {
                "listeners": f"INSIDE://127.0.0.1:{inside}",
                "listener.security.protocol.map": "INSIDE:PLAINTEXT",
                "inter.broker.listener.name": "INSIDE",
            },
            ("no broker has a listener INSIDE; brokers 1, 2, 3 have PLAINTEXT", "inter.broker.listener.name"),
        ),
        "address": (
            {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{unused}"},
            (f"this process is not reached at PLAINTEXT://127.0.0.1:{unused}", "advertised.listeners"),
        ),
        "address of a broker": (
            {"advertised.listeners": f"PLAINTEXT://{broker.address}"},
            (f"PLAINTEXT://{broker.address} is the address of broker 1, not of this process",),
        ),
        "protocol": (
            {"inter.broker.protocol.version": "2.8"},
            ("inter.broker.protocol.version=2.8-IV1 is older than on every broker", "set it to 3.9-IV0"),
        ),
        "rack": (
            {"broker.rack": "a"},
            ("brokers 1, 2, 3 have no broker.rack, and this process has a", "remove broker.rack"),
        ),
    }


@pytest.fixture
def started_wrongly(cluster_3_9: LocalCluster, tmp_path: Path) -> Iterator[dict[str, tuple[Replica, tuple[str, ...]]]]:
    """A replica for each mistake, all at once."""
    with ExitStack() as stack:
        found = {}
        for number, (name, (settings, said)) in enumerate(wrong_starts(cluster_3_9).items(), FIRST_ID):
            directory = tmp_path / str(number)
            directory.mkdir()
            more = {**settings, "new_cluster": False}
            replica = Replica(cluster_3_9.zookeeper_connect, directory, number, **more)
            found[name] = stack.enter_context(replica), said
        yield found


def says_why(replica: Replica, said: tuple[str, ...]) -> bool:
    """Whether it stands by, and log, `/readyz` and `/leader` say what is wrong, the log only once."""
    reasons = [record["reason"] for record in replica.complaints() if record["event"] == REFUSAL]
    status, text = replica.get("/readyz")
    leader = replica.leader()
    # On a busy machine a broker may lose its session, or answer too late, which is then reported first.
    if not (reasons and all(part in reasons[-1] and part in text and part in leader["reason"] for part in said)):
        return False
    assert all(before != after for before, after in pairwise(reasons))
    assert (status, leader["phase"], leader["is_leader"], leader["is_ready"]) == (503, "standby", False, False)
    return True


@pytest.mark.timeout(120)
def test_a_wrong_start_says_what_is_wrong_and_the_native_controller_goes_on(
    cluster_3_9: LocalCluster, started_wrongly: dict[str, tuple[Replica, tuple[str, ...]]]
) -> None:
    with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
        ours = zookeeper.exists("/kafka_zk_controller")  # of a former test, if any
    with Znodes(cluster_3_9.zookeeper_connect) as znodes:
        for name, (replica, said) in started_wrongly.items():
            wait_until(partial(says_why, replica, said), f"the wrong {name} was found")

        admin = KafkaAdminClient(bootstrap_servers=cluster_3_9.brokers[2].address)
        admin.create_topics([NewTopic("after-wrong-starts", 3, 2)])
        admin.close()
        native = wait_for(znodes.controller, "a native controller")  # on a busy machine another broker's than before
        assert native.broker in cluster_3_9.brokers
        for name, (replica, said) in started_wrongly.items():
            wait_until(partial(says_why, replica, said), f"the wrong {name} was still found")
            assert not [record for record in replica.log() if "contending" in str(record["event"])]
    with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
        assert zookeeper.exists("/kafak") is None
        assert zookeeper.exists("/kafka_zk_controller") == ours


def check_cluster(cluster: LocalCluster, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run `run --check-cluster` to its end."""
    given = (
        f"zookeeper.connect={cluster.zookeeper_connect}",
        "broker.id=921",
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
        "inter.broker.protocol.version=3.9",
        *settings,
    )
    argv = [sys.executable, "-m", "controller", "run", "--check-cluster", *(f"--set={text}" for text in given)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_the_check_on_the_command_line_says_the_same_with_an_exit_code(cluster_3_9: LocalCluster) -> None:
    good = check_cluster(cluster_3_9)
    bad = check_cluster(
        cluster_3_9, "inter.broker.protocol.version=2.8", "advertised.listeners=PLAINTEXT://127.0.0.1:1"
    )

    print(good.stdout, bad.stdout)  # noqa: T201
    assert (good.returncode, good.stderr) == (0, "")
    assert "brokers 1, 2, 3 answer on listener PLAINTEXT" in good.stdout
    assert "this replica may lead this cluster\n" in good.stdout
    assert bad.returncode == 1
    assert "is older than on every broker" in bad.stdout
    assert "this process is not reached at PLAINTEXT://127.0.0.1:1" in bad.stdout
    with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
        assert not zookeeper.exists("/brokers/ids/921")
