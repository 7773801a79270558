"""Which brokers are registered?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.facts import Fact
from zk_layout.ids import BrokerEpoch, BrokerId, Zxid
from zk_layout.znodes.brokers import Registration


class Broker(Struct, frozen=True):
    """A registered broker; its epoch is the czxid of its registration."""

    registration: Registration
    epoch: BrokerEpoch


class Registrations:
    """What was read last of each registration, and since when it is there.

    What somebody writes into one does not take its broker away: a broker that comes anew makes its znode anew.
    """

    def __init__(self) -> None:
        self._since: dict[BrokerId, Zxid] = {}
        self._readable: dict[BrokerId, tuple[Zxid, Broker]] = {}

    def seen(self, broker: BrokerId, fact: Fact, *, is_news: bool) -> Broker | None:
        """The broker as it is after a sighting, in whatever order sightings come; None where it is not known."""
        if fact.stat is not None and isinstance(fact.value, Registration):
            readable = self._readable.get(broker)
            if readable is None or fact.as_of > readable[0]:
                self._readable[broker] = (fact.as_of, Broker(fact.value, BrokerEpoch(fact.stat.czxid)))
        if is_news and fact.stat is not None:
            self._since[broker] = fact.stat.czxid
        elif is_news:
            self._since.pop(broker, None)
            self._readable.pop(broker, None)
        since, found = self._since.get(broker), self._readable.get(broker)
        if since is None or found is None or found[1].epoch != BrokerEpoch(since):
            return None
        return found[1]
