"""At which rate may each receiving broker copy in the next second?

The lowest rate of its throttled replicas, or what that is adapted to: down to it at once, up in steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import inf

from msgspec import Struct

from controller.core.messages.events import LogEndsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.reassignment.adapting import Adapting, figure
from controller.core.reassignment.throttle_rules import raised
from controller.core.state.changes import Changes
from controller.core.state.throttles import Kept, Throttled
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, TopicName

RAMP_STEP_S = 1.0


class _Ramp(Struct):
    """A rate that rises by the same step every second; while it `waits`, the next one is not due yet."""

    target: int
    step: int
    next_at: float
    waits: bool = False


class ReceivingRates:
    """The rates of one term's receiving brokers."""

    def __init__(self, shared: Shared) -> None:
        self._adapting = Adapting(shared, self.asked)
        self._of: dict[BrokerId, dict[TopicName, int]] = {}
        self._ramps: dict[BrokerId, _Ramp] = {}

    def begin(self, records: Mapping[Throttled, Kept], out: Outbox) -> None:
        """Take in what an earlier leader has left."""
        self._adapting.begin()
        for of, kept in records.items():
            if not isinstance(of, str):
                self._show(of, kept, out)

    def note(self, broker: BrokerId, name: TopicName, rate: int | None) -> bool:
        """Take in the lowest rate of a topic's replicas on a broker, None if it has none; return whether it changed."""
        rates = self._of.setdefault(broker, {})
        has_changed = rates.get(name) != rate
        if rate is not None:
            rates[name] = rate
        else:
            rates.pop(name, None)
        if not rates:
            del self._of[broker]
            self._adapting.forget(broker)
        return has_changed

    def asked(self, broker: BrokerId) -> int | None:
        """The lowest rate of its replicas; None if it receives nothing."""
        return min(self._of.get(broker, {}).values(), default=None)

    def now(self, broker: BrokerId, ours: str | None, now: float) -> int | None:
        """The rate for the next second: a lower one at once, a higher one in steps from the one that is `ours`."""
        target = self.asked(broker)
        if target is not None:
            target = self._adapting.limited(broker, target, now)
        step = None if target is None else raised(ours, target)
        if target is None or ours is None or step is None:
            self._ramps.pop(broker, None)
            return target
        ramp = self._ramps.get(broker)
        if ramp is None or ramp.target != target:
            ramp = _Ramp(target, step, now) if ramp is None else _Ramp(target, step, ramp.next_at, ramp.waits)
            self._ramps[broker] = ramp
        return int(ours) if ramp.next_at > now else min(target, int(ours) + ramp.step)

    @property
    def receiving(self) -> Collection[BrokerId]:
        """The brokers that have throttled replicas."""
        return self._of.keys()

    def why(self, broker: BrokerId, rate: str | None) -> str:
        """Why a broker has this rate; empty if its moves ask for it."""
        return self._adapting.why(broker, rate)

    def follow(self, changes: Changes) -> None:
        """Take in what shows that rates are too high."""
        self._adapting.follow(changes)

    def hear(self, described: LogEndsDescribed) -> None:
        """Take in where a broker's logs end."""
        self._adapting.hear(described)

    def written(self, broker: BrokerId, kept: Kept | None, out: Outbox) -> None:
        """A rate was written: if it rises, the next step is due in a second."""
        if (ramp := self._ramps.get(broker)) is not None:
            ramp.next_at, ramp.waits = out.now + RAMP_STEP_S, True
        self._show(broker, kept, out)

    def _show(self, broker: BrokerId, kept: Kept | None, out: Outbox) -> None:
        """Publish the rate that our record has."""
        rate = figure(kept)
        out.measured("reassignment_throttle_bytes_per_second", 0.0 if rate is None else float(rate), str(broker))

    def due(self, out: Outbox) -> Iterator[BrokerId]:
        """The brokers whose rate is to be looked at again."""
        yield from self._adapting.look(out)
        for broker, ramp in self._ramps.items():
            if ramp.waits and ramp.next_at <= out.now:
                ramp.waits = False
                yield broker

    def next_at(self) -> float:
        """When others are."""
        rising = (ramp.next_at for ramp in self._ramps.values() if ramp.waits)
        return min(self._adapting.looks_at, *rising, inf)
