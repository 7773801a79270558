"""At which rate may each receiving broker copy in the next second?

The lowest rate of its throttled replicas: down to it at once, up in steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from controller.core.reassignment.throttle_rules import raised
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes.throttles import ThrottledBroker

RAMP_STEP_S = 1.0


class _Ramp(Struct):
    """A rate that rises by the same step every second; while it `waits`, the next one is not due yet."""

    target: int
    step: int
    next_at: float
    waits: bool = False


class ReceivingRates:
    """The rates of one term's receiving brokers."""

    def __init__(self) -> None:
        self._of: dict[BrokerId, dict[TopicName, int]] = {}
        self._ramps: dict[BrokerId, _Ramp] = {}

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
        return has_changed

    def target(self, broker: BrokerId) -> int | None:
        """The rate that a broker is to have in the end; None if it receives nothing."""
        return min(self._of.get(broker, {}).values(), default=None)

    def now(self, broker: BrokerId, record: ThrottledBroker | None, now: float) -> int | None:
        """The rate for the next second: a lower one at once, a higher one in steps from the rate that is recorded."""
        target, ours = self.target(broker), None if record is None else record.ours
        step = None if target is None else raised(ours, target)
        if target is None or ours is None or step is None:
            self._ramps.pop(broker, None)
            return target
        ramp = self._ramps.get(broker)
        if ramp is None or ramp.target != target:
            ramp = _Ramp(target, step, now) if ramp is None else _Ramp(target, step, ramp.next_at, ramp.waits)
            self._ramps[broker] = ramp
        return int(ours) if ramp.next_at > now else min(target, int(ours) + ramp.step)

    def written(self, broker: BrokerId, now: float) -> None:
        """A rate was written: if it rises, the next step is due in a second."""
        if (ramp := self._ramps.get(broker)) is not None:
            ramp.next_at, ramp.waits = now + RAMP_STEP_S, True

    def rising(self, now: float) -> Iterator[tuple[BrokerId, float]]:
        """The brokers whose rate rises, and when the next step is due; each that is due by now once."""
        for broker, ramp in self._ramps.items():
            if ramp.waits:
                ramp.waits = ramp.next_at > now
                yield broker, ramp.next_at
