"""An ensemble of three: its members change, its leader dies, and each epoch and configuration is read right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from controller.lab.errors import LabError
from controller.lab.ports import free_port
from metrics.replay.sources import stored_files
from metrics.replay.state import history_rows, state_at, survey
from tests.ensemble import EnsembleMember
from tests.replay.zk_tools import as_printed, printed_transactions
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import epoch_and_counter

pytestmark = pytest.mark.timeout(600, func_only=False)
CONFIG = "/zookeeper/config"


class Member(EnsembleMember):
    """One of several servers; who they are is in a file of its own, as `reconfig` wants it."""

    def __init__(self, number: int, home: Path, members: dict[int, str]) -> None:
        self._members = members
        super().__init__(number, home / f"server-{number}", int(members[number].rpartition(":")[2]))

    def spawn(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lines = (f"server.{number}={where}\n" for number, where in self._members.items())
        (self.data_dir / "members").write_text("".join(lines))
        super().spawn()

    def _config(self) -> str:
        kept = [line for line in super()._config().splitlines() if not line.startswith("clientPort")]
        own = (
            "initLimit=40", "syncLimit=40", "standaloneEnabled=false", "reconfigEnabled=true", "skipACL=yes",
            f"dynamicConfigFile={self.data_dir / 'members'}",
        )  # fmt: skip
        return "\n".join((*kept, *own)) + "\n"


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[list[Member]]:
    members = {
        number: f"127.0.0.1:{free_port()}:{free_port()}:participant;127.0.0.1:{free_port()}" for number in (1, 2, 3)
    }
    try:
        servers = [Member(number, tmp_path, members) for number in members]
    except LabError as error:
        pytest.skip(str(error))
    try:
        for server in servers:
            server.spawn()
        for server in servers:
            server.wait_until_serving(120)
        yield servers
    finally:
        for server in servers:
            server.kill()


def patiently_created(client: KazooClient, path: str) -> None:
    """A write while the ensemble may be without a leader."""
    deadline = time.monotonic() + 120
    while True:
        try:
            client.ensure_path(path)
            return
        except KazooException:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_reconfiguration_and_a_new_epoch_are_read_as_the_ensemble_saw_them(ensemble: list[Member]) -> None:
    leader = next(server for server in ensemble if server.is_leader)
    leaves, stays = (server for server in ensemble if server is not leader)
    client = KazooClient(",".join(server.connect for server in (stays, leader)), timeout=60)
    client.start()
    joining = client.get(CONFIG)[0].decode().splitlines()[leaves.number - 1]
    client.create("/before", b"1")
    client.reconfig(joining=None, leaving=str(leaves.number), new_members=None)
    client.create("/without", b"2", ephemeral=True)
    client.reconfig(joining=joining, leaving=None, new_members=None)
    leader.kill()
    patiently_created(client, "/after")
    client.set("/before", b"3")
    live = {path: client.get(path) for path in ("/before", "/without", "/after", CONFIG)}
    for server in (leaves, stays):  # before the session ends, and its znode with it
        server.kill()
    client.stop()
    client.close()

    damage: list[Damage] = []
    history = survey(stored_files([str(stays.data_dir)]))
    rows = list(history_rows(history, damage))
    tree = state_at(history, damage)

    epochs = sorted({epoch_and_counter(row[0])[0] for row in rows})
    assert len(epochs) >= 2
    members = [row[8].decode().count("participant") for row in rows if row[4] == ops.RECONFIG and row[8]]
    assert members == [2, 3]
    for path, (data, stat) in live.items():
        node = tree.nodes[path]
        assert (node.data, node.version, node.mzxid, node.czxid) == (data, stat.version, stat.mzxid, stat.czxid), path
    assert tree.nodes["/without"].owner == live["/without"][1].ephemeralOwner
    assert not [*history.damage, *damage]
    printed = [line for log in history.logs for line in printed_transactions(Path(log.path))]
    assert as_printed(rows) == printed
