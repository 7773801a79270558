"""How much slower than asked must a receiving broker copy, because replicas beside it cannot keep up?

A replica that leaves the ISR, or falls far behind in it, though no move adds or removes it and its broker is up, is a
sign: it halves the rate of each broker that copies to, or from, its broker or its leader's. Once such replicas are
back, and nothing else suffers, the rate climbs to what was asked for, but never above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct

from controller.core.messages.events import LogEndsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.lagging import BEHIND_S, Lagging, leader_beside
from controller.core.state.changes import Changes
from controller.core.state.throttles import Kept
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, Replicas, TopicPartition
from zk_layout.znodes.throttles import ThrottledBroker

WINDOW_S = 12.0
"""Brokers average a rate over ten to eleven seconds: what comes sooner after a cut is a sign of the former rate."""
CALM_S = 30.0
LEAST_STEP = 1_000_000
STEPS = 10
"""A rate climbs by this part of itself, or by the least step."""
LOOK_S = 1.0


class _Limit(Struct):
    """What a receiving broker may copy; `rate` is None while it is what was asked for.

    Shape:
        Nothing has suffered since `calm_since`, nor has the rate climbed. `why` it was halved, until it climbs.
    """

    rate: int | None
    cut_at: float = -inf
    calm_since: float = -inf
    why: str = ""


class Adapting:
    """The rates of one term's receiving brokers that are lower than asked; a successor goes on from those in force."""

    def __init__(self, shared: Shared, asked: Callable[[BrokerId], int | None]) -> None:
        """`asked` is the lowest rate of a broker's moves."""
        self._shared = shared
        self._cluster = shared.cluster
        self._asked = asked
        self._found: dict[BrokerId, int] = {}
        self._limits: dict[BrokerId, _Limit] = {}
        self._out: dict[tuple[TopicPartition, BrokerId], None] = {}
        self._signs: dict[tuple[BrokerId, BrokerId], str] = {}
        self._in_sync = Lagging(shared.cluster, shared.state.placement)
        self._looked_at = -inf
        self.looks_at = inf

    def begin(self) -> None:
        """Find the rates that an earlier leader left in force."""
        records = self._shared.state.throttles.records
        rates = ((of, figure(kept)) for of, kept in records.items() if not isinstance(of, str))
        self._found = {broker: rate for broker, rate in rates if rate is not None}

    def limited(self, broker: BrokerId, asked: int, now: float) -> int:
        """The rate that a broker may have, of the one that its moves ask for."""
        least, found = self._shared.settings.moves_throttle_min, self._found.pop(broker, None)
        if least is None:
            self._forget_all()
            return asked
        limit = self._limits.get(broker)
        if limit is None:
            limit = _Limit(None if found is None or found >= asked else found, calm_since=now)
            self._limits[broker] = limit
            self._look_again(limit)
            self.looks_at = min(self.looks_at, max(now, self._in_sync.next_at))
        return asked if limit.rate is None else min(asked, max(limit.rate, least))

    def why(self, broker: BrokerId, rate: str | None) -> str:
        """Why a broker has this rate; empty if no sign is the reason."""
        limit = self._limits.get(broker)
        return limit.why if limit is not None and rate == str(limit.rate) else ""

    def forget(self, broker: BrokerId) -> None:
        """Nothing that it receives is throttled any more."""
        self._limits.pop(broker, None)
        if not self._limits:
            self._forget_all()

    def _forget_all(self) -> None:
        self._limits, self._out, self._signs, self.looks_at = {}, {}, {}, inf

    # ---- signs ----------------------------------------------------------------------------------------------

    def follow(self, changes: Changes) -> None:
        """Take in which replicas have left the ISR."""
        if not self._limits or changes.is_initial:
            return
        for name, numbers in changes.partitions.items():
            for number, former in numbers.items():
                if former.state is not None:
                    self._see(TopicPartition(name, number), former.state.isr)

    def _see(self, at: TopicPartition, former_isr: Replicas) -> None:
        for replica in former_isr:
            if (leader := self._leader_without(at, replica)) is not None:
                self._out[at, replica] = None
                self._note(replica, leader, f"replica {replica} of {at} has left the ISR")

    def hear(self, described: LogEndsDescribed) -> None:
        """Take in which replicas in sync are far behind."""
        for at, replica, leader in self._in_sync.hear(described) if self._limits else ():
            self._note(replica, leader, f"replica {replica} of {at} is more than {BEHIND_S} s behind")

    def _note(self, replica: BrokerId, leader: BrokerId, what: str) -> None:
        self._signs[replica, leader] = what
        self.looks_at = min(self.looks_at, self._looked_at + LOOK_S)

    def _leader_without(self, at: TopicPartition, replica: BrokerId) -> BrokerId | None:
        """Who leads a partition whose ISR lacks a replica for no other reason than that it cannot keep up."""
        held = self._cluster.partition(at)
        is_in_sync = held is not None and held.state is not None and replica in held.state.isr
        return None if is_in_sync else leader_beside(self._cluster, at, replica)

    # ---- what follows ---------------------------------------------------------------------------------------

    def look(self, out: Outbox) -> Iterator[BrokerId]:
        """Halve and raise what is due; each broker whose rate changes."""
        now = out.now
        if now < self.looks_at or self._shared.settings.moves_throttle_min is None:
            return
        self._looked_at, self.looks_at = now, inf
        signs, self._signs = self._signs, {}
        lagging, is_round, around = self._lagging(), now >= self._in_sync.next_at, set[BrokerId]()
        for broker, limit in self._limits.items():
            near = self._near(broker) if signs or lagging or is_round else set()
            around |= near
            why = next((text for pair, text in signs.items() if not near.isdisjoint(pair)), None)
            if why is not None or not near.isdisjoint(lagging):
                limit.calm_since = now
            if why is None and self._climb(broker, limit, now):
                yield broker
            elif why is not None and self._halve(broker, limit, why, now):
                out.measured("reassignment_throttle_halvings", 1.0)
                yield broker
            self._look_again(limit)
        if around and is_round:
            self._in_sync.ask(around, out)
        self.looks_at = min(self.looks_at, self._in_sync.next_at if self._limits else inf)

    def _lagging(self) -> set[BrokerId]:
        """The brokers that have, or lead, replicas that are still out of sync."""
        out, lagging = self._out, set[BrokerId]()
        self._out = {}
        for at, replica in out:
            if (leader := self._leader_without(at, replica)) is not None:
                self._out[at, replica] = None
                lagging |= {replica, leader}
        return lagging

    def _near(self, receiver: BrokerId) -> set[BrokerId]:
        """A receiving broker, and those that it copies from."""
        moves = self._shared.state.placement.adding.get(receiver, ())
        sources = (self._cluster.partition(at) for at in moves)
        return {receiver} | {held.state.leader for held in sources if held is not None and held.state is not None}

    def _halve(self, broker: BrokerId, limit: _Limit, why: str, now: float) -> bool:
        """Halve the rate in force, but not below the least one, nor twice in one window; return whether it changes."""
        least, asked = self._shared.settings.moves_throttle_min, self._asked(broker)
        in_force = figure(self._shared.state.throttles.records.get(broker))
        if in_force is None or asked is None or least is None or now - limit.cut_at < WINDOW_S:
            return False
        rate, least = min(in_force, self.limited(broker, asked, now)), min(least, asked)
        if rate <= least:
            return False
        limit.rate, limit.cut_at, limit.why = max(least, rate // 2), now, why
        return True

    def _climb(self, broker: BrokerId, limit: _Limit, now: float) -> bool:
        """Raise a rate that was halved, if nothing has suffered for a while; return whether it changes."""
        asked = self._asked(broker)
        if limit.rate is None or asked is None or now - limit.calm_since < CALM_S:
            return False
        rate = self.limited(broker, asked, now)
        rate += max(LEAST_STEP, rate // STEPS)
        limit.rate, limit.calm_since, limit.why = None if rate >= asked else rate, now, ""
        return True

    def _look_again(self, limit: _Limit) -> None:
        if limit.rate is not None:
            self.looks_at = min(self.looks_at, limit.calm_since + CALM_S)


def figure(kept: Kept | None) -> int | None:
    """The rate that our record of a broker has; None if it has none, or someone else has changed it."""
    ours = kept.value.ours if kept is not None and isinstance(kept.value, ThrottledBroker) else None
    return int(ours) if ours is not None and ours.isascii() and ours.isdigit() else None
