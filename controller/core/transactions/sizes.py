"""How large is the request for some writes, and does ZooKeeper accept it?

ZooKeeper closes the connection, every time, on a request above its jute.maxbuffer: such a request must never be sent.
The size is counted as ZooKeeper counts it, to the byte: everything after a request's length, with headers, paths and
the check of the controller epoch that begins every transaction.

Source: ZooKeeper's NIOServerCnxn.readLength and zookeeper.jute: RequestHeader, MultiHeader, CheckVersionRequest,
CreateRequest, SetDataRequest, DeleteRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct

from controller.core.messages.effects import Create, Delete, Operation, Set
from controller.core.messages.outbox import Outbox
from controller.core.settings import OPEN_ACL_BYTES
from zk_layout.znodes.controller import ControllerEpochAddress

ALARMING_SHARE = 0.8
UNBOUNDED = 1 << 40
NUMBER = 4  # a version, the flags of a creation, or the length before a path or data
REQUEST_HEADER = 8
OPERATION_HEADER = 9  # for each operation, and once more at the end


class RequestSizes(Struct):
    """The sizes of a request's parts, for any number of writes.

    Shape:
        `losses` alone changes the limits, while ZooKeeper seems to take less than the setting says.
    Units:
        All in bytes. `limit_bytes` is ZooKeeper's jute.maxbuffer; `chroot_bytes` are added to every path, and at most
        `acl_bytes` to every creation. Independent writes share a request of at most `shared_bytes`. Requests of
        `doubted_bytes` or more may be too large, although the setting allows them.
    """

    limit_bytes: int
    chroot_bytes: int = 0
    acl_bytes: int = OPEN_ACL_BYTES
    shared_bytes: int = UNBOUNDED
    doubted_bytes: int = UNBOUNDED

    @property
    def empty_bytes(self) -> int:
        """The size of a request that only checks the controller epoch."""
        return REQUEST_HEADER + self._path_bytes(ControllerEpochAddress().path) + NUMBER + OPERATION_HEADER

    @property
    def room_bytes(self) -> int:
        """The room for the writes of one transaction."""
        return self.limit_bytes - self.empty_bytes

    def write_bytes(self, made: Operation) -> int:
        """What one write adds to a request."""
        write = made.write
        named = self._path_bytes(write.address.path)
        match write:
            case Create():
                return named + NUMBER + len(made.data) + self.acl_bytes + NUMBER
            case Set():
                return named + NUMBER + len(made.data) + NUMBER
            case Delete():
                return named + NUMBER
            case _:
                assert_never(write)

    def most_data_bytes(self, path: str) -> int:
        """The most data that a znode can hold, whether it is created or set."""
        return self.room_bytes - self._path_bytes(path) - NUMBER - self.acl_bytes - NUMBER

    def _path_bytes(self, path: str) -> int:
        size = len(path) if path.isascii() else len(path.encode())
        return OPERATION_HEADER + NUMBER + self.chroot_bytes + size


class SizeWarnings:
    """The size warnings of this term: one for each znode that grows large, and one when it is too large."""

    def __init__(self, sizes: RequestSizes) -> None:
        self._sizes = sizes
        self._warned: set[str] = set()
        self._refused: set[str] = set()

    def may_be_news(self, size_bytes: int) -> bool:
        """Whether `refusal` has to look at writes that take so many bytes at most: mostly all are small."""
        return bool(self._refused) or size_bytes + self._sizes.empty_bytes > ALARMING_SHARE * self._sizes.limit_bytes

    def refusal(self, writes: Iterable[Operation], out: Outbox) -> str | None:
        """Return why these writes are too large to send, or None. Logs a warning the first time."""
        size_bytes, path = max((self._sizes.write_bytes(made), made.write.address.path) for made in writes)
        size_bytes += self._sizes.empty_bytes
        limit = self._sizes.limit_bytes
        if size_bytes > limit:
            message = (
                f"writing {path} would take a request of {size_bytes} bytes, above ZooKeeper's limit of {limit}: "
                "request fewer changes at once, or raise jute.maxbuffer on the ZooKeeper servers and here"
            )
            if path not in self._refused:
                self._refused.add(path)
                out.notice("oversized znode", message)
            return message
        if size_bytes < self._sizes.doubted_bytes:
            self._refused.discard(path)
        if size_bytes > ALARMING_SHARE * limit and path not in self._warned:
            self._warned.add(path)
            text = (
                f"writing {path} takes {size_bytes} of the {limit} bytes that ZooKeeper allows: move fewer of its "
                "partitions at once, add no more, or raise jute.maxbuffer on ZooKeeper's servers, the brokers and here"
            )
            out.notice("large znode", text)
        return None
