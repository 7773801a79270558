"""A controller with too new an `inter.broker.protocol.version` leaves the native controller in charge."""

from __future__ import annotations

from pathlib import Path

from controller.demo.waiting import wait_for
from controller.demo.znodes import Znodes
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica


def test_it_says_which_version_the_brokers_understand_and_claims_nothing(
    cluster_2_4: LocalCluster, tmp_path: Path
) -> None:
    with Znodes(cluster_2_4.zookeeper_connect) as znodes:
        native = wait_for(znodes.controller, "a native controller")
        epoch = znodes.controller_epoch()
        with Replica(cluster_2_4.zookeeper_connect, tmp_path, inter_broker_protocol_version="3.9") as replica:
            (error,) = wait_for(lambda: replica.complaints() or None, "an error in its log")

            assert error["event"] == "this replica must not lead this cluster; it is looked at again"
            assert "inter.broker.protocol.version=3.9-IV0" in error["reason"]
            assert "the newest that all of them understand is 2.5" in error["reason"]
            assert (replica.phase, replica.leader()["is_ready"]) == ("standby", False)
        assert (znodes.controller(), znodes.controller_epoch()) == (native, epoch)
