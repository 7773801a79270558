"""Brokers with `zookeeper.set.acl` are led by us as by themselves, and can write whatever they find in ZooKeeper.

What each znode grants is compared with what the same znode grants in the same cluster led by its own controllers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_port
from controller.settings.security import ZooKeeperSecurity
from controller.zk.client import client_of
from tests.cluster.replica import Replica, holder, wait_until
from tests.cluster.secured import CHROOT
from tests.secured_zookeeper import DIGEST_MODULE, PASSWORDS, STORE_PASSWORD, SecuredZooKeeper, jaas

ALL, READ = 31, 1
MINE, READERS, ANYONE = ("sasl", "kafka", ALL), ("world", "anyone", READ), ("world", "anyone", ALL)
Acls = Mapping[str, frozenset[tuple[str, str, int]]]


@contextmanager
def running(version: str, secured: SecuredZooKeeper, settings: Mapping[str, object]) -> Iterator[LocalCluster]:
    """Two brokers that log in at ZooKeeper as `kafka`."""
    wanted = ClusterSettings(
        version=version,
        broker_ids=(1, 2),
        chroot=CHROOT,
        overrides={"zookeeper.set.acl": "true", **settings},
        java_options=(*SMALL_SERVER, secured.brokers_login()),
        zookeeper=secured.settings,
    )
    try:
        cluster = LocalCluster(wanted)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


class World:
    """A cluster, whoever leads it; our own processes and tools have the same file."""

    def __init__(self, cluster: LocalCluster, directory: Path, settings: Mapping[str, object]) -> None:
        self.cluster = cluster
        self.directory = directory
        self.settings = {"zookeeper.connect": cluster.zookeeper_connect, **settings}
        self.file = directory / "tools.properties"
        own = {"broker.id": 950, "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}", "http.port": 0}
        self.file.write_text("".join(f"{key}={value}\n" for key, value in {**own, **self.settings}.items()))
        self.zookeeper = client_of(cluster.zookeeper_connect, ZooKeeperSecurity(jaas=jaas("kafka")))

    def __enter__(self) -> Self:
        self.zookeeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.zookeeper.stop()
        self.zookeeper.close()

    def replica(self, number: int, **other: object) -> Replica:
        protocol = self.cluster.version.rpartition(".")[0]
        more = {"inter.broker.protocol.version": protocol, "log.level": "debug", "new_cluster": False}
        journal = {"journal.dir": self.directory / f"journal-{number}"}
        settings: Mapping[str, Any] = {**self.settings, **more, **journal, **other}
        return Replica(self.cluster.zookeeper_connect, self.directory, number, **settings)

    def tool(self, command: str, *args: str) -> subprocess.CompletedProcess[str]:
        """One of ours, with the same security as the daemon."""
        argv = [sys.executable, "-m", "controller", command, "--config", str(self.file), *args]
        return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)

    def topics(self, address: str, *args: str) -> None:
        said = self.cluster.tools.run("kafka-topics", "--bootstrap-server", address, *args)
        assert said.exit_code == 0, said.output

    def works(self, address: str, name: str) -> None:
        """Topics are created, one is deleted, and one is moved."""
        for topic in (name, f"{name}-gone"):
            self.topics(address, "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
        self.await_led(name)
        self.topics(address, "--delete", "--topic", f"{name}-gone")
        gone = f"/brokers/topics/{name}-gone"
        wait_until(lambda: self.zookeeper.exists(gone) is None, "the topic was gone", 60)
        self.moves(name)

    def await_led(self, name: str) -> None:
        def is_led() -> bool:
            states = (f"/brokers/topics/{name}/partitions/{p}/state" for p in range(2))
            return all(self.read(state).get("leader", -1) > 0 for state in states)

        wait_until(is_led, f"{name} was led", 60)

    def read(self, path: str) -> dict[str, Any]:
        try:
            found = json.loads(self.zookeeper.get(path)[0])
        except NoNodeError:
            return {}
        assert isinstance(found, dict)
        return found

    def moves(self, name: str) -> None:
        """Each partition to the other broker; the tool finds the brokers through ZooKeeper."""
        before = self.read(f"/brokers/topics/{name}")["partitions"]
        expected = {partition: [3 - now[0]] for partition, now in before.items()}
        plan = [{"topic": name, "partition": int(p), "replicas": to} for p, to in expected.items()]
        file = self.directory / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": plan}))
        said = self.tool("reassign", "--reassignment-json-file", str(file), "--execute")
        assert said.returncode == 0, said.stdout + said.stderr
        is_moved: Callable[[], bool] = lambda: self.read(f"/brokers/topics/{name}")["partitions"] == expected  # noqa: E731 - read once below
        wait_until(is_moved, f"{name} had moved", 60)

    def acls(self) -> Acls:
        """What every znode grants, with numbers and names of topics left out of its path."""
        found: dict[str, frozenset[tuple[str, str, int]]] = {}
        for path in every(self.zookeeper, "/"):
            try:
                acl = frozenset((one.id.scheme, one.id.id, one.perms) for one in self.zookeeper.get_acls(path)[0])
            except NoNodeError:
                continue
            kind = re.sub(r"\d+", "N", re.sub(r"(native|ours|orders|later)[\w-]*", "T", path))
            assert found.setdefault(kind, acl) == acl, path
        return found


def every(zookeeper: KazooClient, path: str) -> Iterator[str]:
    """A znode, and all below it that are there now."""
    yield path
    try:
        names = zookeeper.get_children(path)
    except NoNodeError:
        return
    for name in sorted(names):
        yield from every(zookeeper, f"{path.rstrip('/')}/{name}")


def expected_of(kind: str) -> frozenset[tuple[str, str, int]]:
    """By Kafka's rule."""
    if kind == "/consumers":
        return frozenset({ANYONE})
    is_hidden = kind.startswith(("/config/users", "/config/brokers", "/delegation_token/tokens"))
    return frozenset({MINE} if is_hidden else {MINE, READERS})


@pytest.mark.parametrize(
    "version", [*(pytest.param(version, marks=pytest.mark.thorough) for version in ("2.4.1", "2.8.2")), "3.9.1"]
)
@pytest.mark.timeout(400)
def test_brokers_that_protect_what_they_create_are_led(version: str, tmp_path: Path) -> None:
    secured = SecuredZooKeeper(tmp_path / "secured", client_auth="none")
    is_tls = version != "2.4.1"  # brokers know it from 2.5 on
    over = {**secured.brokers_tls(), "zookeeper.connect": secured.secure + CHROOT} if is_tls else {}
    ours = {**over, "zookeeper.set.acl": "true", "zookeeper.sasl.jaas.config": jaas("kafka").reveal()}
    with running(version, secured, over) as cluster, World(cluster, tmp_path, ours) as world:
        wait_until(lambda: holder(world.zookeeper) in (1, 2), "a broker led")
        world.works(cluster.bootstrap_servers, "native")
        native = world.acls()

        led = is_led_by_us(world)
        world.works(cluster.bootstrap_servers, "later")
        world.moves("ours")
        for broker in cluster.brokers.values():
            assert b"NoAuth" not in broker.process.output_since_start()

        for acls in (native, led, world.acls()):
            assert {kind: acl for kind, acl in acls.items() if acl != expected_of(kind)} == {}
            assert {kind for kind in acls if kind in native and acls[kind] != native[kind]} == set()
        added = {kind.split("/")[1] for kind in led} - {kind.split("/")[1] for kind in native}
        assert added - {"feature"} == {"kafka_zk_controller"}  # Kafka's own create /feature from 2.7 on
        assert {"/kafka_zk_controller/replicas/N", "/kafka_zk_controller/controller_ids"} <= set(led)


def is_led_by_us(world: World) -> Acls:
    """A term of ours, a SIGKILL, another term, and the way back; what every znode granted when it was over."""
    cluster, zookeeper = world.cluster, world.zookeeper
    with world.replica(901) as first, world.replica(902) as second:
        leader, other = (first, second) if until_one_leads(first, second) is first else (second, first)
        world.works(leader.address, "ours")
        if cluster.version == "3.9.1":
            user = ("--entity-type", "users", "--entity-name", "ann", "--add-config", "SCRAM-SHA-256=[password=a]")
            said = cluster.tools.run("kafka-configs", "--bootstrap-server", leader.address, "--alter", *user)
            assert said.exit_code == 0, said.output
        leader.process.kill()
        other.await_phase("active", 60)
        world.moves("ours")
        cluster.brokers[1].restart()
        status = world.tool("status")
        assert status.returncode == 0, status.stdout + status.stderr
        assert f"/controller: {other.broker_id}, a replica of this controller" in status.stdout
        acls = world.acls()
        with world.replica(903) as third:
            third.await_phase("standby", 60)
            wait_until(lambda: '"standby"' in world.tool("status", "--output", "json").stdout, "903 was shown", 30)
            said_of_switch = world.tool("switchover", "--to", "903")
            assert said_of_switch.returncode == 0, said_of_switch.stdout + said_of_switch.stderr
            released = world.tool("release", "--reason", "the test is over")
            assert released.returncode == 0, released.stdout + released.stderr
            acls = {**acls, **world.acls()}
            wait_until(lambda: holder(zookeeper) in (1, 2), "a broker leads again", 60)
            assert_no_secret_is_told(world, (first, second, third))
    return acls


def until_one_leads(first: Replica, second: Replica) -> Replica:
    wait_until(lambda: "active" in (first.phase, second.phase), "one of ours led", 60)
    leader = first if first.phase == "active" else second
    leader.await_phase("active", 60)
    (second if leader is first else first).await_phase("standby", 60)
    return leader


def assert_no_secret_is_told(world: World, replicas: tuple[Replica, ...]) -> None:
    """Neither in logs nor in journals."""
    files = [replica.process.log_file for replica in replicas]
    files += [file for file in world.directory.glob("journal-*/**/*") if file.is_file()]
    texts = [file.read_bytes().decode("latin-1") for file in files]
    assert [s for s in (*PASSWORDS.values(), STORE_PASSWORD) for text in texts if s in text] == []
    assert texts


@pytest.mark.timeout(200)
def test_what_brokers_could_not_write_is_not_begun(tmp_path: Path) -> None:
    secured = SecuredZooKeeper(tmp_path / "secured", client_auth="none")
    over = {**secured.brokers_tls(), "zookeeper.connect": secured.secure + CHROOT}
    with running("3.9.1", secured, over) as cluster:

        def looked_at(**other: object) -> tuple[int, str]:
            settings = {**over, **{key.replace("_", "."): value for key, value in other.items()}}
            ran = World(cluster, tmp_path, settings).tool("run", "--check-cluster")
            return ran.returncode, ran.stdout + ran.stderr

        good = {"zookeeper.set.acl": "true", "zookeeper.sasl.jaas.config": jaas("kafka").reveal()}
        code, text = looked_at(**good)
        assert code == 0, text

        code, text = looked_at(**{**good, "zookeeper.sasl.jaas.config": jaas("other").reveal()})
        assert code == 1, text
        assert "does not let this process write /controller_epoch (sasl:kafka may)" in text
        assert "brokers 1, 2 could not write what this process creates: in ZooKeeper they are sasl:kafka" in text

        code, text = looked_at(**{**good, "zookeeper.set.acl": "false"})
        assert code == 0, text
        assert "brokers 1, 2 protect what is created in ZooKeeper, and this process does not" in text

        code, text = looked_at(**{**good, "zookeeper.sasl.jaas.config": jaas("kafka", "wr0ng").reveal()})
        assert (code, text.strip().count("\n")) == (3, 0), text
        assert "127.0.0.1 refuses the login: user or password is wrong" in text
        assert "wr0ng" not in text

        code, text = looked_at(**{**good, "zookeeper.sasl.jaas.config": f'{DIGEST_MODULE} required username="kafka";'})
        assert code == 2, text
        assert "zookeeper.sasl.jaas.config: option password is missing" in text
