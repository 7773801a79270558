"""Brokers get an authorizer by a rolling restart, and their leader has none: no client gains rights by that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.lab.cluster import LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until
from tests.cluster.test_rights_of_principals import (
    CLOSED,
    LISTENER,
    NO_ARRAY,
    NOTHING,
    NUMBER,
    SETTINGS,
    Api,
    answers,
    array,
    compact,
    configs,
    running,
    text,
)

AUTHORIZER = ("authorizer.class.name", "super.users")
OPEN = {key: value for key, value in SETTINGS.items() if key not in AUTHORIZER}
CREATION = Api("CreateTopics", 19, 4, array(text("a-new") + b"\0\0\0\1\0\1" + array() + array()) + NUMBER + b"\1")
OF_CONTROLLER = [
    CREATION,
    Api("DeleteTopics", 20, 1, array(text("a")) + NUMBER),
    Api("CreatePartitions", 37, 1, array(text("a") + b"\0\0\0\3" + NO_ARRAY) + NUMBER + b"\0"),
    Api("AlterPartitionReassignments", 45, 0, NUMBER + b"\2" + compact("a") + b"\2" + bytes(4) + bytes(4), "2.4", True),
    Api("ListPartitionReassignments", 46, 0, NUMBER + b"\0\0", "2.4", is_flexible=True),
]
OF_ANY_NODE = [
    Api("CreateAcls", 30, 1, array(b"\2" + text("*") + b"\3" + text("User:nobody") + text("*") + b"\2\3")),
    Api("DescribeAcls", 29, 1, b"\2" + NOTHING + b"\1" + NOTHING + NOTHING + b"\1\1"),
    Api("Metadata", 3, 8, NO_ARRAY + b"\0\0\0"),
    *configs((2, "a")),
]
TOPIC_REFUSED, CLUSTER_REFUSED = [29], [31]


@pytest.fixture
def open_cluster() -> Iterator[LocalCluster]:
    try:
        with running("3.9.1", OPEN) as cluster:
            yield cluster
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))


@pytest.mark.timeout(300)
def test_a_leader_without_authorizer_refuses_clients_of_brokers_that_get_one_and_then_hands_back(
    open_cluster: LocalCluster, tmp_path: Path
) -> None:
    port = free_port()
    at = {"listeners": f"{LISTENER}://127.0.0.1:{port}"}
    with (
        zookeeper_client(open_cluster.zookeeper_connect) as zookeeper,
        Replica(open_cluster.zookeeper_connect, tmp_path, new_cluster=False, **{**OPEN, **at}) as ours,
    ):
        ours.port = port
        ours.await_phase("active")
        made = Api("CreateTopics", 19, 4, array(text("a") + b"\0\0\0\1\0\1" + array() + array()) + NUMBER + b"\0")
        assert answers(ours.address, "nobody", [made, CREATION, *OF_ANY_NODE[2:]]) == [[]] * 6
        assert ours.measure("clients_refused") == 0

        first, second = open_cluster.brokers.values()
        for broker in (first, second):
            broker.properties.update({key: SETTINGS[key] for key in AUTHORIZER})
        first.stop()
        first.start()
        wait_until(lambda: ours.measure("clients_refused") == 1, "clients were refused")
        assert ours.phase == "active"
        refusals = answers(ours.address, "nobody", OF_CONTROLLER)
        assert refusals == [TOPIC_REFUSED] * 3 + [CLUSTER_REFUSED * len(refusals[3])] + [CLUSTER_REFUSED]
        assert answers(ours.address, "nobody", OF_ANY_NODE) == [CLOSED] * len(OF_ANY_NODE)
        assert any("this process has none" in line for line in ours.leader()["warnings"])

        second.stop()  # with a controlled shutdown, which it requests from its controller
        assert ours.measure("requests_total", api="ControlledShutdown (7)") >= 1
        second.start()
        wait_until(lambda: holder(zookeeper) in open_cluster.brokers, "a broker led")
        status, reason = ours.get("/readyz")
        assert (status, "this process has none" in reason) == (503, True)
        for api in (*OF_CONTROLLER, *OF_ANY_NODE):
            (refused,) = answers(ours.address, "nobody", [api])
            assert refused in (CLOSED, []), api  # NOT_CONTROLLER is no missing right
        assert zookeeper.exists("/brokers/topics/a-new") is None
        assert b"User:nobody" not in zookeeper.get("/kafka-acl/Topic/*")[0]
        errors = [line["event"] for line in ours.log() if line["level"] == "error"]
        assert errors[0] == "refusing clients' requests; brokers are still served"
