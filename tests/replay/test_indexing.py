"""The index of a log does not depend on how it is cut for the tasks."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from metrics.replay.files.indexing import indexed
from metrics.replay.files.sources import stored_files
from tests.replay.any_files import spoilt
from tests.replay.test_any_files import records
from tests.unit.storage import zk_files as zk
from zk_layout.storage.log_index import Index

ONE_STEP = 1 << 60


def merged(index: Index) -> tuple[object, ...]:
    """Sections merged into runs, as if nothing had been cut."""
    runs: list[list[int]] = []
    for section in index.sections:
        if runs and runs[-1][1] == section.offset and runs[-1][3] + 1 == section.first:
            runs[-1][1], runs[-1][3] = section.end, section.last
        else:
            runs.append([section.offset, section.end, section.first, section.last])
    return runs, index.writes, index.damage, index.end


@pytest.mark.parametrize("seed", range(60))
def test_ranges_give_what_one_pass_gives(tmp_path: Path, seed: int) -> None:
    chosen = Random(seed)
    known = records(chosen.choice(("2.4.1", "2.8.2")))
    start = chosen.randrange(len(known) - 60)
    content = zk.LOG_HEADER + b"".join(known[start : start + chosen.randrange(1, 60)])
    content += bytes(chosen.choice((0, 5, 64, 9000)))
    for _ in range(chosen.choice((0, 0, 1, 2))):
        content = spoilt(content, chosen)
    content += chosen.choice((b"", b"", known[start][:40], known[start], bytes(500) + known[start]))
    log = tmp_path / "log.1"
    log.write_bytes(content)
    files = stored_files([str(log)])

    whole = merged(indexed(files, ONE_STEP)[str(log)])

    for size in (17, chosen.randrange(18, 400), chosen.randrange(400, 8000)):
        assert merged(indexed(files, ONE_STEP, range_bytes=size)[str(log)]) == whole, size
