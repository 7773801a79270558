"""What is a broker's fair share where no rack may have more than its part of a partition's replicas?

Racks of different sizes can make even shares impossible: a rack then has as much as the rule lets it have, and the
others share the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.reassign.planning.layout import Unplannable


def rack_limit(replication_factor: int, brokers: Sequence[int]) -> int:
    """How many replicas of a partition one rack may have; `brokers` are the numbers of brokers in each rack.

    That is the number of replicas divided by that of racks, rounded up; more where small racks cannot take theirs.

    >>> rack_limit(3, [2, 2, 2]), rack_limit(3, [4, 4]), rack_limit(4, [1, 5])
    (1, 2, 3)

    Raises:
        Unplannable: there are fewer brokers than replicas.
    """
    if replication_factor > sum(brokers):
        raise Unplannable(f"{replication_factor} replicas need as many brokers, and there are {sum(brokers)}")
    limit = -(-replication_factor // len(brokers))
    while sum(min(limit, number) for number in brokers) < replication_factor:
        limit += 1
    return limit


def fair_shares(weights: Mapping[int, float], brokers: Sequence[int]) -> list[float]:
    """The share of one broker of each rack.

    Shape:
        `weights` has the number of partitions, or their bytes, by replication factor.

    >>> fair_shares({2: 100.0}, [3, 3])
    [33.333333333333336, 33.333333333333336]
    >>> fair_shares({2: 100.0}, [1, 4])
    [100.0, 25.0]
    >>> fair_shares({2: 100.0}, [1, 3, 1])
    [50.0, 33.333333333333336, 50.0]
    """
    limits = {factor: rack_limit(factor, brokers) for factor in weights}
    most = [sum(weight * min(limits[factor], n) for factor, weight in weights.items()) / n for n in brokers]
    left, count = sum(factor * weight for factor, weight in weights.items()), sum(brokers)
    shares = [0.0] * len(brokers)
    for rack in sorted(range(len(brokers)), key=most.__getitem__):
        shares[rack] = min(most[rack], left / count)
        left -= shares[rack] * brokers[rack]
        count -= brokers[rack]
    return shares
