"""Would a znode become larger than ZooKeeper takes, or nearly so?

ZooKeeper closes the connection over a request above its jute.maxbuffer, again and again: it must never be sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.effects import Notice
from controller.core.packing import Packed

ALARMING_SHARE = 0.8


class LargeZnodes:
    """What was warned of in this reign. Each znode is warned of once, while there is still time to do something."""

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes` is a little less than ZooKeeper's jute.maxbuffer."""
        self._limit = limit_bytes
        self._warned: set[str] = set()

    def refusal(self, packed: Iterable[Packed]) -> str | None:
        """Why these writes must not be sent, or None."""
        size_bytes, path = _largest(packed)
        if size_bytes <= self._limit:
            return None
        return (
            f"{path} would grow to {size_bytes} bytes, over the {self._limit} that ZooKeeper takes: "
            "ask for less at once, or raise jute.maxbuffer on the servers and here"
        )

    def warning(self, packed: Iterable[Packed]) -> Notice | None:
        """What a person should hear of these writes, if it is news."""
        size_bytes, path = _largest(packed)
        if size_bytes <= ALARMING_SHARE * self._limit or path in self._warned:
            return None
        self._warned.add(path)
        text = (
            f"{path} has grown to {size_bytes} of the {self._limit} bytes that ZooKeeper takes: move fewer of its "
            "partitions at once, add no more, or raise jute.maxbuffer on the servers, the brokers and here"
        )
        return Notice("large znode", text)


def _largest(packed: Iterable[Packed]) -> tuple[int, str]:
    return max((len(data), w.address.path) for atom in packed for w, data in zip(atom.writes, atom.data, strict=True))
