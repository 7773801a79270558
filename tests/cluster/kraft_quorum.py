"""How does a real KRaft quorum of one controller run here, ready to migrate a cluster?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from kazoo.client import KazooClient

from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_port
from controller.lab.server import Server
from tests.cluster.replica import content
from tests.equipment.kraft import kraft_controller

NODE_ID = 3000
LEADS_WITHIN_S = 180.0  # a busy machine takes a minute to start it
PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}


class Quorum(Server):
    """One KRaft controller in migration mode; started again, it leads with a higher epoch."""

    def __init__(
        self,
        version: str,
        zookeeper_connect: str,
        zk: KazooClient,
        directory: Path,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Formats its log with the cluster's id. Starts nothing yet. `settings` are further ones of its own."""
        self.port = free_port()
        self._file = directory / "controller.properties"
        properties = {
            **self.settings,
            **PROTOCOLS,
            "inter.broker.listener.name": "PLAINTEXT",
            "zookeeper.connect": zookeeper_connect,
            **(settings or {}),
        }
        cluster_id = str(content(zk, "/cluster/id")["id"])
        self.process = kraft_controller(version, cluster_id, NODE_ID, self.port, properties, directory, SMALL_SERVER)

    @property
    def settings(self) -> dict[str, object]:
        """The settings that brokers need, too."""
        return {"zookeeper.metadata.migration.enable": "true", **self.place}

    @property
    def place(self) -> dict[str, object]:
        """Where it is: the settings of brokers that need no ZooKeeper any more."""
        return {
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
        }

    def start(self) -> None:
        """Start it, and wait until it is the quorum's leader."""
        self.process.start()
        self.process.wait_until(self._leads, LEADS_WITHIN_S, waiting_for="it led its quorum")

    def stop(self) -> None:
        """Stop it cleanly."""
        self.process.stop()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def raise_epoch(self, times: int) -> None:
        """Let it be elected several times, which ZooKeeper does not notice before the migration."""
        for _ in range(times):
            self.kill()
            time.sleep(0.2)
            self.start()

    def finalize(self) -> None:
        """Restart it without ZooKeeper: the end of the migration, without a way back."""
        self.stop()
        lines = self._file.read_text().splitlines(keepends=True)
        self._file.write_text("".join(line for line in lines if not line.startswith("zookeeper.")))
        self.start()

    def _leads(self) -> bool:
        return b"Completed transition to Leader" in self.process.output_since_start()
