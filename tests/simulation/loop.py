"""How do coroutines run where time is simulated? At once, in one order, until each of them waits for an answer."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

_Ts = TypeVarTuple("_Ts")


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop without a clock and without sockets: whoever has brought an answer runs it.

    To sleep here is to let everybody else run first: all the time there is passes on simulated connections.
    """

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._failures: list[BaseException] = []
        self._is_running = False

    def run_ready(self) -> None:
        """Run what can run; what a started coroutine has raised is raised here."""
        if self._is_running:
            return  # an answer that came at once, to one that is being run
        outer = _get_running_loop()
        _set_running_loop(self)
        self._is_running = True
        try:
            while self._ready:
                self._ready.popleft()._run()
        finally:
            self._is_running = False
            _set_running_loop(outer)
        if self._failures:
            raise self._failures.pop()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let it run from the next `run_ready` on; nobody awaits it."""
        self.create_task(coroutine).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[None]) -> None:
        error = task.exception()
        if error is not None:
            self._failures.append(error)

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run it after what is ready."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it after what is ready, whatever the delay."""
        handle = asyncio.TimerHandle(0.0, callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **named: Any) -> asyncio.Task[Any]:  # type: ignore[override]  # generators need not be taken
        """A task of this loop."""
        return asyncio.Task(coro, loop=self, **named)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what was raised; that an abandoned task was still waiting is no failure: its process was killed."""
        if "exception" in context:
            self._failures.append(context["exception"])

    def get_debug(self) -> bool:
        """Never."""
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled handle does nothing when its turn comes."""
