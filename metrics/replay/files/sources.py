"""Where do the bytes of ZooKeeper's files come from? Local paths, and what pyarrow or fsspec opens.

Files are only ever opened for reading, so a live server's directory is safe.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from metrics.replay import INSTALL_THE_EXTRA
from metrics.replay.files.reading import CHUNK_BYTES
from zk_layout.storage import snapshot, txnlog
from zk_layout.storage.damage import Damage, Unreadable
from zk_layout.storage.files import LOG, SNAPSHOT, StoredFile, has_prefix, named
from zk_layout.storage.snappy import block_size, decompress, unframed

_GZIP_STEP_BYTES = 64 << 10
# Hadoop's names for pyarrow's schemes.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
# Google's library would try for a quarter of an hour, silently.
_PATIENCE = {"gs": "?retry_limit_seconds=30"}
_HADOOP = frozenset({"hdfs", "viewfs"})
# Below which an installation keeps snapshots and logs apart.
_DIRECTORIES = ("data", "log", "datalog")
_MAGIC = {LOG: txnlog.MAGIC, SNAPSHOT: snapshot.MAGIC}
_MAGIC_BYTES = 64 << 10
_OF_ZOOKEEPER = frozenset({"acceptedEpoch", "currentEpoch", "myid", "initialize", "zookeeper_server.pid"})


class NothingToRead(ValueError):
    """No file of a transaction log or snapshot was found."""


def stored_files(paths: Iterable[str]) -> tuple[StoredFile, ...]:
    """The logs and snapshots at these places, by zxid.

    Each may be a file, or a directory that holds files, ZooKeeper's own `version-2` directory, or `data`, `log` or
    `datalog` with such files. Give the directory of the snapshots and that of the logs if they differ.

    Raises:
        NothingToRead: one of the places does not exist, or has none.
    """
    wanted = tuple(map(located, paths))
    for path in wanted:
        if "://" not in path and not Path(path).exists():
            raise NothingToRead(f"{path}: no such file or directory")
    held = {path: [*_below(path)] for path in wanted}
    empty = [path for path, files in held.items() if not files]
    if empty:
        where = "" if len(empty) == len(held) else "; leave it out, or give the directory that holds them"
        raise NothingToRead(f"no log.* or snapshot.* of ZooKeeper at {', '.join(empty)}{where}")
    return tuple(sorted({file.path: file for files in held.values() for file in files}.values()))


def ignored_files(paths: Iterable[str]) -> tuple[str, ...]:
    """Files that are named neither like logs or snapshots nor like anything else that ZooKeeper keeps there."""
    found = (place for path in map(located, paths) if named(path) is None for place in _listed(path))
    return tuple(sorted(p for p in found if _listed_as(p) is None and p.rpartition("/")[2] not in _OF_ZOOKEEPER))


def located(path: str) -> str:
    """A place in the form that every process understands: absolute, and with pyarrow's scheme.

    >>> located("s3a://bucket/data"), located("/var/lib/../log")
    ('s3://bucket/data', '/var/log')
    """
    scheme, colon, inside = path.partition("://")
    if not colon:
        return os.path.abspath(path)  # resolve() would follow links that others may not have
    return f"{_SCHEMES.get(scheme, scheme)}://{inside}"


def in_a_line(wrong: Exception) -> str:
    """pyarrow's error about an unreachable store, in one line."""
    text = str(wrong)
    if "OAuth2 access token" in text:
        return "Google's store wants a login: set GOOGLE_APPLICATION_CREDENTIALS to the file of a key"
    if "No NameNode hosts found" in text:
        return "HADOOP_CONF_DIR tells of no such name service; a single name node is given with its port"
    if "allow_bucket_creation" in text:
        return text.partition(" To create")[0] + " Create it first."
    return text.partition("\n")[0].partition(" error_info={")[0]


class Source:
    """The decompressed bytes of one file; errors of the compression go to `damage`."""

    def __init__(self, file: StoredFile, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.file = file
        self.damage: list[Damage] = []
        self._chunk_bytes = chunk_bytes

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` on; a caller may stop at any time.

        Compressed files are always read from their first byte, and `start` must then be 0.
        """
        raw = self._raw(start, stop)
        if not self.file.compression:
            yield from raw
            return
        offset = 0
        try:
            for chunk in self._decompressed(raw):
                offset += len(chunk)
                yield chunk
        except (zlib.error, Unreadable) as wrong:
            self.damage.append(Damage(self.file.path, offset, f"cannot be decompressed further: {wrong}"))

    def _decompressed(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        if self.file.compression == "gz":
            return _gunzipped(raw, self._chunk_bytes)
        return unframed(raw, _fast_decompress())

    def _raw(self, start: int, stop: int | None) -> Iterator[bytes]:
        with open_for_reading(self.file.path) as file:
            file.seek(start)
            at = start
            # A record that begins before `stop` may end after it.
            while chunk := file.read(min(self._chunk_bytes, stop - at) if stop and at < stop else self._chunk_bytes):
                at += len(chunk)
                yield chunk


def open_for_reading(path: str) -> BinaryIO:
    """One file, never for writing."""
    if "://" not in path:
        return open(path, "rb", buffering=0)
    filesystem, inside = _remote(path)
    handler: Any = getattr(filesystem, "handler", None)
    if hasattr(handler, "opened"):
        return cast(BinaryIO, handler.opened(inside))
    if hasattr(filesystem, "open_input_file"):
        return cast(BinaryIO, filesystem.open_input_file(inside))
    return cast(BinaryIO, filesystem.open(inside, "rb"))


def size_of(path: str) -> int:
    """The file's size in bytes as stored."""
    if "://" not in path:
        return Path(path).stat().st_size
    with open_for_reading(path) as file:
        return file.seek(0, 2)


def is_file(path: str) -> bool:
    """Whether it is a local file; elsewhere a place counts as a directory."""
    return "://" not in path and Path(path).is_file()


def version_of(path: str) -> tuple[int, int]:
    """A value that changes when the file is written: its size and, if known, the time of the last write."""
    if "://" in path:
        return size_of(path), 0
    stat = Path(path).stat()
    return stat.st_size, stat.st_mtime_ns


def _below(path: str) -> Iterator[StoredFile]:
    itself = named(path)
    if itself is not None:
        yield itself
        return
    for found in _listed(path):
        file = _listed_as(found)
        if file is not None:
            yield file


def _listed_as(path: str) -> StoredFile | None:
    """The file of ZooKeeper's that an entry of a directory is; None for others, such as a program's `zookeeper.log.1`.

    A prefix may be that of a captured file: only its first bytes tell.
    """
    file = named(path)
    if file is None or not has_prefix(path):
        return file
    try:
        begin = next(filter(None, Source(file, _MAGIC_BYTES).chunks()), b"")
    except OSError:  # its reader reports it
        return file
    return file if begin.startswith(_MAGIC[file.kind]) else None


def _listed(path: str) -> list[str]:
    if "://" in path:
        return _remotely_listed(path)
    directory = Path(path)
    if not directory.is_dir():
        return []
    homes = [directory, *(directory / name for name in _DIRECTORIES)]
    places = [place for home in homes for place in (home, home / "version-2") if place.is_dir()]
    return [str(entry) for place in places for entry in place.iterdir() if entry.is_file()]


def _remotely_listed(path: str) -> list[str]:
    filesystem, inside = _remote(path)
    # A prefix such as a host or a user is repeated in the paths found below it.
    place = path.rstrip("/")
    inside = inside.rstrip("/")
    front = place.removesuffix(inside) if place.endswith(inside) else place.partition("://")[0] + "://"
    if not hasattr(filesystem, "get_file_info"):
        return [front + found for found in filesystem.find(inside)]
    from pyarrow.fs import (  # type: ignore[import-untyped,unused-ignore]  # has no types
        FileSelector,
        FileType,
    )

    infos = filesystem.get_file_info(FileSelector(inside, recursive=True, allow_not_found=True))
    return [front + info.path for info in infos if info.type == FileType.File]


def arrow_filesystem(path: str) -> tuple[Any, str]:
    """pyarrow's file system for a place, and the path within it.

    Raises:
        ValueError, OSError: pyarrow does not know the store, or lacks its driver.
    """
    place = located(path)
    scheme, _, rest = place.partition("://")
    if scheme in _HADOOP:
        try:
            from metrics.replay.files.hdfs import connected
        except ImportError as missing:
            raise OSError(f"{missing}: {INSTALL_THE_EXTRA}") from None
        name, slash, inside = rest.partition("/")
        return connected(f"{scheme}://{name}"), slash + inside or "/"
    from pyarrow.fs import FileSystem  # type: ignore[import-untyped,unused-ignore]  # has no types

    return cast("tuple[Any, str]", FileSystem.from_uri(place + _PATIENCE.get(scheme, "")))


def _remote(path: str) -> tuple[Any, str]:
    try:
        return arrow_filesystem(path)
    except (ValueError, OSError) as wrong:
        if path.partition("://")[0] in _HADOOP:
            raise NothingToRead(f"{path} cannot be opened: {in_a_line(wrong)}") from None
        try:
            import fsspec  # optional

            return cast("tuple[Any, str]", fsspec.core.url_to_fs(path))
        except (ImportError, ValueError, OSError) as other:
            raise NothingToRead(f"{path} cannot be opened: {in_a_line(wrong)}; {in_a_line(other)}") from None


def _gunzipped(raw: Iterator[bytes], piece_bytes: int) -> Iterator[bytes]:
    stream = None
    for chunk in raw:
        for at in range(0, len(chunk), _GZIP_STEP_BYTES):
            rest = chunk[at : at + _GZIP_STEP_BYTES]
            while rest:
                stream = stream or zlib.decompressobj(31)
                before = stream.copy()
                try:
                    yield stream.decompress(rest, piece_bytes)
                except zlib.error:
                    yield from _until_the_error(before, rest)
                rest = stream.unconsumed_tail
                if stream.eof:
                    # One file may hold several compressed streams.
                    rest = stream.unused_data.lstrip(b"\0")
                    stream = None
    if stream is not None:
        yield stream.flush()
        if not stream.eof:
            raise Unreadable("the gzip stream is cut short")


def _until_the_error(stream: Any, rest: bytes) -> Iterator[bytes]:
    """Decompress a damaged piece byte by byte, as far as it goes, and then raise the error."""
    for at in range(len(rest)):
        yield stream.decompress(rest[at : at + 1])


def _fast_decompress() -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]  # has no types
    except ImportError:
        return decompress
    codec = pyarrow.Codec("snappy")
    return lambda block: codec.decompress(block, block_size(block)[0], asbytes=True)
