"""How many changes may still be made? A token bucket that refills at the rate of a quota.

Source: Kafka's TokenBucket and ControllerMutationQuotaManager.throttleTimeMs; KIP-599.
"""

from __future__ import annotations

from math import floor

LONGEST_MS = 2**31 - 1


class TokenBucket:
    """Full at first. Callers pass rate and size each time, because quotas change during its life.

    Units:
        Tokens are partitions, `rate` is in tokens a second, `burst` is the capacity in tokens.
    """

    __slots__ = ("_seen_ms", "_tokens", "used_ms")

    def __init__(self, burst: float, now_ms: int) -> None:
        self._tokens = burst
        self._seen_ms = self.used_ms = now_ms

    def tokens(self, rate: float, burst: float, now_ms: int) -> float:
        """The current balance; a negative one is a debt."""
        elapsed_s = max(0, now_ms - self._seen_ms) / 1000
        self._tokens = min(burst, self._tokens + rate * elapsed_s)
        self._seen_ms = max(self._seen_ms, now_ms)
        return self._tokens

    def take(self, count: int, rate: float, burst: float, now_ms: int) -> float:
        """Withdraw `count` tokens and return the balance, which may be negative."""
        self._tokens = self.tokens(rate, burst, now_ms) - count
        self.used_ms = now_ms
        return self._tokens


def throttle_ms(tokens: float, rate: float) -> int:
    """Milliseconds until a debt is paid; the maximum where Kafka's number would overflow.

    >>> throttle_ms(-10, 2), throttle_ms(0, 2), throttle_ms(-1, 0)
    (5000, 0, 2147483647)
    """
    if tokens >= 0:
        return 0
    if rate <= 0 or -tokens / rate >= LONGEST_MS / 1000:
        return LONGEST_MS
    return floor(-tokens / rate * 1000 + 0.5)
