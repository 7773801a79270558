"""One attempt of each task counts, however many were made; and several tasks read a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from metrics.replay.commands.jobs import ALL, Job, run
from metrics.replay.engine.engines import Local
from metrics.replay.events.splits import plan
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import survey
from tests.replay.any_files import differing, in_order, rows_of, tables_of, write_log
from tests.replay.test_any_files import CHROOTS, FIXTURES, records
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops


class Speculating(Local):
    """Runs each task twice, like independent workers; the first result comes last and counts."""

    def work(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        counts = [task(one) for one in of]
        for one in of:
            task(one)
        return counts


def test_what_a_second_attempt_writes_is_never_seen(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", records("2.4.1"))
    once, twice = (Job((str(tmp_path / "logs"),), f"{tmp_path}/{n}", split_bytes=5000) for n in ("once", "twice"))

    run(Local(), once)
    run(Speculating(), twice)

    found, whole = ({name: in_order(rows_of(job.out, name)) for name in ALL} for job in (twice, once))
    assert not differing(whole, found)
    assert not [path for path in Path(twice.out).rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("split_bytes", [300, 1000, 3000])
def test_a_snapshot_gives_the_same_however_many_tasks_read_it(tmp_path: Path, split_bytes: int) -> None:
    import gzip

    snapshot = FIXTURES / "native" / "kafka-2.4.1" / "snapshot.b4.gz"
    (tmp_path / "snapshot.b4").write_bytes(gzip.decompress(snapshot.read_bytes()))
    write_log(tmp_path, [record for record in records("2.4.1") if int.from_bytes(record[24:32]) > 0xB4])

    planned = plan(survey(stored_files([str(tmp_path)])), split_bytes)

    assert len([split for split in planned.splits if split.snapshot is not None]) > 1
    once, cut = (tables_of([tmp_path], size, CHROOTS["2.4.1"]) for size in (1 << 40, split_bytes))
    assert not differing(once, cut)


def test_a_split_names_only_the_topics_that_it_writes(tmp_path: Path) -> None:
    bodies = [zk.header(z, ops.CREATE) + zk.create(f"/brokers/topics/t{z}", b'{"partitions":{"0":[1]}}')
              for z in range(1, 101)]  # fmt: skip
    bodies.append(zk.header(101, ops.SET_DATA) + zk.set_data("/brokers/topics/t7", b'{"partitions":{"0":[2]}}', 1))
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))

    planned = plan(survey(stored_files([str(tmp_path)]), 1), 1)

    assert [len(split.known) for split in planned.splits] == [0] * 100 + [1]
    assert planned.last_writes.before(50, "/brokers/topics/t7") == (
        str(tmp_path / "log.1"),
        planned.splits[6].pieces[0].offset,
    )
    assert planned.last_writes.before(6, "/brokers/topics/t7") is None
