"""What was recorded is shown, also after it was forgotten, and from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from metrics.measures import PREFIX
from metrics.recorder import Recorder


def test_a_measure_that_is_forgotten_begins_anew() -> None:
    recorder = Recorder()
    for value in (5, 7):
        recorder.record("reassignment_remaining_bytes", value, ("1",))
    recorder.record("broker_request_bytes", 3, ("1",))

    recorder.forget("reassignment_remaining_bytes")

    labels = {"broker": "1"}
    assert recorder.registry.get_sample_value(PREFIX + "reassignment_remaining_bytes", labels) is None
    recorder.record("reassignment_remaining_bytes", 2, ("1",))
    assert recorder.value("reassignment_remaining_bytes", ("1",)) == 2
    recorder.record("broker_request_bytes", 4, ("1",))
    assert recorder.value("broker_request_bytes", ("1",)) == 7


def test_each_combination_of_labels_is_counted_by_itself() -> None:
    recorder = Recorder()

    for _ in range(2):
        recorder.record("requests", 1, ("Metadata (3)", "INSIDE"))
        recorder.record("requests", 10, ("Metadata (3)", "OUTSIDE"))

    assert recorder.value("requests", ("Metadata (3)", "INSIDE")) == 2
    assert recorder.value("requests", ("Metadata (3)", "OUTSIDE")) == 20


@pytest.mark.parametrize("labels", [(), ("a", "b")])
def test_a_record_with_labels_that_do_not_fit_raises_every_time(labels: tuple[str, ...]) -> None:
    recorder = Recorder()

    for _ in range(2):
        with pytest.raises(ValueError, match="label"):
            recorder.record("broker_request_bytes", 1, labels)


def test_nothing_is_lost_when_threads_record_at_once() -> None:
    recorder = Recorder()

    def count(number: int) -> None:
        for _ in range(500):
            recorder.record("broker_request_bytes", 1, (str(number % 3),))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count, range(6)))

    assert [recorder.value("broker_request_bytes", (str(number),)) for number in range(3)] == [1_000] * 3
