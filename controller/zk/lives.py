"""Is a znode that is to be written still the one that was read, and not another of the same name and version?

A znode that was deleted and created again begins at version 0 as the former did, and no transaction can ask for its
czxid. But every child that is created raises the number that its parent gives to the next sequential name. So a
transaction that creates a sequential sibling, and deletes it again under the name that it must have had, is refused
where a child was created since the parent's number was read. What was read after that number is then what is written.

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
"""No topic is named like that."""
_int = struct.Struct(">i")
_CVERSION_AT, _CHILDREN_AT = 36, 56


class Births(Exists, frozen=True):
    """How many children were ever created in it? None if it is not there."""

    def deserialize(self, buffer: bytes, offset: int) -> int:  # type: ignore[override]  # the same bytes, read otherwise
        """A stat shows creations and deletions together, and how many children are left."""
        changes, left = _int.unpack_from(buffer, offset + _CVERSION_AT), _int.unpack_from(buffer, offset + _CHILDREN_AT)
        return int(changes[0] + left[0]) // 2


class Lives:
    """What one term's reader has seen of folders in which others create again what was deleted."""

    def __init__(self, folders: Iterable[str] = (), wake: Callable[[], None] = lambda: None) -> None:
        """Nothing was seen; of no other folder anything is remembered. `wake` has the reader count."""
        self.folders = tuple(folders)
        self._wake = wake
        self._uncounted: list[tuple[str, Callable[[], None]]] = []
        self._born: dict[str, Zxid] = {}
        self._counted: dict[str, tuple[int, Zxid]] = {}
        self._ours: dict[str, deque[tuple[Zxid, int]]] = {folder: deque() for folder in self.folders}
        self._in_flight: dict[str, int] = dict.fromkeys(self.folders, 0)
        self._unguarded: set[str] = set()

    def folder_of(self, path: str) -> str | None:
        """The folder of a path, if lives are told apart in it."""
        folder = path.rpartition("/")[0]
        return folder if folder in self._in_flight else None

    # ---- what is seen -----------------------------------------------------------------------------------------

    def saw(self, path: str, czxid: Zxid | None) -> None:
        """A znode was read; None where it was not there."""
        if self.folder_of(path) is None:
            return
        if czxid is None:
            self._born.pop(path, None)
        else:
            self._born[path] = czxid

    def counted(self, folder: str, births: int, as_of: Zxid) -> None:
        """So many children were ever created in a folder by then; all that has changed by then has been read."""
        self._counted[folder] = births, as_of
        ours = self._ours[folder]
        while ours and ours[0][0] <= as_of:
            ours.popleft()

    def take_uncounted(self) -> list[tuple[str, Callable[[], None]]]:
        """The folders to be counted now, and what is to be called once they are."""
        uncounted, self._uncounted = self._uncounted, []
        return uncounted

    # ---- what is written --------------------------------------------------------------------------------------

    def is_same(self, path: str, czxid: Zxid) -> bool:
        """Whether the znode that was read last is the one that was created then."""
        return self.folder_of(path) is None or self._born.get(path) == czxid

    def guard(self, folder: str, full: str) -> tuple[protocol.Operation, ...]:
        """What has a transaction refused if any child was created that we do not know of; nothing where that is not
        known. `full` is the folder with the chroot."""
        if folder in self._unguarded or folder not in self._counted:
            return ()
        births, _ = self._counted[folder]
        number = births + sum(made for _, made in self._ours[folder]) + self._in_flight[folder]
        create = protocol.Create(f"{full}/{MARK}", None, sequential=True)
        return create, protocol.Delete(f"{full}/{MARK}{number:010d}", -1)

    def sent(self, creations: Mapping[str, int]) -> None:
        """A transaction is under way that creates so many children in each folder."""
        for folder, count in creations.items():
            self._in_flight[folder] += count

    def answered(self, creations: Mapping[str, int], zxid: Zxid | None) -> None:
        """It was accepted, at this zxid, or not."""
        for folder, count in creations.items():
            self._in_flight[folder] -= count
            if zxid is not None:
                self._ours[folder].append((zxid, count))

    def refused(self, folder: str, then: Callable[[], None]) -> None:
        """A child was created that we do not know of; `then` is called once it has been counted.

        Every attempt before that would be refused as well.
        """
        self._uncounted.append((folder, then))
        self._wake()

    def give_up(self, folder: str) -> None:
        """We may not create anything there: versions have to do."""
        self._unguarded.add(folder)
