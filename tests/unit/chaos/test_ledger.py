"""The ledger judges acknowledged records."""

from __future__ import annotations

from tests.chaos.ledger import Judgement, Ledger

PLAIN, IDEMPOTENT = 0, 1
PRODUCERS = frozenset({IDEMPOTENT})


def acknowledged(*numbers: int, producer: int = IDEMPOTENT) -> Ledger:
    """Acknowledged at the offsets of their numbers, a second apart."""
    ledger = Ledger()
    for number in numbers:
        ledger.acknowledge(producer, number, offset=number, at=float(number))
    return ledger


def log_of(*numbers: int, producer: int = IDEMPOTENT) -> dict[int, tuple[int, int]]:
    return {offset: (producer, number) for offset, number in enumerate(numbers)}


def test_all_is_well_where_every_record_is_there_once_and_in_order() -> None:
    ledger = acknowledged(0, 1, 2)
    for offset, record in log_of(0, 1, 2).items():
        ledger.consume(offset, *record)
    assert ledger.judge(log_of(0, 1, 2), PRODUCERS) == Judgement(acknowledged=3)


def test_a_record_that_is_not_there_is_lost_and_said_when_it_was_acknowledged() -> None:
    assert acknowledged(0, 1, 2).judge(log_of(0, 2), PRODUCERS).lost == (1.0,)


def test_a_record_that_was_given_up_may_be_there_or_not() -> None:
    ledger = acknowledged(0)
    ledger.refuse()
    found = ledger.judge(log_of(0, 1), PRODUCERS)
    assert (found.refused, found.lost, found.disordered) == (1, (), 0)


def test_only_an_idempotent_producer_promises_not_to_repeat_itself() -> None:
    found = acknowledged(0, 1).judge(log_of(0, 1, 1), PRODUCERS)
    assert (found.duplicates, found.repeated) == ((1.0,), 0)
    found = acknowledged(0, 1, producer=PLAIN).judge(log_of(0, 1, 1, producer=PLAIN), PRODUCERS)
    assert (found.duplicates, found.repeated) == ((), 1)


def test_a_record_before_which_a_later_one_is_found_is_out_of_order() -> None:
    assert acknowledged(0, 1, 2).judge(log_of(0, 2, 1), PRODUCERS).disordered == 1
    assert acknowledged(0, 1, 2).judge(log_of(0, 1, 0, 2), PRODUCERS).disordered == 0


def test_producers_are_in_order_each_for_itself() -> None:
    ledger = acknowledged(0, 1)
    ledger.acknowledge(3, 0, offset=2, at=2.0)
    log = {0: (IDEMPOTENT, 0), 1: (3, 0), 2: (IDEMPOTENT, 1)}
    assert ledger.judge(log, frozenset({IDEMPOTENT, 3})).disordered == 0


def test_what_a_consumer_saw_must_stay() -> None:
    ledger = acknowledged(0)
    ledger.consume(0, IDEMPOTENT, 0)
    ledger.consume(1, IDEMPOTENT, 7)
    assert ledger.judge({0: (IDEMPOTENT, 0), 1: (IDEMPOTENT, 8)}, PRODUCERS).rewritten == 1
    ledger = acknowledged(0)
    ledger.consume(0, IDEMPOTENT, 7)
    ledger.consume(0, IDEMPOTENT, 0)
    assert ledger.judge(log_of(0), PRODUCERS).rewritten > 0


def test_a_record_stays_where_its_producer_was_told_that_it_is() -> None:
    ledger = Ledger()
    ledger.acknowledge(PLAIN, 0, offset=0, at=0.0)
    assert ledger.judge({0: (PLAIN, 1), 1: (PLAIN, 0)}, PRODUCERS).rewritten == 1


def test_a_repetition_of_which_nobody_says_where_the_first_is_is_not_rewritten() -> None:
    ledger = Ledger()
    ledger.acknowledge(IDEMPOTENT, 0, offset=-1, at=0.0)
    assert ledger.judge(log_of(0), PRODUCERS) == Judgement(acknowledged=1, unseen=1)


def test_a_record_that_the_running_consumer_missed_is_counted() -> None:
    ledger = acknowledged(0, 1)
    ledger.consume(0, IDEMPOTENT, 0)
    assert ledger.judge(log_of(0, 1), PRODUCERS).unseen == 1


def test_a_record_without_a_partition_is_counted() -> None:
    ledger = acknowledged(0)
    ledger.withhold()
    assert ledger.judge(log_of(0), PRODUCERS).unlisted == 1


def test_judgements_add_up() -> None:
    one = Judgement(2, 1, (1.0,), 1, (2.0,), 1, 1, 1, 1)
    assert one + one == Judgement(4, 2, (1.0, 1.0), 2, (2.0, 2.0), 2, 2, 2, 2)
