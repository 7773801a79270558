"""How do three ZooKeeper servers run on this machine as one ensemble?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.lab.java import QUICK_START
from controller.lab.ports import free_ports
from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings

SIZE = 3
_SMALL = ("-Xms32m", "-Xmx128m", *QUICK_START)


class EnsembleMember(ZooKeeperServer):
    """One of several servers that agree on everything."""

    def __init__(self, number: int, directory: Path, members: Mapping[int, tuple[int, int, int]]) -> None:
        """Nothing starts yet. `members` has the ports for clients, for followers and for elections of each."""
        self._members = members
        super().__init__(
            directory / f"zookeeper-{number}", members[number][0], ZooKeeperSettings(java_options=_SMALL, fsync=False)
        )
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

    def _config(self) -> str:
        lines = [f"server.{n}=127.0.0.1:{peer}:{election}" for n, (_, peer, election) in self._members.items()]
        return super()._config() + "\n".join(("initLimit=20", "syncLimit=10", *lines)) + "\n"


def ensemble(directory: Path, size: int = SIZE) -> tuple[EnsembleMember, ...]:
    """The servers; nothing starts yet."""
    ports = {number: free_ports(3) for number in range(1, size + 1)}
    members = {number: (client, peer, election) for number, (client, peer, election) in ports.items()}
    return tuple(EnsembleMember(number, directory, members) for number in members)
