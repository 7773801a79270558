"""Everything secured at once: SASL_SSL, SCRAM and ACLs among brokers, TLS, SASL and ACLs in ZooKeeper.

A user without the right also tries each step, and the ACL of every znode is compared with Kafka's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_port
from tests import secured_zookeeper
from tests.cluster.certificates import Authority
from tests.cluster.replica import holder, wait_until
from tests.cluster.secured import (
    CHROOT,
    Client,
    assert_no_secret_is_shown,
    by_password,
    replica,
    running,
    with_password,
)
from tests.cluster.secured_walk import Walk, allow
from tests.cluster.test_secured_zookeeper import World, expected_of
from tests.secured_zookeeper import SecuredZooKeeper, jaas

pytestmark = pytest.mark.thorough
RELEASED = "/kafka_zk_controller/released"


@pytest.mark.parametrize("version", ["2.4.1", "2.8.2", "3.9.1"])
@pytest.mark.timeout(500)
def test_a_cluster_that_is_secured_throughout_is_led(version: str, tmp_path: Path) -> None:
    authority, secured = Authority(tmp_path / "stores"), SecuredZooKeeper(tmp_path / "secured", client_auth="none")
    over = {"zookeeper.connect": secured.secure + CHROOT, "zookeeper.set.acl": "true"}
    by_version = {} if version == "2.4.1" else secured.brokers_tls()
    brokers = {**by_password(authority, "kafka"), **over, **by_version}
    ours = {**by_password(authority, "controller"), **over, **secured.properties("kafka")}
    at = {"listeners": f"INSIDE://127.0.0.1:{free_port()}"}
    clients = partial(with_password, authority)
    (tmp_path / "stranger").mkdir()
    with running(version, brokers, zookeeper=secured) as cluster, World(cluster, tmp_path, {**ours, **at}) as world:
        wait_until(lambda: holder(world.zookeeper) in (1, 2), "a broker led")
        allow(cluster)
        alice = Client(cluster, tmp_path, "alice", clients("alice"))
        wait_until(lambda: alice.create(cluster.bootstrap_servers, "native").exit_code == 0, "alice was let", 60)
        world.await_led("native")
        native = world.acls()
        stranger = {**ours, **at, "zookeeper.sasl.jaas.config": jaas("other").reveal()}
        nobody_else_takes_over(cluster, World(cluster, tmp_path / "stranger", stranger), world)

        with replica(cluster, tmp_path, ours) as leader:
            leader.await_phase("active", 60)
            wait_until(lambda: "/kafka_zk_controller/replicas/N" in world.acls(), "the replica is shown")
            led = world.acls()
            nobody_else_gives_back(World(cluster, tmp_path / "stranger", stranger), world)
            Walk(cluster, leader, tmp_path, clients).run()
            logged = leader.process.log_file.read_text(errors="replace")
            assert_no_secret_is_shown(leader, tmp_path, logged)
            assert [secret for secret in secured_zookeeper.PASSWORDS.values() if secret in logged] == []
            assert [line for line in leader.complaints() if line["level"] == "error"] == []

        for acls in (native, led, world.acls()):
            assert {kind: acl for kind, acl in acls.items() if acl != expected_of(kind)} == {}
            assert {kind for kind in acls if kind in native and acls[kind] != native[kind]} == set()
        for broker in cluster.brokers.values():
            assert b"NoAuth" not in broker.process.output_since_start()


def nobody_else_takes_over(cluster: LocalCluster, stranger: World, world: World) -> None:
    """A replica with another ZooKeeper identity claims nothing, and says why."""
    before = holder(world.zookeeper), world.acls().keys()
    ran = stranger.tool("run", "--check-cluster")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "does not let this process write /controller_epoch (sasl:kafka may)" in ran.stdout + ran.stderr
    assert (holder(world.zookeeper), world.acls().keys()) == before
    assert cluster.brokers.keys() == {1, 2}


def nobody_else_gives_back(stranger: World, world: World) -> None:
    """A client that may only read cannot release the cluster."""
    before = holder(world.zookeeper)
    ran = stranger.tool("release", "--reason", "a stranger's")
    assert ran.returncode != 0, ran.stdout + ran.stderr
    assert holder(world.zookeeper) == before
    assert RELEASED not in world.acls()  # other kinds are new: a leader records its id after some seconds
