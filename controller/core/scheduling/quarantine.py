"""What has gone wrong and is to be tried again, and why?

An error costs what it concerns: a topic, a request, a write. That is named once when it is set aside, and shown until
it goes well again; every error is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controller.core.messages.outbox import Outbox

T = TypeVar("T")

NOTICE = "set aside"
MOST_SHOWN = 20
LONGEST_REASON = 300


class SetAside:
    """What is set aside in this term."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        """How many are set aside."""
        return len(self._reasons)

    def put(self, what: str, why: str, out: Outbox) -> None:
        """Set something aside; said unless it is already known to be."""
        out.measured("contained_errors")
        if what not in self._reasons:
            out.notice(NOTICE, f"{what} is set aside and tried again: {why[:LONGEST_REASON]}")
        self._reasons[what] = why[:LONGEST_REASON]

    def take_back(self, what: str) -> None:
        """It has gone well."""
        self._reasons.pop(what, None)

    def attempt(self, what: str, deed: Callable[[], T], out: Outbox) -> T | None:
        """Do something whose failure must cost nothing else; None where it failed."""
        try:
            result = deed()
        except Exception as error:
            self.put(what, described(error), out)
            return None
        if self._reasons:
            self.take_back(what)
        return result

    def sentences(self) -> tuple[str, ...]:
        """Each with its reason, as people read them; of very many the first."""
        shown = [f"{what}: {why}" for what, why in list(self._reasons.items())[:MOST_SHOWN]]
        more = len(self._reasons) - len(shown)
        return (*shown, f"and {more} more") if more else tuple(shown)


def described(error: Exception) -> str:
    """An error with the place where it was raised.

    Raises:
        MemoryError: it was one; whatever was under way may be half done.
    """
    if isinstance(error, MemoryError):
        raise error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}{place}"
