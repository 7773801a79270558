"""A snapshot of another cluster is refused, and one of the same cluster never is."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from metrics.replay.events.splits import plan
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import History, NotOneCluster, state_at, survey
from tests.replay.any_files import records_of, write_log, zxid_of
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage
from zk_layout.storage.jute import OPEN_ACL, encode_bytes, encode_text

EPOCH = 1 << 32
NATIVE = Path(__file__).parents[1] / "fixtures" / "native"


def shown(path: str, version: int, *, czxid: int = 1, mzxid: int = 1, owner: int = 0, time_ms: int = 10) -> bytes:
    stat = pack(">qqqqqiiiqq", 1, czxid, mzxid, time_ms, time_ms, version, 0, 0, owner, mzxid)
    return encode_text("" if path == "/" else path) + encode_bytes(b"") + stat


def snapshot(home: Path, zxid: int, *znodes: bytes) -> None:
    acl = zk.number(1) + pack(">q", 1) + OPEN_ACL
    content = b"".join((zk.SNAPSHOT_HEADER, zk.number(0), acl, shown("/", 0), *znodes, encode_text("/")))
    (home / f"snapshot.{zxid:x}").write_bytes(zk.sealed(content))


def change(zxid: int, path: str, version: int) -> bytes:
    return zk.header(zxid, ops.SET_DATA, time_ms=1000 + zxid) + zk.set_data(path, b"", version)


def made(zxid: int, path: str) -> bytes:
    return zk.header(zxid, ops.CREATE, time_ms=1000 + zxid) + zk.create(path)


def gone(zxid: int, path: str) -> bytes:
    return zk.header(zxid, ops.DELETE, time_ms=1000 + zxid) + zk.delete(path)


def history(home: Path, *bodies: bytes) -> History:
    (home / f"log.{int.from_bytes(bodies[0][12:20], 'big'):x}").write_bytes(zk.log(*bodies, padding=64))
    return survey(stored_files([str(home)]))


def said(found: History) -> list[str]:
    """The result, which is the same for both uses of a snapshot."""
    damage: list[Damage] = []
    state_at(found, damage)
    planned = plan(found, 1 << 30).damage
    assert [*planned] == damage
    return [d.what for d in damage]


@pytest.mark.parametrize(
    ("znode", "body", "why"),
    [
        (shown("/x", 3), change(6, "/x", 7), "transaction 0x6 makes version 7 of /x, which it shows at version 3"),
        (shown("/x", 3), made(6, "/x"), "transaction 0x6 creates /x, which it shows already"),
        (shown("/x", 0, mzxid=6), made(6, "/x"), "transaction 0x6 wrote /x at another time"),
        (shown("/x", 0, czxid=6, mzxid=6, time_ms=1006), made(6, "/y"), "transaction 0x6 did not write /x"),
    ],
)
def test_a_snapshot_that_contradicts_the_log_is_of_another_cluster(
    tmp_path: Path, znode: bytes, body: bytes, why: str
) -> None:
    snapshot(tmp_path, 5, znode)
    found = history(tmp_path, body)

    for ask in (lambda: plan(found, 1 << 30), lambda: state_at(found, [])):
        with pytest.raises(NotOneCluster, match=f"snapshot.5 and the logs are not of one cluster: {why}; give"):
            ask()


@pytest.mark.parametrize("version", [4, 7])
def test_where_an_epoch_ended_transactions_may_be_missing(tmp_path: Path, version: int) -> None:
    snapshot(tmp_path, 5, shown("/x", 3))

    what = f"transaction 0x100000001 makes version {version} of /x, which it shows at version 3"
    why = "transactions between them are missing, or they are of different clusters"
    lines = [f"does not fit the log behind it: {what}: {why}"] if version != 4 else []
    assert said(history(tmp_path, change(EPOCH + 1, "/x", version))) == lines


def test_a_change_of_what_the_snapshot_lacks_is_told(tmp_path: Path) -> None:
    snapshot(tmp_path, 5)

    (line,) = said(history(tmp_path, change(6, "/x", 7)))
    assert "transaction 0x6 changes /x, which it does not show" in line


@pytest.mark.parametrize(
    ("znodes", "bodies"),
    [
        ([shown("/x", 3)], [change(6, "/x", 4), change(7, "/x", 5)]),
        # The snapshot was still being taken.
        ([shown("/x", 5, mzxid=7, time_ms=1007)], [change(6, "/x", 4), change(7, "/x", 5)]),
        ([], [change(6, "/x", 4), gone(7, "/x")]),
        ([shown("/x", 0, czxid=7, mzxid=7, time_ms=1007)], [gone(6, "/x"), made(7, "/x")]),
        # Servers before 3.6 do not list the znodes that end with a session.
        ([shown("/x", 0, owner=77)], [zk.header(6, ops.CLOSE_SESSION, time_ms=1006), made(7, "/x")]),
    ],
)
def test_a_snapshot_of_the_same_cluster_fits(tmp_path: Path, znodes: list[bytes], bodies: list[bytes]) -> None:
    snapshot(tmp_path, 5, *znodes)

    found = history(tmp_path, *bodies)

    assert not plan(found, 1 << 30).damage
    assert len(state_at(found, []).nodes) > 0


@pytest.mark.parametrize("version", ["2.4.1", "2.8.2"])
def test_snapshots_of_real_servers_fit_their_own_logs_wherever_these_begin(tmp_path: Path, version: str) -> None:
    known = [r for log in sorted((NATIVE / f"kafka-{version}").glob("log.*")) for r in records_of(log)]
    known.sort(key=zxid_of)
    for begin in (0, 20, 100, 180, 200, 300):
        directory = tmp_path / str(begin)
        write_log(directory, known[begin:])
        for own in (NATIVE / f"kafka-{version}").glob("snapshot.*"):
            found = survey(stored_files([str(directory), str(own)]))
            assert not [d for d in plan(found, 1 << 30).damage if "does not fit" in d.what]
            damage: list[Damage] = []
            state_at(found, damage)
            assert not [d for d in damage if "does not fit" in d.what]


def test_a_snapshot_of_another_real_cluster_does_not_fit() -> None:
    logs = [str(log) for log in (NATIVE / "kafka-2.4.1").glob("log.*")]
    found = survey(stored_files([*logs, str(NATIVE / "kafka-2.8.2" / "snapshot.c2.gz")]))

    with pytest.raises(NotOneCluster, match=r"snapshot\.c2\.gz and the logs are not of one cluster: transaction"):
        state_at(found, [])
