"""What makes a ZooKeeper server one of several that agree on everything?"""

from __future__ import annotations

from pathlib import Path

from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings


class EnsembleMember(ZooKeeperServer):
    """One of several servers; its configuration says who the others are."""

    def __init__(self, number: int, directory: Path, port: int, settings: ZooKeeperSettings | None = None) -> None:
        super().__init__(directory, port, settings)
        self.number = number
        self.process.name = f"zookeeper-{number}"

    @property
    def is_leader(self) -> bool:
        """Whether it leads the ensemble."""
        return "Mode: leader" in self.ask("srvr")

    def spawn(self) -> None:
        """Start it without waiting."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "myid").write_text(str(self.number))
        super().spawn()
