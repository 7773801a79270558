"""How is work shared among processes of this machine, one a core?

They are forked from a server that has loaded everything, and not from this process, which may have threads.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from msgspec import Struct
from pyspark import cloudpickle

_LOADED = ["metrics.replay.commands.report", "pyspark.cloudpickle"]
_AHEAD = 2  # for each process: one that runs, and one that waits


class Processes:
    """Processes that start with the first task, and end with this one, with `close`, or at an error."""

    def __init__(self, count: int) -> None:
        """Run at most `count` at once."""
        context = get_context("forkserver")
        context.set_forkserver_preload(_LOADED)
        self._count = count
        self._pool = ProcessPoolExecutor(count, context, _follow)
        self._aside = TemporaryDirectory(prefix="replay-shared-")

    def each(self, task: Callable[[Any], Any], of: Sequence[Any]) -> Iterator[Any]:
        """The task's result for each item, in order; no more than needed is computed ahead.

        Raises:
            BrokenProcessPool: one of the processes was killed.
        """
        waiting: deque[Future[Any]] = deque()
        try:
            for one in of:
                if len(waiting) >= _AHEAD * self._count:
                    yield waiting.popleft().result()
                waiting.append(self._pool.submit(_done, _pickled((task, one))))
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            # No process may still write while the files of a failed run are removed.
            self._kill()
            raise

    def share(self, value: Any) -> Stored:
        """Make a value available to each process."""
        number = len([*Path(self._aside.name).iterdir()])
        path = Path(self._aside.name) / str(number)
        path.write_bytes(_pickled(value))
        return Stored(str(path))

    def close(self) -> None:
        """End them."""
        self._pool.shutdown()
        self._aside.cleanup()

    def _kill(self) -> None:
        running = [*(self._pool._processes or {}).values()]  # before 3.14 there is no other way
        for process in running:
            process.kill()
        self._pool.shutdown(cancel_futures=True)


class Stored(Struct, frozen=True):
    """A value in a file."""

    path: str

    @property
    def value(self) -> Any:
        """The value, read once by each process."""
        return _loaded(self.path)


def _pickled(value: Any) -> bytes:
    """Pickled as by Spark, which supports inner functions, too."""
    made: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return made


@lru_cache(maxsize=4)
def _loaded(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


def _done(what: bytes) -> Any:
    task, one = pickle.loads(what)
    return task(one)


def _follow() -> None:
    """End with the parent process, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
