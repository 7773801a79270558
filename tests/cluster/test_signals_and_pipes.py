"""Does the daemon end on a signal, and go on when its log is not read, even if other processes hang?"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.lab.zookeeper import ZooKeeperServer, zookeeper_client
from tests.chaos.proxy import Mode, Proxies
from tests.cluster.replica import Replica, wait_until

SMALLEST_PIPE_BYTES = 4096


@contextmanager
def mute_broker(zookeeper: str) -> Iterator[None]:
    """Register a broker that accepts every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener, zookeeper_client(zookeeper) as client:
        endpoint = f"PLAINTEXT://127.0.0.1:{listener.getsockname()[1]}"
        registration = (
            '{"version":4,"host":"127.0.0.1","port":1,"jmx_port":-1,"timestamp":"1",'
            f'"endpoints":["{endpoint}"],"listener_security_protocol_map":{{"PLAINTEXT":"PLAINTEXT"}}}}'
        )
        client.create("/brokers/ids/1", registration.encode(), ephemeral=True, makepath=True)
        yield


@contextmanager
def late(server: ZooKeeperServer) -> Iterator[str]:
    """A connection to ZooKeeper with a delay of some tenths of a second, so that a claim can be observed."""
    proxies = Proxies()
    link = proxies.link("ZooKeeper", server.port)
    proxies.become(link, Mode.SLOW)
    try:
        yield f"127.0.0.1:{link.port}"
    finally:
        proxies.stop()


def end_of(replica: Replica, within_s: float) -> tuple[int | None, float]:
    """Its exit code, and how long it took to end."""
    began = time.monotonic()
    wait_until(lambda: not replica.process.is_alive, "it ended", within_s)
    return replica.process.exit_code, time.monotonic() - began


def test_a_leader_whose_log_nobody_reads_goes_on_and_can_be_stopped(zookeeper: str, tmp_path: Path) -> None:
    replica = Replica(zookeeper, tmp_path, log_level="debug")
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE_BYTES)
    with subprocess.Popen(replica.process.argv, stdout=writing, stderr=writing) as process:
        try:
            wait_until(lambda: replica.phase == "active", "it led")
            for _ in range(30):
                process.send_signal(signal.SIGUSR1)
                time.sleep(0.02)
            with zookeeper_client(zookeeper) as client:
                client.create("/admin/delete_topics/nothing")
                wait_until(lambda: not client.exists("/admin/delete_topics/nothing"), "it cared for a deletion", 15)
                assert replica.get("/livez")[0] == 200
                process.send_signal(signal.SIGTERM)
                assert process.wait(15) == 0
                assert client.exists("/controller") is None
        finally:
            process.kill()
            os.close(writing)
            os.close(reading)


def test_what_was_not_logged_is_a_measure(zookeeper: str, tmp_path: Path) -> None:
    with Replica(zookeeper, tmp_path) as replica:
        replica.await_phase("active")
        for _ in range(200):
            replica.process.signal(signal.SIGUSR2)
            time.sleep(0.01)
        wait_until(lambda: replica.measure("log_lines_dropped_total", reason="too many alike") > 0, "it counted")
        assert replica.phase == "active"


def test_a_stop_ends_a_claim_that_waits_for_a_silent_zookeeper(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path / "zookeeper") as server, late(server) as connect:
        with Replica(connect, tmp_path, **{"zookeeper.session.timeout.ms": 3000}) as replica:
            wait_until(lambda: replica.phase == "contending", "it claimed", 90)
            server.process.signal(signal.SIGSTOP)
            try:
                time.sleep(0.5)
                replica.process.signal(signal.SIGTERM)
                code, took_s = end_of(replica, 30)
            finally:
                server.process.signal(signal.SIGCONT)
        assert code == 0
        assert took_s < 9
        assert "Traceback" not in replica.process.tail(100)


def test_a_leader_ends_although_zookeeper_is_silent(tmp_path: Path) -> None:
    settings = {"zookeeper.session.timeout.ms": 3000, "request.timeout.ms": 2000}
    with ZooKeeperServer(tmp_path / "zookeeper") as server, Replica(server.connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        server.process.signal(signal.SIGSTOP)
        try:
            replica.process.signal(signal.SIGTERM)
            code, took_s = end_of(replica, 40)
        finally:
            server.process.signal(signal.SIGCONT)
        assert code == 0
        assert took_s < 12
        assert "Traceback" not in replica.process.tail(100)


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_each_signal_that_asks_for_the_end_gives_the_claim_up(
    zookeeper: str, tmp_path: Path, number: signal.Signals
) -> None:
    with zookeeper_client(zookeeper) as client, Replica(zookeeper, tmp_path) as replica:
        replica.await_phase("active")
        replica.process.signal(number)
        assert end_of(replica, 15)[0] == 0
        assert client.exists("/controller") is None
        assert client.get_children("/brokers/ids") == []


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_other_signals_only_have_it_say_where_it_is(zookeeper: str, tmp_path: Path, number: signal.Signals) -> None:
    with Replica(zookeeper, tmp_path) as replica:
        replica.await_phase("active")
        replica.process.signal(number)
        wait_until(lambda: [r for r in replica.log() if r["event"] == "thread"], "it said where it is")
        (said,) = [r for r in replica.log() if r["event"] == f"{number.name} received"]
        assert said["phase"] == "active"
        assert any("Pump.run" in r["at"] for r in replica.log() if r["event"] == "tasks")
        assert replica.phase == "active"


def test_a_second_stop_waits_for_no_broker(zookeeper: str, tmp_path: Path) -> None:
    settings = {"controller.drain.timeout.ms": 60_000, "controller.preflight.tolerate": "brokers"}
    with mute_broker(zookeeper), Replica(zookeeper, tmp_path, 901, **settings) as replica:
        replica.await_phase("active")
        replica.process.signal(signal.SIGTERM)
        time.sleep(2)
        assert replica.process.is_alive
        replica.process.signal(signal.SIGTERM)
        code, took_s = end_of(replica, 30)
        assert (code, took_s < 25) == (0, True)
        with zookeeper_client(zookeeper) as client:
            assert client.exists("/controller") is None


def test_a_service_manager_hears_how_it_is(zookeeper: str, tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(15)
        replica = Replica(zookeeper, tmp_path)
        environment = {**os.environ, "NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "900000"}
        with subprocess.Popen(replica.process.argv, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                heard = [manager.recv(4096).decode()]
                while "STATUS=active: " not in "\n".join(heard) or heard.count("WATCHDOG=1") < 3:
                    heard.append(manager.recv(4096).decode())
                process.send_signal(signal.SIGTERM)
                while heard[-1] != "STOPPING=1":
                    heard.append(manager.recv(4096).decode())
                assert process.wait(15) == 0
            finally:
                process.kill()
    assert heard[:2] == ["READY=1", "WATCHDOG=1"]
