"""How long does a replica wait before its next claim?"""

from __future__ import annotations

RETRY_S, LONGEST_RETRY_S = 0.5, 5.0
RETRY_CLASH_S = 2.0
NATIVE_BEGINS_S = 2.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
LONG_TERM_S = 60.0


class Waiting:
    """A retry after a claim that was refused, a pause after a term that failed: others go first. A native controller
    that was just elected ends the moves that have arrived meanwhile: replaced half-way, it leaves their logs behind.

    Anything new about `/controller` ends a wait for a retry, unless a person must act first; it never ends a pause.
    """

    def __init__(self) -> None:
        self._refusal, self._refusals = "", 0
        self._is_for_a_person = False
        self._retry_at = self._pause_until = self._native_until = 0.0
        self._pause_s = 0.0
        self._began = 0.0

    @property
    def until(self) -> float:
        """When the next claim may be made."""
        return max(self._retry_at, self._pause_until, self._native_until)

    @property
    def is_known_refusal(self) -> bool:
        """Whether claims are being refused again and again for the same reason."""
        return self._refusals > 1

    def refused(self, reason: str, now: float, *, needs_mending: bool) -> bool:
        """A claim was refused; whether for another reason than the last one."""
        self._is_for_a_person = needs_mending
        is_news = reason != self._refusal
        self._refusals = 1 if is_news else self._refusals + 1
        self._refusal = reason
        self._retry_at = now + min(RETRY_S * self._refusals, LONGEST_RETRY_S)
        return is_news

    def clashed(self, now: float) -> None:
        """Our former session still has our id."""
        self._is_for_a_person = False
        self._retry_at = now + RETRY_CLASH_S

    def failed(self, now: float) -> None:
        """A claim came to nothing."""
        self._is_for_a_person = False
        self._retry_at = now + RETRY_S

    def looked(self, *, is_another: bool) -> None:
        """`/controller` was looked at again, and is held by another than before."""
        if is_another or not self._is_for_a_person:
            self._retry_at = 0.0

    def native_came(self, now: float) -> None:
        """A native controller was elected; another one in its place is not waited for again."""
        if self._native_until <= now:
            self._native_until = now + NATIVE_BEGINS_S

    def native_went(self) -> None:
        """No native controller leads."""
        self._native_until = 0.0

    def won(self, now: float) -> None:
        """A claim was accepted."""
        self._refusal, self._refusals = "", 0
        self._began = now

    def term_failed(self, now: float) -> None:
        """The term ended as it should not: a pause, longer each time while terms are short."""
        is_short = now - self._began < LONG_TERM_S
        longer_s = min(2 * self._pause_s or SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self._pause_s = longer_s if is_short else SHORTEST_PAUSE_S
        self._pause_until = now + self._pause_s
