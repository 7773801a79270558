"""How does pyarrow read and write HDFS? By hdfs-native, which needs neither Hadoop nor Java."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic, sleep
from typing import Any

import hdfs_native
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.files.reading import CHUNK_BYTES

PATIENCE_S = 20
# Enough to ask three name nodes. The library's own three minutes are right once one has answered.
_FIRST_CALL = {"dfs.client.failover.max.attempts": "2"}
_REMOTE = re.compile(r'(?:Fatal)?RPCError\("(?:\w+\.)*(\w+)", "(.*)', re.DOTALL)
_OTHER = re.compile(r'\w+\("(.*)"\)', re.DOTALL)


def connected(place: str) -> Any:
    """The file system of a name node, a name service or a mount table, such as `hdfs://namenode:8020`.

    Raises:
        ValueError: the place names a user.
        OSError: no name node answers, or this process was forked from one that already uses HDFS.
    """
    if "@" in place:
        raise ValueError(f"a user is given in HADOOP_USER_NAME, and not in {place}")
    if _first_process() != os.getpid():
        raise OSError("HDFS cannot be used after a fork")  # it would wait for threads that the fork has not
    return _connected(place)


@cache
def _first_process() -> int:
    return os.getpid()


@cache
def _connected(place: str) -> Any:
    answers: SimpleQueue[OSError | None] = SimpleQueue()
    Thread(target=lambda: answers.put(_what_is_wrong(place)), daemon=True).start()
    try:
        wrong = answers.get(timeout=PATIENCE_S)
    except Empty:
        wrong = TimeoutError(f"no answer within {PATIENCE_S} s")
    if wrong is not None:
        raise wrong
    return fs.PyFileSystem(Hdfs(hdfs_native.Client(place)))


def _what_is_wrong(place: str) -> OSError | None:
    try:
        with _in_a_line():
            hdfs_native.Client(place, _FIRST_CALL).get_file_info("/")
    except OSError as wrong:
        return wrong
    return None


@contextmanager
def _in_a_line() -> Iterator[None]:
    """Turn Hadoop's errors, which carry a server's stack and are rarely file errors, into one line."""
    try:
        yield
    except OSError as wrong:
        raise type(wrong)(_first_line(str(wrong))) from None
    except RuntimeError as wrong:
        raise OSError(_first_line(str(wrong))) from None


def _first_line(text: str) -> str:
    """The first line of an error.

    >>> _first_line(r'RPCError("org.apache.hadoop.ipc.StandbyException", "not \\"active\\"\\n\\tat org.apache…")')
    'StandbyException: not "active"'
    """
    if found := _REMOTE.match(text):
        text = f"{found[1]}: {found[2]}"
    elif found := _OTHER.fullmatch(text):
        text = found[1]
    return re.split(r"\\n|\n", text)[0].replace('\\"', '"').removesuffix('")')


class Hdfs(fs.FileSystemHandler):  # type: ignore[misc]  # has no types
    """One client's files; a move replaces an existing file, as on a disk."""

    def __init__(self, client: hdfs_native.Client) -> None:
        self._client = client

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        try:
            with _in_a_line():
                found = [*self._client.list_status(selector.base_dir or "/", selector.recursive)]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        return [_file_info(status.path, status) for status in found]

    def create_dir(self, path: str, recursive: bool) -> None:
        with _in_a_line():
            self._client.mkdirs(path or "/", create_parent=recursive)

    def delete_dir(self, path: str) -> None:
        self._delete(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for info in self.get_file_info_selector(fs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self._delete(info.path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("all of HDFS is never deleted")

    def delete_file(self, path: str) -> None:
        self._delete(path)

    def move(self, src: str, dest: str) -> None:
        with _in_a_line():
            self._client.rename(src, dest, overwrite=True)

    def copy_file(self, src: str, dest: str) -> None:
        with self.open_input_file(src) as read, self.open_output_stream(dest, None) as written:
            while piece := read.read(CHUNK_BYTES):  # HDFS cannot copy
                written.write(piece)

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(self.opened(path), mode="r")

    def opened(self, path: str) -> _Read:
        """A file without pyarrow's layer, which takes as much time as the reading."""
        with _in_a_line():
            return _Read(self._client.read(path))

    def open_output_stream(self, path: str, metadata: object) -> Any:  # noqa: ARG002 (as pyarrow calls it)
        with _in_a_line():
            opened = self._client.create(path, hdfs_native.WriteOptions(overwrite=True))
        return pa.PythonFile(_Written(opened, lambda: len(self._client.read(path))), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> Any:  # noqa: ARG002 (as pyarrow calls it)
        with _in_a_line():
            before, opened = self._client.get_file_info(path).length, self._client.append(path)
        return pa.PythonFile(_Written(opened, lambda: len(self._client.read(path)) - before), mode="w")

    def _info(self, path: str) -> Any:
        try:
            with _in_a_line():
                return _file_info(path, self._client.get_file_info(path or "/"))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def _delete(self, path: str) -> None:
        with _in_a_line():
            if not self._client.delete(path, recursive=True):
                raise FileNotFoundError(path)


def _file_info(path: str, status: hdfs_native.FileStatus) -> Any:
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory)
    return fs.FileInfo(path, fs.FileType.File, size=status.length, mtime_ns=status.modification_time * 1_000_000)


class _Read(io.RawIOBase):
    """A file to read; the library panics on a seek beyond the end, and does not know the position then."""

    def __init__(self, file: hdfs_native.FileReader) -> None:
        self._file = file
        self._starts = (lambda: 0, file.tell, lambda: len(file))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with _in_a_line():
            return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(min(self._starts[whence]() + offset, len(self._file)))
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()


class _Written:
    """A file to write; once it is closed, every reader sees all of it.

    For a moment after the file was closed the name node may give readers all but its last block.
    """

    def __init__(self, file: hdfs_native.FileWriter, shown_length: Callable[[], int]) -> None:
        self._file = file
        self._shown_length = shown_length
        self._length = 0
        self.closed = False

    def write(self, content: Any) -> int:
        with _in_a_line():
            written = self._file.write(content)
        self._length += written
        return written

    def flush(self) -> None:
        """Do nothing: a file is read only once it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _in_a_line():
                self._file.close()
                self._await_length()

    def _await_length(self) -> None:
        until = monotonic() + PATIENCE_S
        while (shown := self._shown_length()) != self._length:
            if monotonic() > until:
                raise OSError(f"{self._length} bytes were written, and HDFS shows {shown} of them {PATIENCE_S} s later")
            sleep(0.01)
