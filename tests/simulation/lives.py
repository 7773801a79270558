"""How did many seeds end, run in several processes at once?"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import get_context

from msgspec import Struct

from tests.simulation.coverage import Coverage
from tests.simulation.world import World


class Life(Struct, frozen=True):
    """One world from its start to its end, or to the promise that it broke.

    Units:
        `hours` are simulated cluster-hours.
    """

    seed: int
    hours: float
    coverage: Coverage
    lines: list[str]
    error: str | None = None
    raised_at: str = ""


def live(seed: int, *, is_traced: bool = False) -> Life:
    """Run one seed; unless requested, its trace is kept only if it breaks a promise."""
    world, error, raised_at = World(seed), None, ""
    try:
        world.run()
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        raised_at = "".join(traceback.format_exception(raised)[-3:])
    lines = world.trace.lines if is_traced or error is not None else []
    return Life(seed, world.clock.now / 3600, world.coverage, lines, error, raised_at)


def lives(
    seeds: Iterable[int], jobs: int, is_enough: Callable[[], bool] = lambda: False, *, is_traced: bool = False
) -> Iterator[Life]:
    """Run these seeds, several at a time, about in their order, until the wanted number is reached."""
    if jobs == 1:
        for seed in seeds:
            if is_enough():
                return
            yield live(seed, is_traced=is_traced)
        return
    remaining, waiting = iter(seeds), set[Future[Life]]()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        while True:
            room = 0 if is_enough() else 2 * jobs - len(waiting)
            waiting |= {pool.submit(live, seed, is_traced=is_traced) for seed in islice(remaining, room)}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from sorted((future.result() for future in done), key=lambda life: life.seed)
