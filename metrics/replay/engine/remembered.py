"""What did the last replay into a directory read, so that only what is new must be read?

Its parts of `events`, `partitions`, `ledger` and `edges` are kept if a whole run would read the same transactions
again: the same beginning, and up to the last of them the same zxids. Otherwise everything is read again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.engine.bulk import JOINED, SURVEY
from metrics.replay.files.indexing import DEFAULT_RANGE_BYTES, Work, here, index_again, indexed
from metrics.replay.files.output import REMEMBERED, Output, filesystem_of
from metrics.replay.files.sources import version_of
from metrics.replay.files.state import History, history_of
from zk_layout.storage.files import LOG, StoredFile
from zk_layout.storage.log_index import Index
from zk_layout.storage.order import Piece, gap_between

_KEPT = ("events", "partitions", "ledger", "edges", "damage")
_FORM = 2  # of the tables and of this file: a replay does not continue another version

Version = tuple[int, int]
Runs = Sequence[tuple[int, int]]


class Shrinking(ValueError):
    """A whole run would show less than the tables that it replaces."""


class Log(Struct, frozen=True):
    """What a log held when its file had this `version`."""

    version: Version
    index: Index


class Remembered(Struct, frozen=True):
    """What a replay has read, and in how many splits.

    Shape:
        `runs` are the first and last zxids of runs without a gap; `beginning` is the snapshot before them.
    """

    chroot: str
    logs: dict[str, Log]
    runs: tuple[tuple[int, int], ...] = ()
    beginning: tuple[str, Version] | None = None
    splits: int = 0
    form: int = _FORM

    @property
    def last(self) -> int:
        """The last transaction read."""
        return self.runs[-1][1] if self.runs else 0

    def is_begin_of(self, runs: Sequence[tuple[int, int]], beginning: tuple[str, Version] | None) -> bool:
        """Whether a whole run would read the same first.

        >>> Remembered("", {}, ((1, 5), (8, 9))).is_begin_of(((1, 5), (8, 20)), None)
        True
        >>> Remembered("", {}, ((1, 5), (8, 9))).is_begin_of(((1, 20),), None)
        False
        """
        until = tuple((first, min(last, self.last)) for first, last in runs if first <= self.last)
        return bool(self.runs) and beginning == self.beginning and until == self.runs

    def check_kept(self, out: str, runs: Runs, beginning: tuple[str, Version] | None) -> None:
        """Check that the files still hold what was read, up to the last transaction that they hold.

        Raises:
            Shrinking: they do not, as after ZooKeeper's autopurge.
        """
        until = runs[-1][1] if runs else 0
        was = [(first, min(last, until)) for first, last in self.runs if first <= until]
        held = _without_seams(runs)
        gone = next((run for run in was if not any(a <= run[0] and run[1] <= b for a, b in held)), None)
        if gone is None and (self.beginning is None or beginning is not None or runs[0][0] < self.runs[0][0]):
            return
        what = _lost(gone, held) if gone else "what a snapshot showed"
        raise Shrinking(
            f"the tables below {out} show {what}, which the files no longer hold: has autopurge deleted some? "
            f"Write into another directory (--out), or lose what only these tables show (--anew)"
        )


def recalled(out: str, chroot: str) -> Remembered | None:
    """What the last replay below `out` read; None if there was none, or it cannot be continued."""
    if REMEMBERED not in Output(out).written:
        return None
    filesystem, root = filesystem_of(out)
    try:
        with filesystem.open_input_stream(f"{root}/{REMEMBERED}") as stream:
            found = msgspec.msgpack.decode(stream.read(), type=Remembered)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.form == _FORM and found.chroot == chroot else None


def survey_again(
    files: Sequence[StoredFile], split_bytes: int, work: Work = here, known: Remembered | None = None
) -> tuple[History, dict[str, Log]]:
    """As `state.survey`, but known logs are only surveyed where they are new.

    Raises:
        NotOneCluster: two logs have different transactions of one zxid.
    """
    before = known.logs if known else {}
    logs: dict[str, Log] = {}
    fresh: list[tuple[StoredFile, Version]] = []
    for file in (file for file in files if file.kind == LOG):
        version, was = _version(file.path), before.get(file.path)
        if was is not None and was.version == version:
            logs[file.path] = was
        elif was is not None and (index := index_again(file, was.index, split_bytes)) is not None:
            logs[file.path] = Log(version, index)
        else:
            fresh.append((file, version))
    found = indexed([file for file, _ in fresh], split_bytes, work, DEFAULT_RANGE_BYTES)
    logs |= {file.path: Log(version, found[file.path]) for file, version in fresh}
    damage = [damaged for path in sorted(logs) for damaged in logs[path].index.damage]
    indexes = {path: log.index for path, log in logs.items() if log.index.sections}
    return history_of(tuple(files), indexes, damage), logs


def runs_of(pieces: Iterable[Piece]) -> tuple[tuple[int, int], ...]:
    """The zxids of pieces, merged into runs without a gap."""
    runs: list[tuple[int, int]] = []
    for piece in pieces:
        if runs and runs[-1][1] + 1 == piece.first:
            runs[-1] = (runs[-1][0], piece.last)
        else:
            runs.append((piece.first, piece.last))
    return tuple(runs)


def _without_seams(runs: Runs) -> list[tuple[int, int]]:
    """The same runs, each up to where the next epoch began without a loss."""
    ends = [*(following[0] for following in runs[1:]), 0]
    return [
        (first, before - 1 if before and gap_between(last, before) is None else last)
        for (first, last), before in zip(runs, ends, strict=True)
    ]


def _lost(run: tuple[int, int], held: Runs) -> str:
    """The first transactions of a run that are held no more."""
    begin = max([run[0], *(last + 1 for first, last in held if first <= run[0] <= last)])
    end = min([run[1], *(first - 1 for first, _ in held if first > begin)])
    return f"the transactions from {begin:#x} to {end:#x}"


def identity_of(snapshot: StoredFile | None) -> tuple[str, Version] | None:
    """A snapshot's identity, to be remembered."""
    return None if snapshot is None else (snapshot.path, _version(snapshot.path))


def remember(out: str, what: Remembered) -> None:
    """Write it below `out`."""
    filesystem, root = filesystem_of(out)
    with filesystem.open_output_stream(f"{root}/{REMEMBERED}") as stream:
        stream.write(msgspec.msgpack.encode(what))


def keep(former: str, out: str) -> None:
    """Link or copy the former tables' parts that splits have written to `out`; links cost no space."""
    filesystem, root = filesystem_of(former)
    target = filesystem_of(out)[1]
    for table in _KEPT:
        filesystem.create_dir(f"{target}/{table}", recursive=True)
        for info in filesystem.get_file_info(fs.FileSelector(f"{root}/{table}", allow_not_found=True)):
            name = info.base_name
            if name.startswith("part-") and int(name[5:].partition(".")[0]) < min(SURVEY, JOINED):
                _copy(filesystem, info.path, f"{target}/{table}/{name}")


def _copy(filesystem: fs.FileSystem, path: str, to: str) -> None:
    if filesystem.type_name != "local":
        filesystem.copy_file(path, to)
        return
    try:
        os.link(path, to)
    except OSError:  # the file system has no links
        shutil.copyfile(path, Path(to))


def _version(path: str) -> Version:
    try:
        return version_of(path)
    except OSError:  # its reader reports it
        return (-1, -1)
