"""Which of the waiting moves with room begins first, as the operator wants it?

Policies are chained: the first that tells two moves apart decides, and at last which was accepted first. Each tenth
move to begin is the one that has waited longest, so that none is put off for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from controller.core.reassignment.lines import Lines, Rank
from controller.core.settings import LARGE, MIN_ISR_FIRST, SMALL, WEIGHT, MachineSettings
from controller.core.state.waiting_znodes import Waiter
from zk_layout.ids import PartitionId, TopicName, TopicPartition

OLDEST_EACH = 10
UNKNOWN = 2**63
"""Above all sizes, and what comes after them."""
LOOKED_AT = 100


class Order:
    """The ranks of waiting moves, and which of them has waited longest."""

    def __init__(
        self,
        settings: MachineSettings,
        is_below: Callable[[TopicPartition], bool],
        copied: Callable[[TopicPartition], int | None],
    ) -> None:
        """Begin without moves. `is_below` tells whether a partition is offline or below its min.insync.replicas,
        `copied` how many bytes a move copies, if that is known.
        """
        self._is_below = is_below
        self._copied = copied
        # Rounds, in each of which every topic has one move; the present one is that of the last move that began.
        self._round = 0
        self._rounds: dict[TopicName, dict[PartitionId, int]] = {}
        self._last_round: dict[TopicName, int] = {}
        # By move, its place among those that have waited longest; as a heap, too, with entries that no longer count.
        self._age: dict[TopicPartition, int] = {}
        self._by_age: list[tuple[int, TopicPartition]] = []
        self._begun = self._latest = 0
        self.adjust(settings)

    def adjust(self, settings: MachineSettings) -> None:
        """Rank by these settings from now on."""
        self._policies = tuple(settings.moves_order)
        if not self.is_on:
            self._age, self._by_age, self._rounds, self._last_round = {}, [], {}, {}

    @property
    def is_on(self) -> bool:
        """Whether any policy comes before the order in which moves were accepted."""
        return bool(self._policies)

    def rank(self, at: TopicPartition, waiter: Waiter) -> Rank:
        """Where a move belongs: lower ranks come first."""
        return (*(self._by(policy, at, waiter) for policy in self._policies), waiter.order)

    def _by(self, policy: str, at: TopicPartition, waiter: Waiter) -> int:
        if policy == MIN_ISR_FIRST:
            return 0 if self._is_below(at) else 1
        if policy == WEIGHT:
            return -waiter.weight
        if policy in (SMALL, LARGE):
            copied = self._copied(at)
            return UNKNOWN if copied is None else copied if policy == SMALL else -copied
        rounds = self._rounds.setdefault(at.topic, {})
        if at.partition not in rounds:
            # A topic that had no moves joins the present round: it has no claim to those without it.
            own = max(self._round, self._last_round.get(at.topic, -1) + 1)
            rounds[at.partition] = self._last_round[at.topic] = own
        return rounds[at.partition]

    def stands(self, at: TopicPartition, order: int) -> None:
        """A move waits from now on."""
        if self.is_on and at not in self._age:
            self._latest = max(self._latest, order)
            self._grow_old(at, order)

    def _grow_old(self, at: TopicPartition, order: int) -> None:
        self._age[at] = order
        heappush(self._by_age, (order, at))
        if len(self._by_age) > 2 * len(self._age) + LOOKED_AT:
            self._by_age = sorted((order, at) for at, order in self._age.items())

    def begins(self, at: TopicPartition) -> None:
        """A move is called."""
        if self.is_on:
            self._begun += 1
            self._round = max(self._round, self._rounds.get(at.topic, {}).get(at.partition, 0))

    def forget(self, at: TopicPartition) -> None:
        """A move waits no longer."""
        self._age.pop(at, None)
        rounds = self._rounds.get(at.topic)
        if rounds is not None:
            rounds.pop(at.partition, None)
            if not rounds:
                del self._rounds[at.topic], self._last_round[at.topic]

    def favour_oldest(self, lines: Lines, favour: Callable[[TopicPartition], bool]) -> None:
        """When it is time, call `favour` with those that have waited longest, until it returns True.

        A move that cannot begin for another reason than room takes its place among the latest.
        """
        if not self.is_on or self._begun < OLDEST_EACH:
            return
        self._begun = 0
        for _ in range(min(LOOKED_AT, len(self._by_age))):
            order, at = heappop(self._by_age)
            if self._age.get(at) != order:
                continue
            if at not in lines:
                del self._age[at]
                continue
            self._grow_old(at, self._latest)
            if favour(at):
                return
