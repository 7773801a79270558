"""In an ensemble of three, members change and the leader dies, and each epoch and configuration is read correctly.

Its directories together give the content of one intact server, even if some are behind or damaged.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from controller.demo.waiting import wait_for
from controller.lab.errors import LabError
from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_port
from controller.lab.zookeeper import ZooKeeperSettings, zookeeper_client
from metrics.replay.commands.jobs import ALL, Job, run
from metrics.replay.engine.engines import Local
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import history_rows, state_at, survey
from tests.ensemble import EnsembleMember
from tests.replay.any_files import Tables, differing, in_order, records_of, rows_of, zxid_of
from tests.replay.zk_load import Kafka
from tests.replay.zk_tools import as_printed, printed_transactions
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import epoch_and_counter

pytestmark = pytest.mark.timeout(600, func_only=False)
CONFIG = "/zookeeper/config"


class Member(EnsembleMember):
    """One of several servers, which a separate file lists, as `reconfig` requires."""

    def __init__(self, number: int, home: Path, members: dict[int, str], options: tuple[str, ...] = ()) -> None:
        self._members = members
        settings = ZooKeeperSettings(java_options=(*SMALL_SERVER, *options))
        super().__init__(number, home / f"server-{number}", int(members[number].rpartition(":")[2]), settings)

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


@contextmanager
def three_servers(home: Path, *options: str) -> Iterator[list[Member]]:
    members = {
        number: f"127.0.0.1:{free_port()}:{free_port()}:participant;127.0.0.1:{free_port()}" for number in (1, 2, 3)
    }
    try:
        servers = [Member(number, home, members, options) for number in members]
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


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[list[Member]]:
    with three_servers(tmp_path) as servers:
        yield servers


def patiently_created(client: KazooClient, path: str) -> None:
    """Retry a write while the ensemble may have no leader."""
    deadline = time.monotonic() + 120
    while True:
        try:
            client.ensure_path(path)
            return
        except KazooException:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def configuration_at(server: Member) -> list[str]:
    """The members of the ensemble as this server knows them. One that does not know it is back has no vote."""
    try:
        with zookeeper_client(server.connect) as client:
            return str(client.get(CONFIG)[0].decode()).splitlines()
    except (KazooException, KazooTimeoutError):
        return []


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
    wait_for(lambda: joining in configuration_at(leaves), "the server knows that it is back", timeout_s=120)
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


# Logs roll over often, and a server that rejoins gets a snapshot, so that its own logs lack the time between.
_OPTIONS = ("-Dzookeeper.snapCount=100", "-Dzookeeper.forceSnapshotSync=true")


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three servers' files under Kafka's own controller: two complete, one behind, and that one later."""
    home = tmp_path_factory.mktemp("ensemble")
    with three_servers(home, *_OPTIONS) as servers:
        leader = next(server for server in servers if server.is_leader)
        follower, third = (server for server in servers if server is not leader)
        kafka = Kafka(",".join(server.connect for server in (follower, leader)))
        kafka.work(until=0.3)
        third.kill()
        shutil.copytree(third.data_dir, home / "behind")
        kafka.work(until=0.7)
        third.spawn()
        third.wait_until_serving(120)
        kafka.work(until=1.0)
        wait_for(lambda: len({max(zxids(server.data_dir)) for server in servers}) == 1, "every server has written all")
        for server in servers:  # before sessions end, which not all servers would log
            server.kill()
        kafka.close()
    return {
        "intact": leader.data_dir, "follower": follower.data_dir, "behind": home / "behind", "rejoined": third.data_dir,
    }  # fmt: skip


def tables_from(home: Path, *paths: Path) -> Tables:
    out = str(home / "out")
    run(Local(), Job(tuple(map(str, paths)), out, is_anew=True))
    return {name: in_order(rows_of(out, name)) for name in ALL}


def damaged_copy(directory: Path, home: Path, *damage: str) -> Path:
    """A server's directory with a wrong byte in its first log, or with a torn end of its last, or both."""
    copied = home / "damaged"
    shutil.copytree(directory, copied)
    logs = sorted(copied.glob("version-2/log.*"), key=lambda log: int(log.name[4:], 16))
    for what in damage:
        log = logs[0] if what == "flipped" else logs[-1]
        records = records_of(log)
        content = bytearray(log.read_bytes())
        at = 16 + sum(map(len, records[: len(records) // 2])) + len(records[len(records) // 2]) // 2
        if what == "flipped":
            content[at] ^= 1
        else:
            del content[at:]
        log.write_bytes(content)
    return copied


@pytest.mark.parametrize("third", ["behind", "rejoined"])
@pytest.mark.parametrize("damage", [("flipped",), ("torn",), ("flipped", "torn")], ids=" and ".join)
def test_three_directories_tell_what_one_intact_server_tells(
    directories: dict[str, Path], tmp_path: Path, third: str, damage: tuple[str, ...]
) -> None:
    alone = tables_from(tmp_path, directories["intact"])
    assert not alone.pop("damage")
    damaged = damaged_copy(directories["follower"], tmp_path, *damage)

    together = tables_from(tmp_path, directories["intact"], damaged, directories[third])

    found = together.pop("damage")
    assert not differing(alone, together)
    assert {row["file"].startswith(str(damaged)) for row in found} == {True}
    assert len(found) == len(damage)
    moves = alone["reassignments"]
    assert {"finished", "cancelled"} <= {move["outcome"] for move in moves}
    assert len(moves) > 10


def test_what_no_server_has_whole_three_have_together(directories: dict[str, Path], tmp_path: Path) -> None:
    alone = tables_from(tmp_path, directories["intact"])
    damaged = damaged_copy(directories["follower"], tmp_path, "flipped")

    together = tables_from(tmp_path, damaged, directories["behind"])

    assert [row["file"].startswith(str(damaged)) for row in together.pop("damage")] == [True]
    assert not differing({name: rows for name, rows in alone.items() if name != "damage"}, together)


def test_the_one_behind_was_behind_and_the_one_that_rejoined_lacks_what_it_missed(
    directories: dict[str, Path],
) -> None:
    held = {name: zxids(path) for name, path in directories.items()}

    assert held["intact"] == held["follower"]
    assert held["behind"] < held["rejoined"] < held["intact"]
    assert max(held["rejoined"]) == max(held["intact"])
    assert all(len([*directories[name].glob("version-2/log.*")]) > 1 for name in ("intact", "follower"))


def zxids(directory: Path) -> set[int]:
    return {zxid for log in directory.glob("version-2/log.*") for zxid in map(zxid_of, records_of(log))}
