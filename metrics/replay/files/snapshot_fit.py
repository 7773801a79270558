"""Is a snapshot of the same cluster as the logs? They must agree wherever they overlap.

A snapshot is taken while writes go on: it may show effects after its zxid, from which nothing is concluded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice

from zk_layout.storage.files import epoch_and_counter
from zk_layout.storage.operations import CREATIONS, DELETE, SET_DATA, Row, is_session_owner
from zk_layout.storage.order import Piece, gap_between
from zk_layout.storage.snapshot import SnapshotRow

MOST_ROWS_BEHIND = 2000
MOST_SAMPLES = 2
_OF_THE_SERVER = "/zookeeper"

# zxid, op, version
_Write = tuple[int, int, int]
# zxid, path, time_ms
Sample = tuple[int, str, int]


class Fit:
    """Finds where the rows of a snapshot contradict the logs.

    Shape:
        `contradiction` is impossible within one cluster. `doubt` is possible if transactions are missing in between.
        `samples` are the latest writes, to be looked up in the logs, which should hold them.
    """

    def __init__(self, zxid: int, pieces: Sequence[Piece], behind: Iterable[Row]) -> None:
        """`behind` are the logs' rows after `zxid`, that of the snapshot's name; only the first are read."""
        self.contradiction: str | None = None
        self.samples: list[Sample] = []
        self._zxid = zxid
        self._pieces = pieces
        self._firsts = [piece.first for piece in pieces]
        self._range = (pieces[0].first, pieces[-1].last) if pieces else (1, 0)
        self._writes: dict[str, _Write] = {}
        self._unseen: set[str] = set()
        self._conflict: str | None = None
        self._is_certain = True
        self._follow(behind)

    def take(self, rows: Iterable[SnapshotRow]) -> None:
        """Compare some of its znodes."""
        first, last = self._range
        for path, _, _, czxid, mzxid, ctime_ms, mtime_ms, version, _, _, owner, _ in rows:
            if first <= mzxid <= last:
                self._compare_time(path, mzxid, mtime_ms)
            if first <= czxid <= last:
                self._compare_time(path, czxid, ctime_ms)
            if path in self._writes:
                self._unseen.discard(path)
                if max(czxid, mzxid) <= self._zxid and not is_session_owner(owner):
                    self._compare_write(path, version)

    @property
    def doubt(self) -> str | None:
        """The reason why this snapshot and the logs may not be consecutive."""
        if self._conflict or not self._unseen:
            return self._conflict
        zxid, path = min((self._writes[path][0], path) for path in self._unseen)
        return f"transaction {zxid:#x} changes {path}, which it does not show"

    def _follow(self, behind: Iterable[Row]) -> None:
        """Note the first write of each znode, until a transaction is missing."""
        at = self._zxid
        gone: set[str] = set()
        for row in islice(behind, MOST_ROWS_BEHIND):
            zxid, op, path, version, failed = row[0], row[6], row[7], row[9], row[12]
            if zxid > at and gap_between(at, zxid) is not None:
                break
            # A gap is only visible within an epoch, whose length is unknown.
            self._is_certain &= epoch_and_counter(zxid)[0] == epoch_and_counter(self._zxid)[0]
            at = zxid
            if failed is None and path:
                self._writes.setdefault(path, (zxid, op, version))
                if op not in CREATIONS and op != SET_DATA:
                    gone.add(path)
        self._unseen = {p for p, (_, op, _) in self._writes.items() if op == SET_DATA and p not in gone}

    def _compare_time(self, path: str, zxid: int, time_ms: int) -> None:
        piece = self._pieces[bisect_right(self._firsts, zxid) - 1]
        if zxid > piece.last or path.startswith(_OF_THE_SERVER):
            return
        if not piece.from_ms <= time_ms <= piece.to_ms:
            self.contradiction = f"transaction {zxid:#x} wrote {path} at another time"
        elif len(self.samples) < MOST_SAMPLES or zxid > self.samples[0][0]:
            self.samples = sorted({*self.samples, (zxid, path, time_ms)})[-MOST_SAMPLES:]

    def _compare_write(self, path: str, shown: int) -> None:
        zxid, op, version = self._writes[path]
        conflict = None
        if op == SET_DATA and version != shown + 1:
            conflict = f"transaction {zxid:#x} makes version {version} of {path}, which it shows at version {shown}"
        elif op in CREATIONS:
            conflict = f"transaction {zxid:#x} creates {path}, which it shows already"
        if conflict and self._is_certain:
            self.contradiction = conflict
        self._conflict = self._conflict or conflict


def is_logged(sample: Sample, rows: Sequence[Row]) -> bool:
    """Whether the rows of a transaction hold a write that a snapshot shows."""
    _, path, time_ms = sample
    return any(row[7] == path and row[1] == time_ms and row[6] != DELETE and row[12] is None for row in rows)
