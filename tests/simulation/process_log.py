"""Where do the log lines of simulated processes go? Into the world's trace; an error that is logged stops the world."""

from __future__ import annotations

import logging
from asyncio.events import _get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog
from structlog.typing import EventDict

from tests.simulation.loop import SimulatedLoop


@contextmanager
def told_in_traces() -> Iterator[None]:
    """While worlds run."""
    before = structlog.get_config()
    # The world's trace is better than the lines at debug level.
    structlog.configure(processors=[_tell], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        yield
    finally:
        structlog.configure(**before)


def _tell(_: Any, level: str, event: EventDict) -> NoReturn:
    loop = _get_running_loop()
    if isinstance(loop, SimulatedLoop) and not loop.is_dead:
        error = event.pop("exc_info", None)
        if isinstance(error, BaseException):
            loop.failed(error)
        text, details = event.pop("event"), ", ".join(f"{key}={value}" for key, value in event.items())
        loop.hear(" ".join(filter(None, (f"{level}:" if level in ("warning", "error") else "", text, details))))
    raise structlog.DropEvent
