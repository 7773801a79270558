"""How much has each user or client changed recently? Buckets for those with a limit, bounded in number.

A full bucket is like an unused one, and is forgotten. Clients choose their names, so buckets are keyed by a hash, and a
long name takes no more memory than a short one.

Source: Kafka's ClientQuotaManager, whose sensors expire after an hour; it keeps any number of them until then.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from math import inf

from controller.core.quotas.token_bucket import TokenBucket
from controller.core.state.quotas import Limit

EXPIRE_AFTER_MS = 3_600_000
MOST = 20_000
_KEY_BYTES = 16


class Buckets:
    """One bucket for each user or client with a limit.

    Units:
        `window_s` is how many seconds of its rate a bucket holds.
    """

    def __init__(self, window_s: float, most: int = MOST) -> None:
        self.window_s = window_s
        self._most = most
        self._buckets: dict[bytes, tuple[TokenBucket, float]] = {}

    def __len__(self) -> int:
        """The number of buckets."""
        return len(self._buckets)

    def tokens(self, limit: Limit, now_ms: int) -> float:
        """The tokens left under this limit."""
        bucket, burst = self._found(limit, now_ms), self._burst(limit.rate)
        return burst if bucket is None else bucket.tokens(limit.rate, burst, now_ms)

    def take(self, limit: Limit, count: int, now_ms: int) -> float:
        """Withdraw `count` tokens and return the balance."""
        bucket, burst = self._found(limit, now_ms), self._burst(limit.rate)
        if bucket is None:
            if len(self._buckets) >= self._most:
                self._make_room(now_ms)
            bucket = TokenBucket(burst, now_ms)
        self._buckets[_key(limit.user, limit.client)] = bucket, limit.rate
        return bucket.take(count, limit.rate, burst, now_ms)

    def forget(self, user: str, client: str) -> None:
        """Forget the buckets of a client without a limit: earlier changes must not count under a later limit."""
        if self._buckets:
            for counted in ((user, client), (user, ""), ("", client)):
                self._buckets.pop(_key(*counted), None)

    def _burst(self, rate: float) -> float:
        return rate * self.window_s

    def _found(self, limit: Limit, now_ms: int) -> TokenBucket | None:
        found = self._buckets.get(_key(limit.user, limit.client))
        return None if found is None or now_ms - found[0].used_ms > EXPIRE_AFTER_MS else found[0]

    def _make_room(self, now_ms: int) -> None:
        """Forget full buckets, and a tenth of the others: those with the shortest waits."""
        waits = {}
        for key, (bucket, rate) in self._buckets.items():
            burst = self._burst(rate)
            missing = burst - bucket.tokens(rate, burst, now_ms)
            if missing > 0 and now_ms - bucket.used_ms <= EXPIRE_AFTER_MS:
                waits[key] = missing / rate if rate else inf
        kept = sorted(waits, key=lambda key: waits[key])[max(0, len(waits) - self._most * 9 // 10) :]
        self._buckets = {key: self._buckets[key] for key in kept}


@lru_cache(64)
def _key(user: str, client: str) -> bytes:
    return blake2b(f"{user}/{client}".encode(), digest_size=_KEY_BYTES).digest()
