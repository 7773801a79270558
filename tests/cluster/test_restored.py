"""ZooKeeper is restored from an older copy of its data: the controller continues from it without a restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.lab.errors import LabError
from controller.lab.zookeeper import ZooKeeperServer, zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until

OWN_ID = 901
VERSIONS = "version-2"
"""ZooKeeper's folder of snapshots and logs."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server that the test may stop."""
    try:
        made = ZooKeeperServer(tmp_path / "zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    with made:
        yield made


def replace_data(server: ZooKeeperServer, copy: Path) -> None:
    shutil.rmtree(server.data_dir / VERSIONS)
    shutil.copytree(copy, server.data_dir / VERSIONS)


@pytest.mark.parametrize("holds_our_claim", [True, False])
def test_the_process_leads_again_after_zookeeper_was_restored_from_an_older_copy(
    server: ZooKeeperServer, tmp_path: Path, holds_our_claim: bool
) -> None:
    copy = tmp_path / "copy"
    if not holds_our_claim:
        with zookeeper_client(server.connect) as zk:
            zk.ensure_path("/kept")
        server.stop()
        shutil.copytree(server.data_dir / VERSIONS, copy)
        server.start()
    with Replica(server.connect, tmp_path, OWN_ID) as replica:
        replica.await_phase("active")
        if holds_our_claim:
            server.stop()
            shutil.copytree(server.data_dir / VERSIONS, copy)
            server.start()
        with zookeeper_client(server.connect) as zk:
            for number in range(50):
                zk.create(f"/later-{number}")
            # The process must have seen a later zxid than the copy's: wait until it is back, and answers.
            request = "/admin/delete_topics/of-no-topic"
            zk.create(request)
            wait_until(lambda: zk.exists(request) is None, "the leader took the request away")
            pid, epoch = replica.process.pid, int(zk.get("/controller_epoch")[0])
        began = replica.log_size()

        server.stop()
        replace_data(server, copy)
        server.start()

        # From the log: it may lead again before anybody looks.
        wait_until(
            lambda: any(record["event"] == "active → standby" for record in replica.log(began)),
            "it knows that its session is over",
            60.0,
        )
        replica.await_phase("active", 60.0)
        with zookeeper_client(server.connect) as zk:
            assert not zk.exists("/later-0")
            assert holder(zk) == OWN_ID
            assert int(zk.get("/controller_epoch")[0]) <= epoch + 1
            assert json.loads(zk.get(f"/brokers/ids/{OWN_ID}")[0])["port"]
        assert replica.process.pid == pid
        assert any("a restore from an older copy" in str(record) for record in replica.log(began))
