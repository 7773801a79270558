"""Is a znode about to be written still the one that was read, and not a successor with the same name and version?

A znode that was deleted and created again starts at version 0 like the former one, and no transaction can check its
czxid. But every creation of a child raises the number that the parent gives to the next sequential name. So we add to
the transaction the creation of a sequential sibling and its deletion under the name expected: if a child was created
since the parent's number was read, the transaction is refused. Otherwise the znode read after that number is the one
written.

Source: PrepRequestProcessor.pRequest2TxnCreate and DataNode.copyStat of ZooKeeper.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller.zk import protocol
from controller.zk.protocol import Exists
from zk_layout.ids import Zxid

MARK: Final = ":life:"
"""A name that no topic can have."""
BLIND_ATTEMPTS: Final = 3
_DIGITS: Final = 10  # of a sequential name
_int = struct.Struct(">i")
_CVERSION_AT, _CHILDREN_AT = 36, 56


class Births(Exists, frozen=True):
    """How many children were ever created in a folder? None if the folder does not exist."""

    def deserialize(self, buffer: bytes, offset: int) -> int:  # type: ignore[override]  # the same bytes, read otherwise
        """A stat gives creations and deletions together, and the number of children left."""
        changes, left = _int.unpack_from(buffer, offset + _CVERSION_AT), _int.unpack_from(buffer, offset + _CHILDREN_AT)
        return int(changes[0] + left[0]) // 2


class Lives:
    """What one term's reader has seen of folders in which other clients recreate what was deleted."""

    def __init__(self, folders: Iterable[str] = (), wake: Callable[[], None] = lambda: None) -> None:
        """Only `folders` are tracked. `wake` makes the reader count."""
        self.folders = tuple(folders)
        self._wake = wake
        self._uncounted: list[tuple[str, Callable[[], None]]] = []
        self._born: dict[str, Zxid] = {}
        self._counted: dict[str, tuple[int, Zxid]] = {}
        self._ours: dict[str, deque[tuple[Zxid, int]]] = {folder: deque() for folder in self.folders}
        self._in_flight: dict[str, int] = dict.fromkeys(self.folders, 0)
        self._unguarded: set[str] = set()
        self._blind: dict[str, int] = dict.fromkeys(self.folders, 0)

    def folder_of(self, path: str) -> str | None:
        """The folder of a path, if lives are distinguished there."""
        folder = path.rpartition("/")[0]
        return folder if folder in self._in_flight else None

    # ---- what is seen -----------------------------------------------------------------------------------------

    def saw(self, path: str, czxid: Zxid | None) -> None:
        """A znode was read; None if it did not exist."""
        if self.folder_of(path) is None:
            return
        if czxid is None:
            self._born.pop(path, None)
        else:
            self._born[path] = czxid

    def counted(self, folder: str, births: int, as_of: Zxid) -> None:
        """The number of children ever created in a folder by `as_of`. Every change up to then has been read."""
        self._counted[folder] = births, as_of
        ours = self._ours[folder]
        while ours and ours[0][0] <= as_of:
            ours.popleft()

    def take_uncounted(self) -> list[tuple[str, Callable[[], None]]]:
        """The folders to count now, each with a callback for when that is done."""
        uncounted, self._uncounted = self._uncounted, []
        return uncounted

    # ---- what is written --------------------------------------------------------------------------------------

    def is_same(self, path: str, czxid: Zxid) -> bool:
        """Whether the znode read last is the one created at `czxid`."""
        return self.folder_of(path) is None or self._born.get(path) == czxid

    def guard(self, folder: str, full: str) -> tuple[protocol.Operation, ...]:
        """Operations that make a transaction fail if a child was created that we do not know of; none if that cannot be
        known. `full` is the folder with the chroot.

        Where the children have not been counted yet, the transaction fails, too: that makes the reader count them.
        """
        if folder in self._unguarded:
            return ()
        if folder in self._counted:
            births, _ = self._counted[folder]
            number = births + sum(made for _, made in self._ours[folder])
        elif self._blind[folder] < BLIND_ATTEMPTS:
            self._blind[folder] += 1
            number = -1
        else:
            return ()
        create = protocol.Create(f"{full}/{MARK}", None, sequential=True)
        return create, protocol.Delete(f"{full}/{MARK}{number:0{_DIGITS}d}", -1)

    def is_creating(self, folder: str) -> bool:
        """Whether creations of ours are in flight in a folder with guards.

        A guard must not count them: if ZooKeeper refuses one, or the connection is lost with it, another client's
        creation would go unnoticed in its place.
        """
        return self._in_flight[folder] > 0 and folder not in self._unguarded

    def sent(self, creations: Mapping[str, int]) -> None:
        """A transaction is in flight that creates this many children in each folder."""
        for folder, count in creations.items():
            self._in_flight[folder] += count

    def answered(self, creations: Mapping[str, int], zxid: Zxid | None) -> None:
        """The transaction was accepted at this zxid, or refused (None)."""
        for folder, count in creations.items():
            self._in_flight[folder] -= count
            if zxid is not None:
                self._ours[folder].append((zxid, count))

    def refused(self, folder: str, then: Callable[[], None]) -> None:
        """A child was created that we do not know of; `then` is called once it has been counted.

        Any attempt before that would be refused as well.
        """
        self._uncounted.append((folder, then))
        self._wake()

    def give_up(self, folder: str) -> None:
        """We may not create children there: fall back to versions."""
        self._unguarded.add(folder)
