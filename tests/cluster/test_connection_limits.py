"""Under a low limit of open files, idle clients cost neither the session nor brokers' connections."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AllocateProducerIds, ListReassignments
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import BrokerEpoch, BrokerId

CONNECTIONS = 1100


def test_more_idle_connections_than_descriptors_disturb_nobody(zookeeper: str, tmp_path: Path) -> None:
    # There is no broker that could name its authorizer.
    settings: dict[str, object] = {"descriptors": 1024, "controller.preflight.tolerate": "authorizer"}
    with Replica(zookeeper, tmp_path, 901, **settings) as replica, ExitStack() as idle:
        replica.await_phase("active")
        epoch = replica.leader()["controller_epoch"]
        before, logged = replica.process.pid, replica.log_size()
        asking = AllocateProducerIds(BrokerId(1), BrokerEpoch(1))
        for _ in range(CONNECTIONS):
            idle.enter_context(socket.create_connection(("127.0.0.1", replica.port), timeout=10))

        until = time.monotonic() + 10  # more than two sessions
        while time.monotonic() < until:
            assert replica.ask(asking).error is not ErrorCode.NOT_CONTROLLER
            assert replica.ask(ListReassignments(None)).error is ErrorCode.NONE
            assert replica.get("/livez")[0] == 200
            time.sleep(0.5)

        seen = replica.leader()
        assert (seen["phase"], seen["controller_epoch"]) == ("active", epoch)
        assert len(list(Path(f"/proc/{before}/fd").iterdir())) < 1024 - 128
        assert replica.log_size() - logged < 10_000
        assert replica.measure("clients_disconnected_total", reason="made room for another") > 500
        wait_until(lambda: replica.measure("connections") < 500, "most of them were let go")
