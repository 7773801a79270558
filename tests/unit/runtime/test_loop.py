"""How long the event loop is busy is measured by the clock and by processor time, whatever runs on it."""

from __future__ import annotations

import asyncio
import time

from controller.monitoring.monitoring import Monitoring
from controller.runtime.loop import LongestBusy
from controller.runtime.pump import NO_TIME, Took


def run(busy: LongestBusy, *works: object) -> Took:
    """Run these one after the other on a measured loop, with a look for input between them."""

    async def story() -> None:
        for work in works:
            assert callable(work)
            work()
            await asyncio.sleep(0)

    busy.take()
    with asyncio.Runner(loop_factory=busy.new_loop) as runner:
        runner.run(story())
    return busy.take()


def compute(for_s: float) -> None:
    until = time.thread_time() + for_s
    while time.thread_time() < until:
        pass


def test_a_loop_that_computes_is_busy_by_both_measures() -> None:
    took = run(LongestBusy(), lambda: compute(0.05), lambda: compute(0.01))

    assert took.cpu_s >= 0.05
    assert took.wall_s >= 0.05


def test_a_loop_that_is_only_kept_waiting_has_used_no_processor() -> None:
    took = run(LongestBusy(), lambda: time.sleep(0.2))

    assert took.wall_s >= 0.2
    assert took.cpu_s < 0.1


def test_a_loop_that_waits_for_input_is_not_busy() -> None:
    async def story() -> None:
        await asyncio.sleep(0.3)

    busy = LongestBusy()
    with asyncio.Runner(loop_factory=busy.new_loop) as runner:
        runner.run(story())

    assert busy.take().wall_s < 0.3


def test_times_are_taken_once() -> None:
    busy = LongestBusy()
    busy.note(0.5, 0.1)
    busy.note(0.2, 0.2)

    assert busy.take() == Took(0.5, 0.2)
    assert busy.take() == NO_TIME


def test_the_longest_time_of_each_beat_is_among_the_metrics() -> None:
    monitoring = Monitoring(str)
    monitoring.busy.note(0.3, 0.02)

    asyncio.run(monitoring._beat())

    sample = monitoring.recorder.registry.get_sample_value
    assert sample("kafka_zk_controller_loop_seconds_sum") == 0.3
    assert sample("kafka_zk_controller_loop_cpu_seconds_bucket", {"le": "0.025"}) == 1
