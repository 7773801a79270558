"""A topic whose transactions are refused tries again: at once a few times, then ever more slowly."""

from __future__ import annotations

from controller.core.effects import Notice, Wake
from controller.core.retries import RETRY, Retries
from zk_layout.ids import PartitionId, TopicName

TOPIC = TopicName("orders")
NUMBERS = {PartitionId(0), PartitionId(7)}


def refused(retries: Retries, times: int) -> list[object]:
    """What the last of so many refusals in a row yields."""
    for _ in range(times - 1):
        list(retries.failed(TOPIC, NUMBERS, 100.0))
    return list(retries.failed(TOPIC, NUMBERS, 100.0))


def test_an_ordinary_conflict_is_tried_again_at_once() -> None:
    assert refused(Retries(), 3) == []


def test_what_is_refused_again_and_again_waits_ever_longer_and_is_told_once() -> None:
    retries = Retries()
    notice, alarm = refused(retries, 4)

    assert isinstance(notice, Notice)
    assert alarm == Wake(f"{RETRY}orders", 101.0)
    assert refused(retries, 1) == [Wake(f"{RETRY}orders", 102.0)]
    assert refused(retries, 20) == [Wake(f"{RETRY}orders", 130.0)]
    assert retries.resume(TOPIC) == NUMBERS
    assert retries.resume(TOPIC) == set()


def test_a_success_forgets_the_refusals() -> None:
    retries = Retries()
    refused(retries, 4)

    retries.succeeded(TOPIC)

    assert not retries.has_failed(TOPIC)
    assert refused(retries, 1) == []
