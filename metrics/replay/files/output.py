"""Where do the tables go, and what of what is there is ours? A manifest says so, and only that is ever replaced.

Everything is written aside and takes its place at the end, so that a run that fails leaves what was there before.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.files.sources import arrow_filesystem, in_a_line

MANIFEST = "replay.json"
REMEMBERED = "read.msgpack"
MADE_BY = "kafka-zk-controller replay"
_UNFINISHED, _FORMER, _PLANNED = "replay-unfinished", "replay-former", "planned.json"
_SHOWN = 3
# What a manifest may name, and the files that this project and Spark write below it.
_RESULT = re.compile(r"[a-z][a-z_]*(?:\.html)?|read\.msgpack")
_WRITTEN = re.compile(
    r"[^/]+/(?:.*/)?(?:_temporary/.*|\.?part-[^/]+|\.?_SUCCESS(?:\.crc)?|(?:replay|planned)\.json|report\.html|read\.msgpack)(?:\.unfinished)?"
)


class NotOurs(ValueError):
    """A directory holds what no replay has made."""


class InUse(ValueError):
    """Another replay is writing into the directory."""


class Manifest(Struct, frozen=True):
    """What a replay wrote into its directory. Without it the directory holds no whole result."""

    written: tuple[str, ...]
    made_by: str = MADE_BY


class Output:
    """A directory for one replay's tables."""

    def __init__(self, out: str) -> None:
        self.out = out.rstrip("/") or out
        self._files, self._root = filesystem_of(self.out)

    def claim(self, names: Sequence[str]) -> None:
        """Make sure that `names` may be written, and undo what an interrupted run has left.

        Raises:
            NotOurs: there is something that no replay has made; nothing is touched.
            InUse: another replay is at work there.
        """
        with self._alone():
            self._claim(names)

    @contextmanager
    def aside(self, names: Sequence[str]) -> Iterator[str]:
        """Where to write `names`; they take the place of all former ones at the end, unless something failed."""
        self._refuse_file()
        self._files.create_dir(self._root, recursive=True)
        with self._alone():
            self._claim(names)
            self._remove(_UNFINISHED)
            self._files.create_dir(self._at(_UNFINISHED), recursive=True)
            self._note((), _UNFINISHED)
            try:
                yield f"{self.out}/{_UNFINISHED}"
                self._publish(names)
            finally:
                self._remove(_UNFINISHED)

    def add(self, name: str, content: bytes) -> None:
        """Write one more file, whole or not at all."""
        with self._alone():
            self._claim([name])
            self._note((*(n for n in self.written if n != name), name))
            self._write(name, content)

    def keep(self, name: str, content: bytes) -> None:
        """Write a file that later replays leave alone, into any directory.

        Raises:
            NotOurs: there is a file of this name that says something else.
        """
        self._refuse_file()
        with self._alone():
            if self._exists(name) and self._read(name) != content:
                raise NotOurs(f"{self.out}/{name} says something else: remove it, or choose another directory")
            present = self._names()
            if self._is_ours(present) and not self._strange(present):
                self._recover(present)  # or a manifest would call whole what a killed run has left
                self._note(self.written)
            elif not present:
                self._note(())
            self._write(name, content)

    @property
    def written(self) -> tuple[str, ...]:
        """What the last whole replay wrote."""
        manifest = self._manifest(MANIFEST)
        return manifest.written if manifest else ()

    @property
    def standing(self) -> str:
        """What is there, for a person whose run has failed."""
        if self.written:
            return f"the tables below {self.out} are those of the last whole run"
        return f"there are no tables below {self.out}"

    def _claim(self, names: Sequence[str]) -> None:
        self._refuse_file()
        present = self._names()
        if not present:
            return
        if not self._is_ours(present):
            self._refuse(present)
        if strange := self._strange(present):
            self._refuse(strange)
        self._recover(present)
        if strangers := self._names() & {*names} - {*self.written}:
            self._refuse(strangers)

    def _refuse_file(self) -> None:
        if self._kind("") == "File":
            raise NotOurs(f"{self.out} is a file: choose a directory")

    def _refuse(self, found: frozenset[str]) -> NoReturn:
        raise NotOurs(f"{self.out} holds what no replay has made ({_some(found)}): choose another directory")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other replays out, where the file system can; the lock of a process that dies is gone with it."""
        if self._files.type_name != "local" or self._kind("") != "Directory":
            yield
            return
        directory = os.open(self._root, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(directory)
            raise InUse(f"another replay is writing into {self.out}") from None
        except OSError:  # it has no locks
            pass
        try:
            yield
        finally:
            os.close(directory)

    def _publish(self, names: Sequence[str]) -> None:
        if absent := [name for name in names if not self._exists(f"{_UNFINISHED}/{name}")]:
            raise FileNotFoundError(f"{', '.join(absent)} vanished from {self.out}/{_UNFINISHED} before the end")
        former = self.written
        self._remove(_FORMER)
        self._files.create_dir(self._at(_FORMER))
        try:
            for name in (MANIFEST, *former):
                self._move(name, f"{_FORMER}/{name}")
            # From here on what is in its place is new, and all that is former is aside.
            self._write(f"{_FORMER}/{_PLANNED}", msgspec.json.encode(names))
            for name in names:
                self._move(f"{_UNFINISHED}/{name}", name)
            self._note(names)
        except BaseException:
            self._undo()
            raise
        self._remove(_FORMER)

    def _recover(self, present: frozenset[str]) -> None:
        if _FORMER in present and MANIFEST not in present:
            self._undo()
        self._remove(_FORMER)
        self._remove(_UNFINISHED)

    def _undo(self) -> None:
        """Back to the former tables. The manifest went first and comes back last; it may all be done twice."""
        former = self._manifest(f"{_FORMER}/{MANIFEST}")
        if former is None and self._exists(MANIFEST):
            return
        for name in self._planned():
            self._remove(name)
        self._remove(f"{_FORMER}/{_PLANNED}")
        for name in (*(former.written if former else ()), MANIFEST):
            self._move(f"{_FORMER}/{name}", name)

    def _is_ours(self, present: frozenset[str]) -> bool:
        """Whether a manifest says so: that of a whole replay, or of one that was interrupted."""
        if MANIFEST in present:
            return self._manifest(MANIFEST) is not None
        found = present & {_FORMER, _UNFINISHED}
        # One that was interrupted at once had written nothing.
        return bool(found) and not self._strange(found)

    def _strange(self, present: frozenset[str]) -> frozenset[str]:
        """What lies where a replay writes and removes, but was not written by one."""
        places = present & {_FORMER, _UNFINISHED, *self.written}
        below = [
            info.path[len(self._root) + 1 :]
            for place in places
            if self._kind(place) == "Directory"
            for info in self._listed(self._at(place), recursive=True)
            if info.type.name == "File"
        ]
        return frozenset(path for path in below if not _WRITTEN.fullmatch(path))

    def _planned(self) -> tuple[str, ...]:
        """The tables of a run that was interrupted while it put them in their places."""
        if not self._exists(f"{_FORMER}/{_PLANNED}"):
            return ()
        try:
            planned = msgspec.json.decode(self._read(f"{_FORMER}/{_PLANNED}"), type=tuple[str, ...])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ()
        return planned if all(map(_RESULT.fullmatch, planned)) else ()

    # ---- files ----------------------------------------------------------------------------------------------

    def _manifest(self, name: str) -> Manifest | None:
        if not self._exists(name):
            return None
        try:
            manifest = msgspec.json.decode(self._read(name), type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        # It says what is removed: a name that leads elsewhere is none of ours.
        is_ours = manifest.made_by == MADE_BY and all(map(_RESULT.fullmatch, manifest.written))
        return manifest if is_ours else None

    def _note(self, names: Sequence[str], place: str = "") -> None:
        self._write(
            f"{place}/{MANIFEST}".lstrip("/"),
            msgspec.json.format(msgspec.json.encode(Manifest(tuple(names))), indent=2),
        )

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _names(self) -> frozenset[str]:
        found = {Path(info.path).name for info in self._listed(self._root, recursive=False)}
        return frozenset(found - {f"{MANIFEST}.unfinished"})  # of a run that was killed while it wrote it

    def _listed(self, place: str, *, recursive: bool) -> Sequence[Any]:
        found: Sequence[Any] = self._files.get_file_info(
            fs.FileSelector(place, allow_not_found=True, recursive=recursive)
        )
        return found

    def _kind(self, name: str) -> str:
        return str(self._files.get_file_info(self._at(name)).type.name)

    def _exists(self, name: str) -> bool:
        return self._kind(name) != "NotFound"

    def _read(self, name: str) -> bytes:
        with self._files.open_input_stream(self._at(name)) as stream:
            return bytes(stream.read())

    def _write(self, name: str, content: bytes) -> None:
        aside = self._at(f"{name}.unfinished")
        self._files.create_dir(self._root, recursive=True)
        with self._files.open_output_stream(aside) as stream:
            stream.write(content)
        self._files.move(aside, self._at(name))

    def _move(self, name: str, to: str) -> None:
        """A file or a directory; nothing where there is none."""
        kind = self._kind(name)
        if kind == "NotFound":
            return
        if kind == "File" or self._files.type_name in ("local", "py::hdfs", "mock"):
            self._files.move(self._at(name), self._at(to))
            return
        # Object stores have no directories that could be moved, and of empty ones only what says that they are there.
        self._files.create_dir(self._at(to), recursive=True)
        for info in self._listed(self._at(name), recursive=True):
            if info.type.name == "File":
                self._files.move(info.path, self._at(to) + info.path[len(self._at(name)) :])
        self._files.delete_dir(self._at(name))

    def _remove(self, name: str) -> None:
        kind = self._kind(name)
        if kind == "Directory":
            self._files.delete_dir(self._at(name))
        elif kind == "File":
            self._files.delete_file(self._at(name))


def filesystem_of(path: str) -> tuple[Any, str]:
    """What reads and writes there, and the path as it knows it."""
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        files, inside = arrow_filesystem(path)
    except (ValueError, OSError) as wrong:  # it knows no such store, or lacks what speaks to it
        raise ValueError(f"{path} cannot be written to: {in_a_line(wrong)}") from None
    return files, str(inside)


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
