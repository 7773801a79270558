"""How much do all links encode in one round of the event loop?

Ten brokers' worth of partitions at once would block it, and a round for each small command costs more than the command.
What all brokers are sent alike is encoded for the first of them, and for the others counts as a small command.
"""

from __future__ import annotations

import asyncio
from collections import deque

from controller.core.messages.commands import Command, UpdateMetadata, part_count

PARTITIONS_A_ROUND = 500
COMMAND_AS_PARTITIONS = 10  # what encoding and writing a command takes beside its partitions
_REMEMBERED = 16  # brokers are not all as far, but nearly


class Rounds:
    """Shares rounds among links, in the order in which they ask. A command that is larger has a round of its own."""

    def __init__(self) -> None:
        """Nothing is encoded in this round yet."""
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._shared: deque[UpdateMetadata] = deque(maxlen=_REMEMBERED)

    async def take(self, command: Command) -> None:
        """Return when this command may be encoded, in the same step of the caller's task."""
        loop, size = asyncio.get_running_loop(), COMMAND_AS_PARTITIONS + self._parts(command)
        if self._waiting or not self._fits(size):
            turn = loop.create_future()
            self._waiting.append((size, turn))
            await turn
        elif self._taken:
            self._taken += size
        else:
            self._taken = size
            loop.call_soon(self._renew, loop)

    def forget(self) -> None:
        """Drop all that is remembered as shared."""
        self._shared.clear()

    def _parts(self, command: Command) -> int:
        """How many partitions have to be encoded for it; the metadata that another link has asked for are encoded."""
        if isinstance(command, UpdateMetadata):
            if any(command is known for known in self._shared):
                return 0
            self._shared.append(command)
        return part_count(command)

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= PARTITIONS_A_ROUND

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let those encode in the next round who waited; they are before this in it, so that it is theirs alone."""
        self._taken = 0
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():  # its link may have been closed meanwhile
                turn.set_result(None)
                self._taken += size
        if self._taken:
            loop.call_soon(self._renew, loop)
