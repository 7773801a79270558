"""How long does the search for a plan take, how much memory does it need, and how good is the plan?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

from msgspec import Struct

from controller.reassign.planning.layout import Aims, By, Layout, Placed
from controller.reassign.planning.planner import plan
from tests.benchmarks.machine import peak_resident_mib
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

RACKS = 4
TOPIC_SIZE = 50
SLACK = 0.02
GONE = BrokerId(3)
_BOTH = frozenset(By)


class Cluster(Struct, frozen=True):
    """A cluster with two replicas of each partition and sizes from a lognormal distribution.

    Shape:
        `empty` brokers, with the highest ids, are new. `is_even`: replicas are placed in turns and in different racks,
        or at random.
    """

    brokers: int
    partitions: int
    empty: int = 0
    is_even: bool = True

    def layout(self) -> Layout:
        """The cluster as a planner sees it."""
        random = Random(1)
        placed = []
        for number in range(self.partitions):
            at = TopicPartition(TopicName(f"topic-{number // TOPIC_SIZE}"), PartitionId(number % TOPIC_SIZE))
            replicas = self._in_turns(number) if self.is_even else random.sample(range(self.brokers), 2)
            size = int(random.lognormvariate(3, 1.2) * 1e6)
            placed.append(Placed(at, tuple(map(BrokerId, replicas)), size))
        return Layout({BrokerId(b): f"rack-{b % RACKS}" for b in range(self.brokers + self.empty)}, placed)

    def _in_turns(self, number: int) -> tuple[int, int]:
        first = number % self.brokers
        shift = 1 + number // self.brokers % (self.brokers - 1)
        others = ((first + shift + more) % self.brokers for more in range(self.brokers))
        return first, next(b for b in others if b % RACKS != first % RACKS)


class PlanMade(Struct, frozen=True):
    """One plan."""

    goal: str
    moved_bytes: int
    least_bytes: int
    changes: int
    outside: int
    used_s: float
    peak_mib: float


def goals(brokers: int, partitions: int) -> dict[str, tuple[Cluster, Aims]]:
    """What is asked, by name, and of which cluster."""
    even, random = Cluster(brokers, partitions), Cluster(brokers, partitions, is_even=False)
    empty = max(1, brokers // 20)
    new = frozenset(BrokerId(b) for b in range(brokers, brokers + empty))
    topics = {TopicName(f"topic-{number // TOPIC_SIZE}") for number in range(partitions)}
    return {
        f"add {empty} brokers": (
            Cluster(brokers, partitions, empty),
            Aims(receivers=new, balances=_BOTH, slack=SLACK),
        ),
        "balance a random placement": (random, Aims(balances=_BOTH, slack=SLACK)),
        "drain one": (even, Aims(leaving=frozenset({GONE}))),
        "RF 2 to 3": (even, Aims(replication_factors=dict.fromkeys(topics, 3))),
        "leaders of a random placement": (random, Aims(balances_leaders=True)),
    }


def measured(brokers: int, partitions: int) -> Iterator[PlanMade]:
    """Each goal in a process of its own, for its peak memory."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for goal in goals(brokers, partitions):
            yield pool.submit(measure, goal, brokers, partitions).result()


def measure(goal: str, brokers: int, partitions: int) -> PlanMade:
    """Make one plan."""
    cluster, aims = goals(brokers, partitions)[goal]
    layout = cluster.layout()
    before = time.process_time()
    made = plan(layout, aims)
    used_s = time.process_time() - before
    return PlanMade(
        goal,
        made.moved_bytes,
        made.least_bytes,
        len(made.changes),
        len(made.outside),
        round(used_s, 2),
        round(peak_resident_mib(os.getpid()), 1),
    )
