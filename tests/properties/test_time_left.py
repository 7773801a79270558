"""Is the time left right, whatever lacks whatever? Replicas that share a throttle are followed to their end."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as some
from msgspec import Struct

from controller.core.progress.closing import Closing
from controller.core.progress.sharing import Lacking, seconds_to_share
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

MB = 1_000_000
RECEIVER = BrokerId(3)
STEP_S = 0.25
LOOKS_S = 1.0
MINUTE_S = 60.0
SHORTEST_S = 10.0


class Fluid(Struct):
    """Replicas that get equal shares of a rate, in small steps; what one does not need is for the others.

    Units:
        Bytes, and bytes a second.
    """

    rate: float
    counts_in_sync: bool
    inflow: list[float]
    gap: list[float]
    total: list[float]
    seconds: float = 0.0

    def step(self) -> None:
        """Let `STEP_S` pass."""
        budget = self.rate * STEP_S
        for one, inflow in enumerate(self.inflow):
            self.total[one] += inflow * STEP_S
            if self.gap[one]:
                self.gap[one] += inflow * STEP_S
            elif self.counts_in_sync:
                budget -= inflow * STEP_S
        lacking = sorted((one for one, gap in enumerate(self.gap) if gap), key=lambda one: self.gap[one])
        for done, one in enumerate(lacking):
            share = min(budget / (len(lacking) - done), self.gap[one])
            self.gap[one] -= share
            budget -= share
        self.seconds += STEP_S

    @property
    def is_over(self) -> bool:
        """Whether all replicas are in sync."""
        return not any(self.gap)


@some.composite
def fleets(draw: some.DrawFn, *, counts_in_sync: bool) -> Fluid:
    """Up to thirty replicas, some of them large, some busy, that need some minutes together."""
    count = draw(some.integers(1, 30))
    sizes = draw(some.lists(some.integers(1, 100), min_size=count, max_size=count))
    busy = draw(some.lists(some.integers(0, 50), min_size=count, max_size=count))
    traffic = draw(some.floats(0.0, 1.0))
    alone_s = draw(some.integers(90, 300))
    gap = [float(size * MB) for size in sizes]
    copying = sum(gap) / alone_s
    inflow = [traffic * copying * one / (sum(busy) or 1) for one in busy]
    return Fluid(copying + sum(inflow), counts_in_sync, inflow, gap, list(gap))


def said_after_a_minute(fleet: Fluid) -> float | None:
    """The time left, by a look a second at every replica that still moves."""
    closing = Closing()
    moving = set(range(len(fleet.gap)))
    while fleet.seconds <= MINUTE_S:
        if fleet.seconds % LOOKS_S == 0:
            for one in sorted(moving):
                at = TopicPartition(TopicName("orders"), PartitionId(one))
                size = round(fleet.total[one] - fleet.gap[one]), round(fleet.total[one])
                closing.see(at, RECEIVER, size, fleet.seconds)
                if not fleet.gap[one]:
                    moving.remove(one)
                    closing.finish(at, is_complete=True)
            closing.mark(fleet.seconds)
        fleet.step()
    return closing.remaining_s(() if fleet.counts_in_sync else {RECEIVER})


def truth(fleet: Fluid) -> float:
    """How long the rest takes in fact."""
    since = fleet.seconds
    while not fleet.is_over:
        fleet.step()
    return fleet.seconds - since


@settings(max_examples=40)
@given(fleets(counts_in_sync=False))
def test_under_a_throttle_of_ours_the_time_left_is_right_after_a_minute(fleet: Fluid) -> None:
    said, true_s = said_after_a_minute(fleet), truth(fleet)

    assume(true_s >= SHORTEST_S)
    assert said is not None
    assert abs(said - true_s) <= 0.3 * true_s


@settings(max_examples=40)
@given(fleets(counts_in_sync=True))
def test_where_replicas_in_sync_count_the_time_left_is_right_after_a_minute(fleet: Fluid) -> None:
    said, true_s = said_after_a_minute(fleet), truth(fleet)

    assume(true_s >= SHORTEST_S)
    assert said is not None
    assert abs(said - true_s) <= 0.3 * true_s


@settings(max_examples=10)
@given(some.lists(some.tuples(some.integers(1, 100), some.integers(0, 9)), min_size=65, max_size=100))
def test_replicas_taken_together_take_about_as_long_as_each_by_itself(replicas: list[tuple[int, int]]) -> None:
    gap, inflow = [one * 1e4 for one, _ in replicas], [one * 10.0 for _, one in replicas]
    fleet = Fluid(sum(gap) / 100 + sum(inflow), counts_in_sync=False, inflow=inflow, gap=gap, total=list(gap))
    lacking = [Lacking(*one) for one in zip(gap, inflow, strict=True)]

    said = seconds_to_share(fleet.rate, lacking)

    assert said is not None
    assert abs(said - truth(fleet)) <= 5.0
