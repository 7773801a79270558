"""What if a process that is to end does not?"""

from __future__ import annotations

import os
import threading

from controller import logs


class LastResort:
    """Ends the process after a while, whatever it then waits for: another may lead as soon as it has gone."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def end_within(self, after_s: float, code: int) -> None:
        """End it by then with this exit code; replaces what was said before."""
        self.cancel()
        self._timer = threading.Timer(after_s, self._end, (code, after_s))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """It ends by itself."""
        if self._timer is not None:
            self._timer.cancel()

    @staticmethod
    def _end(code: int, after_s: float) -> None:
        logs.last_words("the process did not end by itself and is ended", waited_s=after_s)
        os._exit(code)
