"""How much memory does a process hold after many terms? This process runs one after the other."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

from msgspec import Struct

from controller.runtime.reclaiming import collect, dismantle, spare
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig, resident_mib


class Reign(Struct, frozen=True):
    """One term from its beginning to its end.

    Units:
        Processor seconds of the longest part of dismantling, and of collecting; MiB.
    """

    number: int
    loaded_mib: float
    left_mib: float
    dismantling_longest_s: float
    collecting_s: float


def reigns(shape: Shape, count: int) -> Iterator[Reign]:
    """Load everything, announce it, end; so many times."""
    for number in range(1, count + 1):
        rig = Rig(shape, is_encoding=False)
        gc.disable()
        for event in rig.everything():
            rig.emit(event)
            rig.run()
        gc.enable()
        spare()
        loaded_mib = resident_mib()
        watched = _Watched(rig)
        asyncio.run(dismantle(watched))
        longest_s = watched.longest_s
        del rig, watched
        began = time.process_time()
        collect()
        took_s = time.process_time() - began
        yield Reign(number, round(loaded_mib, 1), round(resident_mib(), 1), round(longest_s, 4), round(took_s, 4))


class _Watched:
    """A machine that is dismantled, and the longest part of that."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.longest_s = 0.0

    def let_go(self) -> bool:
        """Forget a part."""
        began = time.process_time()
        has_more = self._rig.machine.let_go()
        self.longest_s = max(self.longest_s, time.process_time() - began)
        return has_more
