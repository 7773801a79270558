"""How is a part of ZooKeeper followed in every session, whether or not this process leads?"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import ClassVar, Final, Generic, TypeVar

from controller.core.messages.effects import Notice, ReadAgain
from controller.runtime.supervision import Troubles, supervised
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.reader import Reader

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0

_Read = TypeVar("_Read")


class SessionReader(ABC, Generic[_Read]):
    """In each session: reads everything, then follows changes until the session ends, retrying what cannot be read.

    `_Read` is what one session has read. The former session's data stays in force until `_load` replaces it.
    """

    part: ClassVar[str]
    """The name under which troubles are reported."""

    def __init__(
        self, bridge: Callable[[], Bridge], notice: Callable[[Notice], None], troubles: Troubles | None
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper; `notice` receives each unreadable znode once."""
        self._troubles = troubles or Troubles()
        self._bridge = bridge
        self._notice = notice
        self._named: dict[str, str] = {}

    async def follow(self) -> None:
        """Follow until cancelled. Every failure is retried and affects no other part."""
        expected = (SessionEnded,)  # the parts that need a session report its end
        await supervised(self.part, self._follow_once, self._troubles, again_after_s=FIRST_WAIT_S, expected=expected)

    async def _follow_once(self) -> None:
        """Follow one session to its end."""
        read, reader = self._begin(self._bridge())
        try:
            await reader.load()
            await self._load(read)
            self._troubles.right(self.part)
            ending, wait_s = asyncio.ensure_future(reader.wait()), FIRST_WAIT_S
            while not ending.done():
                is_unread = await self._go_on(read, reader, ending, wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S) if is_unread else FIRST_WAIT_S
            ending.result()
        finally:
            reader.stop()

    @abstractmethod
    def _begin(self, bridge: Bridge) -> tuple[_Read, Reader]:
        """An empty result for a new session, and the reader that fills it."""

    @abstractmethod
    async def _load(self, read: _Read) -> None:
        """Put a complete read into force."""

    @abstractmethod
    def _unread(self, read: _Read) -> Collection[str]:
        """The paths that could not be read."""

    async def _go_on(self, read: _Read, reader: Reader, ending: asyncio.Future[None], wait_s: float) -> bool:
        """Wait, then retry what could not be read; False if everything has been read."""
        await asyncio.wait([ending], timeout=wait_s)
        unread = tuple(self._unread(read))
        if unread:  # no watch fires when a znode's ZooKeeper ACL changes
            reader.read_again(ReadAgain(unread))
        return bool(unread)

    def _name(self, path: str, notice: Notice | None) -> None:
        """Give each notice once for as long as it applies, across sessions; None withdraws it."""
        if notice is None:
            self._named.pop(path, None)
        elif self._named.get(path) != notice.text:
            self._named[path] = notice.text
            self._notice(notice)
