"""Which brokers were there, and which controller ruled, when a transaction was made?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller.core.cluster import Cluster
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress, Registration

NOBODY = BrokerId(-1)


class Sighting(Struct, frozen=True):
    """One change of a broker's registration, of `/controller` or of `/controller_epoch`.

    Shape:
        `kind` is broker, controller or controller_epoch; `is_there` is false when the znode went. `version` is
        that of the epoch's znode, which fences writes.
    """

    zxid: int
    kind: str
    is_there: bool = True
    broker: int | None = None
    session: int = 0
    epoch: int = 0
    version: int = 0


class Reign(Struct, frozen=True):
    """What held from one transaction on: the brokers there, who ruled, and with which epoch."""

    since: int
    brokers: frozenset[int]
    controller: int | None
    session: int
    epoch: int
    version: int


class Reigns:
    """All that held, in order; `at` finds what held when a transaction was made."""

    def __init__(self, sightings: Iterable[Sighting]) -> None:
        self._reigns = _folded(sightings)
        self._since = [reign.since for reign in self._reigns]
        self._clusters: dict[int, Cluster] = {}

    @property
    def all(self) -> Sequence[Reign]:
        """Every reign, oldest first; the first begins before the log."""
        return self._reigns

    def position(self, zxid: int) -> int:
        """Which one held just before a transaction."""
        return max(bisect_right(self._since, zxid - 1) - 1, 0)

    def at(self, zxid: int) -> Reign:
        """What held just before a transaction."""
        return self._reigns[self.position(zxid)]

    def cluster(self, position: int) -> Cluster:
        """The brokers of that time as the controller's rules see them."""
        cluster = self._clusters.get(position)
        if cluster is None:
            reign = self._reigns[position]
            cluster = self._clusters[position] = Cluster(NOBODY, ControllerEpoch(reign.epoch))
            for broker in sorted(reign.brokers):
                stat = Stat(Zxid(reign.since), Zxid(reign.since), ZnodeVersion(0), SessionId(0))
                cluster.apply(present(BrokerAddress(BrokerId(broker)), Registration(()), stat))
        return cluster

    def is_restarting(self, broker: int, zxid: int, within: int = 50) -> bool:
        """Whether a broker was about to go: a controlled shutdown moves leaders away before."""
        if broker not in self.at(zxid).brokers:
            return True
        following = self._reigns[self.position(zxid) + 1 :][:within]
        return any(broker not in reign.brokers for reign in following)


def _folded(sightings: Iterable[Sighting]) -> list[Reign]:
    brokers: frozenset[int] = frozenset()
    reigns = [Reign(-1, brokers, None, 0, 0, 0)]
    for seen in sorted(sightings, key=lambda s: s.zxid):
        last = reigns[-1]
        controller, session, epoch, version = last.controller, last.session, last.epoch, last.version
        match seen.kind:
            case "broker" if seen.broker is not None:
                brokers = brokers | {seen.broker} if seen.is_there else brokers - {seen.broker}
            case "controller":
                controller, session = (seen.broker, seen.session) if seen.is_there else (None, 0)
            case "controller_epoch":
                epoch, version = seen.epoch, seen.version
        reign = Reign(seen.zxid, brokers, controller, session, epoch, version)
        if last.since == seen.zxid:
            reigns[-1] = reign
        else:
            reigns.append(reign)
    return reigns
