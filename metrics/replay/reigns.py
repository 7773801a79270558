"""Which brokers were there, and which controller ruled, when a transaction was made?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import inf

from msgspec import Struct, structs

from controller.core.cluster import Cluster
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress, Registration

NOBODY = BrokerId(-1)
# A broker that shuts down in good order moves its leaders away, then ends; it needs no longer than this.
SHUTDOWN_MS = 10 * 60_000
_RULING = frozenset({"broker", "controller", "controller_epoch"})


class Sighting(Struct, frozen=True):
    """One change of a broker's registration, of `/controller` or of `/controller_epoch`.

    Shape:
        `kind` is broker, controller, controller_epoch, deletion (the wish to delete `topic`) or legacy
        (`/admin/reassign_partitions`); `is_there` is false when the znode went. `version` is that of the epoch's znode,
        which fences writes.
    """

    zxid: int
    kind: str
    is_there: bool = True
    broker: int | None = None
    session: int = 0
    epoch: int = 0
    version: int = 0
    topic: str | None = None
    time_ms: int = 0
    op: str = ""


class Reign(Struct, frozen=True):
    """What held from one transaction on: the brokers there, who ruled, and with which epoch.

    Shape:
        `sessions` are those of the brokers there; `claimed` is the transaction in which who rules claimed to.
    """

    since: int
    brokers: frozenset[int] = frozenset()
    controller: int | None = None
    session: int = 0
    epoch: int = 0
    version: int = 0
    claimed: int = -1
    sessions: frozenset[int] = frozenset()
    time_ms: int = 0


class Reigns:
    """All that held, in order; `at` finds what held when a transaction was made."""

    def __init__(self, sightings: Iterable[Sighting]) -> None:
        seen = sorted(sightings, key=lambda s: s.zxid)
        self._reigns = _folded(s for s in seen if s.kind in _RULING)
        self._deletions = _wishes(s for s in seen if s.kind == "deletion")
        self._legacy_ends = [s.zxid for s in seen if s.kind == "legacy" and not s.is_there]
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

    def between(self, first: int, last: int) -> Sequence[Reign]:
        """What held from just before one transaction until just before another."""
        return self._reigns[self.position(first) : self.position(last) + 1]

    def is_restarting(self, broker: int, zxid: int, time_ms: int) -> bool:
        """Whether a broker was about to go: a controlled shutdown moves leaders away before."""
        if broker not in self.at(zxid).brokers:
            return True
        following = takewhile(lambda r: r.time_ms - time_ms <= SHUTDOWN_MS, self._reigns[self.position(zxid) + 1 :])
        return any(broker not in reign.brokers for reign in following)

    def is_unwanted(self, topic: str, zxid: int) -> bool:
        """Whether the wish to delete a topic stood when a transaction was made."""
        return any(since < zxid <= until for since, until in self._deletions.get(topic, ()))

    def has_legacy_ended(self, since: int, zxid: int) -> bool:
        """Whether `/admin/reassign_partitions` was deleted between two transactions."""
        position = bisect_right(self._legacy_ends, since)
        return position < len(self._legacy_ends) and self._legacy_ends[position] <= zxid


def _wishes(sightings: Iterable[Sighting]) -> dict[str, list[tuple[int, float]]]:
    """By topic, from when to when the wish to delete it stood."""
    found: dict[str, list[tuple[int, float]]] = {}
    for seen in sightings:
        wishes = found.setdefault(seen.topic or "", [])
        if seen.is_there:
            wishes.append((seen.zxid, inf))
        elif wishes:
            wishes[-1] = (wishes[-1][0], seen.zxid)
    return found


def _folded(sightings: Iterable[Sighting]) -> list[Reign]:
    owners: dict[int, int] = {}
    reigns = [Reign(-1)]
    for seen in sightings:
        last = reigns[-1]
        reign = structs.replace(last, since=seen.zxid, time_ms=seen.time_ms)
        match seen.kind:
            case "broker" if seen.broker is not None:
                if seen.is_there and seen.op != "set":
                    owners[seen.broker] = seen.session
                elif seen.is_there:
                    owners.setdefault(seen.broker, seen.session)
                else:
                    owners.pop(seen.broker, None)
                reign = structs.replace(reign, brokers=frozenset(owners), sessions=frozenset(owners.values()))
            case "controller" if seen.is_there:
                reign = structs.replace(reign, controller=seen.broker, session=seen.session, claimed=seen.zxid)
            case "controller":
                reign = structs.replace(reign, controller=None, session=0)
            case _:
                reign = structs.replace(reign, epoch=seen.epoch, version=seen.version)
        if last.since == seen.zxid:
            reigns[-1] = reign
        else:
            reigns.append(reign)
    return reigns
