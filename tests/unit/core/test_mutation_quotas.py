"""Who changes too many partitions waits, by the quota that Kafka would apply, and no one else does."""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import CallId
from controller.core.messages.requests import Caller
from controller.core.quotas.buckets import EXPIRE_AFTER_MS, Buckets
from controller.core.quotas.mutations import QUOTA_EXCEEDED, MutationQuotas
from controller.core.quotas.token_bucket import LONGEST_MS, TokenBucket, throttle_ms
from controller.core.state.quotas import Limit, Quotas
from zk_layout.znodes.configs import Config, sanitized
from zk_layout.znodes.quotas import DEFAULT, QuotaEntity, rate_of

ANN, TOOL = "ann", "tool"
LEVELS = (
    QuotaEntity(ANN, TOOL),
    QuotaEntity(ANN, DEFAULT),
    QuotaEntity(ANN, None),
    QuotaEntity(DEFAULT, TOOL),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT, None),
    QuotaEntity(None, TOOL),
    QuotaEntity(None, DEFAULT),
)
"""Kafka's order: the first that is set counts."""


def caller(user: str = ANN, client: str = TOOL) -> Caller:
    return Caller("PLAINTEXT", "127.0.0.1", client, f"User:{user}")


class Counting:
    """Requests of one part each, at times in seconds; the window is that of Kafka's own test: 10 samples of 1 s."""

    def __init__(self, *rates: tuple[QuotaEntity, float]) -> None:
        self.known = Quotas()
        self.known.apply(rates)
        self.quotas = MutationQuotas(self.known, 10.0)
        self.calls = 0

    def ask(
        self, *changes: int, at: float = 0.0, by: Caller | None = None, strict: bool = True
    ) -> tuple[list[bool], int]:
        """Which parts of a request are allowed, and how long its client waits after it."""
        self.calls += 1
        call = CallId(self.calls)
        self.quotas.open(call, by or caller(), is_strict=strict)
        refused = [self.quotas.charge(call, part, count, at) for part, count in enumerate(changes)]
        assert set(refused) <= {None, QUOTA_EXCEEDED}
        return [refusal is None for refusal in refused], self.quotas.close(call, at)


LIMITED = (QuotaEntity(ANN, None), 2.0)


def test_a_strict_quota_lets_the_topic_through_that_exhausts_it_and_none_after_it() -> None:
    counting = Counting(LIMITED)

    assert counting.ask(30, 30) == ([True, False], 5_000)
    assert counting.ask(30, at=4.5) == ([False], 500)
    assert counting.ask(30, at=5.0) == ([True], 0)


def test_a_permissive_quota_refuses_nothing_and_lets_the_client_wait() -> None:
    assert Counting(LIMITED).ask(30, 30, strict=False) == ([True, True], 20_000)


def test_a_strict_client_need_not_wait_before_it_is_refused() -> None:
    assert Counting(LIMITED).ask(1_000) == ([True], 0)


def test_a_client_waits_only_for_what_is_left_when_it_is_answered() -> None:
    counting = Counting(LIMITED)
    counting.quotas.open(CallId(1), caller(), is_strict=False)

    counting.quotas.charge(CallId(1), 0, 30, 0.0)

    assert counting.quotas.close(CallId(1), 3.5) == 1_500
    assert counting.quotas.close(CallId(1), 3.5) == 0


def test_a_part_that_is_decided_again_is_counted_once() -> None:
    counting = Counting(LIMITED)
    counting.quotas.open(CallId(1), caller(), is_strict=True)

    for _ in range(3):
        assert counting.quotas.charge(CallId(1), 7, 30, 0.0) is None

    assert counting.ask(1) == ([False], 5_000)


def test_who_is_not_limited_never_waits() -> None:
    counting = Counting(LIMITED)

    assert counting.ask(1_000_000, 1, by=caller("bob")) == ([True, True], 0)
    assert Counting().ask(1_000_000, 1) == ([True, True], 0)


def test_100_000_partitions_at_once_take_their_time() -> None:
    assert Counting(LIMITED).ask(100_000, strict=False) == ([True], 49_990_000)


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_quota_counts(level: int) -> None:
    quotas = Quotas()
    quotas.apply((entity, float(rate)) for rate, entity in enumerate(LEVELS) if rate >= level)

    limit = quotas.limit(ANN, TOOL)

    assert limit is not None
    assert limit.rate == level


@pytest.mark.parametrize(
    ("entity", "shared_by"),
    [
        (QuotaEntity(ANN, DEFAULT), (ANN, TOOL)),
        (QuotaEntity(ANN, None), (ANN, "")),
        (QuotaEntity(DEFAULT, DEFAULT), (ANN, TOOL)),
        (QuotaEntity(DEFAULT, None), (ANN, "")),
        (QuotaEntity(None, DEFAULT), ("", TOOL)),
    ],
)
def test_a_default_is_a_quota_for_each_and_not_for_all_together(
    entity: QuotaEntity, shared_by: tuple[str, str]
) -> None:
    quotas = Quotas()
    quotas.apply(((entity, 3.0),))

    assert quotas.limit(ANN, TOOL) == Limit(*shared_by, 3.0)


def test_without_a_client_id_quotas_of_client_ids_do_not_apply() -> None:
    quotas = Quotas()
    quotas.apply(((QuotaEntity(None, DEFAULT), 1.0), (QuotaEntity(DEFAULT, DEFAULT), 2.0)))
    assert quotas.limit(ANN, "") is None

    quotas.apply(((QuotaEntity(DEFAULT, None), 3.0),))
    assert quotas.limit(ANN, "") == Limit(ANN, "", 3.0)


def test_no_one_is_the_default_by_its_name() -> None:
    counting = Counting((QuotaEntity(DEFAULT, None), 1.0), (QuotaEntity(sanitized(DEFAULT), None), 5.0))

    assert counting.ask(20, 20, by=caller(DEFAULT), strict=False)[1] == 0
    assert counting.ask(40, by=caller(DEFAULT), strict=False)[1] == 6_000


def test_a_quota_that_is_changed_counts_at_once() -> None:
    counting = Counting(LIMITED)
    counting.ask(40)

    counting.known.apply(((QuotaEntity(ANN, None), 20.0),))

    assert counting.ask(1) == ([False], 1_000)


def test_a_quota_that_is_taken_away_leaves_no_debt() -> None:
    counting = Counting(LIMITED)
    counting.ask(1_000)
    counting.known.apply(((QuotaEntity(ANN, None), None),))
    assert counting.ask(1) == ([True], 0)

    counting.known.apply((LIMITED,))
    assert counting.ask(1) == ([True], 0)


def test_a_quota_that_is_taken_away_while_a_request_is_decided_refuses_nothing_more() -> None:
    counting = Counting(LIMITED)
    counting.quotas.open(CallId(9), caller(), is_strict=True)
    counting.quotas.charge(CallId(9), 0, 100, 0.0)

    counting.known.apply(((QuotaEntity(ANN, None), None),))

    assert counting.quotas.charge(CallId(9), 1, 100, 0.0) is None


def test_a_rate_of_nothing_lets_one_request_through() -> None:
    counting = Counting((QuotaEntity(ANN, None), 0.0))

    assert counting.ask(1) == ([True], 0)
    assert counting.ask(1, at=3_000.0) == ([False], LONGEST_MS)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    bucket = TokenBucket(20.0, 10_000)
    bucket.take(30, 2.0, 20.0, 10_000)

    assert bucket.tokens(2.0, 20.0, 0) == -10.0
    assert bucket.tokens(2.0, 20.0, 15_000) == 0.0


def test_an_hour_of_nothing_is_forgotten_with_its_debt() -> None:
    slow = (QuotaEntity(ANN, None), 0.001)
    hour = EXPIRE_AFTER_MS / 1000

    assert Counting(slow, slow).ask(1) == ([True], 0)
    for after, is_allowed in ((hour, False), (hour + 0.001, True)):
        counting = Counting(slow)
        counting.ask(100)
        assert counting.ask(1, at=after)[0] == [is_allowed]


def test_any_number_of_names_of_any_length_takes_bounded_memory() -> None:
    buckets = Buckets(1.0, most=100)

    for n in range(1_000):
        buckets.take(Limit(ANN, f"{n}" * 1_000, 1.0), 10 + n % 7, n)
        assert len(buckets) <= 100

    assert max(map(len, buckets._buckets)) == 16


def test_room_is_made_by_those_that_owe_nothing_and_then_least() -> None:
    buckets = Buckets(10.0, most=10)
    for n in range(10):
        buckets.take(Limit("", f"{n}", 1.0), 5 if n < 5 else 100 + n, 0)

    buckets.take(Limit("", "new", 1.0), 1, 6_000)
    assert len(buckets) == 6
    assert buckets.tokens(Limit("", "9", 1.0), 6_000) == pytest.approx(10 - 109 + 6)

    for n in range(4):
        buckets.take(Limit("", f"more {n}", 1.0), 50, 6_000)
    buckets.take(Limit("", "last", 1.0), 50, 6_000)
    assert buckets.tokens(Limit("", "new", 1.0), 6_000) == 10, "it had to wait least of all"
    assert buckets.tokens(Limit("", "9", 1.0), 6_000) < -90


def test_the_error_is_kafka_s_without_words_of_its_own() -> None:
    assert (QUOTA_EXCEEDED.error, QUOTA_EXCEEDED.message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert int(QUOTA_EXCEEDED.error) == 89


@pytest.mark.parametrize(
    ("written", "rate"),
    [("2.0", 2.0), ("1.0E7", 1e7), (" 3 ", 3.0), ("2d", 2.0), ("0", 0.0), ("Infinity", None), ("1e400", None)],
)
def test_a_rate_is_read_as_java_reads_it(written: str, rate: float | None) -> None:
    assert rate_of(Config({"controller_mutation_rate": written})) == rate


@pytest.mark.parametrize("written", ["", "many", "-1", "NaN", "-Infinity", "1,5"])
def test_what_is_no_rate_is_named(written: str) -> None:
    with pytest.raises(ValueError, match=r"controller_mutation_rate is '.*', not a number from 0 on"):
        rate_of(Config({"controller_mutation_rate": written}))


def test_what_kafka_s_numbers_have_no_room_for_is_the_longest_wait() -> None:
    assert throttle_ms(-(2.0**31) / 1000, 1.0) == LONGEST_MS
    assert throttle_ms(-1e300, 1e-300) == LONGEST_MS
    assert throttle_ms(-0.0004, 1.0) == 0
    assert throttle_ms(-0.0005, 1.0) == 1
