"""Do real servers start, crash, come back and vanish as the other tests rely on?"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable, LabError, ServerFailed
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings, zookeeper_client
from tests.equipment.open_port import is_listening


@pytest.fixture(scope="module")
def _jars() -> None:
    try:
        LocalCluster(ClusterSettings(broker_ids=())).kill()
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))


def znode(connect: str, path: str, write: bytes | None = None) -> bytes:
    with zookeeper_client(connect) as client:
        if write is not None:
            client.create(path, write)
        data, _ = client.get(path)
        assert isinstance(data, bytes)
        return data


def test_zookeeper_keeps_its_data_when_it_is_killed_and_started_again(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        znode(server.connect, "/kept", write=b"value")
        server.kill()
        server.start()

        assert znode(server.connect, "/kept") == b"value"


def test_zookeeper_accepts_large_requests_when_told_to(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path, settings=ZooKeeperSettings(max_request_bytes=4_000_000)) as server:
        assert len(znode(server.connect, "/large", write=b"x" * 2_000_000)) == 2_000_000


def test_each_test_gets_an_empty_chroot(zookeeper: str) -> None:
    assert znode(zookeeper, "/mine", write=b"first") == b"first"


def test_each_test_gets_an_empty_chroot_again(zookeeper: str) -> None:
    assert znode(zookeeper, "/mine", write=b"second") == b"second"


def test_zookeeper_on_a_taken_port_fails_with_one_error_that_shows_why(
    zookeeper_server: ZooKeeperServer, tmp_path: Path
) -> None:
    server = ZooKeeperServer(tmp_path, port=zookeeper_server.port)
    server.spawn()

    with pytest.raises(ServerFailed, match=r"zookeeper ended with exit code \d+ .*(?s:.*)BindException"):
        server.process.wait_until(lambda: False, 30, waiting_for="it served requests")


@pytest.mark.usefixtures("_jars")
def test_a_broker_with_a_wrong_setting_fails_with_one_error_that_shows_why(zookeeper: str, tmp_path: Path) -> None:
    broker = KafkaBroker(1, "3.9.1", zookeeper, tmp_path, overrides={"num.io.threads": "many"})

    with pytest.raises(ServerFailed, match=r"broker-1 ended(?s:.*)Invalid value many(?s:.*)num.io.threads"):
        broker.start()


@pytest.mark.usefixtures("_jars")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stops a process so that it goes on later")
@pytest.mark.parametrize("version", ["3.9.1", "2.4.1"])
def test_a_broker_comes_up_although_a_slow_machine_makes_it_lose_its_session_while_it_starts(
    zookeeper: str, tmp_path: Path, version: str
) -> None:
    session_s = 2.0
    settings = {"zookeeper.session.timeout.ms": int(session_s * 1000)}
    broker = KafkaBroker(1, version, zookeeper, tmp_path, overrides=settings)
    broker.spawn()
    try:
        broker.process.wait_until(
            lambda: b"] Connected." in broker.process.output_since_start(), 60, waiting_for="it had a session"
        )
        broker.process.signal(signal.SIGSTOP)
        time.sleep(2 * session_s)
        broker.process.signal(signal.SIGCONT)

        broker.wait_until_registered()

        assert znode(zookeeper, "/brokers/ids/1")
    finally:
        broker.kill()


@pytest.mark.usefixtures("_jars")
@pytest.mark.parametrize(("version", "chroot"), [("3.9.1", ""), ("2.4.1", "/kafka")])
def test_a_cluster_starts_obeys_kafkas_own_tools_and_leaves_nothing_running(version: str, chroot: str) -> None:
    with LocalCluster(ClusterSettings(version=version, chroot=chroot, broker_ids=(1, 2))) as cluster:
        access = (
            ("--zookeeper", cluster.zookeeper_connect)
            if version < "2.6"
            else ("--bootstrap-server", cluster.bootstrap_servers)
        )
        create = ("--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "2")
        created = cluster.tools.run("kafka-topics", *access, *create)
        cluster.brokers[2].kill()
        cluster.brokers[2].restart()
        listed = cluster.tools.run("kafka-topics", *access, "--list")

        assert created.exit_code == 0, created.output
        assert listed.stdout.split() == ["orders"], listed.output
        assert all(broker.replicas == {"orders-0"} for broker in cluster.brokers.values())

    ports = [cluster.zookeeper.port, *(broker.port for broker in cluster.brokers.values())]
    assert not any(is_listening(port) for port in ports)
    assert not cluster.directory.exists()


@pytest.mark.usefixtures("_jars")
def test_a_tool_that_a_version_lacks_is_named() -> None:
    cluster = LocalCluster(ClusterSettings(broker_ids=()))

    with pytest.raises(LabError, match=r"Kafka 3\.9\.1 has no kafka-preferred-replica-election"):
        cluster.tools.run("kafka-preferred-replica-election")

    cluster.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a killed process")
def test_no_server_survives_when_its_owner_is_killed(tmp_path: Path) -> None:
    script = f"""
        import time
        from pathlib import Path
        from controller.lab.zookeeper import ZooKeeperServer
        server = ZooKeeperServer(Path({str(tmp_path)!r}))
        server.start()
        print(server.port, flush=True)
        time.sleep(60)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        assert is_listening(port)
        os.kill(owner.pid, signal.SIGKILL)

    deadline = time.monotonic() + 10
    while is_listening(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_listening(port)


def test_a_server_that_must_outlive_its_owner_does(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from controller.lab.zookeeper import ZooKeeperServer
        server = ZooKeeperServer(Path({str(tmp_path)!r}), outlives_us=True)
        server.start()
        print(server.port, server.process.pid)
    """
    owner = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    port, pid = map(int, owner.stdout.split())
    try:
        assert is_listening(port)
    finally:
        os.killpg(pid, signal.SIGKILL)


def test_an_interrupted_cluster_ends_all_its_servers() -> None:
    class Interrupted(BaseException):
        pass

    def work(cluster: LocalCluster) -> None:
        with cluster:
            cluster.start_process("beside", [sys.executable, "-c", "import time; time.sleep(60)"])
            raise Interrupted

    cluster = LocalCluster(ClusterSettings(broker_ids=()))
    with pytest.raises(Interrupted):
        work(cluster)

    assert cluster.processes["beside"].exit_code is not None
    assert not is_listening(cluster.zookeeper.port)
