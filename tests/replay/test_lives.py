"""Lives end with an expired session, with one that its client closed, or by hand, in any server's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics.replay.audit.claims import judged_claims
from metrics.replay.partitions.sightings import COLUMNS, KINDS, sightings_of
from tests.replay.any_files import tables_of
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

REGISTRATION = b'{"version":5,"endpoints":[]}'
CLAIM = b'{"version":2,"brokerid":7}'


def create(zxid: int, path: str, data: bytes) -> bytes:
    return zk.header(zxid, ops.CREATE, session=5, time_ms=zxid * 1000) + zk.create(path, data, ephemeral=True)


def close(zxid: int, cxid: int, *paths: str) -> bytes:
    listed = zk.closed(*paths) if paths else b""
    return zk.header(zxid, ops.CLOSE_SESSION, session=5, cxid=cxid, time_ms=zxid * 1000) + listed


@pytest.mark.parametrize("paths", [(), ("/brokers/ids/7", "/controller")], ids=["before 3.6", "3.6 and later"])
@pytest.mark.parametrize(("cxid", "ended_by"), [(0, "expire"), (9, "close")])
def test_a_session_that_its_client_closes_did_not_expire(
    tmp_path: Path, paths: tuple[str, ...], cxid: int, ended_by: str
) -> None:
    begun = [create(1, "/brokers/ids/7", REGISTRATION), create(2, "/controller", CLAIM)]
    (tmp_path / "log.1").write_bytes(zk.log(*begun, close(3, cxid, *paths)))

    tables = tables_of([tmp_path], 1 << 30)

    for name in ("brokers", "controllers"):
        (life,) = tables[name]
        assert (life["ended_by"], life["ended_zxid"], life["broker"]) == (ended_by, 3, 7)
    rows = [{name: row[name] for name in COLUMNS} for row in tables["events"] if row["kind"] in KINDS]
    seen = sightings_of(rows)
    assert [(s.kind, s.is_there, s.op) for s in seen] == [
        ("broker", True, "create"), ("controller", True, "create"), ("broker", False, ended_by),
        ("controller", False, ended_by),
    ]  # fmt: skip
    assert [found.verdict for found in judged_claims(seen)] == ["explained"] * 4
