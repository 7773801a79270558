"""How fast does a replica copy, and when will it have everything?"""

from __future__ import annotations

import pytest

from controller.core.messages.events import ReplicaSize
from controller.core.progress.transfers import STALE_AFTER_S, Transfers
from tests.unit.core.builders import AT
from zk_layout.znodes.reassignment_status import ReplicaProgress

LEADER, RECEIVER = 1, 3


def measured(*samples: tuple[float, int, int]) -> Transfers:
    """Moments at which the leader had so many bytes and the receiver so many."""
    transfers = Transfers()
    for now, total, copied in samples:
        transfers.hear(LEADER, (AT,), {AT: ReplicaSize(total)})
        transfers.hear(RECEIVER, (AT,), {AT: ReplicaSize(copied)})
        transfers.sample(AT, LEADER, RECEIVER, now)
    return transfers


def progress(transfers: Transfers, now: float, *, is_in_sync: bool = False) -> ReplicaProgress:
    return transfers.progress(AT, LEADER, RECEIVER, now, is_in_sync=is_in_sync)


def test_nothing_is_known_before_both_ends_were_heard() -> None:
    transfers = Transfers()
    transfers.hear(RECEIVER, (AT,), {})
    transfers.sample(AT, LEADER, RECEIVER, 0.0)

    assert progress(transfers, 0.0) == ReplicaProgress(RECEIVER, copied_bytes=0)


def test_a_steady_copy_has_its_rate_and_its_end() -> None:
    transfers = measured(*((float(s), 1000, 10 * s) for s in range(21)))

    assert progress(transfers, 20.0) == ReplicaProgress(RECEIVER, 200, 1000, 10.0, 80.0)


def test_a_burst_at_the_beginning_is_soon_forgotten() -> None:
    transfers = measured(
        (0.0, 10_000, 0), (1.0, 10_000, 3_000), *((1.0 + s, 10_000, 3_000 + 10 * s) for s in range(1, 60))
    )

    rate = progress(transfers, 60.0).bytes_per_second

    assert rate is not None
    assert rate == pytest.approx(10.0, rel=0.2)


def test_where_the_leader_grows_the_time_left_follows_from_the_closing_gap() -> None:
    transfers = measured(*((float(s), 1000 + 5 * s, 10 * s) for s in range(21)))

    assert progress(transfers, 20.0) == ReplicaProgress(RECEIVER, 200, 1100, 10.0, 180.0)


def test_what_comes_no_nearer_has_no_end() -> None:
    transfers = measured(*((float(s), 1000 + 10 * s, 10 * s) for s in range(21)))

    assert progress(transfers, 20.0) == ReplicaProgress(RECEIVER, 200, 1200, 10.0, None)


def test_an_old_rate_says_nothing() -> None:
    transfers = measured(*((float(s), 1000, 10 * s) for s in range(21)))

    assert progress(transfers, 20.0 + STALE_AFTER_S) == ReplicaProgress(RECEIVER, 200, 1000)


def test_what_falls_behind_closes_at_less_than_nothing() -> None:
    transfers = measured(*((float(s), 1000 + 30 * s, 10 * s) for s in range(21)))

    assert transfers.closing(AT, RECEIVER) == pytest.approx(-20.0)
    assert progress(transfers, 20.0).remaining_seconds is None


def test_no_time_left_is_known_before_a_window_of_the_throttle_has_passed() -> None:
    transfers = measured(*((float(s), 1000, 10 * s) for s in range(11)))

    assert progress(transfers, 10.0) == ReplicaProgress(RECEIVER, 100, 1000, 10.0)
    assert transfers.closing(AT, RECEIVER) is None


def test_a_log_that_shrank_begins_again() -> None:
    transfers = measured((0.0, 1000, 500), (1.0, 1000, 600), *((2.0 + s, 1000, 20 * s) for s in range(12)))

    assert progress(transfers, 13.0) == ReplicaProgress(RECEIVER, 220, 1000, 20.0, 39.0)


def test_who_is_in_sync_has_everything_whatever_the_sizes_say() -> None:
    transfers = measured((0.0, 1000, 400))

    assert progress(transfers, 0.0, is_in_sync=True) == ReplicaProgress(RECEIVER, 1000, 1000, None, 0.0)


def test_who_has_more_than_the_leader_has_not_more_than_everything() -> None:
    transfers = measured((0.0, 1000, 1200), (1.0, 1000, 1300))

    assert progress(transfers, 1.0) == ReplicaProgress(RECEIVER, 1000, 1000, 100.0, 0.0)


def test_nor_before_the_first_sample() -> None:
    transfers = Transfers()
    transfers.hear(RECEIVER, (AT,), {AT: ReplicaSize(1200)})
    transfers.hear(LEADER, (AT,), {AT: ReplicaSize(1000)})

    assert progress(transfers, 0.0) == ReplicaProgress(RECEIVER, 1000, 1000)
