"""A daemon that cannot start reports the reason once; one that must only wait does so."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from controller.lab.cluster import LocalCluster
from controller.lab.zookeeper import ZooKeeperServer, zookeeper_client
from tests.cluster.replica import Replica, wait_until

NO_ZOOKEEPER = "127.0.0.1:1"


def the_error(replica: Replica, timeout_s: float = 30.0) -> dict[str, object]:
    """The one error of a process that has ended with exit code 1."""
    wait_until(lambda: not replica.process.is_alive, "it gave up", timeout_s)
    assert replica.process.exit_code == 1
    (error,) = replica.complaints()
    return error


def test_an_id_that_a_broker_has_is_refused(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
        before = zookeeper.get("/controller"), zookeeper.get("/brokers/ids/2")
        with Replica(cluster_3_9.zookeeper_connect, tmp_path, 2) as replica:
            error = the_error(replica)

        assert "id 2 belongs to a broker at PLAINTEXT://127.0.0.1:" in str(error["reason"])
        assert "broker.id" in str(error["hint"])
        assert (zookeeper.get("/controller"), zookeeper.get("/brokers/ids/2")) == before


def test_an_id_that_another_replica_leads_with_is_refused(zookeeper: str, tmp_path: Path) -> None:
    with Replica(zookeeper, tmp_path, 901) as leader:
        leader.await_phase("active")
        with Replica(zookeeper, tmp_path, 901) as second:
            error = the_error(second)
            assert "another controller process" in str(error["reason"])
        assert leader.phase == "active"


def test_http_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Replica(NO_ZOOKEEPER, tmp_path, **{"http.port": port}) as replica:
            error = the_error(replica)
    assert str(port) in str(error["reason"])
    assert "http.port" in str(error["hint"])


def test_listener_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Replica(NO_ZOOKEEPER, tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}") as replica:
            error = the_error(replica)
    assert str(port) in str(error["reason"])
    assert "listeners" in str(error["hint"])


def test_it_waits_for_a_zookeeper_that_is_not_there_yet(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zookeeper")
    with Replica(server.connect, tmp_path, **{"zookeeper.connection.timeout.ms": 2000}) as replica:
        wait_until(replica.complaints, "it missed ZooKeeper")
        assert replica.complaints()[0]["event"] == "cannot reach ZooKeeper; trying again"
        assert replica.get("/readyz")[0] == 503
        assert replica.get("/livez") == (200, "ok\n")
        with server:
            replica.await_phase("active")
            assert replica.get("/readyz")[0] == 200
            replica.process.stop()
            assert replica.process.exit_code == 0


def test_it_can_be_stopped_while_it_waits_for_zookeeper(tmp_path: Path) -> None:
    with Replica(NO_ZOOKEEPER, tmp_path, **{"zookeeper.connection.timeout.ms": 60000}) as replica:
        wait_until(lambda: replica.get("/livez")[0] == 200, "it ran")
        replica.process.signal(signal.SIGTERM)
        wait_until(lambda: not replica.process.is_alive, "it stopped", 10)
        assert replica.process.exit_code == 0


def test_it_can_be_stopped_while_zookeeper_is_away(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"request.timeout.ms": 2000, "zookeeper.session.timeout.ms": 30000}
    with ZooKeeperServer(tmp_path / "zookeeper") as server, Replica(server.connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        server.kill()
        replica.process.signal(signal.SIGTERM)
        wait_until(lambda: not replica.process.is_alive, "it stopped", 20)
        assert replica.process.exit_code == 0
        assert "Traceback" not in replica.process.tail(100)


def test_a_leader_comes_back_to_a_zookeeper_that_was_away(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"zookeeper.session.timeout.ms": 4000}
    with ZooKeeperServer(tmp_path / "zookeeper") as server, Replica(server.connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        server.kill()
        wait_until(replica.complaints, "it missed ZooKeeper")
        server.start()
        wait_until(
            lambda: "resumed" in replica.process.tail(50) or replica.measure("elections_won_total") == 2, "it was back"
        )
        replica.await_phase("active")
        assert all("exc_info" not in record and "exception" not in record for record in replica.log())


def test_a_leader_without_zookeeper_for_longer_than_its_session_no_longer_says_that_it_leads(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"zookeeper.session.timeout.ms": 2000, "request.timeout.ms": 1000}
    with ZooKeeperServer(tmp_path / "zookeeper") as server, Replica(server.connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        server.kill()
        wait_until(lambda: replica.phase == "standby", "it stood by")
        assert replica.get("/readyz")[0] == 503
        assert replica.measure("is_leader") == 0
        server.start()
        replica.await_phase("active")
        assert replica.measure("elections_won_total") == 2
        assert "Traceback" not in replica.process.tail(100)


def test_a_claim_that_cannot_be_read_is_replaced(zookeeper: str, tmp_path: Path) -> None:
    with zookeeper_client(zookeeper) as client:
        client.create("/controller", b'{"version":1,"broke', ephemeral=True)
        with Replica(zookeeper, tmp_path) as replica:
            replica.await_phase("active")
            assert b'"brokerid":901' in client.get("/controller")[0]


def test_a_claim_that_belongs_to_no_session_is_not_touched(zookeeper: str, tmp_path: Path) -> None:
    """A cluster in migration to KRaft has such a claim."""
    claim = b'{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":7}'
    with zookeeper_client(zookeeper) as client:
        client.create("/controller", claim)
        with Replica(zookeeper, tmp_path) as replica:
            wait_until(lambda: "a KRaft controller leads" in replica.process.tail(50), "it said why")
            assert (replica.leader()["is_leader"], replica.leader()["migration"]) == (False, "copying")
        assert client.get("/controller")[0] == claim


@pytest.mark.parametrize("epoch", [b"", b"seven", b"99999999999"])
def test_without_a_readable_epoch_nobody_leads_and_one_line_says_so(
    zookeeper: str, tmp_path: Path, epoch: bytes
) -> None:
    with zookeeper_client(zookeeper) as client, Replica(zookeeper, tmp_path) as replica:
        replica.await_phase("active")
        replica.process.stop()
        client.set("/controller_epoch", epoch)
        with Replica(zookeeper, tmp_path, 902) as second:
            wait_until(lambda: "controller_epoch" in second.process.tail(50), "it said why")
            wait_until(second.complaints, "it complained")
            assert not second.leader()["is_leader"]
            assert client.get("/controller_epoch")[0] == epoch
            client.set("/controller_epoch", b"7")
            second.await_phase("active")
            assert second.leader()["controller_epoch"] == 8
            assert len([r for r in second.complaints() if "controller_epoch" in str(r)]) == 1


def test_a_feature_znode_that_cannot_be_read_is_written_anew(zookeeper: str, tmp_path: Path) -> None:
    with zookeeper_client(zookeeper) as client:
        client.create("/feature", b'{"version":1,"stat')
        with Replica(zookeeper, tmp_path) as replica:
            replica.await_phase("active")
            wait_until(lambda: client.get("/feature")[0] == b'{"version":2,"features":{},"status":1}', "it was written")


def test_what_lies_unreadable_before_the_take_over_is_named_once_each(zookeeper: str, tmp_path: Path) -> None:
    bad = [
        "/brokers/topics/broken",
        "/brokers/topics/fine/partitions/0/state",
        "/brokers/ids/5",
        "/admin/reassign_partitions",
        "/kafka_zk_controller/replica_deletions/fine",
        "/isr_change_notification/isr_change_0000000000",
        "/log_dir_event_notification/log_dir_event_0000000000",
    ]
    with zookeeper_client(zookeeper) as client:
        for path in bad:
            client.create(path, b'{"version":1,"half', makepath=True)
        client.set("/brokers/topics/fine", b'{"version":1,"partitions":{"0":[1]}}')
        with Replica(zookeeper, tmp_path) as replica:
            replica.await_phase("active")

            def named() -> list[str]:
                names = [str(record["event"]).partition(":")[0] for record in replica.complaints()]
                return sorted(name for name in names if name != "pre-flight")  # which warns that there are no brokers

            wait_until(lambda: len(named()) >= len(bad), "it named them")
            assert named() == sorted(bad)
            assert replica.measure("notices_total", kind="malformed znode") == len(bad)
