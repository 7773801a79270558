"""What do brokers have in common, while they are upgraded or restarted one after the other?

Their `inter.broker.protocol.version` is that of the oldest: in Kafka, too, a controller may be the last to be raised,
and every broker obeys an older one. Of their settings those count that protect most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from controller.preflight.inheriting import BrokerSettings, Inherited, inherited
from controller.wire.versions import OLDEST, InterBrokerProtocol
from zk_layout.ids import BrokerId

REMEMBERED_S = 600.0

_Told = TypeVar("_Told")


class _Remembered(Generic[_Told]):
    """What brokers have told.

    A broker that is there and does not tell now counts as it was; one that is away, for a while: it may just be
    restarting, as in a rolling upgrade.
    """

    def __init__(self) -> None:
        self._told: dict[BrokerId, tuple[_Told, float]] = {}

    def heard(self, told: Mapping[BrokerId, _Told | None], now: float) -> list[_Told]:
        """This was told by those that are there now; what counts of all that was ever told."""
        for broker, news in told.items():
            known = news if news is not None or broker not in self._told else self._told[broker][0]
            if known is not None:
                self._told[broker] = (known, now)
        self._told = {b: (known, at) for b, (known, at) in self._told.items() if now - at <= REMEMBERED_S}
        return [known for known, _ in self._told.values()]


class SpokenProtocol:
    """Until a broker has told its protocol, it is what all of them understand."""

    def __init__(self) -> None:
        self.value = OLDEST
        self._remembered: _Remembered[InterBrokerProtocol] = _Remembered()

    def heard(self, told: Mapping[BrokerId, InterBrokerProtocol | None], now: float) -> bool:
        """This was told by those that are there now; whether the cluster is to be led in another manner from now on.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        before = self.value
        self.value = min(self._remembered.heard(told, now), default=before)
        return self.value.manner != before.manner


class SpokenSettings:
    """Until a broker has spoken, nothing is known of their settings."""

    def __init__(self, given: frozenset[str]) -> None:
        """Nobody has told anything. What is `given` here is taken from nobody."""
        self.value = Inherited(are_heard=False)
        self._given = given
        self._remembered: _Remembered[BrokerSettings] = _Remembered()

    def heard(self, told: Mapping[BrokerId, BrokerSettings | None], now: float, *, has_any_spoken: bool) -> bool:
        """This was told by those that are there now; whether something else is in force from now on.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        before = self.value
        known = self._remembered.heard(told, now)
        if known:
            self.value = inherited(known, self._given)
        elif has_any_spoken and not before.are_heard:
            self.value = Inherited()
        return self.value != before
