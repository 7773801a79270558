"""Which brokers were live, and which controller led, when a transaction was made?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct, structs

from controller.core.state.cluster import ClusterState
from controller.core.state.remembered import Remembered
from controller.core.state.view import Cluster, Identity
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress, Registration

NO_BROKER = BrokerId(-1)
# Between the controller's writes for a broker's controlled shutdown and the end of the broker's session.
SHUTDOWN_MS = 10 * 60_000
_END_OF_TIME = 2**63 - 1
_OF_TERMS = frozenset({"broker", "controller", "controller_epoch"})


class Sighting(Struct, frozen=True):
    """One change of a broker's registration, of `/controller` or of `/controller_epoch`.

    Shape:
        `kind` is broker, controller, controller_epoch, deletion (the request to delete `topic`) or legacy
        (`/admin/reassign_partitions`); `is_there` is false for a deletion. `version` is that of the epoch's znode,
        which fences writes. `host` is what a broker registers.
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
    host: str | None = None


class Term(Struct, frozen=True):
    """The state from one transaction on: the live brokers, the controller, and its epoch.

    Shape:
        `sessions` are those of the live brokers; `claimed` is the transaction of `controller`'s claim.
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


class Terms:
    """All terms, in order; `at` finds the one at a transaction.

    Spark sends a task only the sightings, which are far smaller than the terms.
    """

    def __init__(self, sightings: Iterable[Sighting]) -> None:
        seen = self._sightings = sorted(sightings, key=lambda s: s.zxid)
        self._terms = _folded(s for s in seen if s.kind in _OF_TERMS)
        self._deletions = _requested(s for s in seen if s.kind == "deletion")
        self._ends: dict[int, list[Sighting]] = {}
        for s in seen:
            if s.kind == "broker" and not s.is_there and s.broker is not None:
                self._ends.setdefault(s.broker, []).append(s)
        self._closing = frozenset(
            broker for broker, ends in self._ends.items() if any(end.op == "close" for end in ends)
        )
        self._legacy_ends = [s.zxid for s in seen if s.kind == "legacy" and not s.is_there]
        self._since = [term.since for term in self._terms]
        self._whose = _owners(seen)
        self._found = (0, -1, 0)  # the bounds of the term found last
        self._clusters: dict[int, Cluster] = {}

    def __reduce__(self) -> tuple[type[Terms], tuple[list[Sighting]]]:
        return Terms, (self._sightings,)

    @property
    def sightings(self) -> Sequence[Sighting]:
        """The sightings behind the terms, in order."""
        return self._sightings

    def whose(self, session: int) -> tuple[int | None, str | None]:
        """The broker or controller that had a session, and its address; None for another client's session."""
        return self._whose.get(session, (None, None))

    @property
    def all(self) -> Sequence[Term]:
        """Every term, oldest first; the first begins before the log."""
        return self._terms

    def position(self, zxid: int) -> int:
        """The index of the term just before a transaction."""
        since, until, position = self._found
        if since < zxid <= until:  # most calls ask for the same term
            return position
        position = max(bisect_right(self._since, zxid - 1) - 1, 0)
        until = self._since[position + 1] if position + 1 < len(self._since) else _END_OF_TIME
        self._found = self._since[position] if position else -2, until, position
        return position

    def at(self, zxid: int) -> Term:
        """The term just before a transaction."""
        return self._terms[self.position(zxid)]

    def cluster(self, position: int) -> Cluster:
        """That time as the controller's rules see it: all live brokers were admitted, and nothing else is known."""
        cluster = self._clusters.get(position)
        if cluster is None:
            term = self._terms[position]
            state = ClusterState()
            stat = Stat(Zxid(term.since), Zxid(term.since), ZnodeVersion(0), SessionId(0))
            state.apply_all(present(BrokerAddress(BrokerId(b)), Registration(()), stat) for b in sorted(term.brokers))
            seen, epoch = Remembered(brokers=state.brokers), ControllerEpoch(term.epoch)
            cluster = self._clusters[position] = Cluster(state, seen, Identity(NO_BROKER, epoch))
        return cluster

    def between(self, first: int, last: int) -> Sequence[Term]:
        """The terms from just before one transaction until just before another."""
        return self._terms[self.position(first) : self.position(last) + 1]

    def clean_stop_after(self, broker: int, zxid: int, time_ms: int) -> int | None:
        """The transaction in which a broker closed its own session; None if it ended differently, or much later."""
        ends = self._ends.get(broker, [])
        position = bisect_right([end.zxid for end in ends], zxid)
        end = ends[position] if position < len(ends) else None
        is_clean = end is not None and end.op == "close" and end.time_ms - time_ms <= SHUTDOWN_MS
        return end.zxid if end is not None and is_clean else None

    def ever_stops(self, broker: int) -> bool:
        """Whether a broker closes its own session, at any time."""
        return broker in self._closing

    @property
    def unwanted(self) -> Sequence[str]:
        """The topics with a deletion request at any time."""
        return [*self._deletions]

    def is_unwanted(self, topic: str, zxid: int) -> bool:
        """Whether a topic had a deletion request when a transaction was made."""
        return any(since < zxid <= until for since, until in self._deletions.get(topic, ()))

    def has_legacy_ended(self, since: int, zxid: int) -> bool:
        """Whether `/admin/reassign_partitions` was deleted between two transactions."""
        position = bisect_right(self._legacy_ends, since)
        return position < len(self._legacy_ends) and self._legacy_ends[position] <= zxid


def _owners(sightings: Iterable[Sighting]) -> dict[int, tuple[int | None, str | None]]:
    """By session, the broker registered with it, else the controller that claimed with it."""
    registered: dict[int, tuple[int | None, str | None]] = {}
    claimed: dict[int, tuple[int | None, str | None]] = {}
    hosts: dict[int, str | None] = {}
    for seen in sightings:
        if seen.is_there and seen.session and seen.broker is not None and seen.op != "set":
            if seen.kind == "broker":
                hosts[seen.broker] = seen.host
                registered[seen.session] = seen.broker, seen.host
            elif seen.kind == "controller":
                claimed[seen.session] = seen.broker, hosts.get(seen.broker)
    return claimed | registered


def _requested(sightings: Iterable[Sighting]) -> dict[str, list[tuple[int, float]]]:
    """By topic, the periods of its deletion requests."""
    found: dict[str, list[tuple[int, float]]] = {}
    for seen in sightings:
        requests = found.setdefault(seen.topic or "", [])
        if seen.is_there:
            requests.append((seen.zxid, inf))
        elif requests:
            requests[-1] = (requests[-1][0], seen.zxid)
    return found


def _folded(sightings: Iterable[Sighting]) -> list[Term]:
    owners: dict[int, int] = {}
    terms = [Term(-1)]
    for seen in sightings:
        last = terms[-1]
        term = structs.replace(last, since=seen.zxid, time_ms=seen.time_ms)
        match seen.kind:
            case "broker" if seen.broker is not None:
                if seen.is_there and seen.op != "set":
                    owners[seen.broker] = seen.session
                elif seen.is_there:
                    owners.setdefault(seen.broker, seen.session)
                else:
                    owners.pop(seen.broker, None)
                term = structs.replace(term, brokers=frozenset(owners), sessions=frozenset(owners.values()))
            case "controller" if seen.is_there:
                term = structs.replace(term, controller=seen.broker, session=seen.session, claimed=seen.zxid)
            case "controller":
                term = structs.replace(term, controller=None, session=0)
            case _:
                term = structs.replace(term, epoch=seen.epoch, version=seen.version)
        if last.since == seen.zxid:
            terms[-1] = term
        else:
            terms.append(term)
    return terms
