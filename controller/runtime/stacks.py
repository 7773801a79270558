"""Where is every task and every thread right now? For an operator who asks a running process."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import Counter
from types import FrameType
from typing import Final

_DEEPEST: Final = 12


def of_tasks() -> list[tuple[str, int]]:
    """Each place where tasks of this event loop wait, and how many do; most first."""
    return Counter(
        " < ".join(map(_place, task.get_stack(limit=_DEEPEST)[::-1])) for task in asyncio.all_tasks()
    ).most_common()


def of_threads() -> list[tuple[str, str]]:
    """The name of each thread, and where it is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return [(names.get(ident, str(ident)), _stack(frame)) for ident, frame in frames]


def _stack(frame: FrameType) -> str:
    return " < ".join(_place(f) for f, _ in list(traceback.walk_stack(frame))[:_DEEPEST])


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
