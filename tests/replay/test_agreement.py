"""The content read from a real server's files equals the server's, and the output of ZooKeeper's own tools."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from controller.lab.errors import LabError
from controller.lab.zookeeper import ZooKeeperServer
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import History, history_rows, read_pieces, state_at, survey, tree_of_snapshot
from tests.replay.zk_load import connect, work
from tests.replay.zk_tools import as_formatted, as_printed, formatted_snapshot, printed_transactions
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage
from zk_layout.storage.jute import acl_of
from zk_layout.storage.operations import Row
from zk_layout.storage.tree import Tree, parent_of

ROUNDS = 8
Crashed = tuple[Path, ZooKeeperServer]


class Znode(NamedTuple):
    """Everything that a client can see of a znode."""

    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    children: int
    acl: tuple[tuple[int, str, str], ...]


def seen_by_clients(address: str) -> dict[str, Znode]:
    client = connect(address)
    found: dict[str, Znode] = {}
    _visit(client, "/", found)
    client.stop()
    client.close()
    return found


def _visit(client: KazooClient, path: str, found: dict[str, Znode]) -> None:
    data, s = client.get(path)
    acl = tuple((a.perms, a.id.scheme, a.id.id) for a in client.get_acls(path)[0])
    found[path] = Znode(
        data, s.czxid, s.mzxid, s.pzxid, s.ctime, s.mtime, s.version, s.cversion, s.aversion,
        s.ephemeralOwner, s.numChildren, acl,
    )  # fmt: skip
    for child in client.get_children(path):
        _visit(client, f"{path.rstrip('/')}/{child}", found)


def as_clients_see(tree: Tree) -> dict[str, Znode]:
    children = Counter(parent_of(path) for path in tree.nodes if path != "/")
    return {
        path: Znode(
            n.data or b"", n.czxid, n.mzxid, n.pzxid, n.ctime_ms, n.mtime_ms, n.version,
            2 * n.cversion - children[path], n.aversion,
            # Clients cannot see ZooKeeper's marks of containers and expiring znodes.
            n.owner if ops.is_session_owner(n.owner) else 0,
            children[path], acl_of(n.acl),
        )
        for path, n in tree.nodes.items()
    }  # fmt: skip


@pytest.fixture(scope="module", params=["", "gz", "snappy"], ids=["plain", "gzip", "snappy"])
def crashed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    """The files of a server that took snapshots under write load and was killed, and the server."""
    method = request.param or "checked"
    home = tmp_path_factory.mktemp("zookeeper")
    with pytest.MonkeyPatch.context() as patch:
        options = f"-Dzookeeper.snapCount=300 -Dzookeeper.snapshot.compression.method={method}"
        patch.setenv("JAVA_TOOL_OPTIONS", options)
        try:
            server = ZooKeeperServer(home)
        except LabError as error:
            pytest.skip(str(error))
    server.start()
    try:
        work(server.connect, ROUNDS)
    finally:
        server.kill()
    files = tmp_path_factory.mktemp("files")
    shutil.copytree(home / "version-2", files, dirs_exist_ok=True)
    return files, server


def history_of(files: Path) -> tuple[History, list[Damage]]:
    history = survey(stored_files([str(files)]))
    return history, [*history.damage]


def all_rows(files: Path) -> list[Row]:
    history, damage = history_of(files)
    return list(history_rows(history, damage))


def test_the_load_brings_every_kind_of_transaction(crashed: Crashed) -> None:
    kinds = {ops.NAMES[row[6]] for row in all_rows(crashed[0])}

    assert kinds >= {
        "create", "createContainer", "createTTL", "createSession", "closeSession", "setData", "setACL",
        "delete", "check", "error",
    }  # fmt: skip
    assert any(row[4] == ops.MULTI and row[6] == ops.ERROR for row in all_rows(crashed[0]))


def test_the_state_after_replay_is_that_of_a_server_started_on_the_same_files(crashed: Crashed) -> None:
    files, server = crashed
    history, damage = history_of(files)

    replayed = as_clients_see(state_at(history, damage))

    server.start()
    try:
        live = seen_by_clients(server.connect)
    finally:
        server.stop()
    assert replayed == live
    assert not damage
    assert any(znode.owner for znode in live.values())


def test_each_snapshot_of_the_load_leads_to_the_same_state(crashed: Crashed) -> None:
    history, damage = history_of(crashed[0])
    whole = state_at(history, damage)
    assert len(history.snapshots) > 4

    for kept in history.snapshots:
        others = tuple(f for f in history.files if f.kind == "log" or f == kept)
        again = state_at(survey(others), damage)

        assert as_clients_see(again) == as_clients_see(whole)
        assert again.sessions == whole.sessions


def test_a_snapshot_taken_under_load_is_fuzzy(crashed: Crashed) -> None:
    history, damage = history_of(crashed[0])

    reach = [(file.zxid, tree_of_snapshot(file, damage)[2]) for file in history.snapshots]

    assert any(until > zxid for zxid, until in reach)


def test_the_state_as_of_each_snapshots_zxid_does_not_depend_on_the_snapshots(crashed: Crashed) -> None:
    history, damage = history_of(crashed[0])
    only_logs = survey(tuple(f for f in history.files if f.kind == "log"))
    end = as_clients_see(state_at(only_logs, damage))

    for file in history.snapshots:
        for zxid in (file.zxid, file.zxid + 1):
            with_snapshots = as_clients_see(state_at(history, damage, as_of=zxid))
            without = as_clients_see(state_at(only_logs, damage, as_of=zxid))
            # A znode that is deleted after its parent was written into the snapshot, and before its own turn, leaves no
            # trace there: docs/replay.md.
            gone = without.keys() - with_snapshots.keys()
            assert all(path not in end or end[path].czxid > zxid for path in gone)
            unlike = {*gone, *map(parent_of, gone)}
            assert left_of(with_snapshots, unlike) == left_of(without, unlike)


def left_of(znodes: dict[str, Znode], unlike: set[str]) -> dict[str, Znode]:
    return {path: znode for path, znode in znodes.items() if path not in unlike}


def test_zookeepers_formatter_agrees_on_every_transaction(crashed: Crashed) -> None:
    history, damage = history_of(crashed[0])
    counted = 0
    for log in history.logs:
        pieces = [piece for piece in history.pieces if piece.file == log.path]
        rows = [row for batch in read_pieces(pieces, damage) for row in batch]

        printed = printed_transactions(Path(log.path))

        assert as_printed(rows) == printed
        counted += len(printed)
    assert counted > 200 * ROUNDS
    assert not damage


@pytest.fixture
def read_snapshots() -> Callable[[Path], dict[str, dict[str, str]]]:
    def read(files: Path) -> dict[str, dict[str, str]]:
        history, damage = history_of(files)
        return {s.path: as_formatted(tree_of_snapshot(s, damage)[0]) for s in history.snapshots}

    return read


def test_zookeepers_formatter_agrees_on_every_snapshot(
    crashed: Crashed, read_snapshots: Callable[[Path], dict[str, dict[str, str]]]
) -> None:
    for path, blocks in read_snapshots(crashed[0]).items():
        assert blocks == formatted_snapshot(Path(path))
