"""What do brokers have in common while they are upgraded or restarted one by one?

The oldest broker's `inter.broker.protocol.version` applies: in Kafka, too, a controller may be upgraded last, and every
broker obeys an older one. Of differing settings, the most protective value applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from controller.preflight.inheriting import BrokerSettings, Inherited, inherited
from controller.wire.versions import OLDEST, InterBrokerProtocol
from zk_layout.ids import BrokerId

REMEMBERED_S = 600.0
DELETION: Final = "delete.topic.enable"

_Reported = TypeVar("_Reported")


class Remembered(Generic[_Reported]):
    """What brokers have reported.

    A registered broker that does not answer now keeps its last report; so does one that is away, for a while: it may
    just be restarting, as in a rolling upgrade.
    """

    def __init__(self) -> None:
        self._reports: dict[BrokerId, tuple[_Reported, float]] = {}

    def update(self, reported: Mapping[BrokerId, _Reported | None], now: float) -> dict[BrokerId, _Reported]:
        """Take in the reports of the registered brokers; return every report that counts now.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        for broker, report in reported.items():
            known = report if report is not None or broker not in self._reports else self._reports[broker][0]
            if known is not None:
                self._reports[broker] = (known, now)
        self._reports = {b: (known, at) for b, (known, at) in self._reports.items() if now - at <= REMEMBERED_S}
        return {broker: known for broker, (known, _) in self._reports.items()}


class BrokersProtocol:
    """The common protocol version. Until a broker reports its own, the newest that all of them understand."""

    def __init__(self) -> None:
        self.value = OLDEST
        self._remembered: Remembered[InterBrokerProtocol] = Remembered()

    def update(self, reported: Mapping[BrokerId, InterBrokerProtocol | None], now: float) -> bool:
        """Take in the reports of the registered brokers. True if the cluster has to be led by another version from now
        on.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        before = self.value
        self.value = min(self._remembered.update(reported, now).values(), default=before)
        return self.value.manner != before.manner


class BrokersSettings:
    """The settings taken from brokers. Until a broker answers, none are known."""

    def __init__(self, given: frozenset[str]) -> None:
        """Settings `given` here are taken from no broker."""
        self.value = Inherited(are_known=False)
        self._given = given
        self._remembered: Remembered[BrokerSettings] = Remembered()
        self._known: tuple[BrokerSettings, ...] = ()

    def adjust(self, given: frozenset[str]) -> None:
        """From now on these settings are `given`, and no others."""
        self._given = given
        if self._known:
            self.value = inherited(self._known, given)

    def update(self, reported: Mapping[BrokerId, BrokerSettings | None], now: float, *, has_any_answered: bool) -> bool:
        """Take in the reports of the registered brokers. True if other settings are in force from now on.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        before = self.value
        self._known = tuple(self._remembered.update(reported, now).values())
        if self._known:
            self.value = inherited(self._known, self._given)
        elif has_any_answered and not before.are_known:
            self.value = Inherited()
        return self._in_force(self.value) != self._in_force(before)

    def _in_force(self, value: Inherited) -> Inherited:
        """What a term decides by. Only deletions wait until settings are known, unless they are set here."""
        return replace(value.in_force(), are_known=value.are_known or DELETION in self._given)
