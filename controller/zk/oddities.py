"""Which znodes are there, or hold bytes, that Kafka does not use? Each is named once, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.core.messages.effects import Notice
from zk_layout.catalog import Address
from zk_layout.codec import one_line

_STRANGERS_NAMED: Final = 100
_ODD_NAMED: Final = 100


class Oddities:
    """The oddities of one session; `notice` receives a sentence for each."""

    def __init__(self, notice: Callable[[Notice], None]) -> None:
        """Nothing was met yet."""
        self._notice = notice
        self._strangers: set[str] = set()
        self._odd: set[str] = set()

    def stranger(self, path: str) -> None:
        """A znode has a name that Kafka does not use."""
        if path in self._strangers or len(self._strangers) > _STRANGERS_NAMED:
            return
        self._strangers.add(path)
        text = f"{one_line(path)} is not a name that Kafka uses; it is ignored"
        if len(self._strangers) > _STRANGERS_NAMED:
            text = f"more than {_STRANGERS_NAMED} znodes have names that Kafka does not use; they are ignored"
        self._notice(Notice("unknown znode", text))

    def content(self, address: Address, oddity: str) -> None:
        """A znode was read that could be decoded; some of its bytes were passed over."""
        path = address.path
        if path in self._odd or len(self._odd) > _ODD_NAMED:
            return
        self._odd.add(path)
        text = f"{path} has {oddity}, which is passed over, as Kafka does; its next write is clean"
        if len(self._odd) > _ODD_NAMED:
            text = f"more than {_ODD_NAMED} znodes have bytes that are passed over, as Kafka does"
        self._notice(Notice("odd znode", text))
