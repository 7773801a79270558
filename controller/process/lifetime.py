"""How does a process that runs until it is asked to stop begin, and what does each signal to it mean?

The daemon and the observer are such processes.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import signal as os_signal
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
import structlog

from controller.core.candidacy.candidacy import FAILED
from controller.http.status import Status
from controller.runtime import stacks
from controller.runtime.last_resort import LastResort

_log = structlog.get_logger(__name__)

STOP_SIGNALS = (os_signal.SIGTERM, os_signal.SIGINT)
STANDARD_STREAMS = (0, 1, 2)
TELL_SIGNALS = (os_signal.SIGUSR1, os_signal.SIGUSR2, os_signal.SIGQUIT)
# Keeps collections of the middle generation short and those of the oldest rare.
COLLECTION_THRESHOLDS = (10_000, 4, 6_000)


class Process(Protocol):
    """What lives as long as the process."""

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop to run it on."""

    async def live(self) -> int:
        """Run until asked to stop; return the exit code."""


def run(make: Callable[[LastResort], Process]) -> int:
    """Make what the process is, run it until it is asked to stop, and return the exit code."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    # kazoo warns at every attempt; we log once what an operator has to know of the connection.
    logging.getLogger("kazoo.client").setLevel(logging.ERROR)
    # Shows where the process was if the service manager ends it with SIGABRT.
    faulthandler.enable()
    last_resort = LastResort()
    try:
        process = make(last_resort)
        with asyncio.Runner(loop_factory=process.new_loop) as runner:
            return runner.run(process.live())
    except Exception:
        _log.exception("the process ends because of an unhandled error")
        return FAILED
    finally:
        last_resort.cancel()


def answer_signals(
    stop: Callable[[str], None], status: Callable[[], Status], read_again: Callable[[], None] | None = None
) -> None:
    """Have the running event loop call `stop` with a reason, call `read_again`, or log the state of the process, as a
    signal asks.

    SIGHUP asks for `read_again`, or for the end if there is none, or if the terminal at which the process was started
    is gone: the system says that with the same signal.
    """
    loop, terminals = asyncio.get_running_loop(), [at for at in STANDARD_STREAMS if os.isatty(at)]

    def hang_up() -> None:
        if read_again is not None and all(map(os.isatty, terminals)):
            read_again()
        else:
            stop("SIGHUP received")

    answers: dict[os_signal.Signals, Callable[[], None]] = {os_signal.SIGHUP: hang_up}
    answers |= {number: partial(stop, f"{number.name} received") for number in STOP_SIGNALS}
    for number, answer in answers.items():
        # nohup, for one, ignores SIGHUP.
        if os_signal.getsignal(number) is not os_signal.SIG_IGN:
            loop.add_signal_handler(number, answer)
    for number in TELL_SIGNALS:
        loop.add_signal_handler(number, _log_state, number.name, status)


def _log_state(signal: str, status: Callable[[], Status]) -> None:
    """Log the state of the process and where each task and thread is."""
    _log.info(f"{signal} received", **msgspec.structs.asdict(status()))
    for place, count in stacks.of_tasks():
        _log.info("tasks", count=count, at=place)
    for name, place in stacks.of_threads():
        _log.info("thread", name=name, at=place)


class Alarm:
    """The time at which the candidacy wants to be asked again; a new one replaces the former."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def ring(self, at: float, what: Callable[[], None]) -> None:
        """Call `what` at a time of the running event loop's clock, and not what was to be called before."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, what)

    def cancel(self) -> None:
        """Call nothing."""
        if self._timer is not None:
            self._timer.cancel()
