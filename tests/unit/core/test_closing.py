"""The time left follows from sums over each receiving broker, and is not known before a window has passed."""

from __future__ import annotations

from collections import deque

import pytest

from controller.core.progress.closing import LONGEST_WINDOW_S, WINDOW_S, Closing
from tests.unit.throttled_series import INFLOW, PARTITIONS, SHARE, recorded
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

RECEIVER, OTHER = BrokerId(3), BrokerId(4)


def at(number: int) -> TopicPartition:
    return TopicPartition(TopicName("orders"), PartitionId(number))


def by_slowest_replica(samples: deque[tuple[int, tuple[int, ...], tuple[int, ...]]]) -> float:
    """The estimate as it was: the longest of the replicas' own times, each by its rate over half a minute."""
    first, last = samples[0], samples[-1]
    times = []
    for number in range(PARTITIONS):
        gap = last[2][number] - last[1][number]
        rate = (last[1][number] - first[1][number]) / (last[0] - first[0])
        times.append(gap / rate if gap and rate else 0.0)
    return max(times)


def test_under_a_throttle_the_sum_of_a_broker_is_right_where_the_slowest_replica_is_wrong_by_factors() -> None:
    looks, end = recorded()
    closing, said, formerly = Closing(), {}, {}
    samples: deque[tuple[int, tuple[int, ...], tuple[int, ...]]] = deque(maxlen=31)
    for look in looks:
        for number in range(PARTITIONS):
            closing.see(at(number), RECEIVER, (look.copied[number], look.total[number]), float(look.second))
        closing.mark(float(look.second))
        samples.append((look.second, look.copied, look.total))
        left = end - look.second
        if look.second >= 75 and left >= 20:
            remaining = closing.remaining_s()
            assert remaining is not None
            said[look.second], formerly[look.second] = remaining / left, by_slowest_replica(samples) / left

    assert len(said) > 60
    assert all(0.7 <= ratio <= 1.3 for ratio in said.values()), said
    assert sum(not 0.5 <= ratio <= 2 for ratio in formerly.values()) > len(formerly) / 2


def test_under_a_throttle_of_ours_the_others_share_what_replicas_in_sync_take_no_more() -> None:
    looks, end = recorded(lets_go=True)
    closing, said, formerly = Closing(), {}, {}
    for look in looks:
        for number in range(PARTITIONS):
            closing.see(at(number), RECEIVER, (look.copied[number], look.total[number]), float(look.second))
            if number in look.in_sync:
                closing.finish(at(number), is_complete=True)
        closing.mark(float(look.second))
        left = end - look.second
        if look.second >= 75 and left >= 20:
            as_before, remaining = closing.remaining_s(), closing.remaining_s({RECEIVER})
            assert as_before is not None
            assert remaining is not None
            formerly[look.second], said[look.second] = as_before / left, remaining / left

    assert len(said) > 20
    assert all(0.7 <= ratio <= 1.3 for ratio in said.values()), said
    assert max(formerly.values()) > 1.3


def test_no_time_left_is_known_before_a_window_of_copying_has_passed() -> None:
    closing = Closing()
    for second in range(int(WINDOW_S)):
        closing.see(at(0), RECEIVER, (10 * second, 1000), second)
        closing.mark(float(second))
        assert closing.remaining_s() is None

    closing.see(at(0), RECEIVER, (110, 1000), WINDOW_S)
    closing.mark(WINDOW_S)

    assert closing.remaining_s() == pytest.approx(89.0)


def test_a_pause_before_the_first_byte_does_not_count() -> None:
    closing = Closing()
    for second in range(40):
        closing.see(at(0), RECEIVER, (max(0, 10 * (second - 20)), 1000), second)
        closing.mark(float(second))

    assert closing.receiving()[RECEIVER].closing == pytest.approx(10.0)


def test_where_nothing_is_ever_copied_that_is_known_after_the_longest_window() -> None:
    closing = Closing()
    for second in range(int(LONGEST_WINDOW_S) + 1):
        assert not closing.receiving() or closing.receiving()[RECEIVER].closing is None
        closing.see(at(0), RECEIVER, (0, 1000), second)
        closing.mark(float(second))

    assert closing.receiving()[RECEIVER].is_hopeless
    assert closing.remaining_s() is None


def test_replicas_that_fall_behind_count_against_those_that_come_nearer() -> None:
    closing = Closing()
    for second in range(21):
        closing.see(at(0), RECEIVER, (30 * second, 1000), second)
        closing.see(at(1), RECEIVER, (0, 1000 + 10 * second), second)
        closing.mark(float(second))

    receiving = closing.receiving()[RECEIVER]
    assert receiving.gap_bytes == 1600
    assert receiving.closing == pytest.approx(20)
    assert receiving.inflow == pytest.approx(10)
    assert receiving.remaining_s == pytest.approx(80.0)


def test_the_slowest_broker_decides() -> None:
    closing = Closing()
    for second in range(21):
        closing.see(at(0), RECEIVER, (30 * second, 1000), second)
        closing.see(at(1), OTHER, (10 * second, 1000), second)
        closing.mark(float(second))

    assert closing.remaining_s() == pytest.approx(80.0)


def test_a_move_that_is_complete_has_closed_its_gap_and_a_cancelled_one_has_not() -> None:
    def rate(*, is_complete: bool) -> float:
        closing = Closing()
        for second in range(41):
            closing.see(at(0), RECEIVER, (10 * second, 1000), second)
            if second == 20:
                closing.finish(at(1), is_complete=is_complete)
            elif second < 20:
                closing.see(at(1), RECEIVER, (0, 200), second)
            closing.mark(float(second))
        receiving = closing.receiving()[RECEIVER]
        assert receiving.gap_bytes == 600
        assert receiving.closing is not None
        return receiving.closing

    assert rate(is_complete=False) == pytest.approx(10.0)
    assert rate(is_complete=True) > 15


def test_a_move_that_begins_later_is_no_step_back() -> None:
    closing = Closing()
    for second in range(21):
        closing.see(at(0), RECEIVER, (10 * second, 1000), second)
        if second >= 10:
            closing.see(at(1), RECEIVER, (0, 400), second)
        closing.mark(float(second))

    assert closing.receiving()[RECEIVER].closing == pytest.approx(10.0)
    assert closing.remaining_s() == pytest.approx(120.0)


def test_a_log_that_begins_again_is_no_step_back_either() -> None:
    closing = Closing()
    for second in range(21):
        closing.see(at(0), RECEIVER, (10 * second if second < 15 else 10 * (second - 15), 1000), second)
        closing.mark(float(second))

    receiving = closing.receiving()[RECEIVER]
    assert receiving.gap_bytes == 950
    assert receiving.closing == pytest.approx(10.0, rel=0.15)


def test_what_new_data_takes_of_a_throttle_is_measured() -> None:
    looks, _ = recorded(inflow=7_000_000, seconds=120)
    closing = Closing()
    for look in looks:
        for number in range(PARTITIONS):
            closing.see(at(number), RECEIVER, (look.copied[number], look.total[number]), float(look.second))
        closing.mark(float(look.second))

    receiving = closing.receiving()[RECEIVER]
    assert receiving.is_hopeless
    assert receiving.remaining_s is None
    assert receiving.inflow == pytest.approx(7_000_000, rel=0.01)
    assert receiving.copying == pytest.approx(SHARE, rel=0.1)
    assert INFLOW < SHARE < 7_000_000


def test_a_broker_that_has_everything_is_measured_from_its_next_move_on() -> None:
    closing = Closing()
    for second in range(21):
        closing.see(at(0), RECEIVER, (50 * second, 1000), second)
        closing.mark(float(second))
    closing.finish(at(0), is_complete=True)
    closing.mark(21.0)
    assert closing.receiving() == {}

    closing.see(at(1), RECEIVER, (0, 1000), 22.0)
    closing.mark(22.0)

    assert closing.receiving()[RECEIVER].closing is None
