"""The token bucket does what a slow and obvious one does, and quotas are found as by a plain list of levels."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.quotas.token_bucket import TokenBucket, throttle_ms
from controller.core.state.quotas import Quotas
from zk_layout.znodes.quotas import DEFAULT, QuotaEntity

USERS, CLIENTS = ("ann", "bob"), ("tool", "app", "")
entities = st.builds(
    QuotaEntity, st.sampled_from((None, DEFAULT, *USERS)), st.sampled_from((None, DEFAULT, *CLIENTS[:2]))
).filter(lambda entity: entity != (None, None))


class SlowBucket:
    """Drops in what a millisecond brings, millisecond after millisecond, in exact numbers."""

    def __init__(self, size: Fraction) -> None:
        self.tokens, self.size, self.now_ms = size, size, 0

    def wait(self, rate: Fraction, size: Fraction, until_ms: int) -> None:
        while self.now_ms < until_ms:
            self.now_ms += 1
            self.tokens = min(size, self.tokens + rate / 1000)
        self.tokens = min(size, self.tokens)


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60), st.sampled_from((0.5, 1.0, 2.0, 8.0))), max_size=12),
)
def test_a_bucket_fills_and_empties_as_a_slow_one(window_s: int, uses: list[tuple[int, int, float]]) -> None:
    first = Fraction(uses[0][2] if uses else 1)
    fast, slow = TokenBucket(float(first) * window_s, 0), SlowBucket(first * window_s)
    now_ms = 0
    for wait_ms, count, rate in uses:
        now_ms += wait_ms
        slow.wait(Fraction(rate), Fraction(rate) * window_s, now_ms)
        slow.tokens -= count

        left = fast.take(count, rate, rate * window_s, now_ms)

        assert left == pytest.approx(float(slow.tokens), abs=1e-9)


@given(st.floats(-1e5, 1e5), st.sampled_from((0.1, 0.5, 1.0, 2.0, 1000.0)))
def test_after_the_wait_and_not_much_before_it_there_is_no_debt(tokens: float, rate: float) -> None:
    wait_ms = throttle_ms(tokens, rate)

    assert tokens + rate * (wait_ms + 1) / 1000 >= 0
    assert wait_ms == 0 or tokens + rate * (wait_ms - 1) / 1000 <= 0


def slow_rate(rates: dict[QuotaEntity, float], user: str, client: str) -> float | None:
    """Kafka's documented list of levels, one after the other; who has no client id has no place in any with one."""
    for entity in (
        QuotaEntity(user, client),
        QuotaEntity(user, DEFAULT),
        QuotaEntity(user, None),
        QuotaEntity(DEFAULT, client),
        QuotaEntity(DEFAULT, DEFAULT),
        QuotaEntity(DEFAULT, None),
        QuotaEntity(None, client),
        QuotaEntity(None, DEFAULT),
    ):
        if entity in rates:
            return rates[entity]
    return None


@given(st.dictionaries(entities, st.floats(0, 100)), st.sampled_from((*USERS, "eve")), st.sampled_from(CLIENTS[:2]))
def test_the_rate_is_that_of_the_first_level_that_has_one(
    rates: dict[QuotaEntity, float], user: str, client: str
) -> None:
    quotas = Quotas()
    quotas.apply(rates.items())

    limit = quotas.limit(user, client)

    assert (None if limit is None else limit.rate) == slow_rate(rates, user, client)


@given(st.lists(st.tuples(entities, st.none() | st.floats(0, 100))), st.sampled_from(USERS), st.sampled_from(CLIENTS))
def test_what_is_read_last_counts(read: list[tuple[QuotaEntity, float | None]], user: str, client: str) -> None:
    one_by_one, at_once = Quotas(), Quotas()
    for each in read:
        one_by_one.apply((each,))
    at_once.apply((entity, rate) for entity, rate in dict(read).items())

    assert one_by_one.limit(user, client) == at_once.limit(user, client)
