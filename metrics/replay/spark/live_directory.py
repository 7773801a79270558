"""What have live servers written since? Their data directories as a stream that follows the logs as they roll over.

An offset is the last transaction that was emitted, so that it does not matter which server's log has it, or how logs
are cut into files. A record that is still being written is left for the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import structs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from metrics.replay.events.splits import Standing, held, plan
from metrics.replay.files.indexing import DEFAULT_SPLIT_BYTES, index_again, index_of
from metrics.replay.files.sources import NothingToRead, stored_files, version_of
from metrics.replay.files.state import History, history_of
from metrics.replay.spark.split_reading import OneSplit, read_split
from zk_layout.storage.files import LOG, StoredFile
from zk_layout.storage.log_index import Index

Offset = dict[str, Any]
_Version = tuple[int, int]


class LiveDirectoryReader(DataSourceStreamReader):
    """Option `startingZxid` leaves out everything before it (default: nothing)."""

    def __init__(self, options: dict[str, str], table: str) -> None:
        if table not in ("transactions", "events"):
            raise ValueError(f"{table} cannot be followed; transactions and events can")
        given = {key.lower(): value for key, value in options.items()}
        self._paths = tuple(path.strip() for path in given.get("path", "").split(",") if path.strip())
        self._chroot = given.get("chroot", "").rstrip("/")
        self._split_bytes = int(given.get("splitbytes", DEFAULT_SPLIT_BYTES))
        self._starting_zxid = int(given.get("startingzxid", "0"))
        self._table = table
        self._seen: dict[str, tuple[_Version, Index]] = {}
        self._standing: dict[int, Standing] = {}

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name
        """Before the first transaction wanted."""
        return {"zxid": max(self._starting_zxid - 1, 0)}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802  # Spark's
        """The last whole record on disk."""
        begin = start or self.initialOffset()
        return {"zxid": max(self._history().last_zxid, int(begin["zxid"]))}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The new transactions, the first time with a snapshot's rows of the time before."""
        after, until = int(start["zxid"]), int(end["zxid"])
        history = self._history()
        if until <= after or not history.pieces:
            return []
        since = self._standing.get(after)
        if since is None and after > 0:
            since = structs.replace(held(plan(history, self._split_bytes, self._chroot, until=after).end), zxid=after)
        planned = plan(history, self._split_bytes, self._chroot, since, until)
        self._standing = {until: structs.replace(held(planned.end), zxid=until)}
        if since is not None:
            self._standing[after] = since
        wanted = (s for s in planned.splits if s.snapshot is None or self._table == "events")
        return [OneSplit(split) for split in wanted]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        if isinstance(partition, OneSplit):
            yield from read_split(partition.split, self._table, self._chroot)

    def _history(self) -> History:
        try:
            files = stored_files(self._paths)
        except NothingToRead:
            files = ()
        indexes = {file.path: self._index(file) for file in files if file.kind == LOG}
        held = {path: index for path, index in indexes.items() if index.sections}
        return history_of(files, held, [])

    def _index(self, file: StoredFile) -> Index:
        version, known = self._seen.get(file.path, ((-1, -1), Index()))
        now = version_of(file.path)
        if now != version:
            known = index_again(file, known, self._split_bytes) or index_of(file, self._split_bytes)
            self._seen[file.path] = now, known
        return known
