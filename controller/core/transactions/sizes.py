"""Would a znode become larger than ZooKeeper takes, or nearly so?

ZooKeeper closes the connection over a request above its jute.maxbuffer, again and again: it must never be sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.effects import Notice
from controller.core.transactions.packing import Piece

ALARMING_SHARE = 0.8


class ZnodeSizes:
    """What was warned of in this term. Each znode is warned of once, while there is still time to do something."""

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes` is a little less than ZooKeeper's jute.maxbuffer."""
        self._limit = limit_bytes
        self._warned: set[str] = set()

    def refusal(self, pieces: Iterable[Piece]) -> str | None:
        """Why these writes must not be sent, or None."""
        size_bytes, path = _largest(pieces)
        if size_bytes <= self._limit:
            return None
        return (
            f"{path} would grow to {size_bytes} bytes, above ZooKeeper's limit of {self._limit}: "
            "request fewer changes at once, or raise jute.maxbuffer on the ZooKeeper servers and here"
        )

    def warning(self, pieces: Iterable[Piece]) -> Notice | None:
        """What a person should hear of these writes, if it is news."""
        size_bytes, path = _largest(pieces)
        if size_bytes <= ALARMING_SHARE * self._limit or path in self._warned:
            return None
        self._warned.add(path)
        text = (
            f"{path} has grown to {size_bytes} of the {self._limit} bytes that ZooKeeper allows: move fewer of its "
            "partitions at once, add no more, or raise jute.maxbuffer on the ZooKeeper servers, the brokers and here"
        )
        return Notice("large znode", text)


def _largest(pieces: Iterable[Piece]) -> tuple[int, str]:
    every = (made for piece in pieces for made in piece.operations)
    return max((len(made.data), made.write.address.path) for made in every)
