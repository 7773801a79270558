"""How many changes may still be made? A bucket of tokens that fills again at the rate of a quota.

Source: Kafka's TokenBucket and ControllerMutationQuotaManager.throttleTimeMs; KIP-599.
"""

from __future__ import annotations

from math import floor

LONGEST_MS = 2**31 - 1


class TokenBucket:
    """Full at first. Its owner names the rate and the size at every use, because quotas change while it lives.

    Units:
        Tokens are partitions, a rate is in tokens a second, a `burst` is how many tokens there is room for.
    """

    __slots__ = ("_seen_ms", "_tokens", "used_ms")

    def __init__(self, burst: float, now_ms: int) -> None:
        """As many tokens as there is room for."""
        self._tokens = burst
        self._seen_ms = self.used_ms = now_ms

    def tokens(self, rate: float, burst: float, now_ms: int) -> float:
        """What is in it now; less than nothing is a debt."""
        elapsed_s = max(0, now_ms - self._seen_ms) / 1000
        self._tokens = min(burst, self._tokens + rate * elapsed_s)
        self._seen_ms = max(self._seen_ms, now_ms)
        return self._tokens

    def take(self, count: int, rate: float, burst: float, now_ms: int) -> float:
        """Take so many tokens out, be they there or not; what is left."""
        self._tokens = self.tokens(rate, burst, now_ms) - count
        self.used_ms = now_ms
        return self._tokens


def throttle_ms(tokens: float, rate: float) -> int:
    """How long it takes until a debt is paid. Where Kafka's number overflows it is the longest there can be.

    >>> throttle_ms(-10, 2), throttle_ms(0, 2), throttle_ms(-1, 0)
    (5000, 0, 2147483647)
    """
    if tokens >= 0:
        return 0
    if rate <= 0 or -tokens / rate >= LONGEST_MS / 1000:
        return LONGEST_MS
    return floor(-tokens / rate * 1000 + 0.5)
