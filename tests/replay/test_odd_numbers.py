"""Numbers that no column can hold cost only their own znode, not the rest of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from tests.replay.any_files import Rows, Tables, tables_of
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

BIG = 99_999_999_999
TOPIC, STATE = "/brokers/topics/a", "/brokers/topics/a/partitions/0/state"
ASSIGNED = b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
LED = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":%d,"isr":[1]}'
BEFORE = (
    zk.header(1, ops.CREATE) + zk.create(TOPIC, ASSIGNED),
    zk.header(2, ops.CREATE) + zk.create(STATE, LED % 0),
)
AFTER = zk.header(4, ops.SET_DATA) + zk.set_data(STATE, LED % 7, 3)


def tables(directory: Path, *bodies: bytes) -> Tables:
    (directory / "log.1").write_bytes(zk.log(*BEFORE, *bodies, AFTER))
    return tables_of([directory], 1 << 20)


def of_znode(found: Tables, path: str) -> Rows:
    return [row for row in found["events"] if row["path"] == path]


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        (f"{TOPIC}/partitions/{BIG}/state", LED % 1, "other"),
        (f"{TOPIC}/partitions/{'9' * 5000}", b"", "other"),
        (f"/brokers/ids/{BIG}", b"{}", "other"),
        (f"/admin/reassignments/a-{BIG}", b'{"assignment":[1]}', "other"),
        ("/admin/reassignments/a-1", b'{"assignment":[%d]}' % BIG, "znode_move"),
        ("/admin/reassignments/a-1", b'{"assignment":[%d]}' % 10**40, "znode_move"),
        ("/config/topics/a", b'{"version":1,"config":{"min.insync.replicas":"%d"}}' % BIG, "config"),
        ("/config/brokers/<default>", b'{"version":1,"config":{"min.insync.replicas":"-%d"}}' % 10**40, "config"),
        (STATE, LED % BIG, "malformed"),
        (TOPIC, ASSIGNED.replace(b"2]", b"%d]" % BIG), "topic"),
        ("/controller_epoch", b"%d" % BIG, "controller_epoch"),
        ("/controller", b'{"version":1,"brokerid":%d,"timestamp":"0"}' % BIG, "controller"),
        (
            "/admin/reassign_partitions",
            b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[%d]}]}' % BIG,
            "legacy",
        ),
    ],
)
def test_a_number_that_is_too_large_is_not_taken_for_one(tmp_path: Path, path: str, data: bytes, kind: str) -> None:
    found = tables(tmp_path, zk.header(3, ops.SET_DATA) + zk.set_data(path, data, 1))

    assert [row["kind"] for row in of_znode(found, path) if row["zxid"] == 3] == [kind]
    assert [row["zxid"] for row in found["partitions"] if row["leader_epoch"] == 7] == [4]
    assert not found["damage"]


@pytest.mark.parametrize(("path", "data"), [(STATE, LED % 5), (TOPIC, ASSIGNED.replace(b"1,2", b"2,1"))])
@pytest.mark.parametrize(("logged", "expected"), [(8, 7), (-(2**31), 2**31 - 1)])
def test_the_version_behind_the_highest_is_the_lowest(
    tmp_path: Path, path: str, data: bytes, logged: int, expected: int
) -> None:
    check = (ops.CHECK, zk.check("/controller_epoch", logged))
    body = zk.header(3, ops.MULTI) + zk.multi(check, (ops.SET_DATA, zk.set_data(path, data, 1)))

    found = tables(tmp_path, body)

    rows = [*found["events"], *found["partitions"]]
    assert {row["fence"] for row in rows if row["zxid"] == 3} == {expected}
