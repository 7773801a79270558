"""How is a part of ZooKeeper followed in every session of this process, whether or not it leads?"""

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
    """Reads everything in each session, then what changes, to its end; what cannot be read is tried again.

    `_Read` is what one session has read. What was known in the session before counts until `_load` has replaced it.
    """

    part: ClassVar[str]
    """What troubles are named after."""

    def __init__(
        self, bridge: Callable[[], Bridge], notice: Callable[[Notice], None], troubles: Troubles | None
    ) -> None:
        """Nothing is known. `bridge` is the present way to ZooKeeper; `notice` hears what cannot be read, once."""
        self._troubles = troubles or Troubles()
        self._bridge = bridge
        self._notice = notice
        self._named: dict[str, str] = {}

    async def follow(self) -> None:
        """For as long as this process lives; whatever goes wrong is tried again, and costs nothing else."""
        expected = (SessionEnded,)  # the parts that cannot do without a session say so
        await supervised(self.part, self._follow_once, self._troubles, again_after_s=FIRST_WAIT_S, expected=expected)

    async def _follow_once(self) -> None:
        """In one session, to its end."""
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
        """Nothing was read yet in this session; the reader fills it."""

    @abstractmethod
    async def _load(self, read: _Read) -> None:
        """The reader has read everything once: from now on this counts."""

    @abstractmethod
    def _unread(self, read: _Read) -> Collection[str]:
        """The paths that could not be read."""

    async def _go_on(self, read: _Read, reader: Reader, ending: asyncio.Future[None], wait_s: float) -> bool:
        """Wait, then try again what could not be read; whether there is any."""
        await asyncio.wait([ending], timeout=wait_s)
        unread = tuple(self._unread(read))
        if unread:  # a change of ZooKeeper's own ACLs sets no watch off
            reader.read_again(ReadAgain(unread))
        return bool(unread)

    def _name(self, path: str, notice: Notice | None) -> None:
        """Give a notice once for as long as it holds, through sessions; None where the znode is mended."""
        if notice is None:
            self._named.pop(path, None)
        elif self._named.get(path) != notice.text:
            self._named[path] = notice.text
            self._notice(notice)
