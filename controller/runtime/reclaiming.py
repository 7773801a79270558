"""How is the memory of a term freed when the term is over?"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Releasing(Protocol):
    """What holds most of it: `controller.core.machine.Machine`."""

    def let_go(self) -> bool:
        """Release a part of the state; True if some is left."""


def spare() -> None:
    """The loaded state lives as long as the term: exempt it from garbage collection."""
    gc.freeze()


@contextmanager
def loading() -> Iterator[None]:
    """Load a state without garbage collections in between, then spare it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    spare()


async def dismantle(ended: Releasing) -> None:
    """Release a term's state in parts, so that nothing else on the event loop waits long."""
    while ended.let_go():
        await asyncio.sleep(0)


def collect() -> None:
    """Collect the cyclic garbage of an ended term.

    The collector would not do it: exempted objects are no longer young, and a standby process makes too little garbage
    for old objects ever to be collected.
    """
    gc.unfreeze()
    gc.collect()
