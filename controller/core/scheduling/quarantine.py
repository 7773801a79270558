"""What has failed and will be retried, and why?

An error quarantines only its subject: a topic, a request, a write. The first error is logged, and the subject stays
listed until it succeeds; every error is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controller.core.messages.outbox import Outbox

T = TypeVar("T")

NOTICE = "set aside"
MOST_SHOWN = 20
LONGEST_REASON = 300


class Quarantine:
    """The subjects quarantined in this term."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        """The number of quarantined subjects."""
        return len(self._reasons)

    def put(self, what: str, why: str, out: Outbox) -> None:
        """Quarantine a subject; logs it unless it already is."""
        out.measured("contained_errors")
        if what not in self._reasons:
            out.notice(NOTICE, f"{what} is in quarantine and will be retried: {why[:LONGEST_REASON]}")
        self._reasons[what] = why[:LONGEST_REASON]

    def release(self, what: str) -> None:
        """Release a subject: it has succeeded."""
        self._reasons.pop(what, None)

    def attempt(self, what: str, action: Callable[[], T], out: Outbox) -> T | None:
        """Run the action; on an exception quarantine the subject and return None."""
        try:
            result = action()
        except Exception as error:
            self.put(what, described(error), out)
            return None
        if self._reasons:
            self.release(what)
        return result

    def sentences(self) -> tuple[str, ...]:
        """List the subjects with their reasons for an operator; at most `MOST_SHOWN`."""
        shown = [f"{what}: {why}" for what, why in list(self._reasons.items())[:MOST_SHOWN]]
        more = len(self._reasons) - len(shown)
        return (*shown, f"and {more} more") if more else tuple(shown)


def described(error: Exception) -> str:
    """Describe an error and the place that raised it.

    Raises:
        MemoryError: the error is one; any work in progress may be half done.
    """
    if isinstance(error, MemoryError):
        raise error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}{place}"
