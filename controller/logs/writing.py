"""How do log lines reach standard error without anybody waiting for whoever reads it?

A thread of its own writes them. What it cannot write in time is dropped and counted; the log says so where the lines
are missing, as soon as it is read again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_LINES: Final = 10_000
MOST_BYTES: Final = 8 * 1024 * 1024
_WRITTEN_AT_ONCE_BYTES: Final = 64 * 1024
_TICK_S: Final = 1.0
_FULL_PAUSE_S: Final = 0.02


class LineWriter:
    """Writes lines to a file descriptor, in the order in which they were put; from any thread.

    `gap` makes a line that says how many were dropped. `tick` is called about once a second in the writing thread,
    unless that is held up.
    """

    def __init__(
        self,
        descriptor: int,
        gap: Callable[[int], bytes],
        tick: Callable[[], None],
        *,
        most_lines: int = MOST_LINES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._gap = gap
        self._tick = tick
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._untold = 0
        self._is_writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> None:
        """Have a line written, or drop it if too many wait; never waits."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            if len(self._lines) >= self._most_lines or self._bytes + len(line) > self._most_bytes:
                self.dropped += 1
                self._untold += 1
                return
            self._tell_gap()
            self._append(line)
            self._changed.notify_all()

    def flush(self, within_s: float) -> bool:
        """Wait until everything is written; whether that came true in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._lines or self._untold or self._is_writing), within_s)

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)

    def _tell_gap(self) -> None:
        if self._untold:
            untold, self._untold = self._untold, 0
            self._append(self._gap(untold))

    def _write_all(self) -> None:
        ticked_at = time.monotonic()
        while True:
            chunk, count = self._take()
            if count and not self._write(chunk):
                with self._changed:
                    self.dropped += count
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
            if time.monotonic() - ticked_at >= _TICK_S:
                ticked_at = time.monotonic()
                with contextlib.suppress(Exception):
                    self._tick()

    def _take(self) -> tuple[bytes, int]:
        """Some lines; none after a while without any."""
        with self._changed:
            if not self._lines:
                self._tell_gap()
            if not self._lines:
                self._changed.wait(_TICK_S)
            taken: list[bytes] = []
            size = 0
            while self._lines and size < _WRITTEN_AT_ONCE_BYTES:
                taken.append(self._lines.popleft())
                size += len(taken[-1])
            self._bytes -= size
            self._is_writing = bool(taken)
            return b"".join(taken), len(taken)

    def _write(self, chunk: bytes) -> bool:
        view = memoryview(chunk)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # whoever shares the descriptor made it so
                time.sleep(_FULL_PAUSE_S)
            except OSError:  # nobody reads it any more, or its disk is full
                return False
        return True
