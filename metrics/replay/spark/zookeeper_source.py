"""How does Spark read ZooKeeper's files? `spark.read.format("zookeeper")`, and as a stream.

Options: `path` (files or directories, separated by commas), `table` (transactions, znodes, events, damage),
`chroot` of Kafka within ZooKeeper, `splitBytes`, `asOf` (znodes: a zxid), `withData` (transactions: false leaves
the data out).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import structs
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition

from metrics.replay.events.schemas import TABLES, ddl, nodes_batch, snapshot_batch
from metrics.replay.events.splits import Split, plan
from metrics.replay.files.indexing import DEFAULT_SPLIT_BYTES
from metrics.replay.files.sources import Source, stored_files
from metrics.replay.files.state import END_OF_TIME, History, check_fit, fit_of, state_at, survey
from metrics.replay.spark.live_directory import LiveDirectoryReader
from metrics.replay.spark.pushdown import Bounds, bounds_of
from metrics.replay.spark.split_reading import ROWS_A_BATCH, OneSplit, damage_batches, read_split
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import StoredFile
from zk_layout.storage.snapshot import SnapshotReader


class SurveyDamage(InputPartition):
    """Damage found while planning."""

    def __init__(self, found: tuple[Damage, ...]) -> None:
        super().__init__(len(found))
        self.found = found


class WholeState(InputPartition):
    """The state at one zxid, from a snapshot and the logs after it."""

    def __init__(self, files: tuple[StoredFile, ...], as_of: int) -> None:
        super().__init__((len(files), as_of))
        self.files, self.as_of = files, as_of


class ZooKeeperSource(DataSource):
    """The format "zookeeper"."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "zookeeper"

    def schema(self) -> str:
        """The columns of the chosen table."""
        return ddl(self._table)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002  # its columns are always all of the table's
        """Read the existing files."""
        return ZooKeeperReader(dict(self.options), self._table)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802  # Spark's name
        """Follow a live directory."""
        return LiveDirectoryReader(dict(self.options), self._table)

    @property
    def _table(self) -> str:
        table = self.options.get("table", "transactions").lower()
        if table not in TABLES:
            raise ValueError(f"there is no table {table!r}; choose one of {', '.join(TABLES)}")
        return table


class ZooKeeperReader(DataSourceReader):
    """Plan on the driver, read in the tasks."""

    def __init__(self, options: dict[str, str], table: str) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self._paths = tuple(path.strip() for path in given.get("path", "").split(",") if path.strip())
        if not self._paths:
            raise ValueError("say where ZooKeeper's files are: .load(path)")
        self._table = table
        self._chroot = given.get("chroot", "").rstrip("/")
        self._split_bytes = int(given.get("splitbytes", DEFAULT_SPLIT_BYTES))
        self._as_of = int(given.get("asof", END_OF_TIME))
        self._with_data = given.get("withdata", "true").lower() != "false"
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Use filters that bound zxid, time or path; Spark checks all of them again."""
        self._bounds = bounds_of(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Splits of about `splitBytes` within the bounds; one split for the whole state of `znodes`."""
        files = stored_files(self._paths)
        if self._table == "znodes":
            return self._state_partitions(files)
        history = survey(files, self._split_bytes)
        planned = plan(history, self._split_bytes, self._chroot)
        splits: list[InputPartition] = [*self._wanted(planned.splits)]
        if self._table == "damage":
            splits.append(SurveyDamage((*history.damage, *planned.damage)))
        return splits or [InputPartition(None)]

    def _wanted(self, splits: Sequence[Split]) -> Iterator[OneSplit]:
        for split in splits:
            if split.snapshot is not None:
                if self._table in ("events", "damage"):
                    yield OneSplit(split)
            elif not self._bounds.excludes(*split.zxids, *split.times_ms):
                # Only events depend on the state before.
                yield OneSplit(split if self._table == "events" else structs.replace(split, known={}))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        # Rows are plain tuples without cycles; looking for cycles among them would double the time.
        gc.disable()
        try:
            yield from self._read(partition)
        finally:
            gc.enable()

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OneSplit):
            yield from read_split(partition.split, self._table, self._chroot, self._bounds, self._with_data)
        elif isinstance(partition, SurveyDamage):
            yield from damage_batches(partition.found)
        elif isinstance(partition, WholeState):
            yield from self._read_state(partition)

    def _state_partitions(self, files: tuple[StoredFile, ...]) -> Sequence[InputPartition]:
        return [WholeState(files, self._as_of)]

    def _read_state(self, partition: WholeState) -> Iterator[pa.RecordBatch]:
        history = survey(partition.files)
        newest = history.snapshots[0] if history.snapshots else None
        is_asked = newest is not None and partition.as_of in (newest.zxid, END_OF_TIME)
        if newest is not None and is_asked and history.last_zxid <= newest.zxid:
            yield from _snapshot_alone(newest, history, self._bounds)
            return
        tree = state_at(history, [], partition.as_of)
        nodes = ((p, n) for p, n in tree.nodes.items() if p.startswith(self._bounds.path_prefix))
        while batch := list(islice(nodes, ROWS_A_BATCH)):
            yield nodes_batch(batch)


def _snapshot_alone(file: StoredFile, history: History, bounds: Bounds) -> Iterator[pa.RecordBatch]:
    """Whether nothing was written after the snapshot, so that it can be streamed."""
    reader, fit = SnapshotReader(file.path), fit_of(file, history)
    for chunk in Source(file).chunks():
        rows = reader.feed(chunk)
        fit.take(rows)
        if bounds.path_prefix:
            rows = [row for row in rows if row[0].startswith(bounds.path_prefix)]
        if rows:
            yield snapshot_batch(rows)
    if reader.is_whole:
        check_fit(file, history, fit, [])
