"""How large is the request that carries some writes, and does ZooKeeper take it?

ZooKeeper closes the connection over a request above its jute.maxbuffer, again and again: it must never be sent. What it
counts is counted, to the byte: all that follows the length of a request, with headers, paths and the check of the
controller epoch that every transaction begins with.

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
NUMBER = 4  # a version, the flags of a creation, and what precedes a path or data: its length
REQUEST_HEADER = 8
OPERATION_HEADER = 9  # of each operation, and once more at the end


class RequestSizes(Struct, frozen=True):
    """What a request has in it, however many writes it carries.

    Units:
        All in bytes. `limit_bytes` is ZooKeeper's jute.maxbuffer; `chroot_bytes` come with every path, and at most
        `acl_bytes` with whatever is created.
    """

    limit_bytes: int
    chroot_bytes: int = 0
    acl_bytes: int = OPEN_ACL_BYTES

    @property
    def empty_bytes(self) -> int:
        """A request that only checks the controller epoch."""
        return REQUEST_HEADER + self._path_bytes(ControllerEpochAddress().path) + NUMBER + OPERATION_HEADER

    @property
    def room_bytes(self) -> int:
        """What the writes of one transaction may take."""
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
        """The most that a znode can hold, whether it is created or set."""
        return self.room_bytes - self._path_bytes(path) - NUMBER - self.acl_bytes - NUMBER

    def _path_bytes(self, path: str) -> int:
        size = len(path) if path.isascii() else len(path.encode())
        return OPERATION_HEADER + NUMBER + self.chroot_bytes + size


class SizeWarnings:
    """What was said of sizes in this term: of each znode once that it grows large, and once that it is too large."""

    def __init__(self, sizes: RequestSizes) -> None:
        self._sizes = sizes
        self._warned: set[str] = set()
        self._refused: set[str] = set()

    def refusal(self, writes: Iterable[Operation], out: Outbox) -> str | None:
        """Why these writes must not be sent, or None; what a person should hear of them is said if it is news."""
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
        self._refused.discard(path)
        if size_bytes > ALARMING_SHARE * limit and path not in self._warned:
            self._warned.add(path)
            text = (
                f"writing {path} takes {size_bytes} of the {limit} bytes that ZooKeeper allows: move fewer of its "
                "partitions at once, add no more, or raise jute.maxbuffer on ZooKeeper's servers, the brokers and here"
            )
            out.notice("large znode", text)
        return None
