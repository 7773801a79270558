"""May moves begin in the state that the cluster is in: is every partition in sync enough, and is every broker there?

What is in flight goes on. A move that cures what keeps others from beginning is not kept from it.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf

from controller.core.messages.outbox import Outbox
from controller.core.reassignment.min_isr import MinIsr
from controller.core.reassignment.places import AWAY, MIN_ISR, Place, Places
from controller.core.settings import MIN_ISR_FIRST, MachineSettings
from controller.core.state.changes import Changes
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, Replicas, TopicPartition

KIND = "moves held up"
IN_SYNC, ALL_THERE = Place(MIN_ISR), Place(AWAY)
NAMED = 5


class Gates:
    """What the settings say that moves wait for, and whether it is so."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._min_isr = MinIsr(shared)
        self._min_isr.look(is_wanted=self._is_looking)
        self._away: tuple[BrokerId, ...] = ()
        # Since when brokers with replicas are away, as far as it matters; None before any was looked for.
        self._gone: dict[BrokerId, float] | None = None
        self._live: Set[BrokerId] | None = None
        self._said = ""

    @property
    def is_on(self) -> bool:
        """Whether moves wait for anything like that."""
        settings = self._shared.settings
        return settings.moves_need_min_isr or settings.moves_need_brokers

    @property
    def _is_looking(self) -> bool:
        settings = self._shared.settings
        return settings.moves_need_min_isr or MIN_ISR_FIRST in settings.moves_order

    def is_below_min_isr(self, at: TopicPartition) -> bool:
        """Whether a partition is known to be, where moves wait for that or are put in order by it."""
        return self._min_isr.is_below(at)

    def adjust(self, before: MachineSettings, now: float) -> None:
        """Let moves wait for what the settings now say."""
        settings = self._shared.settings
        self._min_isr.look(is_wanted=self._is_looking)
        if settings.min_insync_replicas != before.min_insync_replicas:
            self._min_isr.settings_changed()
        self.look_for_brokers(now)

    def follow(self, changes: Changes, out: Outbox) -> list[TopicPartition]:
        """Take in what has changed; returns the partitions whose moves may cure something now, or no longer."""
        self.look_for_brokers(out.now)
        return self._min_isr.follow(changes, out)

    def look_for_brokers(self, now: float) -> None:
        """Look which brokers with replicas are away, and have been for long enough, as far as it matters. Passes over
        all brokers. Since when those are that are away at the first look is not known: it may be long enough.
        """
        cluster, settings = self._cluster, self._shared.settings
        if not settings.moves_need_brokers:
            self._gone, self._away = None, ()
            return
        hosting = (b for b, count in cluster.replica_counts.items() if count and b not in cluster.controllers)
        before, new = ({}, -inf) if self._gone is None else (self._gone, now)
        self._gone = {b: before.get(b, new) for b in sorted(hosting) if not cluster.is_live(b)}
        after_s = settings.moves_need_brokers_after_s
        self._away = tuple(b for b, since in self._gone.items() if now - since >= after_s)

    def came_or_went(self) -> Set[BrokerId]:
        """The brokers that have become live or not since the last call: some moves are cures now, or no longer."""
        live = frozenset(self._cluster.live_brokers()) if self.is_on else None
        changed = frozenset() if live is None or self._live is None else live ^ self._live
        self._live = live
        return changed

    def before(self, at: TopicPartition, target: Replicas) -> Places:
        """What a move must wait for that copies: nothing if it cures its own partition, and not for brokers if it takes
        a replica off one that is away.
        """
        held = self._cluster.partition(at)
        if not self.is_on or held is None:
            return ()
        if self._min_isr.is_below(at) and self._min_isr.would_do(at, target):
            return ()
        leaving = (r for r in held.assignment.replicas if r not in target)
        return (IN_SYNC,) if any(not self._cluster.is_live(r) for r in leaving) else (IN_SYNC, ALL_THERE)

    def is_shut(self, place: Place) -> bool:
        """Whether the cluster is not, or not known to be, as it should be."""
        if place == ALL_THERE:
            return bool(self._away)
        needed = self._shared.settings.moves_need_min_isr
        return needed and (not self._min_isr.is_known or bool(self._min_isr.count))

    def sentence(self) -> str:
        """What moves wait for; empty if for nothing, or if that is not known yet."""
        parts = []
        if self._shared.settings.moves_need_min_isr and self._min_isr.is_known and self._min_isr.count:
            parts.append(self._min_isr.sentence())
        if self._away:
            more = f" and {len(self._away) - NAMED} more" if len(self._away) > NAMED else ""
            which = ", ".join(map(str, self._away[:NAMED])) + more
            parts.append(f"broker {which} is away" if len(self._away) == 1 else f"brokers {which} are away")
        return "; ".join(parts)

    def held_up(self) -> tuple[str, ...]:
        """The same for status pages, whether or not any move waits."""
        sentence = self.sentence()
        return (f"no move begins that copies: {sentence}",) if sentence else ()

    def say(self, out: Outbox, *, is_anything_waiting: bool) -> None:
        """Say once what moves wait for, and once that they do no longer."""
        if self._shared.settings.moves_need_min_isr and not self._min_isr.is_known:
            return
        shut = "".join(p.kind for p in (IN_SYNC, ALL_THERE) if self.is_shut(p)) if is_anything_waiting else ""
        if shut == self._said:
            return
        self._said = shut
        if shut:
            rest = "Moves under way go on, and those begin that cure it"
            out.notice(KIND, f"waiting moves do not begin: {self.sentence()}. {rest}")
        elif is_anything_waiting:
            out.notice(KIND, "waiting moves begin again: what they waited for is over")

    def figures(self) -> dict[str, float]:
        """How much there is of what moves wait for; nothing that they do not wait for is counted."""
        is_needed = self._shared.settings.moves_need_min_isr
        return {"partitions_below_min_isr": self._min_isr.count if is_needed else 0, "brokers_away": len(self._away)}
