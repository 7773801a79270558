"""How do three ZooKeeper servers run on this machine as one ensemble?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.lab.java import QUICK_START
from controller.lab.ports import free_ports
from controller.lab.zookeeper import ZooKeeperSettings
from tests.ensemble import EnsembleMember

SIZE = 3
_SMALL = ("-Xms32m", "-Xmx128m", *QUICK_START)


class Server(EnsembleMember):
    """A server whose configuration names its peers."""

    def __init__(self, number: int, directory: Path, members: Mapping[int, tuple[int, int, int]]) -> None:
        """`members` has the ports for clients, for followers and for elections of each."""
        self._members = members
        settings = ZooKeeperSettings(java_options=_SMALL, fsync=False)
        super().__init__(number, directory / f"zookeeper-{number}", members[number][0], settings)

    def _config(self) -> str:
        lines = [f"server.{n}=127.0.0.1:{peer}:{election}" for n, (_, peer, election) in self._members.items()]
        return super()._config() + "\n".join(("initLimit=20", "syncLimit=10", *lines)) + "\n"


def ensemble(directory: Path) -> tuple[EnsembleMember, ...]:
    """The servers; nothing starts yet."""
    ports = {number: free_ports(3) for number in range(1, SIZE + 1)}
    members = {number: (client, peer, election) for number, (client, peer, election) in ports.items()}
    return tuple(Server(number, directory, members) for number in members)
