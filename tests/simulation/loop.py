"""How does a process' event loop run in simulated time? The world's clock wakes it while the process may run."""

from __future__ import annotations

import asyncio
import weakref
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

from tests.simulation.clock import Clock

_Ts = TypeVarTuple("_Ts")

# From an arrival to its handling by the loop; arrivals in between are handled together.
WAKE_S = 0.002
# So many times, one within the other, may a coroutine of a killed process wait while it cleans up.
MOST_CLEAN_UPS = 10


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop whose time is the world's, and which has no sockets.

    Everything that is ready runs at one moment. A paused process' loop runs nothing until it resumes, a killed
    one's never again.
    """

    def __init__(self, clock: Clock, hear: Callable[[str], None] = lambda _: None, wake_s: float = WAKE_S) -> None:
        """`hear` gets every line that the process logs."""
        self._clock = clock
        self._wake_s = wake_s
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._failures: list[BaseException] = []
        self._is_set = self._is_running = self._is_halted = self.is_dead = False
        self._paused_until = 0.0
        self._signals: dict[int, Callable[[], object]] = {}
        self.hear = hear

    @property
    def paused_until(self) -> float:
        """The time at which the process resumes."""
        return self._paused_until

    @paused_until.setter
    def paused_until(self, at: float) -> None:
        self._paused_until = at
        self._clock.after(max(0.0, at - self._clock.now), self._run)

    def halt(self) -> None:
        """Run nothing more, called from within: it is about to be killed."""
        self._is_halted = True

    def kill(self) -> None:
        """Stop for good; dismantle what waits, unobserved.

        What waits while it cleans up is cancelled there, too: nothing here wakes it, and a coroutine that is only
        collected one day may not await any more.
        """
        self.is_dead = True
        outer = _get_running_loop()
        _set_running_loop(self)
        try:
            for _ in range(MOST_CLEAN_UPS):
                for task in sorted(self._tasks, key=asyncio.Task.get_name):
                    task.cancel()
                while self._ready:
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
                if all(task.done() for task in self._tasks):
                    break
            else:
                raise RuntimeError(f"a killed process goes on in {[task for task in self._tasks if not task.done()]}")
        finally:
            _set_running_loop(outer)
        self._failures.clear()

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start the main task at the next waking; its errors stop the world."""
        task = self.create_task(coroutine)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Future[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)

    def _wake(self) -> None:
        if not self._is_set and not self._is_running and not self.is_dead:
            self._is_set = True
            self._clock.after(max(self._wake_s, self._paused_until - self._clock.now), self._run)

    def _run(self) -> None:
        self._is_set = False
        if self.is_dead or self._is_halted or not self._ready:
            return
        if self._paused_until > self._clock.now:
            self._wake()
            return
        outer = _get_running_loop()
        _set_running_loop(self)
        self._is_running = True
        try:
            while self._ready and not self._is_halted:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._is_running = False
            _set_running_loop(outer)
        if self._failures:
            raise self._failures.pop()

    # what asyncio asks of a loop

    def time(self) -> float:
        """Seconds since the world began."""
        return self._clock.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run it after what is ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._wake()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it later."""
        return self.call_at(self._clock.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it at that time, or as soon as the process may run."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled() and not self.is_dead:
                self._ready.append(handle)
                self._wake()

        self._clock.after(max(0.0, when - self._clock.now), due)
        return handle

    def run_in_executor(self, executor: object, func: Callable[[*_Ts], Any], *args: *_Ts) -> asyncio.Future[Any]:
        """Call it at once."""
        future = self.create_future()
        future.set_result(func(*args))
        return future

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **named: Any) -> asyncio.Task[Any]:  # type: ignore[override]  # generators need not be taken
        """A task of this loop."""
        task = asyncio.Task(coro, loop=self, **named)
        self._tasks.add(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the error; an abandoned waiting task is no failure, because its process was killed."""
        if "exception" in context:
            self.failed(context["exception"])

    def failed(self, error: BaseException) -> None:
        """An unexpected error stops the world."""
        if not self.is_dead:
            self._failures.append(error)

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Call it when the process gets that signal."""
        self._signals[sig] = lambda: callback(*args)

    def signal(self, number: int) -> None:
        """Send the process a signal; without signal handlers yet, it ends."""
        if number in self._signals:
            self.call_soon(self._signals[number])

    def get_debug(self) -> bool:
        """Never."""
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled handle does nothing when its turn comes."""
