"""How is the memory of a term given back when the term is over?"""

from __future__ import annotations

import asyncio
import gc
from typing import Protocol


class LettingGo(Protocol):
    """What holds most of it: `controller.core.machine.Machine`."""

    def let_go(self) -> bool:
        """Forget a part of what is known; whether something is left."""


def spare() -> None:
    """What was loaded lives as long as the term: the collector need not look at it again."""
    gc.freeze()


async def dismantle(ended: LettingGo) -> None:
    """Let go bit by bit of what a term knew, so that nothing else on the event loop waits for long."""
    while ended.let_go():
        await asyncio.sleep(0)


def collect() -> None:
    """Reclaim what is left of a term that nobody holds any more, and refers to itself.

    The collector would not do it: what it was spared while the term lasted is not young any more, and a process that
    stands by makes too little garbage for old objects ever to be looked at again.
    """
    gc.unfreeze()
    gc.collect()
