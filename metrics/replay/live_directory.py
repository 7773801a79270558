"""What has a live server written since? Its data directory as a stream that follows the logs as they roll over.

An offset names the log and the byte up to which its records were given. A log is left for the next one when that
one exists: a server never writes to an older log again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from metrics.replay.sources import NothingToRead, Source, stored_files
from metrics.replay.zookeeper_source import LogSplit, read_split
from zk_layout.storage.files import LOG, StoredFile
from zk_layout.storage.txnlog import TxnLogReader

Offset = dict[str, Any]


class LiveDirectoryReader(DataSourceStreamReader):
    """Option `startingZxid` leaves out logs that end before it (default: everything that is there)."""

    def __init__(self, options: dict[str, str], table: str) -> None:
        if table not in ("transactions", "events"):
            raise ValueError(f"{table} cannot be followed; transactions and events can")
        given = {key.lower(): value for key, value in options.items()}
        self._paths = tuple(path.strip() for path in given.get("path", "").split(",") if path.strip())
        self._chroot = given.get("chroot", "").rstrip("/")
        self._starting_zxid = int(given.get("startingzxid", "0"))
        self._table = table

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name
        """The start of the first log wanted."""
        logs = self._logs()
        later = [log for log in logs if log.zxid <= self._starting_zxid]
        first = later[-1] if later else (logs[0] if logs else None)
        return {"log": first.path if first else "", "at": 0}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802  # Spark's
        """The end of the last whole record on disk."""
        begin = start or self.initialOffset()
        logs = self._logs()
        if not logs:
            return begin
        newest = logs[-1]
        at = int(begin["at"]) if begin["log"] == newest.path else 0
        return {"log": newest.path, "at": _end_of_records(newest, at)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One for each log with something new."""
        logs = self._logs()
        by_path = {log.path: log for log in logs}
        first = by_path.get(start["log"], logs[0] if logs else None)
        last = by_path.get(end["log"])
        if first is None or last is None:
            return []
        splits = []
        for log in logs:
            if not first.zxid <= log.zxid <= last.zxid:
                continue
            begin = int(start["at"]) if log == first else 0
            stop = int(end["at"]) if log == last else None
            if stop is None or begin < stop:
                splits.append(LogSplit(log, begin, stop))
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one log's new part."""
        if isinstance(partition, LogSplit):
            yield from read_split(partition, self._table, self._chroot)

    def _logs(self) -> list[StoredFile]:
        try:
            return [file for file in stored_files(self._paths) if file.kind == LOG]
        except NothingToRead:
            return []


def _end_of_records(file: StoredFile, at: int) -> int:
    """How far whole records reach; a record still being written is left for the next time."""
    reader = TxnLogReader(file.path, at)
    for chunk in Source(file, 1 << 20).chunks(at):
        reader.feed(chunk)
    return reader.offset
