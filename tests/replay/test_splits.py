"""The state before a split is looked up in the snapshot if it is too large to hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from metrics.replay.events import splits
from metrics.replay.events.splits import Place, Standing, beginning_of, held
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import survey
from metrics.replay.spark.live_directory import LiveDirectoryReader
from tests.replay.any_files import Rows, Tables, differing, in_order, tables_of
from tests.replay.test_any_files import CHROOTS, FIXTURES, SNAPSHOTS

VERSIONS = ("2.4.1", "2.8.2")
SMALL = 700


@pytest.fixture(params=VERSIONS)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """An uncompressed snapshot, and the log after it."""
    directory = FIXTURES / "native" / f"kafka-{request.param}"
    snapshot = SNAPSHOTS[request.param]
    for name in (snapshot, next(path.name for path in directory.glob("log.*") if path.name != "log.1.gz")):
        (tmp_path / name.removesuffix(".gz")).write_bytes(gzip.decompress((directory / name).read_bytes()))
    return tmp_path, CHROOTS[request.param]


def looked_up(monkeypatch: pytest.MonkeyPatch, directory: Path, chroot: str, split_bytes: int) -> Tables:
    with monkeypatch.context() as nothing_held:
        nothing_held.setattr(splits, "MOST_HELD_BYTES", 0)
        return tables_of([directory], split_bytes, chroot)


@pytest.mark.parametrize("split_bytes", [SMALL, 3_000, 20_000])
def test_what_is_looked_up_is_what_would_have_been_held(
    history: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, split_bytes: int
) -> None:
    directory, chroot = history

    found = looked_up(monkeypatch, directory, chroot, split_bytes)

    assert not differing(tables_of([directory], 1 << 30, chroot), found)


def test_the_place_is_held_where_the_data_would_be_too_much(
    history: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, chroot = history
    read = survey(stored_files([str(directory)]))
    data = beginning_of(read, [], chroot, SMALL).known
    monkeypatch.setattr(splits, "MOST_HELD_BYTES", 0)

    places = beginning_of(read, [], chroot, SMALL).known

    assert all(isinstance(where, Place) for where in places.values())
    assert len(places) > 1
    assert held(Standing(0, places)).known == data


def test_a_stream_goes_on_when_the_snapshot_that_it_began_with_is_deleted(
    history: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, chroot = history
    monkeypatch.setattr(splits, "MOST_HELD_BYTES", 0)
    reader = LiveDirectoryReader({"path": str(directory), "chroot": chroot, "splitBytes": str(SMALL)}, "events")
    begin, end = reader.initialOffset(), reader.latestOffset()
    first = survey(stored_files([str(directory)])).first_zxid

    def rows(since: dict[str, int], until: dict[str, int]) -> Rows:
        found = [r for p in reader.partitions(since, until) for b in reader.read(p) for r in b.to_pylist()]
        return in_order([row for row in found if row["op"] != "known"])

    whole = rows(begin, end)
    assert whole
    for snapshot in directory.glob("snapshot.*"):
        assert rows(begin, {"zxid": first}) != whole
        snapshot.unlink()

    assert in_order([*rows({"zxid": first}, end), *[row for row in whole if row["zxid"] <= first]]) == whole
