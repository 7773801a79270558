"""How long do replicas take to catch up that share one rate, while new data comes?

A replica that has caught up leaves its share, and no longer needs its part for new data: the others go faster and
faster. Those that share a throttle are fetched in turns, so that all get the same on average.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple


class Lacking(NamedTuple):
    """What one replica, or `replicas` together, lack, in bytes, and the new data for them, in bytes a second."""

    gap: float
    inflow: float
    replicas: int = 1


_MOST_GROUPS = 32
"""Replicas that finish at about the same time are taken together, so that thousands cost little."""


def seconds_to_share(rate: float, lacking: Iterable[Lacking]) -> float | None:
    """When all have everything, at this rate for all in bytes a second; None if some never have.

    >>> seconds_to_share(10.0, [Lacking(100, 2.0)])
    12.5
    >>> seconds_to_share(10.0, [Lacking(10, 0.0), Lacking(100, 4.0)])  # both get 5 for 2 s; then 98 close at 6
    18.333333333333332
    >>> seconds_to_share(10.0, [Lacking(10, 6.0), Lacking(10, 6.0)]) is None
    True
    """
    left, elapsed = list(_grouped(rate, [one for one in lacking if one.gap > 0])), 0.0
    while left:
        share = rate / sum(one.replicas for one in left)
        step = min(_alone(share, one) for one in left)
        if step == inf:
            return None
        elapsed += step
        left = [_after(step, share, one) for one in left if _alone(share, one) > step]
    return elapsed


def _grouped(rate: float, lacking: Sequence[Lacking]) -> Iterator[Lacking]:
    share = rate / len(lacking) if lacking else 0.0
    in_order = sorted(lacking, key=lambda one: (_alone(share, one), one.gap))
    size = -(-len(in_order) // _MOST_GROUPS)
    for first in range(0, len(in_order), size or 1):
        together = in_order[first : first + size]
        gap, inflow = sum(one.gap for one in together), sum(one.inflow for one in together)
        yield Lacking(gap, inflow, sum(one.replicas for one in together))


def _alone(share: float, one: Lacking) -> float:
    """How long it takes if its share stays the same."""
    closing = share * one.replicas - one.inflow
    return one.gap / closing if closing > 0 else inf


def _after(seconds: float, share: float, one: Lacking) -> Lacking:
    return one._replace(gap=one.gap - (share * one.replicas - one.inflow) * seconds)
