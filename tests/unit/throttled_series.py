"""Fifty replicas that one broker receives under a throttle: each comes in lumps, only their sum is steady.

Modelled on a run with real brokers 3.9.1: 300 MB to copy, 4 MB/s of new data, a throttle of 6 MB/s of which 5.8 were
measured, and nothing at all for the first fifteen seconds. A fetch takes up to 1 MB of a partition. Replicas in sync go
on taking their new data out of the throttle, as Kafka's tool lets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

PARTITIONS = 50
THROTTLE = 6_000_000
SHARE = 5_820_000
INFLOW = 4_000_000
_MB = 1_000_000
_PAUSE_S = 15
_MOST_DEBT = 6 * _MB


class Look(NamedTuple):
    """All replicas at one second: what each has, and its leader."""

    second: int
    copied: tuple[int, ...]
    total: tuple[int, ...]
    in_sync: frozenset[int]


class Recorded(NamedTuple):
    """A whole run, a look a second; at `end` every replica was in sync."""

    looks: tuple[Look, ...]
    end: int


def recorded(inflow: int = INFLOW, seconds: int = 600, *, lets_go: bool = False) -> Recorded:
    """The run; with `inflow` no smaller than the throttle it has no end, and is cut off.

    `lets_go`: replicas in sync are not throttled any more, and are fetched beside the others.
    """
    looks = tuple(_looks(inflow, seconds, lets_go=lets_go))
    return Recorded(looks, looks[-1].second)


def _looks(inflow: int, seconds: int, *, lets_go: bool) -> Iterator[Look]:
    random = Random(31)
    copied, total = [0] * PARTITIONS, [6 * _MB] * PARTITIONS
    in_sync: set[int] = set()
    debt = 0
    for second in range(seconds):
        yield Look(second, tuple(copied), tuple(total), frozenset(in_sync))
        if len(in_sync) == PARTITIONS:
            return
        budget = 0
        if second >= _PAUSE_S:
            budget = max(0, min(debt + SHARE + _MOST_DEBT, random.choice((0, 2, 6, 9, 12)) * _MB))
            if debt > _MOST_DEBT:
                budget = debt + SHARE
            debt += SHARE - budget
        for number in range(PARTITIONS):
            total[number] += inflow // PARTITIONS
            if number in in_sync:
                copied[number] = total[number]
                budget -= 0 if lets_go else inflow // PARTITIONS
        for number in random.sample(range(PARTITIONS), PARTITIONS):
            lump = max(0, min(budget, _MB, total[number] - copied[number]))
            copied[number] += lump
            budget -= lump
            if copied[number] == total[number]:
                in_sync.add(number)
