"""Which `inter.broker.protocol.version` do the brokers have, while they are upgraded one after the other?

That of the oldest: in Kafka, too, a controller may be the last to be raised, and every broker obeys an older one.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.wire.versions import OLDEST, InterBrokerProtocol
from zk_layout.ids import BrokerId

REMEMBERED_S = 600.0


class SpokenProtocol:
    """What brokers have told so far. Until one has, it is what all of them understand.

    A broker that is there and does not tell now counts as it was; one that is away, for a while: it may just be
    restarting, as in a rolling upgrade.
    """

    def __init__(self) -> None:
        """Nobody has told anything."""
        self.value = OLDEST
        self._told: dict[BrokerId, tuple[InterBrokerProtocol, float]] = {}

    def heard(self, told: Mapping[BrokerId, InterBrokerProtocol | None], now: float) -> bool:
        """This was told by those that are there now; whether the cluster is to be led in another manner from now on.

        Units:
            `now` is in seconds of a clock that only goes forward.
        """
        before = self.value
        for broker, protocol in told.items():
            known = protocol or (self._told[broker][0] if broker in self._told else None)
            if known is not None:
                self._told[broker] = (known, now)
        self._told = {b: (p, at) for b, (p, at) in self._told.items() if now - at <= REMEMBERED_S}
        if self._told:
            self.value = min(protocol for protocol, _ in self._told.values())
        return self.value.manner != before.manner
